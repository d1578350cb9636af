"""Who won when the best programs were timed against each other, and what that means for `best`."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from examples import ELSEWHERE, HERE, record_of

from ansorc.search.record import Records


def test_the_winner_beats_all_older_records(tmp_path: Path) -> None:
    lucky, winner, later = (record_of("t", n, s) for n, s in ((1, 1.0), (2, 1.2), (3, 1.1)))
    with Records.open(tmp_path / "a.db") as records:
        records.add(lucky)
        records.add(winner)
        assert records.best("t", HERE) == lucky
        assert not records.is_winner(winner)
        records.decide(winner)
        assert records.best("t", HERE) == winner
        assert records.undefeated("t", HERE) == [winner]
        assert records.is_winner(winner)
        assert not records.is_winner(lucky)
        records.add(later)
        assert records.undefeated("t", HERE) == [later, winner], "what came later was not compared"
        records.decide(later)
        assert records.undefeated("t", HERE) == [later]


def test_a_decision_is_about_one_task_on_one_machine(tmp_path: Path) -> None:
    here, there = record_of("t", 1, 2.0), replace(record_of("t", 2, 1.0), environment=ELSEWHERE)
    other = record_of("u", 3, 3.0)
    with Records.open(tmp_path / "a.db") as records:
        for record in (here, there, other):
            records.add(record)
        records.decide(here)
        assert records.best("t", ELSEWHERE) == there
        assert records.best("u", HERE) == other
        assert records.best("t") == there


def test_a_file_of_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    path, record = tmp_path / "a.db", record_of("t", 1)
    with Records.open(path) as records:
        records.add(record)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TABLE winners")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    with Records.open(path) as records:
        assert records.all("t") == [record]
        records.decide(record)
        assert records.is_winner(record)
