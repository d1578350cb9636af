"""Random legal schedules of a DAG, for hypothesis: steps are drawn, refused ones left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from hypothesis import strategies as st

from ansorc.errors import ScheduleError
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule, Step, schedule
from ansorc.schedule.stage import SplitRelation, Stage
from ansorc.schedule.steps import (
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    DecomposeReduction,
    Fuse,
    Panel,
    Parallelize,
    Pragma,
    Reorder,
    ReverseComputeAt,
    RewriteLayout,
    RFactor,
    Split,
    StorageAlign,
    StoreAt,
    Unroll,
    Vectorize,
)

T = TypeVar("T")
Pick = Callable[[list[T]], T]
Maker = Callable[[st.DrawFn, Schedule, Stage], Step | None]


@st.composite
def schedules(
    draw: st.DrawFn,
    dags: st.SearchStrategy[ComputeDAG],
    most: int = 10,
    start: Callable[[ComputeDAG], Schedule] = schedule,
    makers: Mapping[str, Maker] | None = None,
) -> Schedule:
    """Draw a DAG and up to `most` steps, of `makers`, that fit it after those of `start`."""
    state = start(draw(dags))
    for _ in range(draw(st.integers(0, most))):
        step = _step(draw, state, MAKERS if makers is None else makers)
        if step is not None:
            try:
                state = state.then(step)
            except ScheduleError:
                continue
    return state


def _step(draw: st.DrawFn, state: Schedule, makers: Mapping[str, Maker]) -> Step | None:
    live = [stage for stage in state.stages if stage.iterators]
    if not live:
        return None
    stage = draw(st.sampled_from(live))
    return makers[draw(st.sampled_from(sorted(makers)))](draw, state, stage)


def _iterator(draw: st.DrawFn, stage: Stage) -> str:
    return draw(st.sampled_from(stage.iterators)).name


def _split(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step:
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=2))
    return Split(stage.name, _iterator(draw, stage), tuple(lengths))


def _fuse(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step | None:
    if len(stage.iterators) < 2:
        return None
    first = draw(st.integers(0, len(stage.iterators) - 2))
    return Fuse(stage.name, tuple(it.name for it in stage.iterators[first : first + 2]))


def _reorder(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step:
    names = draw(st.permutations([iterator.name for iterator in stage.iterators]))
    return Reorder(stage.name, tuple(names))


def _compute_at(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step | None:
    readers = [reader for reader in state.readers(stage.name) if reader.iterators]
    if not readers:
        return None
    target = draw(st.sampled_from(readers))
    return ComputeAt(stage.name, target.name, _iterator(draw, target))


def _reverse_compute_at(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step | None:
    readers = [reader for reader in state.readers(stage.name) if reader.iterators]
    if not readers:
        return None
    reader = draw(st.sampled_from(readers))
    return ReverseComputeAt(reader.name, stage.name, _iterator(draw, stage))


def _store_at(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step | None:
    around = [(outer.name, loop.name) for outer, loop in state.around(stage)]
    if not around:
        return None
    return StoreAt(stage.name, *(around[-2] if len(around) > 1 else (around[-1][0], "")))


def _cache_read(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step | None:
    tensors = [b.name for b in state.dag.inputs] + [s.name for s in state.stages if s.iterators]
    name = draw(st.sampled_from(tensors))
    readers = [reader.name for reader in state.readers(name)]
    return CacheRead(name, "local", tuple(readers)) if readers else None


def _storage_align(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step | None:
    if len(stage.op.axes) < 2:
        return None
    axis = draw(st.sampled_from(stage.op.axes[:-1]))
    return StorageAlign(stage.name, axis.name, 8, draw(st.integers(0, 7)))


def _panel(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step | None:
    axes = {axis.name for axis in stage.op.axes}
    splits = [r for r in stage.relations if isinstance(r, SplitRelation) and r.parent.name in axes]
    return Panel(stage.name, draw(st.sampled_from(splits)).children[-1].name) if splits else None


def _rewrite_layout(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step | None:
    tensors = [b.name for b in state.dag.inputs if b.constant and stage in state.readers(b.name)]
    return RewriteLayout(stage.name, draw(st.sampled_from(tensors))) if tensors else None


MAKERS: dict[str, Maker] = {
    "split": _split,
    "split again": _split,
    "fuse": _fuse,
    "reorder": _reorder,
    "compute at": _compute_at,
    "reverse compute at": _reverse_compute_at,
    "store at": _store_at,
    "decompose reduction": lambda draw, state, stage: DecomposeReduction(
        stage.name, _iterator(draw, stage)
    ),
    "cache read": _cache_read,
    "panel": _panel,
    "rewrite layout": _rewrite_layout,
    "compute root": lambda draw, state, stage: ComputeRoot(stage.name),
    "compute inline": lambda draw, state, stage: ComputeInline(stage.name),
    "cache write": lambda draw, state, stage: CacheWrite(stage.name, "local"),
    "rfactor": lambda draw, state, stage: RFactor(stage.name, _iterator(draw, stage)),
    "parallel": lambda draw, state, stage: Parallelize(stage.name, _iterator(draw, stage)),
    "parallel in chunks": lambda draw, state, stage: Parallelize(
        stage.name, _iterator(draw, stage), "dynamic", draw(st.integers(1, 3))
    ),
    "storage align": _storage_align,
    "vectorize": lambda draw, state, stage: Vectorize(stage.name, _iterator(draw, stage)),
    "unroll": lambda draw, state, stage: Unroll(stage.name, _iterator(draw, stage)),
    "pragma": lambda draw, state, stage: Pragma(
        stage.name, "auto_unroll_max_step", draw(st.sampled_from([0, 4, 16]))
    ),
}
