"""Contest: which of a few good programs is the fastest, decided while the machine is calm."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.search.measure import Candidate, Measurement, Measurer, MeasureResult

_ATTEMPTS = 8
_CALM = 0.1
"""Spread of the winner, and its distance from the best time known before, as shares of its time:
above this the machine was busy with something else."""


def contest(
    measurer: Measurer, candidates: Sequence[Candidate], best_s: float
) -> list[MeasureResult]:
    """Time `candidates` against each other, the fastest first; again if the machine was not calm.

    `best_s` is the fastest time that one of them had before. What disturbs a program only makes it
    slower, so of a few attempts the one with the fastest winner counts. A candidate that failed is
    left out; the list is empty if all did.
    """
    held: list[list[MeasureResult]] = []
    for _ in range(_ATTEMPTS):
        results = [result for result in measurer.rank(candidates) if result.measurement]
        if not results:
            break
        held.append(results)
        if _is_calm(_winner(results), best_s):
            break
    return min(held, key=_winning_s) if held else []


def _winner(results: Sequence[MeasureResult]) -> Measurement:
    found = results[0].measurement
    assert found is not None
    return found


def _winning_s(results: Sequence[MeasureResult]) -> float:
    return _winner(results).median_s


def _is_calm(winner: Measurement, best_s: float) -> bool:
    is_steady = winner.spread_s <= _CALM * winner.median_s
    return is_steady and winner.median_s <= (1 + _CALM) * best_s
