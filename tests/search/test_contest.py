"""Who wins when programs are timed in turns on a machine whose speed changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.search.contest import contest, lead
from ansorc.search.measure import (
    Failure,
    FailureKind,
    Measurement,
    Measurer,
    Outcome,
    ProgramText,
)

TURNS = 31
PROGRAMS = [ProgramText.of_json([number]) for number in range(4)]


class Machine:
    """Ranks programs of known speed; the machine's own speed changes from turn to turn."""

    def __init__(self, *seconds: float, drift: float, noise: float = 0.002, seed: int = 0) -> None:
        self._seconds = dict(zip(PROGRAMS, seconds, strict=False))
        self._rng = np.random.default_rng(seed)
        self._drift, self._noise = drift, noise
        self.entered: list[list[ProgramText]] = []
        self.wrong: set[ProgramText] = set()
        self.disturbed: frozenset[ProgramText] = frozenset()
        self.now = 0.0

    def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
        self.entered.append(list(candidates))
        self.now += 0.5
        speed = 1 + self._drift * self._rng.uniform(0, 1, TURNS)
        return [self._outcome(candidate, speed) for candidate in candidates]

    def hold(self, *known_s: float) -> tuple[list[ProgramText], float]:
        candidates = list(self._seconds)
        known = known_s if len(known_s) > 1 else (known_s or (1.0,)) * len(candidates)
        found = contest(cast("Measurer", self), candidates, known, lambda: self.now)
        self.disturbed = found.disturbed
        assert found.failed.keys() == self.wrong
        assert abs(found.margin) <= 1.0
        return list(found.ranked), found.margin

    def _outcome(self, candidate: ProgramText, speed: np.ndarray) -> Outcome:
        if candidate in self.wrong:
            return Failure.of(FailureKind.WRONG_RESULT, "element 3")
        noise = 1 + self._noise * self._rng.standard_normal(TURNS)
        seconds = self._seconds[candidate] * speed * noise
        return Measurement(tuple(seconds.tolist()), checked=True)


@pytest.mark.parametrize("seed", range(5))
def test_one_percent_is_seen_while_the_speed_changes_by_half(seed: int) -> None:
    machine = Machine(1.03, 1.01, 1.0, 1.5, drift=0.5, seed=seed)
    ranked, margin = machine.hold()
    assert ranked == [PROGRAMS[n] for n in (2, 1, 0, 3)]
    assert margin == pytest.approx(0.01, abs=0.004)
    assert PROGRAMS[3] not in machine.entered[1], "who is beaten is out"


def test_a_quiet_machine_decides_at_once() -> None:
    machine = Machine(1.1, 1.0, drift=0.0)
    assert machine.hold()[0] == [PROGRAMS[1], PROGRAMS[0]]
    assert len(machine.entered) == 1


def test_who_was_far_faster_before_is_not_beaten() -> None:
    machine = Machine(1.2, 1.22, 1.0, drift=0.0)
    assert machine.hold(0.56, 0.55, 1.0)[0] == [PROGRAMS[n] for n in (1, 0, 2)]
    assert machine.disturbed == {PROGRAMS[0], PROGRAMS[1]}
    assert all(len(entered) == 3 for entered in machine.entered)
    assert machine.now > 3.0, "it waits for what disturbs to end"


def test_a_leader_that_was_slow_before_is_as_fast_as_it_is_now() -> None:
    """The machine was busy when the leader was measured first: the other was only luckier then."""
    machine = Machine(0.75, 0.68, drift=0.0)
    assert machine.hold(0.75, 1.0)[0] == [PROGRAMS[1], PROGRAMS[0]]
    assert machine.disturbed == set()


def test_a_lucky_time_does_not_win() -> None:
    machine = Machine(1.05, 1.0, drift=0.0)
    assert machine.hold(0.95, 1.0)[0] == [PROGRAMS[1], PROGRAMS[0]]
    assert machine.disturbed == set()


def test_equally_fast_programs_end_a_contest_too() -> None:
    machine = Machine(1.0, 1.0, drift=0.0, noise=0.0005)
    ranked, margin = machine.hold()
    assert len(ranked) == 2
    assert len(machine.entered) == 1
    assert abs(margin) < 0.001


def test_a_winner_slower_than_it_was_is_timed_again_but_not_for_ever() -> None:
    machine = Machine(1.1, 1.0, drift=0.0)
    machine.hold(0.5)
    assert len(machine.entered) == 7
    assert machine.entered[-1] == [PROGRAMS[1]], "it is alone by then"


def test_who_has_no_time_is_compared_once() -> None:
    machine = Machine(1.0, 1.002, drift=0.5)
    found = contest(cast("Measurer", machine), PROGRAMS[:2], (0.5, 0.5), lambda: machine.now, 0.1)
    assert len(machine.entered) == 1
    assert len(found.ranked) == 2


def test_the_recorded_time_is_that_of_the_least_disturbed_attempt() -> None:
    machine = Machine(1.0, 2.0, drift=0.3)
    found = contest(cast("Measurer", machine), PROGRAMS[:2], [0.5, 0.5], lambda: machine.now)
    again = Machine(1.0, 2.0, drift=0.3)
    best = [again.rank(entered)[0] for entered in machine.entered]
    medians = [outcome.median_s for outcome in best if isinstance(outcome, Measurement)]
    assert next(iter(found.ranked.values())).median_s == min(medians)


def test_a_program_that_turns_out_wrong_fails_and_the_others_go_on() -> None:
    machine = Machine(1.0, 1.2, 1.1, drift=0.1)
    machine.wrong.add(PROGRAMS[0])
    assert machine.hold()[0] == [PROGRAMS[2], PROGRAMS[1]]


def test_nobody_wins_where_all_are_wrong() -> None:
    machine = Machine(1.0, 1.2, drift=0.1)
    machine.wrong |= set(PROGRAMS[:2])
    assert machine.hold() == ([], 0.0)
    assert len(machine.entered) == 1


@given(
    st.lists(st.tuples(st.floats(0.5, 2.0), st.floats(0.5, 2.0)), min_size=1, max_size=80),
    st.floats(0.1, 10.0),
)
def test_a_lead_is_ordered_antisymmetric_and_blind_to_the_machine(
    turns: list[tuple[float, float]], speed: float
) -> None:
    mine, theirs = [a for a, _ in turns], [b for _, b in turns]
    found, back = lead(mine, theirs), lead(theirs, mine)
    assert found.low <= found.median <= found.high
    assert (1 + found.low) * (1 + back.high) == pytest.approx(1.0)
    faster = lead([speed * one for one in mine], [speed * one for one in theirs])
    assert faster.median == pytest.approx(found.median)
    assert not (found.low > 0.0 and back.low > 0.0)
