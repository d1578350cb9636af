"""The nest of a stage at root, with the copies that an update needs which is not in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Indices, Load
from ansorc.ir.stmt import Stmt, Store
from ansorc.schedule.in_place import CopyLoops, Writing, is_for_device
from ansorc.schedule.nest import Nests
from ansorc.schedule.stage import Stage


def root_nest(nests: Nests, stage: Stage) -> list[Stmt]:
    """Return the loops that compute `stage`, and copies before and behind them."""
    nest, writing = nests.nest(stage), nests.state.writings.get(stage.name)
    if writing is Writing.PART:
        return [nest, _copy_part(nests, stage)]
    if writing is Writing.WHOLE and stage.op.is_partial:
        old = [load.buffer for load in stage.op.overwrites]
        return [_copy_whole(nests, stage, list(zip(stage.op.buffers, old, strict=True))), nest]
    return [nest]


def copies_at_end(nests: Nests) -> list[Stmt]:
    """Return the loops that copy new values to the inputs whose old ones were needed so long.

    All are copied, as the places of a part may have been updated meanwhile.
    """
    copies: list[Stmt] = []
    for name, writing in nests.state.writings.items():
        if writing is Writing.WHOLE:
            stage = nests.state.stage(name)
            old = [load.buffer for load in stage.op.overwrites]
            copies.append(_copy_whole(nests, stage, list(zip(old, stage.op.buffers, strict=True))))
    return copies


def _copy_part(nests: Nests, stage: Stage) -> Stmt:
    placed, op = nests.placed[stage.name], stage.op
    loops = _loops(nests, f"{stage.name}.out", [axis.extent for axis in op.axes])
    axes = dict(zip((axis.name for axis in op.axes), loops.indices, strict=True))
    place = nests.overwritten(placed, axes)
    targets = [load.buffer for load in op.overwrites]
    return _copy(loops, zip(targets, placed.buffers, strict=True), place)


def _copy_whole(nests: Nests, stage: Stage, pairs: Sequence[tuple[Buffer, Buffer]]) -> Stmt:
    is_out = pairs[0][1] in stage.op.buffers
    loops = _loops(nests, f"{stage.name}.{'out' if is_out else 'in'}", stage.op.buffer.shape)
    return _copy(loops, pairs, loops.indices)


def _loops(nests: Nests, name: str, shape: Sequence[int]) -> CopyLoops:
    return CopyLoops(name, shape, on_device=is_for_device(nests.state.stages))


def _copy(loops: CopyLoops, pairs: Iterable[tuple[Buffer, Buffer]], place: Indices) -> Stmt:
    """Return `loops` that copy to the `place` of each first buffer an element of the second."""
    stores = [Store(to, place, Load(source, loops.indices)) for to, source in pairs]
    return loops.around(stores)
