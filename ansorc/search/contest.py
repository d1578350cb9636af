"""Contest: which of a few good programs is the fastest, decided by times taken in turns.

The machine's speed changes from second to second by more than good programs differ. So programs
are timed in turns, and the quotients of times that belong together are compared: what disturbs a
machine for longer than a turn cancels.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansorc.search.machines import TaskMeasurer
from ansorc.search.measure import Failure, Measurement, Outcome, ProgramText
from ansorc.search.record import Environment, Record, Records

CONTENDERS = 4
"""The fastest programs, which are timed against each other at the end of a run."""
_COMPARABLE = 4.0
"""The default program takes part unless it is this many times slower than the fastest."""
_ATTEMPTS = 8
_LIMIT_S = 3.0
"""No further attempt is made after so long."""
_QUIET_SPREAD = 0.1
"""Spread of the winner, and its distance from the best time known before, as shares of its time:
above this the machine was busy with something else."""
_FAR = 1.25
"""A program that once took so many times less than the leader did is not beaten by it: something
disturbs it alone, such as another machine's work in a cache that both use."""
_CERTAIN = 2.6
"""Standard deviations of the sign test by which one program must be faster: 99 %."""
_EQUAL = 0.005
"""Programs whose times are known to differ by less than this share are equally fast."""


@dataclass(frozen=True)
class Ranking:
    """The result of a contest."""

    ranked: Mapping[ProgramText, Measurement]
    """The winner first, then those that it beat, the last first out."""
    failed: Mapping[ProgramText, Failure]
    """Programs that were right before and are not now."""
    margin: float = 0.0
    """By what share of the winner's time the second one was slower, the median over all turns."""
    margin_error: float = 0.0
    """The margin is known to plus or minus this much, with 99 % certainty."""
    disturbed: frozenset[ProgramText] = frozenset()
    """Those of `ranked` that something disturbed in all attempts: earlier times say how fast they
    are."""


@dataclass(frozen=True)
class Lead:
    """How much slower one program is than another: quotient of times minus 1."""

    low: float
    median: float
    high: float

    @property
    def is_decided(self) -> bool:
        """Whether the one is certainly slower, or certainly not by much."""
        return self.low > 0.0 or (self.high < _EQUAL and self.low > -_EQUAL)


def lead(winner: Sequence[float], other: Sequence[float]) -> Lead:
    """Return by how much `other` is slower than `winner`, timed in the same turns.

    The bounds are order statistics of the quotients (a sign test): no distribution is assumed.
    """
    quotients = sorted(
        theirs / mine - 1.0 for mine, theirs in zip(winner, other, strict=True) if mine
    )
    count = len(quotients)
    reach = max(0, int(count / 2 - _CERTAIN * math.sqrt(count) / 2))
    return Lead(quotients[reach], statistics.median(quotients), quotients[count - 1 - reach])


def contest(
    measurer: TaskMeasurer,
    candidates: Sequence[ProgramText],
    known_s: Sequence[float],
    clock: Callable[[], float] = time.monotonic,
    limit_s: float = math.inf,
) -> Ranking:
    """Time `candidates` against each other, again while it is not decided or was not quiet.

    No further attempt is made after `limit_s`, or a few seconds.

    `known_s` are the times that they had before. Who is certainly slower than the leader is out,
    unless it was far faster before. What disturbs a program only makes it slower, so of its results
    the fastest is returned. Candidates that cannot be timed are left out.
    """
    entered = list(candidates)
    rounds, begin = _Rounds(dict(zip(candidates, known_s, strict=True))), clock()
    for _ in range(_ATTEMPTS):
        rounds.add(dict(zip(entered, measurer.rank(entered), strict=True)))
        entered = rounds.list_undecided(entered)
        if not entered or rounds.is_over(entered, clock() - begin, limit_s):
            break
    return rounds.ranking(entered)


