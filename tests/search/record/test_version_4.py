"""A record file that an earlier ansorc wrote: what it knows is read, and a run goes on from it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ansorc.schedule import lower, replay
from ansorc.search.machines import ThisMachine
from ansorc.search.measure import Failure, FailureKind
from ansorc.search.options import SearchOptions
from ansorc.search.programs import program_of_record
from ansorc.search.record import Environment, Record, Records, current_environment, schema
from ansorc.search.tune_options import TuneOptions
from ansorc.search.tuning_run import TuningRun

WRITTEN = Path(__file__).with_name("version_4.sql")
FASTEST_S = 2.5178609873686818e-06


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file as if it had been written on this machine."""
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.executescript(WRITTEN.read_text())
    here = current_environment(1)
    connection.execute("UPDATE environments SET key = ?, json = ?", (here.key, here.to_json()))
    for table in ("records", "winners"):
        connection.execute(f"UPDATE {table} SET environment_key = ?", (here.key,))
    connection.commit()
    connection.close()
    return tmp_path / "old.db"


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def known(records: Records, environment: Environment | None = None) -> list[Record]:
    (task,) = records.tasks()
    return records.all(task.key, environment)


def test_everything_that_it_holds_is_read(path: Path) -> None:
    assert version_of(path) == 4
    for _ in range(2):
        with Records.open(path) as records:
            (task,) = records.tasks()
            found = known(records, current_environment(1))
            assert (task.name, task.target.text) == ("product", "x86_64-linux-gnu -mcpu=x86-64-v2")
            assert len(found) == len({record.program_key for record in found}) == 8
            assert all(record.checked and record.run_s > 0 for record in found)
            best = records.best(task.key, current_environment(1))
            assert best is not None
            assert best.median_s == FASTEST_S
            assert records.is_winner(best)
            for record in found:
                lower(replay(task.dag, program_of_record(task, record).steps))
    assert version_of(path) == schema.SCHEMA_VERSION


def test_the_environment_is_read_as_it_was_written(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.executescript(WRITTEN.read_text())
    connection.close()
    with Records.open(tmp_path / "old.db") as records:
        assert {(r.environment.cpu, r.environment.cores) for r in known(records)} == {
            ("AMD EPYC", 2)
        }


def test_a_run_goes_on_from_it(path: Path) -> None:
    search = SearchOptions(population=64, generations=1)
    options = TuneOptions(trials=20, threads=1, search=search)
    with Records.open(path) as records, ThisMachine() as workers:
        (task,) = records.tasks()
        found = known(records)
        run = TuningRun(task, options, records, workers)
        assert (run.trials, run.best) == (8, records.best(task.key))
        batch = run.propose(6)
        new = {program.key for program in batch}
        assert len(new) == 6
        assert new.isdisjoint(record.program_key for record in found)
        for program in batch:
            run.take(program, Failure.of(FailureKind.CRASH, "it was not run"))
        assert [record.known for record in known(records)[8:]] == [8] * 6
