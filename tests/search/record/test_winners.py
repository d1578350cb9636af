"""Who won when the best programs were timed against each other, and what that means for `best`."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import asdict, replace
from pathlib import Path

from ansorc.search.record import Record, Records
from tests.search.record.examples import ELSEWHERE, HERE, record_of


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


VERSION_1 = """
CREATE TABLE tasks (
    key TEXT PRIMARY KEY, dag_text TEXT NOT NULL, target_text TEXT NOT NULL, name TEXT NOT NULL
);
CREATE TABLE environments (key TEXT PRIMARY KEY, json TEXT NOT NULL, cpu TEXT NOT NULL);
CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_key TEXT NOT NULL, program_key TEXT NOT NULL, steps TEXT NOT NULL,
    function TEXT NOT NULL,
    environment_key TEXT NOT NULL REFERENCES environments(key),
    median_s REAL, spread_s REAL NOT NULL, repeats INTEGER NOT NULL,
    failure TEXT, message TEXT NOT NULL, checked INTEGER NOT NULL, build_s REAL NOT NULL,
    created REAL NOT NULL, seed INTEGER NOT NULL, version TEXT NOT NULL,
    UNIQUE (task_key, program_key, environment_key)
);
CREATE INDEX records_by_time ON records (task_key, environment_key, median_s);
PRAGMA application_id = 1634628466;
PRAGMA user_version = 1;
"""
VERSION_2 = """
CREATE TABLE winners (
    task_key TEXT NOT NULL, environment_key TEXT NOT NULL, program_key TEXT NOT NULL,
    last_id INTEGER NOT NULL, PRIMARY KEY (task_key, environment_key)
);
PRAGMA user_version = 2;
"""


def old_file(path: Path, script: str) -> list[Record]:
    """A file as an earlier version wrote it, with two records; the slower one is the winner."""
    written = [record_of("t", 1, 1.0), record_of("t", 2, 2.0)]
    before = {name: value for name, value in asdict(HERE).items() if name != "cache"}
    text = json.dumps(before, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.execute("INSERT INTO environments VALUES (?, ?, ?)", (key, text, HERE.cpu))
    for record in written:
        row = (
            record.task_key, record.program_key, record.steps, "", key, record.median_s,
            record.spread_s, record.repeats, None, "", True, record.build_s, record.created,
            record.seed, record.version,
        )  # fmt: skip
        connection.execute(f"INSERT INTO records VALUES (NULL{', ?' * len(row)})", row)
    if "winners" in script:
        row = ("t", key, written[1].program_key, 2)
        connection.execute("INSERT INTO winners VALUES (?, ?, ?, ?)", row)
    connection.commit()
    connection.close()
    return written


def test_a_file_of_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    written = old_file(tmp_path / "a.db", VERSION_1)
    for _ in range(2):
        with Records.open(tmp_path / "a.db") as records:
            assert records.all("t", HERE) == written
            assert records.best("t", HERE) == written[0]
    with Records.open(tmp_path / "a.db") as records:
        records.decide(written[1])
        assert records.is_winner(written[1])


def test_a_file_of_version_2_keeps_its_winners(tmp_path: Path) -> None:
    written = old_file(tmp_path / "a.db", VERSION_1 + VERSION_2)
    with Records.open(tmp_path / "a.db") as records:
        assert records.all("t", HERE) == written
        assert records.best("t", HERE) == written[1]
        assert records.is_winner(written[1])
        assert records.elsewhere("t", HERE).count == 0
        again = replace(written[0], median_s=0.5, run_s=0.25)
        records.add(again)
        assert records.all("t", HERE)[0] == again, "no second record of the same program"
        cold = replace(HERE, cache="cold")
        assert records.best("t", cold) is None


def test_as_many_threads_as_cores_are_all_cores(tmp_path: Path) -> None:
    """A file of version 3 tells them apart: what is in both environments stays as in the first."""
    assert replace(HERE, threads=2) == HERE
    assert replace(HERE, threads=1) != HERE
    path = tmp_path / "a.db"
    both, alone = record_of("t", 1, 1.0), record_of("t", 2, 2.0)
    with Records.open(path) as records:
        records.add(both)
        records.add(alone)
        records.decide(alone)
    connection = sqlite3.connect(path)
    text = json.dumps(asdict(HERE) | {"threads": 2}, sort_keys=True)
    connection.execute("INSERT INTO environments VALUES ('two', ?, 'Test CPU')", (text,))
    query = "INSERT INTO records SELECT NULL, task_key, program_key, steps, function, 'two', 3.0, "
    query += (
        "spread_s, repeats, failure, message, checked, build_s, created, seed, version, run_s, 0 "
    )
    connection.execute(f"{query} FROM records WHERE id = 1")
    connection.execute("UPDATE records SET environment_key = 'two' WHERE id = 2")
    connection.execute("INSERT INTO winners VALUES ('t', 'two', ?, 2)", (both.program_key,))
    connection.execute("ALTER TABLE records DROP COLUMN known")
    for number in range(3):
        connection.execute(f"DROP TRIGGER totals_{number}")
    connection.execute("DROP TABLE totals")
    connection.execute("DROP TABLE kernel_threads")
    connection.execute("PRAGMA user_version = 3")
    connection.commit()
    connection.close()
    for _ in range(2):
        with Records.open(path) as records:
            assert sorted(records.all("t", HERE), key=lambda r: r.median_s or 0) == [both, alone]
            assert records.is_winner(alone)
            assert records.elsewhere("t", HERE).count == 0