class _Rounds:
    """The rounds that were held so far."""

    def __init__(self, known_s: Mapping[ProgramText, float]) -> None:
        self._known_s = known_s
        self._turns: dict[ProgramText, list[float]] = {}
        self._best: dict[ProgramText, Measurement] = {}
        self._failed: dict[ProgramText, Failure] = {}
        self._out: list[ProgramText] = []

    def add(self, outcomes: Mapping[ProgramText, Outcome | None]) -> None:
        """Take the outcomes of one attempt."""
        for program, outcome in outcomes.items():
            if isinstance(outcome, Failure):
                self._failed[program] = outcome
            elif outcome is not None:
                self._turns.setdefault(program, []).extend(outcome.seconds)
                best = self._best.setdefault(program, outcome)
                if outcome.median_s < best.median_s:
                    self._best[program] = outcome

    def list_undecided(self, entered: Sequence[ProgramText]) -> list[ProgramText]:
        """Those of `entered` that may still win, the leader first."""
        left = [program for program in entered if program not in self._failed]
        timed = [program for program in left if program in self._turns]
        timed.sort(key=lambda program: statistics.median(self._turns[program]))
        disturbed = self._list_disturbed(timed)
        beaten = [
            program
            for program in timed[1:]
            if program not in disturbed and self._lead(timed[0], program).low > 0.0
        ]
        self._out += reversed(beaten)
        return [program for program in timed if program not in beaten] + [
            o for o in left if o not in timed
        ]

    def is_over(self, entered: Sequence[ProgramText], elapsed_s: float, limit_s: float) -> bool:
        """Return whether another attempt would add nothing, or come too late."""
        if elapsed_s > limit_s:
            return True
        if not all(program in self._turns for program in entered):
            return False
        leads = [self._lead(entered[0], other) for other in entered[1:]]
        is_clear = all(program.is_decided for program in leads) and self._is_quiet(entered[0])
        return is_clear or elapsed_s > _LIMIT_S

    def ranking(self, entered: Sequence[ProgramText]) -> Ranking:
        """Return the result; those of `entered` are not beaten, the leader comes first."""
        timed = [
            program for program in entered if program in self._turns and program not in self._failed
        ]
        disturbed = sorted(self._list_disturbed(timed), key=self._known_s.__getitem__)
        ranked = [*disturbed, *(program for program in timed if program not in disturbed)]
        ranked += [program for program in reversed(self._out) if program not in self._failed]
        is_known = len(ranked) > 1 and not disturbed
        second = self._lead(ranked[0], ranked[1]) if is_known else Lead(0.0, 0.0, 0.0)
        return Ranking(
            {program: self._best[program] for program in ranked},
            dict(self._failed),
            second.median,
            (second.high - second.low) / 2,
            frozenset(disturbed),
        )

    def _list_disturbed(self, timed: Sequence[ProgramText]) -> list[ProgramText]:
        """Those that were far faster before than the leader, the first of `timed`, ever was."""
        if not timed:
            return []
        known, leader = self._known_s, timed[0]
        leader_s = min(known[leader], self._best[leader].median_s)
        return [program for program in timed[1:] if _FAR * known[program] < leader_s]

    def _is_quiet(self, winner: ProgramText) -> bool:
        """Return whether the winner's time is what it takes on an idle machine."""
        measurement = self._best[winner]
        is_steady = measurement.spread_s <= _QUIET_SPREAD * measurement.median_s
        best_s = min(self._known_s.values())
        return is_steady and measurement.median_s <= (1 + _QUIET_SPREAD) * best_s

    def _lead(self, winner: ProgramText, other: ProgramText) -> Lead:
        """The lead in the turns that both were in: who is out has had fewer."""
        theirs = self._turns[other]
        return lead(self._turns[winner][: len(theirs)], theirs)


@dataclass(frozen=True)
class Final:
    """Decides which of the recorded programs of a task is the best in an environment."""

    records: Records
    task_key: str
    environment: Environment
    default_key: str
    """The program that is used without tuning, which takes part to be compared with."""

    @property
    def is_decided(self) -> bool:
        """Whether the best record is the winner of a contest, or there is none."""
        best = self.records.best(self.task_key, self.environment)
        return best is None or self.records.is_winner(best)

    def hold(
        self,
        measurer: TaskMeasurer,
        record: Callable[[ProgramText, Outcome], Record],
        limit_s: float = math.inf,
    ) -> Ranking | None:
        """Time the fastest programs against each other: a lucky measuring is no victory.

        `record` writes an outcome down; `limit_s` is that of `contest`. Return None where there is
        nothing to decide.
        """
        if self.is_decided:
            return None
        rivals = self._rivals()
        if len(rivals) == 1:
            self.records.decide(rivals[0])
            return None
        by_source = {rival.program: rival for rival in rivals}
        known_s = [rival.median_s or math.inf for rival in by_source.values()]
        ranking = contest(measurer, list(by_source), known_s, limit_s=limit_s)
        ranked = [
            by_source[program] if program in ranking.disturbed else record(program, measurement)
            for program, measurement in ranking.ranked.items()
        ]
        for program, failure in ranking.failed.items():
            record(program, failure)
        if ranked:
            self.records.decide(ranked[0])
        return ranking

    def _rivals(self) -> list[Record]:
        """The fastest programs, and the default to compare with if it is not far slower."""
        undefeated = self.records.undefeated(self.task_key, self.environment)
        rivals = _distinct(undefeated)[:CONTENDERS]
        limit = _COMPARABLE * (rivals[0].median_s or 0.0)
        return rivals + [
            record
            for record in self.records.all(self.task_key, self.environment)
            if record.program_key == self.default_key
            and record not in rivals
            and record.checked
            and (record.median_s or 0.0) < limit
        ]


def _distinct(records: Sequence[Record]) -> list[Record]:
    """The first one of `records` with the same machine code, in their order.

    A program whose machine code was measured before repeats that outcome to the last digit.
    """
    first_records: dict[tuple[float | None, float], Record] = {}
    for record in records:
        first_records.setdefault((record.median_s, record.spread_s), record)
    return list(first_records.values())
