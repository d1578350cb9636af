"""Any legal schedule computes what the definition says: interpreter, machine code and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from ansorc.ir.printer import to_text
from ansorc.schedule import Schedule, lower, replay, steps_from_json, steps_to_json
from tests.schedule.meaning import keeps_the_meaning
from tests.support.dag_strategies import dags
from tests.support.nightly import examples
from tests.support.schedule_strategies import schedules

"""Weights are packed for a single call."""

Arrays = list[np.ndarray]
_OPTIONS = settings(
    max_examples=80,
    deadline=None,
    database=None,
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ),
)


@examples(30, nightly=80, options=_OPTIONS)
@given(schedules(dags()))
def test_any_legal_schedule_keeps_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@settings(_OPTIONS, max_examples=3000)
@given(schedules(dags(), most=16))
def test_thousands_of_schedules_keep_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


@examples(12, nightly=60, options=_OPTIONS)
@given(schedules(dags()))
def test_steps_replay_to_the_same_loops(state: Schedule) -> None:
    again = replay(state.dag, steps_from_json(steps_to_json(state.steps)))
    assert str(again) == str(state)
    assert to_text(lower(again)) == to_text(lower(state))
