"""The passes between lowering and code generation, in their order: what each needs of a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.passes.guarded_values import choose_values
from ansorc.ir.passes.hoist_conditions import hoist_conditions
from ansorc.ir.passes.hoist_values import hoist_values
from ansorc.ir.passes.hold_tiles import hold_tiles
from ansorc.ir.passes.lane_groups import VectorUnit
from ansorc.ir.passes.partition_loops import partition_loops
from ansorc.ir.passes.place_checks import place_checks
from ansorc.ir.passes.prefetch import prefetch
from ansorc.ir.passes.promote_accumulators import promote_accumulators
from ansorc.ir.passes.rows_in_place import rows_in_place
from ansorc.ir.passes.skip_padding import skip_padding
from ansorc.ir.passes.stream_stores import CACHED_SHARE, stream_stores
from ansorc.ir.passes.transpose_copies import transpose_copies
from ansorc.ir.passes.vectorize_loops import vectorize_loops
from ansorc.ir.passes.vectorize_reductions import vectorize_reductions
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from ansorc.target import Target
from ansorc.target.costs import CORE

Pass: TypeAlias = Callable[[Function, Target], Function]
Passes: TypeAlias = tuple[tuple[str, Pass], ...]

_PARTITION_STATEMENTS = 1024
"""The statements of code that splitting loops at their tests may add to a kernel.

The border of a depthwise tile of 4 x 2 pixels needs most of them.
"""


def _vectors(target: Target) -> VectorUnit:
    return VectorUnit(
        target.vector_bytes, target.masked_bytes, target.stores_masked_fast, target.interleaved
    )


def _register_bytes(target: Target) -> int:
    """The largest register tile."""
    return int(CORE.tile_ratio * target.vector_registers) * target.vector_bytes


def _core_bytes(target: Target) -> int:
    """Larger tensors do not stay in the caches of one core."""
    return max(target.cache_bytes[:2])


CPU_PASSES: Passes = (
    ("simplify", lambda f, _: simplify_stmt(f)),
    ("skip_padding", lambda f, _: skip_padding(f)),
    ("hoist_conditions", lambda f, _: hoist_conditions(f)),
    ("partition_loops", lambda f, _: partition_loops(f, _PARTITION_STATEMENTS)),
    ("hoist_conditions", lambda f, _: hoist_conditions(f)),
    ("choose_values", lambda f, _: choose_values(f)),
    ("rows_in_place", lambda f, t: rows_in_place(
        f, t.cache_bytes[0] // 2, max(t.cache_bytes) // CACHED_SHARE)),
    ("vectorize_reductions", lambda f, t: vectorize_reductions(
        f, t.vector_bytes, t.vector_registers, max(t.cache_bytes), t.streaming_sums)),
    ("hold_tiles", lambda f, t: hold_tiles(f, _register_bytes(t))),
    ("promote_accumulators", lambda f, t: promote_accumulators(f, _register_bytes(t))),
    ("vectorize_loops", lambda f, t: vectorize_loops(f, _vectors(t))),
    ("transpose_copies", lambda f, _: transpose_copies(f)),
    ("simplify", lambda f, _: simplify_stmt(f)),
    ("hoist_values", lambda f, _: hoist_values(f)),
    ("prefetch", lambda f, t: prefetch(
        f, _core_bytes(t), max(t.cache_bytes), has_streams=t.asks_ahead)),
    ("stream_stores", lambda f, t: stream_stores(f, max(t.cache_bytes)) if t.is_x86 else f),
    ("place_checks", lambda f, _: place_checks(f)),
)  # fmt: skip
"""What makes a loop program ready for code generation on a CPU."""


def run_passes(
    passes: Passes,
    function: Function,
    target: Target,
    trace: Callable[[str, Function], None] | None = None,
) -> Function:
    """Return `function` after `passes`, verified; `trace` is given each one's name and result."""
    for name, apply in passes:
        function = apply(function, target)
        if trace is not None:
            trace(name, function)
    verify(function)
    return function
