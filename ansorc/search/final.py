"""Final: the fastest programs of a task compete, and the records remember who won."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansorc.search.contest import Ranking, contest
from ansorc.search.measure import Measurer, MeasureResult
from ansorc.search.record import Environment, Record, Records

_CONTENDERS = 4
"""The fastest programs, which are timed against each other at the end of a run."""
_COMPARABLE = 4.0
"""The default program takes part unless it is this many times slower than the fastest."""


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

    def hold(self, measurer: Measurer, record: Callable[[MeasureResult], Record]) -> Ranking | None:
        """Time the fastest programs against each other: a lucky measuring is no victory.

        `record` writes a result down. Return None where there is nothing to decide.
        """
        if self.is_decided:
            return None
        rivals = self._rivals()
        if len(rivals) == 1:
            self.records.decide(rivals[0])
            return None
        best_s = rivals[0].median_s or math.inf
        ranking = contest(measurer, [rival.candidate for rival in rivals], best_s)
        ranked = [record(result) for result in ranking.ranked]
        for result in ranking.failed:
            record(result)
        if ranked:
            self.records.decide(ranked[0])
        return ranking

    def _rivals(self) -> list[Record]:
        """The fastest programs, and the default to compare with if it is not hopeless."""
        undefeated = self.records.undefeated(self.task_key, self.environment)
        rivals = _distinct(undefeated)[:_CONTENDERS]
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
    found: dict[tuple[float | None, float], Record] = {}
    for record in records:
        found.setdefault((record.median_s, record.spread_s), record)
    return list(found.values())
