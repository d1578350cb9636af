"""Reductions over states as loops inside the steps of scans: random definitions and schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import LanguageError, OutOfRangeError, ParseError, ScheduleError
from ansorc.ir.printer import to_text
from ansorc.lang import ScanSteps, State, scan_reductions
from ansorc.lang.rounding import evaluate_with_rounding
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.wanted_values import find_wanted_values
from ansorc.schedule import Schedule, lower, replay, schedule
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


def with_loops(make: Callable[[], ac.ComputeDAG], most: int = 1) -> ac.ComputeDAG:
    """Return a definition in which reductions of more than `most` terms are not written out."""
    with mock.patch.object(scan_reductions, "MOST_TERMS", most):
        return make()


@st.composite
def recurrences(draw: st.DrawFn) -> ac.ComputeDAG:
    return with_loops(lambda: _drawn(draw))


def _drawn(draw: st.DrawFn) -> ac.ComputeDAG:
    dtype = draw(st.sampled_from(["float32", "float32", "float64", "int32"]))
    units, count = draw(st.integers(1, 11)), draw(st.integers(1, 4))
    rows = draw(st.sampled_from([(), (1,), (3,)]))
    shape, along = draw(
        st.sampled_from([((count, *rows, units), 0), ((*rows, count, units), len(rows))])
    )
    x = ac.placeholder(shape, "X", dtype)
    w = ac.placeholder((units, units), "W", dtype, constant=draw(st.booleans()))
    weights = w
    if draw(st.booleans()):
        weights = ac.compute((units, units), lambda i, j: w[j, i] + w[i, i], "V")
    kind = draw(st.sampled_from(["sum", "largest", "windows", "own", "two", "both"]))
    layer = Layer(x, weights, along, kind, back=draw(st.booleans()), late=draw(st.booleans()))
    if kind == "two" or (kind == "both" and "float" in dtype):
        made = ac.compute_tuple(shape, layer.two, ["h", "c"])
    else:
        made = (ac.compute(shape, layer.one, "h"),)
    if draw(st.booleans()):
        made = (*made, ac.compute(shape, lambda *i: made[0][i] * 2, "Z"))
    return ac.ComputeDAG([x, w, *made])


@dataclass(frozen=True)
class Layer:
    """Inputs [rows, steps, units] or [steps, rows, units], and what their steps do."""

    x: ac.Tensor
    w: ac.Tensor
    along: int
    kind: str
    back: bool
    late: bool

    @property
    def units(self) -> int:
        return self.x.shape[-1]

    def one(self, *i: Scalar) -> ScanSteps:
        u, others, k = i[-1], self._others(i), ac.reduce_axis(self.units, "k")

        def step(s: State) -> Scalar:
            if self.kind == "largest":
                return self.x[i] + ac.max(s[(*others, k)] - self.w[k, u], axis=k)
            if self.kind == "windows":
                n = ac.reduce_axis(min(self.units, 2), "n")
                terms = s[(*others, (u + n) % self.units)] * self.w[n, k]
                total = ac.sum(terms, axis=[n, k])
                return self.x[i] + (total * 0.125 if total.dtype.is_float else total // 3)
            if self.kind == "own":
                return self.x[i] - ac.sum(s * self.w[u, k], axis=k)
            return self.x[i] - ac.sum(s[(*others, k)] * self.w[k, u], axis=k)

        first = self.x[_first(i, self.along)]
        return ac.scan(first, step, axis=i[self.along], reverse=self.back, exclusive=self.late)

    def two(self, *i: Scalar) -> ScanSteps:
        u, others, k = i[-1], self._others(i), ac.reduce_axis(self.units, "k")

        def step(h: State, c: State) -> tuple[Scalar, Scalar]:
            gate = ac.sum(h[(*others, k)] * self.w[k, u], axis=k)
            other = ac.sum(c[(*others, k)] * self.w[u, k], axis=k)
            if self.kind == "both":
                return ac.tanh(gate + self.x[i]) * c, ac.tanh(other - gate) + c * 0.5
            return gate + self.x[i], other - h

        firsts = ac.const(0, self.x.dtype), self.x[_first(i, self.along)]
        return ac.scan(firsts, step, axis=i[self.along], reverse=self.back)

    def _others(self, i: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        """The indices of a row."""
        return tuple(index for d, index in enumerate(i[:-1]) if d != self.along)


def _first(i: tuple[Scalar, ...], along: int) -> tuple[Scalar | int, ...]:
    """The place `i` at the first step."""
    return (*i[:along], 0, *i[along + 1 :])


@examples(15, nightly=1000, options=OPTIONS)
@given(schedules(recurrences(), most=10))
def test_any_legal_schedule_keeps_the_meaning(state: Schedule) -> None:
    assert ac.ComputeDAG.from_text(state.dag.to_text()) == state.dag
    keeps_the_meaning(state)


@st.composite
def searched(draw: st.DrawFn, target: str) -> Schedule:
    """A program of the search's space."""
    dag = draw(recurrences())
    sketches = design_space(dag, Target.parse(target)).sketches
    sketch = sketches[draw(st.integers(0, len(sketches) - 1))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return replay(dag, steps(sketch, sample(sketch, 1, rng)[0]))


@examples(6, nightly=400, options=OPTIONS)
@given(searched("native"))
def test_programs_of_the_search_keep_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


@examples(4, nightly=200, options=OPTIONS)
@given(searched("cuda -arch=sm_80"))
def test_programs_for_gpus_keep_the_meaning(state: Schedule) -> None:
    complaint = complaint_of(lower(state), Experiment.of(state.dag))
    assert not complaint, complaint


def lstm(count: int, rows: int, units: int) -> ac.ComputeDAG:
    """Hidden state and cell of each step; the gates are input, forget, output and cell."""
    x = ac.placeholder((count, rows, 4 * units), "x")
    w = ac.placeholder((units, 4 * units), "w")
    k = ac.reduce_axis(units, "k")

    def step(t: Scalar, b: Scalar, u: Scalar) -> ScanSteps:
        def cell(h: State, c: State) -> tuple[Scalar, Scalar]:
            gates = [
                x[t, b, u + n * units] + ac.sum(h[b, k] * w[k, u + n * units], axis=k)
                for n in range(4)
            ]
            taken, kept, shown = map(ac.sigmoid, gates[:3])
            new = ac.let(kept * c + taken * ac.tanh(gates[3]))
            return shown * ac.tanh(new), new

        return ac.scan((0.0, 0.0), cell, axis=t)

    hidden, cell = ac.compute_tuple((count, rows, units), step, name=["h", "c"])
    return ac.ComputeDAG([x, w, hidden, cell])


def numpy_lstm(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, units = x.shape[1], len(w)
    h = c = np.zeros((rows, units))
    hidden: list[np.ndarray] = []
    cells: list[np.ndarray] = []
    for inputs in x.astype(np.float64):
        taken, kept, shown, new = np.split(inputs + h @ w, 4, axis=1)
        taken, kept, shown = (1.0 / (1.0 + np.exp(-gate)) for gate in (taken, kept, shown))
        c = kept * c + taken * np.tanh(new)
        h = shown * np.tanh(c)
        hidden.append(h)
        cells.append(c)
    return np.stack(hidden), np.stack(cells)


@pytest.mark.parametrize(("rows", "units"), [(1, 320), (3, 261)])
def test_a_layer_of_any_width(rows: int, units: int) -> None:
    dag = lstm(4, rows, units)
    assert len(dag.op("h").step_sums) == 4
    rng = np.random.default_rng(units)
    x = rng.normal(size=(4, rows, 4 * units)).astype(np.float32)
    w = rng.normal(0.0, 0.1, (units, 4 * units)).astype(np.float32)
    expected = numpy_lstm(x, w)
    for found, wanted in zip(dag.evaluate(x, w), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    for found, wanted in zip(ac.build(dag)(x, w), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("back", [False, True])
def test_as_if_written_out(*, back: bool, late: bool) -> None:
    x, w = ac.placeholder((5, 7), "x"), ac.placeholder((7, 7), "w")
    k = ac.reduce_axis(7, "k")

    def make() -> ac.ComputeDAG:
        def step(t: Scalar, u: Scalar) -> ScanSteps:
            return ac.scan(
                x[0, u],
                lambda s: ac.tanh(ac.sum(s[k] * w[k, u], axis=k) + x[t, u]),
                axis=t, reverse=back, exclusive=late,
            )  # fmt: skip

        return ac.ComputeDAG([x, w, ac.compute((5, 7), step, "h")])

    loops, written = with_loops(make), make()
    assert loops.op("h").step_sums
    assert not written.op("h").step_sums
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=b.shape).astype(np.float32) for b in loops.inputs]
    np.testing.assert_allclose(loops.evaluate(*inputs), written.evaluate(*inputs), rtol=1e-12)
    (bound,), (other,) = (evaluate_with_rounding(dag, inputs)[1] for dag in (loops, written))
    assert bound is not None
    assert other is not None
    assert np.all((bound <= 1.5 * other) & (other <= 4.0 * bound))


def test_equal_reductions_are_computed_once_and_rows_are_tiled() -> None:
    dag = with_loops(lambda: lstm(3, 4, 5))
    assert [each.buffer.name for each in dag.op("h").step_sums] == [f"h.step{n}" for n in range(4)]
    state = schedule(dag).reorder("h", ["b", "t", "u"]).split("h", "b", [2])
    state = state.reorder("h", ["b.0", "t", "b.1", "u"]).parallel("h", "b.0").vectorize("h", "u")
    keeps_the_meaning(state)
    assert "alloc h.step3: float32[2, 5] local" in to_text(lower(state))


def test_what_the_terms_read_may_be_computed_in_the_steps() -> None:
    """A matrix of each step; it is there before the sums, which need all of it."""
    x, w = ac.placeholder((4, 6), "x"), ac.placeholder((4, 6, 6), "w")
    v = ac.compute((4, 6, 6), lambda t, i, j: ac.exp(w[t, j, i]), "v")
    k = ac.reduce_axis(6, "k")

    def make() -> ac.ComputeDAG:
        def step(t: Scalar, u: Scalar) -> ScanSteps:
            return ac.scan(0.0, lambda s: x[t, u] - 0.1 * ac.sum(s[k] * v[t, k, u], axis=k), axis=t)

        return ac.ComputeDAG([x, w, ac.compute((4, 6), step, "h")])

    state = schedule(with_loops(make))
    for moved in (state, state.split("h", "u", [4]).vectorize("h", "u.1")):
        keeps_the_meaning(moved)
        keeps_the_meaning(moved.compute_inline("v"))
        for loop in [each.name for each in moved.stage("h").iterators][:-1]:
            keeps_the_meaning(moved.compute_at("v", "h", loop))


def test_places_that_the_terms_read_are_data() -> None:
    x, w = ac.placeholder((4, 6), "x"), ac.placeholder((9, 6), "w")
    place, k = ac.placeholder((6,), "P", "int32"), ac.reduce_axis(6, "k")

    def step(t: Scalar, u: Scalar) -> ScanSteps:
        return ac.scan(
            0.0, lambda s: x[t, u] + 0.1 * ac.sum(s[k] * w[place[k] + 1, u], axis=k), axis=t
        )

    dag = with_loops(lambda: ac.ComputeDAG([x, w, place, ac.compute((4, 6), step, "h")]))
    assert find_wanted_values(dag) == {"P": (-1, 7)}
    keeps_the_meaning(schedule(dag).vectorize("h", "u"))
    inputs = [np.ones(b.shape, b.dtype.numpy) for b in dag.inputs]
    inputs[2][5] = 8
    with pytest.raises(OutOfRangeError, match="got the index 9 for dimension 0 of 'w'"):
        ac.build(dag)(*inputs)


def test_the_layout_of_what_the_terms_read_stays() -> None:
    x, w = ac.placeholder((4, 5), "x"), ac.placeholder((5, 5), "w", constant=True)
    k = ac.reduce_axis(5, "k")

    def step(t: Scalar, u: Scalar) -> ScanSteps:
        return ac.scan(0.0, lambda s: x[t, u] + ac.sum(s[k] * w[k, u], axis=k), axis=t)

    dag = with_loops(lambda: ac.ComputeDAG([x, w, ac.compute((4, 5), step, "h")]))
    with pytest.raises(ScheduleError, match="reads it in a reduction in its steps"):
        schedule(dag).rewrite_layout("h", "w")


def test_refusals() -> None:
    x, w = ac.placeholder((4, 300), "x"), ac.placeholder((300, 300), "w")
    k, n = ac.reduce_axis(300, "k"), ac.reduce_axis(300, "n")

    def made(step: Callable[[State, Scalar], Scalar]) -> ac.Tensor:
        return ac.compute((4, 300), lambda t, u: ac.scan(0.0, lambda s: step(s, u), axis=t), "h")

    words = "'h' reduces states with a reduction of something else inside"
    with pytest.raises(LanguageError, match=words):
        made(lambda s, u: ac.sum(s[k] * ac.sum(w[n, u], axis=n), axis=k))
    few = ac.reduce_axis(3, "few")
    with pytest.raises(LanguageError, match=words):
        made(lambda s, u: ac.sum(ac.sum(s[k] * w[k, few], axis=k), axis=few))
    starts = ac.placeholder((2,), "P", "int64", range=(0, 300))
    some = ac.reduce_axis((starts[0], starts[1]))
    with pytest.raises(LanguageError, match="'h' reduces states over a range that is data; reduce"):
        made(lambda s, u: ac.sum(s[some] * w[some, u], axis=some))
    hidden = made(lambda s, u: ac.sum(s[k] * w[k, u], axis=k))
    with pytest.raises(LanguageError, match="h"):
        ac.gradient(ac.ops.sum(hidden), [w])
    text = ac.ComputeDAG([x, w, hidden]).to_text()
    for old, new, told in [
        ("over (k: 300)", "over (k: 300, u: 300)", "its terms follow axes of its own"),
        ("= h.step0[]", "= h.step0[] * x[t, k]", "there is no variable 'k' here"),
        ("over (k: 300)", "over (k: 301)", "outside of it"),
    ]:
        assert old in text
        with pytest.raises((LanguageError, ParseError), match=told):
            ac.ComputeDAG.from_text(text.replace(old, new))
