"""Tuning in this process: rounds chosen ahead, where the time goes, cold caches."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ansorc.errors import MeasureError
from ansorc.search import machines, tuning_run
from ansorc.search.measure import CachePolicy
from ansorc.search.options import SearchOptions
from ansorc.search.proposals import Proposals
from ansorc.search.record import Record, Records, current_environment
from ansorc.search.tune import tune_task
from ansorc.search.tune_result import RunProgress
from tests.search.small_tasks import MEASURING, Inventing, options, product


def recorded(path: Path) -> list[Record]:
    with Records.open(path, create=False) as records:
        return records.all(product().key, current_environment(1))


def test_what_was_proposed_and_is_not_measured_yet_is_not_proposed_again() -> None:
    search_options = SearchOptions(population=64, generations=1)
    search = Proposals(product(), search_options, np.random.default_rng(0))
    batches = [search.propose(20, set()) for _ in range(3)]
    assert [len(batch) for batch in batches] == [20, 20, 20]
    assert len({program.key for batch in batches for program in batch}) == 60


def test_programs_are_chosen_while_workers_start_and_the_last_of_a_large_round_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    rounds: list[int] = []

    class Watched(Proposals):
        def propose(self, count: int, *known: Any, **how: Any) -> list[Any]:
            threads.append(threading.get_ident())
            rounds.append(count)
            return super().propose(count, *known, **how)

    monkeypatch.setattr(tuning_run, "Proposals", Watched)
    measuring = replace(MEASURING, batch=6)
    trials: list[RunProgress] = []
    wanted = replace(
        options(tmp_path, 24), measuring=measuring, search=SearchOptions(polish_share=0.0)
    )
    result = tune_task(product(), wanted, trials.append)
    assert rounds == [15, 8], "the first round holds the default program, too"
    assert threading.get_ident() not in threads
    assert result.trials == len({r.program_key for r in recorded(tmp_path / "tune.db")}) == 24
    assert [trial.done for trial in trials] == [*range(1, 25)]


@pytest.mark.parametrize(("trials", "wanted"), [(35, [15, 19]), (37, [15, 16, 5])])
def test_a_few_programs_are_measured_with_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: int, wanted: list[int]
) -> None:
    rounds: list[int] = []

    class Watched(Proposals):
        def propose(self, count: int, *known: Any, **how: Any) -> list[Any]:
            rounds.append(count)
            return super().propose(count, *known, **how)

    monkeypatch.setattr(tuning_run, "Proposals", Watched)
    monkeypatch.setattr(machines, "Measurer", Inventing)
    search = SearchOptions(polish_share=0.0)
    tune_task(product(), replace(options(tmp_path, trials), search=search))
    assert rounds == wanted


def test_where_the_time_of_a_run_went(tmp_path: Path) -> None:
    result = tune_task(product(), options(tmp_path, 5))
    spent = result.spent
    parts = spent.start_s, spent.search_s, spent.build_s, spent.run_s, spent.contest_s
    assert min(parts) > 0.0
    assert sum(parts) + spent.rest_s == pytest.approx(spent.total_s)
    assert spent.total_s == result.elapsed_s
    written = recorded(tmp_path / "tune.db")
    assert spent.builds.total_s >= 0.9 * sum(record.build_s for record in written)
    # A program whose machine code ran already is not run again, and which do is up to the CPU.
    assert max(record.run_s for record in written) > 0.0


def test_cold_caches_are_asked_for_recorded_and_not_mixed(tmp_path: Path) -> None:
    warm = options(tmp_path, 2)
    cold = replace(warm, cache="cold")
    tune_task(product(), warm)
    found = tune_task(product(), cold)
    assert found.measured_now == 2
    assert found.best is not None
    assert found.best.environment == current_environment(1, "cold")
    assert any("cache policy; their times were not used" in note for note in found.notes)
    assert tune_task(product(), warm).measured_now == 0
    with pytest.raises(MeasureError, match='cache=\'hot\': there are "warm", "cold", "c'):
        replace(warm, cache=cast("CachePolicy", "hot"))
