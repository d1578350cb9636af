"""The passes between lowering and code generation, in order, with their target parameters."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeAlias

from ansorc.errors import BuildError, IRError, TargetError
from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.dump import DumpFolder
from ansorc.ir.passes.block_vectors import block_vectors
from ansorc.ir.passes.form_matrix_nests import form_matrix_nests
from ansorc.ir.passes.hoist_conditions import hoist_conditions
from ansorc.ir.passes.hoist_values import hoist_values
from ansorc.ir.passes.if_to_select import if_to_select
from ansorc.ir.passes.insert_checks import insert_checks
from ansorc.ir.passes.join_dimensions import join_dimensions
from ansorc.ir.passes.join_popcounts import join_popcounts
from ansorc.ir.passes.lane_groups import VectorUnit
from ansorc.ir.passes.open_tails import open_tails
from ansorc.ir.passes.partition_loops import partition_loops
from ansorc.ir.passes.pass_fault import pass_fault
from ansorc.ir.passes.prefetch import prefetch
from ansorc.ir.passes.promote_accumulators import promote_accumulators
from ansorc.ir.passes.promote_shared_tile import promote_shared_tile
from ansorc.ir.passes.reuse_output_as_scratch import reuse_output_as_scratch
from ansorc.ir.passes.skip_padding import skip_padding
from ansorc.ir.passes.stream_stores import CACHED_SHARE, stream_stores
from ansorc.ir.passes.transpose_copies import transpose_copies
from ansorc.ir.passes.vectorize_loops import vectorize_loops
from ansorc.ir.passes.vectorize_reductions import vectorize_reductions
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.ir.verify import Verifier, verifies_each, verify
from ansorc.target import Target
from ansorc.target.units import seconds_text

_LOG = logging.getLogger(__name__)
Pass: TypeAlias = Callable[[Function, Target], Function]
Passes: TypeAlias = tuple[tuple[str, Pass], ...]

_PARTITION_STATEMENTS = 1024
"""The most statements of code that splitting loops at their tests may add to a kernel.

The border of a depthwise tile of 4 x 2 pixels needs most of them.
"""


def _vectors(target: Target) -> VectorUnit:
    return VectorUnit(
        target.vector_bytes, target.masked_bytes, target.stores_masked_fast, target.interleaved
    )


def _tile_registers(target: Target) -> int:
    """Return the vectors of the largest register tile."""
    return int(target.costs.tile_ratio * target.vector_registers)


def _register_bytes(target: Target) -> int:
    """Return the bytes of the largest register tile."""
    return _tile_registers(target) * target.vector_bytes


def _core_bytes(target: Target) -> int:
    """Return the bytes of the largest tensor that stays in the caches of one core."""
    return max(target.cache_bytes[:2])


CPU_PASSES: Passes = (
    ("join_dimensions", lambda f, _: join_dimensions(f)),
    ("block_vectors", lambda f, t: block_vectors(f, t.vector_bytes)),
    ("simplify", lambda f, _: simplify_stmt(f)),
    ("form_matrix_nests", lambda f, _: form_matrix_nests(f)),
    ("skip_padding", lambda f, _: skip_padding(f)),
    ("hoist_conditions", lambda f, _: hoist_conditions(f)),
    ("partition_loops", lambda f, _: partition_loops(f, _PARTITION_STATEMENTS)),
    ("hoist_conditions", lambda f, _: hoist_conditions(f)),
    ("open_tails", lambda f, _: open_tails(f)),
    ("if_to_select", lambda f, _: if_to_select(f)),
    ("join_popcounts", lambda f, _: join_popcounts(f)),
    ("reuse_output_as_scratch", lambda f, t: reuse_output_as_scratch(
        f, t.cache_bytes[0] // 2, max(t.cache_bytes) // CACHED_SHARE)),
    ("vectorize_reductions", lambda f, t: vectorize_reductions(
        f, t.vector_bytes, _tile_registers(t), max(t.cache_bytes), t.streaming_sums)),
    ("promote_shared_tile", lambda f, t: promote_shared_tile(f, _register_bytes(t))),
    ("promote_accumulators", lambda f, t: promote_accumulators(f, _register_bytes(t))),
    ("vectorize_loops", lambda f, t: vectorize_loops(f, _vectors(t))),
    ("transpose_copies", lambda f, _: transpose_copies(f)),
    ("simplify", lambda f, _: simplify_stmt(f)),
    ("hoist_values", lambda f, _: hoist_values(f)),
    ("prefetch", lambda f, t: prefetch(
        f, _core_bytes(t), max(t.cache_bytes), has_streams=t.asks_ahead)),
    ("stream_stores", lambda f, t: stream_stores(f, max(t.cache_bytes)) if t.is_x86 else f),
    ("insert_checks", lambda f, _: insert_checks(f)),
)  # fmt: skip
"""The passes before code generation for a CPU."""


def run_passes(
    passes: Passes,
    function: Function,
    target: Target,
    trace: Callable[[str, Function], None] | None = None,
    dump: DumpFolder | None = None,
) -> Function:
    """Return `function` after `passes`, verified; call `trace` with each name and result.

    The result of each pass is written to `dump`. Raise BuildError if a pass refuses a program,
    InternalError if a pass fails or makes an illegal program.
    """
    source, is_each, is_logged = function, verifies_each(), _LOG.isEnabledFor(logging.DEBUG)
    verifier = Verifier()
    if is_each:
        _require_legal(verifier, "lowering", None, function, target, dump)
    for name, apply in passes:
        begin = time.perf_counter()
        after = _apply(name, apply, function, target, dump)
        if is_logged:
            _LOG.debug(
                "%s: pass %s, %s%s", function.name, name,
                seconds_text(time.perf_counter() - begin, 3),
                "" if after != function else ", nothing to do",
            )  # fmt: skip
        if is_each and after is not function:
            _require_legal(verifier, f"the pass {name}", function, after, target, dump)
        if dump is not None:
            _write(dump, name, function, after)
        function = after
        if trace is not None:
            trace(name, function)
    if not is_each:
        _require_all_legal(passes, source, function, target, dump)
    return function


def _apply(
    name: str, apply: Pass, function: Function, target: Target, dump: DumpFolder | None
) -> Function:
    try:
        return apply(function, target)
    except (BuildError, TargetError, MemoryError):  # refusals, and the machine's limits
        raise
    except Exception as error:
        words = f"the pass {name} failed on '{function.name}': {type(error).__name__}: {error}"
        raise pass_fault(words, function, None, target, dump) from error


def _require_legal(
    verifier: Verifier,
    who: str,
    before: Function | None,
    after: Function,
    target: Target,
    dump: DumpFolder | None,
) -> None:
    try:
        verifier.verify(after)
    except IRError as error:
        words = f"{who} made an illegal program: {error}"
        raise pass_fault(words, before, after, target, dump) from error


def _require_all_legal(
    passes: Passes,
    source: Function,
    result: Function,
    target: Target,
    dump: DumpFolder | None,
) -> None:
    """Verify the result; if it is illegal, look for the pass that made it so."""
    try:
        verify(result)
    except IRError:
        function, verifier = source, Verifier()
        _require_legal(verifier, "lowering", None, function, target, dump)
        for name, apply in passes:
            after = _apply(name, apply, function, target, dump)
            _require_legal(verifier, f"the pass {name}", function, after, target, dump)
            function = after
        raise


def _write(dump: DumpFolder, name: str, before: Function, after: Function) -> None:
    if after is before or after == before:
        dump.skip()
    else:
        dump.write(name, to_text(after), "ir")
