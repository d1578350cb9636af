"""Stages inlined in their readers: short values are written out, long ones are temporaries."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansorc.lang as ac
from ansorc.errors import ScheduleError
from ansorc.ir.buffer import Scope
from ansorc.ir.expr import Load
from ansorc.ir.node import walk
from ansorc.ir.stmt import Allocate, statements
from ansorc.schedule import Schedule, inlining, lower, schedule
from ansorc.schedule.inlining import inline_op, is_short_inlined, node_count
from tests.schedule.meaning import keeps_the_meaning
from tests.support.dag_strategies import dags
from tests.support.element_chains import chain
from tests.support.schedule_strategies import schedules

Step = Callable[[ac.Tensor, ac.Scalar], ac.Scalar]


def pair(first: Step, second: Step, *, extent: int = 8) -> ac.ComputeDAG:
    """u of t of x, each a function of the tensor before it and an index."""
    x = ac.placeholder((extent,), "x")
    t = ac.compute((extent,), lambda i: first(x, i), "t")
    return ac.ComputeDAG([x, ac.compute((extent,), lambda i: second(t, i), "u")])


def inline_all(dag: ac.ComputeDAG) -> Schedule:
    state = schedule(dag)
    for op in reversed(dag.ops[:-1]):
        state = state.compute_inline(op.name)
    return state


def many(v: Any, count: int = 30) -> Any:
    """A value of many nodes."""
    for _ in range(count):
        v = v * 0.5 + 0.25
    return v


def held(state: Schedule) -> list[str]:
    """The names of the temporaries of the last stage."""
    return [temporary.buffer.name for temporary in state.stages[-1].op.temporaries]


def test_what_is_short_is_written_out() -> None:
    state = inline_all(pair(lambda x, i: x[i] + 1.0, lambda t, i: t[i] * t[i]))
    assert held(state) == []
    assert not any(isinstance(part, Allocate) for part in statements(lower(state).body))


def test_what_is_long_is_computed_once() -> None:
    state = inline_all(pair(lambda x, i: many(x[i], 60), lambda t, i: t[i] * t[i] + t[i]))
    assert held(state) == ["t.in.u"]
    function = lower(state)
    (allocation,) = [part for part in statements(function.body) if isinstance(part, Allocate)]
    assert (allocation.buffer.shape, allocation.buffer.scope) == ((), Scope.LOCAL)
    keeps_the_meaning(state)


def test_many_temporaries_are_one_array() -> None:
    state = inline_all(chain("celu", 60))
    assert len(held(state)) > 20
    allocated = [part for part in statements(lower(state).body) if isinstance(part, Allocate)]
    assert [each.buffer.shape for each in allocated] == [(len(held(state)),)]
    keeps_the_meaning(inline_all(chain("celu", 14)))


def test_what_may_not_exist_is_not_computed_before() -> None:
    def guarded(t: Any, i: Any) -> Any:
        return ac.if_then_else(i >= 1, t[i - 1] * t[i - 1], 0.0)

    state = inline_all(pair(lambda x, i: many(x[i], 60), guarded))
    assert held(state) == []
    keeps_the_meaning(state)


@pytest.mark.parametrize("is_in_both", [True, False])
def test_what_only_one_arm_needs_is_not_computed_before(*, is_in_both: bool) -> None:
    def guarded(t: Any, i: Any) -> Any:
        return ac.if_then_else(i >= 1, t[i] * t[i], t[i] if is_in_both else 0.0)

    state = inline_all(pair(lambda x, i: many(x[i], 60), guarded))
    assert held(state) == (["t.in.u"] if is_in_both else [])
    keeps_the_meaning(state)


def test_terms_of_reductions_have_no_temporaries() -> None:
    x, k = ac.placeholder((4, 8), "x"), ac.reduce_axis(8, "k")
    t = ac.compute((4, 8), lambda i, j: many(x[i, j], 60), "t")
    s = ac.compute((4,), lambda i: ac.sum(t[i, k] * t[i, k], axis=k), "s")
    state = inline_all(ac.ComputeDAG([x, s]))
    assert held(state) == []
    keeps_the_meaning(state)
    assert not is_short_inlined(*reversed(ac.ComputeDAG([x, s]).ops))


def test_what_has_temporaries_is_inlined_in_turn() -> None:
    """Forwards, so that temporaries go from reader to reader, under names of their own."""
    state = schedule(chain("mish", 12))
    for op in state.dag.ops[:-1]:
        state = state.compute_inline(op.name)
    assert len(held(state)) == len(set(held(state))) > 4
    keeps_the_meaning(state)


def test_temporaries_are_written_out_where_they_cannot_come_first() -> None:
    x = ac.placeholder((8,), "x")
    t = ac.compute((8,), lambda i: many(x[i], 40), "t")
    u = ac.compute((8,), lambda i: t[i] * t[i] + t[i], "u")
    v = ac.compute((8,), lambda i: ac.if_then_else(i > 1, u[i - 2], x[i]), "v")
    state = schedule(ac.ComputeDAG([x, v])).compute_inline("t").compute_inline("u")
    assert held(state) == []
    keeps_the_meaning(state)


def test_nothing_is_repeated_without_end() -> None:
    x, k = ac.placeholder((8, 8), "x"), ac.reduce_axis(8, "k")
    t = x
    for number in range(20):
        t = ac.compute((8, 8), lambda i, j, t=t: t[i, j] * t[i, j] + 1.0, f"t{number}")
    s = ac.compute((8,), lambda i: ac.sum(t[i, k], axis=k), "s")
    state = schedule(ac.ComputeDAG([x, s]))
    words = "'s' would repeat more than 65536 expressions of 't"

    def inline_each() -> None:
        made = state
        for number in reversed(range(20)):
            made = made.compute_inline(f"t{number}")

    with pytest.raises(ScheduleError, match=words):
        inline_each()


def test_the_same_pair_is_inlined_once() -> None:
    source, reader = pair(lambda x, i: many(x[i], 60), lambda t, i: t[i] * t[i]).ops
    assert inline_op(reader, source) is inline_op(reader, source)
    made = inline_op(reader, source)
    assert made is not None
    assert [load.buffer.name for load in made.loads] == ["x"] * len(made.loads)
    assert max(map(node_count, made.parts)) == node_count(source.body)


_OPTIONS = settings(
    deadline=None,
    database=None,
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ),
)


def keep_the_meaning(examples: int, most: int) -> None:
    """Inline what can be in random programs, under limits that make of almost all temporaries."""

    @settings(_OPTIONS, max_examples=examples)
    @given(schedules(dags(), most=most), st.randoms(use_true_random=False))
    def each(state: Schedule, random: Random) -> None:
        names = [stage.name for stage in state.stages if not stage.is_inlined]
        random.shuffle(names)
        for name in names:
            try:
                state = state.compute_inline(name)
            except ScheduleError:
                continue
        keeps_the_meaning(state)

    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MOST_WRITTEN_OUT", 4), ("_SHORT", 2), ("_VALUE", 8)):
            patch.setattr(inlining, name, value)
        each()


def test_any_schedule_keeps_the_meaning_with_temporaries() -> None:
    keep_the_meaning(10, 8)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_thousands_of_schedules_with_temporaries() -> None:
    keep_the_meaning(2000, 12)


def test_loads_of_temporaries_are_no_reads() -> None:
    state = inline_all(chain("celu", 12))
    op = state.stages[-1].op
    assert {buffer.name for buffer in op.reads} == {"x"}
    names = {part.buffer.name for part in op.nodes() if isinstance(part, Load)}
    assert names > {"x"}
    assert sum(1 for part in op.parts for _ in walk(part)) < 2000
    np.testing.assert_equal(len(op.parts), len(op.temporaries) + 1)
