"""Joining record files, and dropping what is stale."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from ansorc.errors import RecordError
from ansorc.search.measure.result import FailureKind
from ansorc.search.record import KernelThreads, Record, Records
from ansorc.search.record.record import current_version
from ansorc.search.record.schema import SET_ASIDE
from ansorc.search.record.upkeep import merge, prune, stale
from tests.search.record.examples import ELSEWHERE, HERE, record_of, task_of

KEY = task_of().key


def file_of(path: Path, *found: Record, winner: Record | None = None) -> Path:
    with Records.open(path) as records:
        records.add_task(task_of())
        for record in found:
            records.add(record)
        if winner is not None:
            records.decide(winner)
    return path


def all_of(path: Path) -> list[Record]:
    with Records.open(path, read_only=True) as records:
        return [one for key in records.task_keys() for one in records.all(key)]


def test_records_keep_their_machines(tmp_path: Path) -> None:
    here, away = record_of(KEY, 1), replace(record_of(KEY, 1, 2e-3), environment=ELSEWHERE)
    files = [file_of(tmp_path / "a.db", here), file_of(tmp_path / "b.db", away)]
    before = [path.read_bytes() for path in files]
    found = merge(tmp_path / "all.db", files)
    assert [(one.read, one.added) for one in found] == [(1, 1), (1, 1)]
    assert all_of(tmp_path / "all.db") == [here, away]
    assert [path.read_bytes() for path in files] == before
    assert [one.added for one in merge(tmp_path / "all.db", files)] == [0, 0]
    with Records.open(tmp_path / "all.db") as records:
        assert [(one.environment, one.programs) for one in records.holdings()] == [
            (environment, 1) for environment in sorted((HERE, ELSEWHERE), key=lambda one: one.key)
        ]
        assert records.task(KEY) == task_of()


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    old = record_of(KEY, 1, 1e-3)
    new = replace(old, median_s=2e-3, created=old.created + 10)
    newest = replace(old, median_s=3e-3, created=old.created + 20, checked=False)
    crash = replace(record_of(KEY, 2, None), created=1.0)
    well = replace(record_of(KEY, 2), created=2.0)
    refused = replace(crash, failure=FailureKind.COMPILE, created=3.0)
    files = [
        file_of(tmp_path / "a.db", old, well),
        file_of(tmp_path / "b.db", new, crash),
        file_of(tmp_path / "c.db", newest, refused),
    ]
    for number, order in enumerate(permutations(files)):
        merge(tmp_path / f"{number}.db", order)
        kept = {one.program_key: one for one in all_of(tmp_path / f"{number}.db")}
        assert kept == {new.program_key: new, crash.program_key: crash}


def test_winners_and_threads_come_from_the_first_file_that_has_the_task(tmp_path: Path) -> None:
    lucky, winner, other = record_of(KEY, 1, 1.0), record_of(KEY, 2, 1.2), record_of(KEY, 3, 1.1)
    away = replace(winner, environment=ELSEWHERE)
    first = file_of(tmp_path / "a.db", lucky, winner, winner=winner)
    second = file_of(tmp_path / "b.db", other, winner=other)
    with Records.open(second) as records:
        records.add(away)
        records.keep_threads(HERE, [KernelThreads(KEY, other.program_key, 1)])
        records.keep_threads(ELSEWHERE, [KernelThreads(KEY, away.program_key, 1)])
    file_of(tmp_path / "all.db", replace(record_of("other", 9)))
    merge(tmp_path / "all.db", [first, second])
    with Records.open(tmp_path / "all.db") as records:
        assert records.undefeated(KEY, HERE) == [other, winner]  # `lucky` lost, `other` did not run
        assert records.is_winner(winner)
        assert records.best(KEY, ELSEWHERE) == away
        assert records.threads(HERE) == {}
        assert set(records.threads(ELSEWHERE)) == {KEY}


def test_a_file_of_an_earlier_version_is_merged_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((Path(__file__).parent / "version_4.sql").read_text())
    connection.close()
    shutil.copy(path, tmp_path / "new.db")
    with Records.open(tmp_path / "new.db") as migrated:
        expected = [one for key in migrated.task_keys() for one in migrated.all(key)]
    before = path.read_bytes()
    merge(tmp_path / "all.db", [path])
    assert all_of(tmp_path / "all.db") == expected
    assert all_of(path) == expected
    assert expected
    assert path.read_bytes() == before


def test_what_is_no_record_file_is_not_merged_at_all(tmp_path: Path) -> None:
    good, bad = file_of(tmp_path / "a.db", record_of(KEY, 1)), tmp_path / "notes.txt"
    bad.write_text("my notes\n" * 900)
    with pytest.raises(RecordError, match="is not a record file"):
        merge(tmp_path / "all.db", [good, bad])
    assert not (tmp_path / "all.db").exists()
    with pytest.raises(RecordError, match="merged into itself; give another output"):
        merge(good, [good])
    with pytest.raises(RecordError, match="there is no record file"):
        merge(tmp_path / "all.db", [tmp_path / "none.db"])


def test_only_what_is_stale_is_dropped(tmp_path: Path) -> None:
    fresh = replace(record_of(KEY, 1), version=current_version())
    old = replace(record_of(KEY, 2, 5e-4), environment=ELSEWHERE)
    aside = replace(record_of(SET_ASIDE + KEY, 3), version=current_version())
    path = file_of(tmp_path / "a.db", fresh, old, aside, winner=old)
    with Records.open(path) as records:
        records.add_task(task_of(99))
        records.keep_threads(ELSEWHERE, [KernelThreads(KEY, old.program_key, 1)])
    found = stale(path)
    assert (found.count, found.set_aside, found.versions) == (2, 1, {"0.1": 1})
    assert len(all_of(path)) == 3
    assert prune(path) == found
    assert all_of(path) == [fresh]
    assert stale(path).count == 0
    with Records.open(path) as records:
        assert records.defined_keys() == [KEY]
        assert records.environments() == [HERE]
        assert records.threads(ELSEWHERE) == {}
        records.add(old)
        assert records.best(KEY, ELSEWHERE) == old  # who won then does not matter any more
