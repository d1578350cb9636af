"""Stages that keep what earlier iterations made: chains of stencils, and what is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.ir.printer import to_text
from ansorc.lang.reduction import ReduceAxis
from ansorc.schedule import Schedule, lower, replay, schedule, steps_from_json, steps_to_json
from ansorc.schedule.stage import Ring
from tests.schedule.meaning import keeps_the_meaning
from tests.support.nightly import examples
from tests.support.schedule_strategies import MAKERS, schedules

_OPTIONS = settings(
    deadline=None, database=None, suppress_health_check=(HealthCheck.too_slow,)
)  # fmt: skip


def ring(state: Schedule, stage: str) -> Ring:
    found = state.stage(stage).ring
    assert found is not None
    return found


def chain(*, steps: int = 2, rows: int = 15) -> Schedule:
    tensor = first = ac.placeholder((rows + 2 * steps, 8), name="A")
    for step in range(steps):
        source, extent = tensor, rows + 2 * (steps - 1 - step)
        tensor = ac.compute(
            (extent, 8), lambda i, j, s=source: s[i, j] + s[i + 1, j] * 2.0 + s[i + 2, j],
            name=f"S{step}",
        )  # fmt: skip
    return schedule(ac.ComputeDAG([first, tensor]))


def slid(state: Schedule, rows: int = 5) -> Schedule:
    """All stages but the last in each row of it, keeping their windows in strips of rows."""
    *stages, last = (stage.name for stage in state.stages)
    state = state.split(last, "i", [rows])
    for name in reversed(stages):
        state = state.compute_at(name, last, "i.1")
    for name in reversed(stages):
        state = state.store_at(name, last, "i.0")
    return state


def test_each_iteration_computes_what_is_new() -> None:
    state = slid(chain())
    assert [it.extent for it in state.stage("S0").iterators] == [1, 8]
    assert ring(state, "S0").length == 4
    assert str(state).splitlines() == [
        "for i.0 in 0..3",
        "  for i.1 in 0..5",
        "    for i in 0..1",
        "      for j in 0..8",
        "        S0 = ..., keeping 4 along i",
        "    for j in 0..8",
        "      S1 = ...",
    ]
    text = to_text(lower(state))
    assert "for i.1_1 in 0..2" in text
    assert "S0[(i.0 * 5 + i.1 + 2) % 4, " in text
    assert state.details().splitlines()[1] == "  hold S0: float32[4, 8], 128 bytes"
    keeps_the_meaning(state)


def test_the_warm_ups_of_a_chain_add_up() -> None:
    state = slid(chain(steps=4), rows=6)
    assert [ring(state, f"S{n}").warm_up for n in range(3)] == [6, 4, 2]
    keeps_the_meaning(state.parallel("S3", "i.0").vectorize("S0", "j").vectorize("S3", "j"))


def test_the_whole_image_in_one_ring() -> None:
    state = chain().compute_at("S0", "S1", "i").store_at("S0", "S1", "")
    assert to_text(lower(state)).splitlines()[2] == "        alloc S0: float32[4, 8] local"
    keeps_the_meaning(state)
    assert str(replay(state.dag, steps_from_json(steps_to_json(state.steps)))) == str(state)


def test_the_work_is_linear_in_the_rows() -> None:
    """32 stages in strips of 32 rows: 62 rows of warm-up for the first, none for the last."""
    state = slid(chain(steps=32, rows=64), rows=32)
    early = [ring(state, f"S{n}").warm_up for n in range(31)]
    assert early == [62 - 2 * n for n in range(31)]


def test_a_window_that_moves_downwards() -> None:
    a = ac.placeholder((12, 6), name="A")
    p = ac.compute((12, 6), lambda i, j: a[i, j] * 2.0, name="P")
    c = ac.compute((10, 6), lambda i, j: p[11 - i, j] + p[9 - i, j], name="C")
    state = schedule(ac.ComputeDAG([a, c])).split("C", "i", [4])
    state = state.compute_at("P", "C", "i.1").store_at("P", "C", "i.0")
    assert (ring(state, "P").length, ring(state, "P").warm_up) == (4, 2)
    keeps_the_meaning(state)


def test_strides_of_a_pyramid() -> None:
    """Two rows a step, five at once: three are kept, in two steps of warm-up."""
    a = ac.placeholder((23, 6), name="A")
    p = ac.compute((23, 6), lambda i, j: a[i, j] + 1.0, name="P")
    k = ac.reduce_axis(5, name="k")
    c = ac.compute((10, 6), lambda i, j: ac.sum(p[i * 2 + k, j], axis=k), name="C")
    state = schedule(ac.ComputeDAG([a, c])).split("C", "i", [5])
    state = state.compute_at("P", "C", "i.1").store_at("P", "C", "i.0")
    assert [it.extent for it in state.stage("P").iterators] == [2, 6]
    assert (ring(state, "P").length, ring(state, "P").warm_up) == (8, 2)
    keeps_the_meaning(state)


def test_what_is_computed_outside_has_the_rows_of_the_warm_up_too() -> None:
    """The warm-up of Q, two steps of two rows, begins with a row that C does not read."""
    a = ac.placeholder((27, 6), name="A")
    p = ac.compute((27, 6), lambda i, j: a[i, j] + 1.0, name="P")
    q = ac.compute((25, 6), lambda i, j: p[i, j] + p[i + 2, j], name="Q")
    k = ac.reduce_axis(5, name="k")
    c = ac.compute((10, 6), lambda i, j: ac.sum(q[i * 2 + k, j], axis=k), name="C")
    state = schedule(ac.ComputeDAG([a, c])).split("C", "i", [3])
    state = state.compute_at("Q", "C", "i.1").compute_at("P", "C", "i.0")
    assert [it.extent for it in state.stage("P").iterators] == [11, 6]
    state = state.store_at("Q", "C", "i.0")
    assert [it.extent for it in state.stage("P").iterators] == [12, 6]
    keeps_the_meaning(state)


def test_rows_that_are_read_twice_as_often() -> None:
    a = ac.placeholder((8, 6), name="A")
    p = ac.compute((8, 6), lambda i, j: a[i, j] + 1.0, name="P")
    c = ac.compute((14, 6), lambda i, j: p[i // 2, j] + p[i // 2 + 1, j], name="C")
    state = schedule(ac.ComputeDAG([a, c])).split("C", "i", [2])
    with pytest.raises(ScheduleError, match="all read the same part of it, or all of it"):
        state.compute_at("P", "C", "i.1").store_at("P", "C", "i.0")
    c = ac.compute((14, 6), lambda i, j: p[i // 2, j] * 2.0, name="C")
    state = schedule(ac.ComputeDAG([a, c])).compute_at("P", "C", "i")
    with pytest.raises(ScheduleError, match="moves along 'i' in some iterations alone"):
        state.store_at("P", "C", "")


REFUSALS: dict[str, Callable[[Schedule], Schedule]] = {
    "'S0' is not computed inside a loop of 'S1'; use compute_at first": (
        lambda s: s.store_at("S0", "S1", "i")
    ),
    "'S0' is computed in 'i', so it can be kept outside all loops of 'S1' alone, with the": (
        lambda s: s.compute_at("S0", "S1", "i").store_at("S0", "S1", "i")
    ),
    "'S0' is computed in 'j', so it can be kept at 'i' of 'S1', the loop directly outside it": (
        lambda s: s.compute_at("S0", "S1", "j").store_at("S0", "S1", "")
    ),
    "the loops of 'S0' were already changed; use store_at before that": (
        lambda s: s.compute_at("S0", "S1", "i").vectorize("S0", "j").store_at("S0", "S1", "")
    ),
    "so the loop cannot be parallel; divide it, and let the inner part keep it": (
        lambda s: s.parallel("S1", "i").compute_at("S0", "S1", "i").store_at("S0", "S1", "")
    ),
    "'S0' keeps what 'i' made, one iteration after the other, so the loop cannot be parallel": (
        lambda s: s.compute_at("S0", "S1", "i").store_at("S0", "S1", "").parallel("S1", "i")
    ),
    "'S0' keeps what iterations made, which threads of a GPU do not share in order": (
        lambda s: s.compute_at("S0", "S1", "i").store_at("S0", "S1", "").bind(
            "S1", "j", "threadIdx.x").bind("S0", "j", "threadIdx.x")
    ),
    "'j' made: each iteration reads 1 elements along 'j' and the next begins 1 later": (
        lambda s: s.compute_at("S0", "S1", "j").store_at("S0", "S1", "i")
    ),
    "its iterations all read the same part of it, or all of it": (
        lambda s: s.reorder("S1", ["j", "i"]).split("S1", "j", [4]).reorder(
            "S1", ["i", "j.0", "j.1"]).fuse("S1", ["j.0", "j.1"]).split("S1", "i", [15])
        .compute_at("S0", "S1", "i.0").store_at("S0", "S1", "")
    ),
    "'i@j' is fused, and does not move evenly along one axis": (
        lambda s: s.fuse("S1", ["i", "j"]).compute_at("S0", "S1", "i@j").store_at("S0", "S1", "")
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSALS)
def test_refusals(words: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        REFUSALS[words](chain())
    assert words in str(caught.value)


def test_a_ring_is_not_moved_into_threads() -> None:
    state = chain(steps=3).bind("S2", "i", "blockIdx.x")
    state = state.compute_at("S0", "S1", "i").store_at("S0", "S1", "")
    with pytest.raises(ScheduleError, match="'S0' keeps what iterations made, which threads of"):
        state.compute_at("S1", "S2", "i")


def test_two_axes_at_once_are_refused() -> None:
    a = ac.placeholder((12, 12), name="A")
    p = ac.compute((12, 12), lambda i, j: a[i, j] * 2.0, name="P")
    c = ac.compute((10,), lambda i: p[i, i] + p[i + 2, i + 2], name="C")
    state = schedule(ac.ComputeDAG([a, c])).compute_at("P", "C", "i")
    with pytest.raises(ScheduleError, match="moves along 'i' and 'j', and one axis can be"):
        state.store_at("P", "C", "")


def test_a_loop_over_terms_keeps_nothing() -> None:
    a = ac.placeholder((12,), name="A")
    p = ac.compute((12,), lambda i: a[i] * 2.0, name="P")
    k = ac.reduce_axis(10, name="k")
    c = ac.compute((1,), lambda i: ac.sum(p[i + k] + p[i + k + 2], axis=k), name="C")
    state = schedule(ac.ComputeDAG([a, c])).compute_at("P", "C", "k")
    with pytest.raises(ScheduleError, match="'k' is not a loop over the results"):
        state.store_at("P", "C", "i")


@dataclass(frozen=True)
class Read:
    """What a stage reads of an earlier one at (i, j), and how many rows it may have at most."""

    at: Callable[[ac.Scalar, ac.Scalar], list[ac.Scalar]]
    rows: int


@st.composite
def stencils(draw: st.DrawFn) -> ac.ComputeDAG:
    """Stages that read rows of earlier ones: shifted, strided, flipped, cut off, halved, sums."""
    columns, rows = draw(st.integers(1, 9)), draw(st.integers(8, 30))
    tensors = [ac.placeholder((rows, columns), name="A")]
    for number in range(draw(st.integers(2, 5))):
        others = draw(st.lists(st.sampled_from(tensors[-2:]), max_size=1))
        reads = [draw(_reads(source)) for source in (tensors[-1], *others)]
        shape = min(read.rows for read in reads), columns
        k = ac.reduce_axis(columns, name="k") if draw(st.integers(0, 3)) == 0 else None
        tensors.append(ac.compute(shape, partial(_element, reads, k), name=f"S{number}"))
    return ac.ComputeDAG([tensors[0], tensors[-1]])


def _element(reads: list[Read], k: ReduceAxis | None, i: ac.Scalar, j: ac.Scalar) -> ac.Scalar:
    if k is None:
        return _total([value for read in reads for value in read.at(i, j)]) * 0.5
    return ac.sum(_total([value for read in reads for value in read.at(i, k + 0)]) * 0.25, axis=k)


def _total(values: list[ac.Scalar]) -> ac.Scalar:
    return reduce(operator.add, values)


@st.composite
def _reads(draw: st.DrawFn, source: ac.Tensor) -> Read:
    rows, last = source.shape[0], source.shape[0] - 1
    kind = draw(st.sampled_from([*["shift"] * 4, "stride", "clamp", "guard", "flip", "half"]))
    shifts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
    top, step = max(shifts), draw(st.integers(2, 3))

    def guarded(i: ac.Scalar, j: ac.Scalar) -> ac.Scalar:
        return ac.if_then_else(ac.all_of(i >= 0, i < rows), source[i, j], 1.0)

    if kind == "stride" and rows > 2 * top + 4:
        strided = (rows - 1 - top) // step + 1
        return Read(lambda i, j: [source[i * step + s, j] for s in shifts], strided)
    if kind == "clamp":
        return Read(lambda i, j: [source[ac.clip(i + s - 1, 0, last), j] for s in shifts], rows)
    if kind == "guard":
        return Read(lambda i, j: [guarded(i + s - 1, j) for s in shifts], rows)
    if kind == "half":
        return Read(lambda i, j: [source[i // 2, j]], 2 * rows)
    if rows <= top + 1:
        return Read(lambda i, j: [source[i, j]], rows)
    if kind == "flip":
        return Read(lambda i, j: [source[last - i - s, j] for s in shifts], rows - top)
    return Read(lambda i, j: [source[i + s, j] for s in shifts], rows - top)


@st.composite
def slid_schedules(draw: st.DrawFn) -> Schedule:
    """Stages in a loop of the last one, those that can keeping their windows, and a few steps."""
    dag = draw(stencils())
    state = schedule(dag)
    last = state.stages[-1].name
    loops = ["i"]
    for _ in range(draw(st.integers(0, 2))):
        state = state.split(last, loops[-1], [draw(st.integers(1, 6))])
        loops[-1:] = [f"{loops[-1]}.0", f"{loops[-1]}.1"]
    stages = [stage.name for stage in state.stages[:-1]]
    for name in reversed(stages):
        loop = draw(st.sampled_from(loops + loops[-1:] * 4))
        state = _tried(state, lambda s, n=name, at=loop: s.compute_at(n, last, at))
    for name in draw(st.permutations(stages)):
        around = [(outer.name, loop.name) for outer, loop in state.around(state.stage(name))]
        if around and draw(st.integers(0, 7)):
            where = around[-2] if len(around) > 1 else (around[-1][0], "")
            state = _tried(state, lambda s, n=name, w=where: s.store_at(n, *w))
    return draw(schedules(st.just(dag), 4, lambda _: state, MAKERS))


def _tried(state: Schedule, change: Callable[[Schedule], Schedule]) -> Schedule:
    try:
        return change(state)
    except ScheduleError:
        return state


@examples(18, nightly=1000, options=_OPTIONS)
@given(slid_schedules())
def test_any_ring_keeps_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)
    again = replay(state.dag, steps_from_json(steps_to_json(state.steps)))
    assert to_text(lower(again)) == to_text(lower(state))
