"""Updates of inputs: random definitions and schedules, what is written in place, and copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import Schedule, lower, replay, schedule
from ansorc.schedule.in_place import Writing
from ansorc.search.evolution.sampling import sample
from ansorc.search.space import design_space, steps
from ansorc.target import Target
from tests.codegen.cuda.proof import Experiment, complaint_of
from tests.schedule.meaning import keeps_the_meaning
from tests.support.nightly import examples
from tests.support.schedule_strategies import schedules

OPTIONS = settings(
    deadline=None, database=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)  # fmt: skip
SHAPES = [(13,), (5, 5), (6, 17), (4, 3, 6)]
WHOLE = ["own", "neighbours", "turned", "sums", "between", "both", "swapped"]
PARTS = ["row", "row of itself", "rows", "column", "two"]


@st.composite
def updates(draw: st.DrawFn) -> ac.ComputeDAG:
    """Inputs that are updated as a whole or in part, and what reads the old or new ones."""
    dtype = draw(st.sampled_from(["float32", "float64", "int32"]))
    shape = draw(st.sampled_from(SHAPES))
    a, b, g = (ac.placeholder(shape, name, dtype) for name in "ABG")
    place = ac.placeholder((1,), "P", "int32")
    new = _updated(draw, (a, b, g), place)
    inputs = [a, b, g, place]
    outputs: list[ac.Tensor] = []
    reader = draw(st.sampled_from(["none", "new", "old", "both", "sums"]))
    if reader == "sums" and len(shape) > 1:
        k = ac.reduce_axis(shape[-1], "k")
        fold = ac.compute(shape[:-1], lambda *i: ac.sum(new[0][(*i, k)] * g[(*i, k)], axis=k), "Z")
        outputs.append(fold)
    elif reader != "none":
        sources = {"new": [new[-1]], "old": [a], "both": [a, new[0]]}.get(reader, [new[0]])
        outputs.append(
            ac.compute(shape, lambda *i: _sum([s[i] for s in sources]) + _before(a, i), "Z")
            if draw(st.booleans())
            else ac.compute(shape, lambda *i: _sum([s[i] for s in sources]) * 2, "Z")
        )
    listed = [*outputs, *new] if draw(st.booleans()) else [*new, *outputs]
    return ac.ComputeDAG([*inputs, *listed])


def _sum(parts: list[Scalar]) -> Scalar:
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _before(a: ac.Tensor, i: tuple[Scalar, ...]) -> Scalar:
    """The element of `a` before the place `i` along the last dimension."""
    return a[(*i[:-1], ac.maximum(i[-1] - 1, 0))]


def _updated(
    draw: st.DrawFn, tensors: tuple[ac.Tensor, ...], place: ac.Tensor
) -> tuple[ac.Tensor, ...]:
    a, b, g = tensors
    shape, rank = a.shape, len(a.shape)
    kinds = WHOLE if rank == 1 else [*WHOLE, *PARTS]
    kind = draw(st.sampled_from(kinds))
    if kind == "turned" and shape[0] != shape[-1]:
        kind = "neighbours"
    if kind == "own":
        return (ac.update(a, ac.compute(shape, lambda *i: a[i] - b[i] * g[i]), name="A2"),)
    if kind == "neighbours":
        return (ac.update(a, ac.compute(shape, lambda *i: _before(a, i) + g[i]), name="A2"),)
    if kind == "turned":
        return (ac.update(a, ac.compute(shape, lambda *i: a[i[::-1]] + g[i]), name="A2"),)
    if kind == "sums":
        k = ac.reduce_axis(shape[-1], "k")
        value = ac.compute(shape, lambda *i: ac.sum(a[(*i[:-1], k)] * g[i], axis=k), "R")
        return (ac.update(a, value, name="A2"),)
    if kind == "between":
        double = ac.compute(shape, lambda *i: a[i] * 2, "D")
        value = ac.compute(shape, lambda *i: double[i] + _before(double, i) + a[i])
        return (ac.update(a, value, name="A2"),)
    if kind in ("both", "swapped"):
        values = ac.compute_tuple(
            shape,
            (lambda *i: (a[i] + b[i], a[i] * 2 + g[i]))
            if kind == "both"
            else (lambda *i: (b[i] + g[i], a[i] + b[i])),
        )
        return ac.update((a, b), values, name=["A2", "B2"])
    return _part(kind, (a, b, g), place)


def _part(kind: str, tensors: tuple[ac.Tensor, ...], place: ac.Tensor) -> tuple[ac.Tensor, ...]:
    a, b, g = tensors
    row = a.shape[1:]
    if kind == "row":
        value = ac.compute(row, lambda *i: g[(0, *i)] + 1)
        return (ac.update(a, value, at=place[0], name="A2"),)
    if kind == "row of itself":
        value = ac.compute(row, lambda *i: a[(place[0], *i)] + g[(1, *i)])
        return (ac.update(a, value, at=place[0], name="A2"),)
    if kind == "rows":
        first = place[0].astype("int64")
        value = ac.compute((2, *row), lambda *i: a[i] + g[(first + i[0], *i[1:])])
        return (ac.update(a, value, at=slice(place[0], None), name="A2"),)
    if kind == "column":
        value = ac.compute(a.shape[:-1], lambda *i: g[(*i, 0)] * 2)
        at = (*[slice(None)] * (len(a.shape) - 1), 2)
        return (ac.update(a, value, at=at, name="A2"),)
    values = ac.compute_tuple(row, lambda *i: (b[(place[0], *i)], a[(place[0], *i)]))
    return ac.update((a, b), values, at=place[0], name=["A2", "B2"])


@examples(24, nightly=1500, options=OPTIONS)
@given(schedules(updates(), most=12))
def test_any_legal_schedule_keeps_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


def writing_of(dag: ac.ComputeDAG) -> Writing:
    state = schedule(dag)
    (writing,) = state.writings.values()
    keeps_the_meaning(state)
    return writing


A, G = ac.placeholder((6, 8), "A"), ac.placeholder((6, 8), "G")


def test_an_element_that_follows_from_itself_is_written_in_place() -> None:
    new = ac.update(A, ac.compute(A.shape, lambda i, j: A[i, j] - G[i, j]), name="A2")
    dag = ac.ComputeDAG([A, G, new])
    assert writing_of(dag) is Writing.IN_PLACE
    assert to_text(lower(schedule(dag))).splitlines()[-1].strip() == "A[i, j] = A[i, j] - G[i, j]"


def test_neighbours_are_read_before_the_copy() -> None:
    value = ac.compute(A.shape, lambda i, j: A[i, ac.maximum(j - 1, 0)] + G[i, j])
    dag = ac.ComputeDAG([A, G, ac.update(A, value, name="A2")])
    assert writing_of(dag) is Writing.PART
    assert "A updated by A2, computed apart, then copied to it" in str(schedule(dag))


def test_a_stage_of_its_own_is_a_temporary_until_it_is_inlined() -> None:
    value = ac.compute(A.shape, lambda i, j: A[i, ac.maximum(j - 1, 0)] + G[i, j], "V")
    k = ac.reduce_axis(8, "k")
    row = ac.compute((6,), lambda i: ac.sum(value[i, k], axis=k), "R")
    new = ac.update(A, ac.compute(A.shape, lambda i, j: row[i] + value[i, j]), name="A2")
    state = schedule(ac.ComputeDAG([A, G, new]))
    assert state.writings == {"A2": Writing.IN_PLACE}
    keeps_the_meaning(state)
    for moved in (state.compute_inline("V"), state.compute_at("R", "A2", "i")):
        keeps_the_meaning(moved)
    assert state.compute_inline("V").writings == {"A2": Writing.PART}
    assert state.compute_at("R", "A2", "i").writings == {"A2": Writing.IN_PLACE}
    both = state.compute_at("R", "A2", "i").compute_at("V", "A2", "i")
    assert both.writings == {"A2": Writing.PART}
    keeps_the_meaning(both)


def test_a_chain_that_reads_no_old_elements() -> None:
    """Not each way through 24 stencils is followed: there are 3^24."""
    b, stages = ac.placeholder((4,), "B"), [ac.placeholder((52,), "source")]
    for number in range(24):
        last, length = stages[-1], stages[-1].shape[0] - 2
        stages.append(
            ac.compute((length,), lambda i, s=last: s[i] + s[i + 1] + s[i + 2], name=f"S{number}")
        )
    new = ac.update(b, ac.compute((4,), lambda i: b[i] + stages[-1][i]), name="B2")
    state = schedule(ac.ComputeDAG([b, stages[0], new]))
    for stage in reversed(stages[1:]):
        state = state.compute_at(stage.name, "B2", "i")
    assert state.writings == {"B2": Writing.IN_PLACE}


def test_old_elements_that_are_needed_later() -> None:
    new = ac.update(A, ac.compute(A.shape, lambda i, j: A[i, j] * 0.5 + G[i, j]), name="A2")
    change = ac.compute(A.shape, lambda i, j: new[i, j] - A[i, j], "change")
    before = ac.compute(A.shape, lambda i, j: A[i, j] * 2.0, "before")
    assert writing_of(ac.ComputeDAG([A, G, new, change])) is Writing.WHOLE
    assert writing_of(ac.ComputeDAG([A, G, new, before])) is Writing.IN_PLACE  # which comes first


def test_a_row_is_written_and_nothing_copied() -> None:
    place, row = ac.placeholder((1,), "P", "int32"), ac.placeholder((8,), "row")
    new = ac.update(A, row, at=place[0], name="A2")
    k = ac.reduce_axis(8, "k")
    sums = ac.compute((6,), lambda i: ac.sum(new[i, k] * row[k], axis=k), "S")
    dag = ac.ComputeDAG([A, row, place, new, sums])
    assert writing_of(dag) is Writing.IN_PLACE
    function = lower(schedule(dag))
    assert [buffer.name for buffer in function.params] == ["A", "row", "P", "S"]
    assert parse(to_text(function)) == function
    assert "alloc" not in to_text(function)


def test_two_inputs_become_each_other() -> None:
    one = ac.update(A, ac.compute(A.shape, lambda i, j: G[i, j]), name="A2")
    other = ac.update(G, ac.compute(A.shape, lambda i, j: A[i, j]), name="G2")
    state = schedule(ac.ComputeDAG([A, G, one, other]))
    assert sorted(w.name for w in state.writings.values()) == ["IN_PLACE", "WHOLE"]
    keeps_the_meaning(state)


def test_long_rows_are_copied_by_several_threads() -> None:
    a = ac.placeholder((70_001,), "A")
    new = ac.update(a, ac.compute(a.shape, lambda i: a[70_000 - i] + 1.0), name="A2")
    state = schedule(ac.ComputeDAG([a, new])).vectorize("A2", "i")
    assert "parallel A2.out.c0.block in 0..18" in to_text(lower(state))
    array = np.arange(70_001, dtype=np.float32)
    ac.build(state)(array)
    np.testing.assert_array_equal(array, np.arange(70_001, dtype=np.float32)[::-1] + 1)


def test_an_update_is_computed_whole_at_its_place() -> None:
    new = ac.update(A, ac.compute(A.shape, lambda i, j: A[i, j] - G[i, j]), name="A2")
    read = ac.compute(A.shape, lambda i, j: new[i, j] * 2.0, "Z")
    state = schedule(ac.ComputeDAG([A, G, new, read]))
    with pytest.raises(ScheduleError, match="'A2' is an output and must be computed whole"):
        state.compute_at("A2", "Z", "i")
    with pytest.raises(ScheduleError, match="'A2' is an output and must be stored"):
        state.compute_inline("A2")


@st.composite
def searched(draw: st.DrawFn, target: str) -> Schedule:
    """A program of the search's space."""
    dag = draw(updates())
    sketches = design_space(dag, Target.parse(target)).sketches
    sketch = sketches[draw(st.integers(0, len(sketches) - 1))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return replay(dag, steps(sketch, sample(sketch, 1, rng)[0]))


@examples(8, nightly=600, options=OPTIONS)
@given(searched("native"))
def test_programs_of_the_search_keep_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


@examples(4, nightly=300, options=OPTIONS)
@given(searched("cuda -arch=sm_80"))
def test_programs_for_gpus_keep_the_meaning(state: Schedule) -> None:
    complaint = complaint_of(lower(state), Experiment.of(state.dag))
    assert not complaint, complaint
