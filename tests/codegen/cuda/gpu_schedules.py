"""Random programs for GPUs: of every operator in the search's space, and of random definitions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.ir.stmt import THREADS
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule, Step, replay, schedule
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import BindThread, CacheRead
from ansorc.search.evolution.sampling import sample
from ansorc.search.space import design_space, steps
from ansorc.target import Target
from tests.support.dag_strategies import dags
from tests.support.schedule_strategies import MAKERS, schedules

GPU = Target.parse("cuda -arch=sm_80")
OF_CPUS = ("panel", "parallel", "parallel in chunks", "rewrite layout")
_OF_ROWS = (
    ac.ops.sum, ac.ops.max, ac.ops.mean, ac.ops.softmax, ac.ops.log_softmax, ac.ops.l2_normalize,
)  # fmt: skip


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
    makers = {**plain, **binding, "share": _share, "share too": _share}
    return st.one_of(
        schedules(dags(), most, makers=makers),
        st.integers(2, 9).flatmap(
            lambda threads: schedules(
                dags(), most, start=lambda dag: _in_blocks(dag, threads), makers=makers
            )
        ),
    )


def _in_blocks(dag: ComputeDAG, threads: int) -> Schedule:
    """The results in blocks of `threads`; what they read in shared memory, where that can be."""
    state = schedule(dag)
    result = state.stages[-1].name
    op = state.stage(result).op
    axes = [axis.name for axis in op.axes if axis.name != op.scan_axis]
    if not axes:
        return state
    state = state.reorder(result, [*axes, op.scan_axis]) if op.scan is not None else state
    state = state.fuse(result, axes) if len(axes) > 1 else state
    state = state.split(result, "@".join(axes), [threads])
    block, thread = (iterator.name for iterator in state.stage(result).iterators[:2])
    state = state.bind(result, block, "blockIdx.x").bind(result, thread, "threadIdx.x")
    for tensor in state.stage(result).op.reads:
        try:
            shared = state.cache_read(tensor.name, "shared", [result])
            (copy,) = shared.beyond(state)
            state = shared.compute_at(copy.name, result, block)
        except ScheduleError:
            continue
    return state


@st.composite
def searched_schedules(draw: st.DrawFn) -> Schedule:
    """A program of the search's space of a random definition: of those with more terms, too."""
    dag = draw(st.one_of(dags(), _row_reductions(), _products(), _products(), _windows()))
    sketches = design_space(dag, GPU).sketches
    assume(sketches)
    sketch = sketches[draw(st.integers(0, len(sketches) - 1))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return replay(dag, steps(sketch, sample(sketch, 1, rng)[0]))


@st.composite
def _row_reductions(draw: st.DrawFn) -> ComputeDAG:
    """A reduction of the rows of a matrix, long enough for the threads of warps."""
    shape = (draw(st.integers(1, 6)), draw(st.integers(30, 330)))
    a = ac.placeholder(shape, "A", draw(st.sampled_from(["float32", "float32", "float16"])))
    if draw(st.integers(0, 5)) == 0:
        return ComputeDAG([a, ac.ops.argmax(a, 1)])
    return ComputeDAG([a, draw(st.sampled_from(_OF_ROWS))(a, 1)])


@st.composite
def _products(draw: st.DrawFn) -> ComputeDAG:
    """A product of matrices, of numbers that matrix units take or others, and what follows it."""
    dtype, sums = draw(
        st.sampled_from(
            [("float32", None), ("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32")]
        )
    )
    unit = {"float32": 1, "int8": 32}.get(dtype, 16)
    batch = draw(st.sampled_from([(), (), (2,)]))
    m, n, k = (draw(st.integers(1, 50)) for _ in range(3))
    k = -(-k // unit) * unit
    a, b = (ac.placeholder((*batch, *s), x, dtype) for x, s in (("A", (m, k)), ("B", (k, n))))
    product = (ac.ops.batch_matmul if batch else ac.ops.matmul)(
        a, b, **({"sum_dtype": sums} if sums else {})
    )
    if draw(st.booleans()):
        return ComputeDAG([a, b, product])
    c = ac.placeholder((n,), "C", sums or dtype)
    return ComputeDAG([a, b, c, ac.ops.relu(ac.ops.bias_add(product, c))])


@st.composite
def _windows(draw: st.DrawFn) -> ComputeDAG:
    size, channels, kernel = (draw(st.integers(*x)) for x in ((4, 9), (1, 9), (1, 3)))
    x = ac.placeholder((draw(st.integers(1, 2)), size, size, channels), "X")
    w = ac.placeholder((kernel, kernel, channels, draw(st.integers(1, 20))), "W")
    stride, padding = draw(st.integers(1, 2)), draw(st.integers(0, 1))
    return ComputeDAG([x, w, ac.ops.conv2d(x, w, stride=stride, padding=padding)])
