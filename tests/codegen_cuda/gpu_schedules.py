"""Random programs for GPUs: of every operator in the search's space, and of random definitions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from dag_strategies import dags
from hypothesis import strategies as st
from schedule_strategies import MAKERS, schedules

from ansorc.ir.stmt import THREADS
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule, Step, replay
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import BindThread, CacheRead
from ansorc.search.evolution.sampling import sample
from ansorc.search.space import design_space, steps
from ansorc.target import Target

GPU = Target.parse("cuda -arch=sm_80")
OF_CPUS = ("panel", "parallel", "parallel in chunks", "rewrite layout")


def drawn_programs(computation: ComputeDAG, count: int, seed: int) -> Iterator[Schedule]:
    """`count` programs of the search's space, or a few more, of sketches that it takes in turn."""
    rng = np.random.default_rng(seed)
    sketches = design_space(computation, GPU).sketches
    taken: list[int] = rng.permutation(len(sketches))[:count].tolist()
    for place in taken:
        for row in sample(sketches[place], -(-count // len(taken)), rng):
            yield replay(computation, steps(sketches[place], row))


def _bind(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step:
    iterator = draw(st.sampled_from(stage.iterators)).name
    return BindThread(stage.name, iterator, draw(st.sampled_from(THREADS)))


def _share(draw: st.DrawFn, state: Schedule, stage: Stage) -> Step | None:
    tensors = [b.name for b in state.dag.inputs] + [s.name for s in state.stages if s.iterators]
    name = draw(st.sampled_from(tensors))
    readers = tuple(reader.name for reader in state.readers(name))
    return CacheRead(name, "shared", readers) if readers else None


def thread_schedules(most: int = 12) -> st.SearchStrategy[Schedule]:
    """Schedules of random definitions with loops bound to threads, and arrays that they share."""
    plain = {name: maker for name, maker in MAKERS.items() if name not in OF_CPUS}
    binding = {f"bind {number}": _bind for number in range(len(plain) // 2)}
    return schedules(
        dags(), most, makers={**plain, **binding, "share": _share, "share too": _share}
    )
