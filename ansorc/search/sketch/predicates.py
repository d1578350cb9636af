"""Predicates that the rules ask of a stage of a sketch (the predicates of Table 1 of the paper).

Inlined stages are part of their readers' bodies here, so a consumer behind them is found directly.
"""

from __future__ import annotations

from math import prod

from ansorc.ir.expr import Load
from ansorc.ir.passes.accesses import is_inside
from ansorc.lang.access import gathers, has_data_reuse, reads_of, simple_access, strictly_inlineable
from ansorc.schedule.inlining import is_short_inlined
from ansorc.schedule.stage import Making, Stage
from ansorc.search.sketch.rule import PartialSketch

CHUNKS_PER_CORE = 16
"""Outer loops with this many iterations for each core are enough to be parallel."""
LEAST_TERMS = 4096
"""Terms that take as long as it takes to start the threads, about."""
FEW_STAGES = 16
"""Stages of a computation for each of which it is tried where to compute it."""
CACHE_SCOPE = "local"
"""Where a cache write computes."""


def is_inlineable(partial: PartialSketch, name: str) -> bool:
    """Return whether a stage is cheap, element-wise and not an output (IsStrictInlinable).

    Beyond the paper, rows at places that a tensor holds are, if one stage reads each element once.
    The hint `always_compute_inline` says so of any stage that is no reduction and no scan, and
    `never_compute_inline` the opposite.
    """
    stage, readers = partial.stage(name), partial.state.readers(name)
    is_kept = "never_compute_inline" in dict(stage.op.hints)
    if stage.is_output or not stage.is_untouched or not readers or is_kept:
        return False
    if any(each.op.c_call is not None for each in (stage, *readers)):
        return False
    is_plain = not stage.op.reduce_axes and stage.op.scan is None
    is_free = "always_compute_inline" in dict(stage.op.hints) and is_plain
    is_free |= len(readers) == 1 and gathers(stage.op, readers[0].op)
    is_cheap = strictly_inlineable(stage.op) or _is_in_long_chain(partial, stage)
    if not is_free and (not is_cheap or _is_last_before_transposition(partial, stage)):
        return False
    return all(is_short_inlined(reader.op, stage.op) for reader in readers)


def _is_in_long_chain(partial: PartialSketch, stage: Stage) -> bool:
    """Return whether `stage` is one of many and is read element by element.

    It is then computed once. A few such stages may be worth loops of their own, which are tried.
    For many stages that takes too long.
    """
    readers = partial.state.readers(stage.name)
    is_plain = not stage.op.reduce_axes and stage.op.scan is None
    if len(partial.state.dag.ops) <= FEW_STAGES or len(readers) != 1 or not is_plain:
        return False
    op = readers[0].op
    accesses = reads_of(op, stage.op)
    ranges = {axis.name: (0, axis.extent - 1) for axis in op.axes}
    space, own_space = (prod(axis.extent for axis in each.axes) for each in (op, stage.op))
    return (
        not op.reduce_axes
        and space == own_space
        and len(set(accesses)) == 1
        and is_inside(stage.op.buffer, accesses[0], ranges)
        and simple_access(op, accesses[0]) is not None
    )


def _is_last_before_transposition(partial: PartialSketch, stage: Stage) -> bool:
    """Return whether `stage` is computed from a reduction and its reader transposes it.

    It stays in the tiles of the reduction then, and what is transposed is a copy, in blocks.
    """
    readers = partial.state.readers(stage.name)
    if len(readers) != 1 or not isinstance(readers[0].op.body, Load):
        return False
    reader = readers[0]
    orders = [simple_access(reader.op, access) for access in reads_of(reader.op, stage.op)]
    is_moved = all(order is not None and list(order.axes) != sorted(order.axes) for order in orders)
    return is_moved and _is_made_of_sums(partial, stage)


