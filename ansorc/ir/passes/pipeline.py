"""The passes between lowering and code generation, in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.passes.guarded_values import choose_values
from ansorc.ir.passes.hoist_conditions import hoist_conditions
from ansorc.ir.passes.hoist_values import hoist_values
from ansorc.ir.passes.lane_groups import Vectors
from ansorc.ir.passes.partition_loops import partition_loops
from ansorc.ir.passes.prefetch import prefetch
from ansorc.ir.passes.promote_accumulators import promote_accumulators
from ansorc.ir.passes.skip_padding import skip_padding
from ansorc.ir.passes.transpose_copies import transpose_copies
from ansorc.ir.passes.vectorize_loops import vectorize_loops
from ansorc.ir.passes.vectorize_reductions import vectorize_reductions
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify


@dataclass(frozen=True, slots=True)
class CpuOptions:
    """What the passes have to know about a CPU."""

    vector_bytes: int
    vector_registers: int
    partition_statements: int = 1024
    """The statements of code that splitting loops at their tests may add to a kernel.

    The border of a depthwise tile of 4 x 2 pixels needs most of them.
    """

    masked: frozenset[int] = frozenset()
    """The bytes of the elements that it has masked vectors of; see `Vectors`."""
    stores_masked_fast: bool = False
    cached_bytes: int = 1 << 20
    """Larger tensors do not stay in the caches of one core."""
    last_cache_bytes: int = 32 << 20
    """Larger tensors do not stay in any cache."""
    asks_ahead: bool = True
    """Whether what is read once from larger tensors is prefetched."""
    streaming_sums: int = 4
    """Vectors of sums of terms that come from memory, beside each other."""

    interleaved: int = 1
    """Vectors that loops with math functions of many steps work on together."""

    @property
    def vectors(self) -> Vectors:
        """Return what its vectors can do."""
        return Vectors(self.vector_bytes, self.masked, self.stores_masked_fast, self.interleaved)

    @property
    def register_bytes(self) -> int:
        """The largest register tile: twice the vector registers, for a few spills cost little."""
        return 2 * self.vector_registers * self.vector_bytes


def prepare_for_cpu(
    function: Function,
    options: CpuOptions,
    trace: Callable[[str, Function], None] | None = None,
) -> Function:
    """Return `function` ready for code generation on a CPU.

    `trace` is given each pass's name and result, as they come.
    """
    passes: tuple[tuple[str, Callable[[Function], Function]], ...] = (
        ("simplify", simplify_stmt),
        ("skip_padding", skip_padding),
        ("hoist_conditions", hoist_conditions),
        ("partition_loops", lambda f: partition_loops(f, options.partition_statements)),
        ("hoist_conditions", hoist_conditions),
        ("choose_values", choose_values),
        (
            "vectorize_reductions",
            lambda f: vectorize_reductions(
                f,
                options.vector_bytes,
                options.vector_registers,
                options.last_cache_bytes,
                options.streaming_sums,
            ),
        ),
        ("promote_accumulators", lambda f: promote_accumulators(f, options.register_bytes)),
        ("vectorize_loops", lambda f: vectorize_loops(f, options.vectors)),
        ("transpose_copies", transpose_copies),
        ("simplify", simplify_stmt),
        ("hoist_values", hoist_values),
        (
            "prefetch",
            lambda f: prefetch(
                f,
                options.cached_bytes,
                options.last_cache_bytes,
                has_streams=options.asks_ahead,
            ),
        ),
    )
    for name, apply in passes:
        function = apply(function)
        if trace is not None:
            trace(name, function)
    verify(function)
    return function
