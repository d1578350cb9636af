"""SQLite's `.recover`: its rows are taken where it works, and nothing is lost without it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ansorc.search.record import Record, Records
from ansorc.search.record.recover_command import find_recover_command, recover_rows
from ansorc.search.record.salvage import salvage
from tests.search.record.damaged_files import COUNT, damage, salvaged_or_refused, written
from tests.support.nightly import sampled

needs_recover = pytest.mark.skipif(
    find_recover_command() is None,
    reason="there is no command sqlite3 whose .recover works (Debian 12's does not)",
)


@needs_recover
@pytest.mark.parametrize("seed", sampled(range(20), range(7)))
def test_recover_loses_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    before = written(tmp_path / "a.db")
    damage(tmp_path / "a.db", seed)
    with_command = salvaged_or_refused(tmp_path / "a.db", tmp_path / "b.db", before)
    monkeypatch.setenv("PATH", "")
    without = salvaged_or_refused(tmp_path / "a.db", tmp_path / "c.db", before)
    assert (with_command is None) == (without is None)
    if with_command is not None and without is not None:
        assert with_command.records >= without.records
        assert with_command.tasks >= without.tasks


@needs_recover
def test_recover_reads_who_won(tmp_path: Path) -> None:
    path, before = write_without_header(tmp_path)
    check_decision(path, before)


def test_what_the_command_prints_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, before = write_without_header(tmp_path)
    fake_command(tmp_path, print_as_recover(tmp_path / "whole.db"), monkeypatch)
    recovered = recover_rows(path)
    assert len(recovered.rows) == COUNT + 4  # two tasks, two machines
    assert [len(rows) for rows in recovered.choices.values()] == [1, 0]
    check_decision(path, before)


def write_without_header(tmp_path: Path) -> tuple[Path, list[Record]]:
    """Write a record file, whole and without its header; return the path of the latter."""
    whole, path = tmp_path / "whole.db", tmp_path / "damaged.db"
    before = written(whole)
    path.write_bytes(b"\0" * 100 + whole.read_bytes()[100:])
    return path, before


def check_decision(path: Path, before: list[Record]) -> None:
    """All records of a file are saved, and who won the contest."""
    output = path.with_name("saved.db")
    saved = salvage(path, output)
    assert (saved.records, saved.tasks) == (COUNT, 2)
    assert saved.losses[-1].startswith("perhaps some of who won the contests")
    with Records.open(output) as records:
        assert records.is_winner(before[1])
        assert len(records.decisions(before[1].task_key)) == 1


def print_as_recover(path: Path) -> bytes:
    """Return what `.recover` prints of a file, the tasks among the rows of lost tables."""
    lines = [b".dbconfig defensive off", b"BEGIN;", b"CREATE TABLE tasks(a TEXT UNIQUE);"]
    lines.append(b"CREATE TABLE lost_and_found(rootpgno, pgno, nfield, id, c0, c1, c2, c3, c4);")
    with closing(sqlite3.connect(path)) as connection:
        for table in ("environments", "records", "winners", "tasks"):
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            values = " || ', ' || ".join(f"quote({name})" for name in names)
            for number, (text,) in enumerate(connection.execute(f"SELECT {values} FROM {table}")):
                line = f"INSERT OR IGNORE INTO '{table}'({', '.join(names)}) VALUES ({text});"
                if table == "tasks":
                    line = f"INSERT INTO lost_and_found VALUES(2, 2, 4, {number}, {text}, NULL);"
                lines.append(line.encode())
    lines.append(b"INSERT OR IGNORE INTO 'winners'(task_key) VALUES ('\xff');")
    lines.append(b"INSERT OR IGNORE INTO 'records'(steps) VALUES (Inf);")
    return b"\n".join([*lines, b"COMMIT;", b""])


def fake_command(tmp_path: Path, printed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `sqlite3` be a program that prints this, whatever file it gets."""
    (tmp_path / "printed.sql").write_bytes(printed)
    program = tmp_path / "bin" / "sqlite3"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/printed.sql\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_without_the_command_all_records_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = write_without_header(tmp_path)
    monkeypatch.setenv("PATH", "")
    saved = salvage(path, tmp_path / "saved.db")
    assert (saved.records, saved.tasks) == (COUNT, 2)
    assert saved.losses[-1].endswith(
        "(a command sqlite3 whose .recover works might still read them)"
    )


def test_a_command_that_cannot_recover_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_command(tmp_path, b"BEGIN;\nPRAGMA writable_schema = on;\n", monkeypatch)
    assert find_recover_command() is None
    path, _ = write_without_header(tmp_path)
    assert recover_rows(path).rows == []
    assert salvage(path, tmp_path / "saved.db").records == COUNT