def _is_made_of_sums(partial: PartialSketch, stage: Stage) -> bool:
    """Return whether `stage` is computed element by element from a reduction."""
    read = [partial.state.find(buffer.name) for buffer in stage.op.reads]
    sources = [source for source in read if source is not None]
    return any(
        bool(source.op.reduce_axes)
        or (strictly_inlineable(source.op) and _is_made_of_sums(partial, source))
        for source in sources
    )


def needs_tiling(partial: PartialSketch, name: str) -> bool:
    """Return whether a stage reads elements again and again, so that tiles pay (HasDataReuse)."""
    stage = partial.stage(name)
    return stage.is_untouched and has_data_reuse(stage.op)


def is_tiled_first(partial: PartialSketch, name: str) -> bool:
    """Return whether a stage needs tiling and is of the definition, not made by a rule before."""
    return not is_made(partial, name) and needs_tiling(partial, name)


def is_made(partial: PartialSketch, name: str) -> bool:
    """Return whether a stage was made by a cache write or holds partial results."""
    return is_cache_write(partial, name) or is_rfactored(partial, name)


def needs_rfactor(partial: PartialSketch, name: str) -> bool:
    """Return whether a reduction is longer than wide (HasMoreReductionParallel).

    Beyond the paper, the space loops of a reduction without reuse have to leave cores without work
    too, for its rows are vectorised as they are; and a short one is not worth starting threads.
    """
    stage = partial.stage(name)
    is_new = stage.is_untouched and not stage.scope and not is_rfactored(partial, name)
    if not is_new or not stage.op.reduce_axes or stage.op.places:
        return False
    if stage.op.ragged_axis is not None:
        return False
    space = prod(axis.extent for axis in stage.op.axes)
    terms = prod(axis.extent for axis in stage.op.reduce_axes)
    if space > CHUNKS_PER_CORE * partial.target.cores or space * terms < LEAST_TERMS:
        return False
    return space <= terms if has_data_reuse(stage.op) else terms > partial.target.cores


def is_rfactored(partial: PartialSketch, name: str) -> bool:
    """Return whether a stage holds the partial results of an rfactor."""
    origins = partial.state.origins(partial.stage(name))
    return any(origin.making is Making.RFACTOR for origin in origins)


def is_parallel_rfactor(partial: PartialSketch, name: str) -> bool:
    """Return whether a stage holds partial results whose first axis is to run in parallel."""
    origins = partial.state.origins(partial.stage(name))
    return any(origin.making is Making.RFACTOR and origin.axis == 0 for origin in origins)


def fusible_consumer(partial: PartialSketch, name: str) -> Stage | None:
    """Return the only reader of a stage if it reads element by element (HasFusibleConsumer).

    Its loops must be untouched, and it must be no reduction and no scan.
    """
    stage = partial.stage(name)
    readers = partial.state.readers(name)
    if stage.is_output or len(readers) != 1:
        return None
    reader = readers[0]
    extents = [axis.extent for axis in stage.op.axes]
    is_same_shape = extents == [axis.extent for axis in reader.op.axes]
    is_plain = not reader.op.reduce_axes and reader.op.scan is None
    if not is_same_shape or not is_plain or not reader.is_untouched:
        return None
    return reader if _is_elementwise(reader, stage) else None


def is_cache_write(partial: PartialSketch, name: str) -> bool:
    """Return whether a stage was made by a cache write."""
    return partial.stage(name).origin.making is Making.CACHE_WRITE


def _is_elementwise(reader: Stage, source: Stage) -> bool:
    """Return whether the reader's axes index the source in order.

    Axes of extent 1 do not matter.
    """
    extents = [axis.extent for axis in reader.op.axes]
    order = [number for number, extent in enumerate(extents) if extent > 1]
    accesses = [simple_access(reader.op, access) for access in reads_of(reader.op, source.op)]
    return all(
        access is not None and [number for number in access.axes if extents[number] > 1] == order
        for access in accesses
    )
