"""Damaged record files: what is readable is saved, or the file is refused, in a sentence."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ansorc.errors import RecordError
from ansorc.search.record import Record, Records, schema
from ansorc.search.record.salvage import salvage
from ansorc.search.record.upkeep import merge, verify
from tests.search.record.damaged_files import (
    COUNT,
    damage,
    in_one_line,
    salvaged_or_refused,
    written,
)
from tests.search.record.examples import HERE, record_of, task_of
from tests.support.nightly import sampled


@pytest.mark.parametrize("seed", sampled(range(20), range(7)))
def test_damage_of_many_kinds(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20, 220))
def test_damage_of_many_kinds_at_many_places(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


def check(tmp_path: Path, seed: int) -> None:
    """Nothing but a RecordError of one line comes of a damaged file; a few rows are never all."""
    path = tmp_path / "a.db"
    before = written(path)
    damage(path, seed)
    salvaged_or_refused(path, tmp_path / "saved.db", before)
    in_one_line(lambda: _all_of(path))
    in_one_line(lambda: merge(tmp_path / "all.db", [path]))


def _all_of(path: Path) -> None:
    with Records.open(path, read_only=True) as records:
        records.holdings()
        for key in records.task_keys():
            records.all(key)
        records.tasks()


def test_an_intact_file_is_saved_whole(tmp_path: Path) -> None:
    before = written(tmp_path / "a.db")
    assert verify(tmp_path / "a.db").faults == ()
    assert salvage(tmp_path / "a.db", tmp_path / "b.db").sentence == (
        f"saved {COUNT} records of 2 tasks; lost: nothing that is known of"
    )
    with Records.open(tmp_path / "a.db") as old, Records.open(tmp_path / "b.db") as new:
        for key in old.task_keys():
            assert new.all(key) == old.all(key)
            assert new.decisions(key) == old.decisions(key)
    assert sorted(one.program_key for one in before) == sorted(
        one.program_key for key in {one.task_key for one in before} for one in all_of(tmp_path, key)
    )


def all_of(tmp_path: Path, key: str) -> list[Record]:
    with Records.open(tmp_path / "b.db") as new:
        return new.all(key)


def test_a_page_of_zeros_costs_its_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    before = written(path)
    leaf = leaf_of_records(path)
    text = bytearray(path.read_bytes())
    text[leaf * 4096 : (leaf + 1) * 4096] = bytes(4096)
    path.write_bytes(text)
    assert verify(path).faults
    found = salvaged_or_refused(path, tmp_path / "b.db", before)
    assert found is not None
    assert COUNT // 2 < found.records < COUNT
    lost = COUNT - found.records
    assert f"lost: {lost} of {COUNT} records; 1 of " in found.sentence
    assert "pages, of rows or of indexes" in found.sentence


def leaf_of_records(path: Path) -> int:
    """The place of a page that has rows of `records` and of nothing else."""
    text = path.read_bytes()
    for place in range(1, len(text) // 4096):
        page = text[place * 4096 : (place + 1) * 4096]
        if page[0] == 0x0D and page.count(b'["Split"') > 3:
            return place
    raise AssertionError


def test_a_cut_file_keeps_what_stands_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    before = written(path)
    size = path.stat().st_size // 4096
    path.write_bytes(path.read_bytes()[: (size - 2) * 4096 - 100])
    found = salvaged_or_refused(path, tmp_path / "b.db", before)
    assert found is not None
    assert found.records > COUNT // 2
    assert f"the end of the file after {size - 3} of {size} pages" in found.sentence


def test_a_lost_header_is_no_loss_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    before = written(path)
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])
    found = salvaged_or_refused(path, tmp_path / "b.db", before)
    assert found is not None
    assert (found.records, found.tasks) == (COUNT, 2)
    assert "who won the contests, and the threads of kernels in networks" in found.sentence


def test_what_is_only_in_the_log_is_saved(tmp_path: Path) -> None:
    path, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    records = Records.open(path)
    records.add_task(task_of())
    for number in range(30):
        records.add(record_of(task_of().key, number))
    bytes_of = (path.read_bytes(), log.read_bytes())  # as a process that is killed leaves them
    records.close()
    (tmp_path / "killed.db").write_bytes(b"\0" * len(bytes_of[0]))
    (tmp_path / "killed.db-wal").write_bytes(bytes_of[1])
    assert salvage(tmp_path / "killed.db", tmp_path / "b.db").records == 30


def test_a_changed_byte_of_a_program_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    written(path)
    text = path.read_bytes()
    place = text.index(b'"lengths":[77]')
    path.write_bytes(text[:place] + b'"lengths":[78]' + text[place + 14 :])
    assert verify(path).faults == ("1 records are not what was written",)
    assert salvage(path, tmp_path / "b.db").records == COUNT - 1
    assert merge(tmp_path / "all.db", [path])[0].read == COUNT  # SQLite finds nothing wrong


def test_a_damaged_file_is_merged_as_far_as_it_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    written(path)
    leaf = leaf_of_records(path)
    text = bytearray(path.read_bytes())
    text[leaf * 4096] = 0
    path.write_bytes(text)
    (found,) = merge(tmp_path / "all.db", [path])
    assert COUNT // 2 < found.added < COUNT
    (note,) = found.notes
    assert note.startswith(f"{path} is damaged (")
    assert f"saved {found.added} records of 2 tasks; lost: {COUNT - found.added} of" in note


def test_files_of_another_kind_are_refused_in_words(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes\n" * 900)
    with pytest.raises(RecordError, match="is not a record file"):
        verify(notes)
    with pytest.raises(RecordError, match="holds no row of a record file; nothing can be saved"):
        salvage(notes, tmp_path / "b.db")
    with pytest.raises(RecordError, match="is a directory"):
        verify(tmp_path)
    with pytest.raises(RecordError, match="cannot be read"):
        salvage(tmp_path, tmp_path / "b.db")
    with pytest.raises(RecordError, match="is there already; give the path of a new file"):
        salvage(notes, notes)
    (tmp_path / "empty.db").touch()
    assert verify(tmp_path / "empty.db").records == 0
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_locked_file_is_waited_for_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    written(path)
    monkeypatch.setattr(schema, "_BUSY_TIMEOUT_S", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(RecordError, match="in use by another process"):
        verify(path)
    other.execute("ROLLBACK")
    other.close()
    assert not verify(path).faults


def test_a_file_that_may_not_be_changed_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    before = written(path)
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with Records.open(path, read_only=True) as records:
            assert sum(len(records.all(key)) for key in records.task_keys()) == len(before)
            assert records.best(before[1].task_key, HERE) is not None
    finally:
        tmp_path.chmod(0o700)
