"""Whole record files: joined, rid of what is stale, held against what was written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ansorc.errors import RecordError
from ansorc.search.record.database import COLUMNS, FIELDS, ROW_FAULTS
from ansorc.search.record.record import Environment, current_version
from ansorc.search.record.salvage import is_record, is_task, salvage
from ansorc.search.record.schema import (
    SET_ASIDE,
    SQLITE_FAULTS,
    DamageError,
    address,
    connect,
    in_words,
    transaction,
    translated,
)

_BETTER = """(ifnull({0}.failure IN ('wrong result', 'crash'), 0), {0}.checked, {0}.created)"""
_NEW_PAIRS = """
CREATE TEMP TABLE new_pairs AS
SELECT DISTINCT task_key, environment_key FROM source.records
EXCEPT SELECT DISTINCT task_key, environment_key FROM main.records
"""
_MERGE = (
    "INSERT OR IGNORE INTO main.tasks SELECT * FROM source.tasks",
    "INSERT OR IGNORE INTO main.environments SELECT * FROM source.environments",
    f"""
    INSERT INTO main.records (id, {FIELDS})
    SELECT id + :offset, {FIELDS} FROM source.records WHERE true ORDER BY id
    ON CONFLICT (task_key, program_key, environment_key) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in FIELDS.split(", ")[5:])}
    WHERE {_BETTER.format("excluded")} > {_BETTER.format("records")}
    """,
    """
    INSERT OR REPLACE INTO main.winners
    SELECT task_key, environment_key, program_key, last_id + :offset
    FROM source.winners JOIN new_pairs USING (task_key, environment_key)
    """,
    """
    INSERT OR IGNORE INTO main.kernel_threads
    SELECT task_key, environment_key, program_key, threads
    FROM source.kernel_threads JOIN new_pairs USING (task_key, environment_key)
    """,
)
"""`winners` and threads are taken of what was not there: they say nothing of programs of others."""


_CACHE_KB = 256 * 1024
"""The indexes of a large output, whose pages would be written again and again with less."""


@dataclass(frozen=True)
class MergeSummary:
    """What came of merging one file into another."""

    path: Path
    read: int
    """Records that the file has."""
    added: int
    """Those that were not there."""
    notes: tuple[str, ...]
    """What was lost of a damaged file."""


def merge(output: Path, files: Sequence[Path]) -> list[MergeSummary]:
    """Add what the record `files` hold to the one at `output`, which is made if it is missing.

    Of a program that two have in one environment the record stays that failed with a crash or a
    wrong result, else the one that was checked, else the later one: the order of merging does not
    matter, except that winners and threads come from the first file that has the task in an
    environment. What is readable of a damaged file is taken. `files` are not changed. Raise
    RecordError for what is not a record file; then nothing of it is in `output`.
    """
    for path in files:
        if path.resolve() == output.resolve():
            raise RecordError(f"{path} would be merged into itself; give another output")
        with suppress(DamageError):
            connect(path, create=False, read_only=True)[0].close()
    connection, _ = connect(output, create=True)
    with closing(connection):
        connection.execute(f"PRAGMA cache_size = {-_CACHE_KB}")
        return [_merged(connection, output, path) for path in files]


def _merged(connection: sqlite3.Connection, output: Path, path: Path) -> MergeSummary:
    with _current(path) as (source, notes), translated(output):
        connection.execute("ATTACH DATABASE ? AS source", (address(source, "mode=ro"),))
        try:
            with transaction(connection):
                before = _count(connection, "main")
                last = "SELECT max(ifnull(max(id), 0), (SELECT ifnull(max(seq), 0) FROM "
                last += "main.sqlite_sequence WHERE name = 'records')) FROM main.records"
                offset = {"offset": connection.execute(last).fetchone()[0]}
                connection.execute(_NEW_PAIRS)
                for statement in _MERGE:
                    connection.execute(statement, offset if ":offset" in statement else {})
                connection.execute("DROP TABLE new_pairs")
                added = _count(connection, "main") - before
            return MergeSummary(path, _count(connection, "source"), added, notes)
        finally:
            connection.execute("DETACH DATABASE source")


def _count(connection: sqlite3.Connection, schema: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {schema}.records").fetchone()[0])


@contextmanager
def _current(path: Path) -> Generator[tuple[Path, tuple[str, ...]]]:
    """A file of this version that holds what the record file `path` does, and what was lost."""
    with TemporaryDirectory() as directory:
        copy = Path(directory) / "copy.db"
        reader, complaint = _read(path)
        with closing(reader):
            if complaint:
                words = salvage(path, copy).sentence
                yield copy, (f"{path} is damaged ({complaint}): {words}",)
            elif _is_own_file(reader) and os.access(path.parent, os.W_OK):
                yield path, ()
            else:  # one of an earlier version, or where SQLite can put no locks beside it
                with closing(sqlite3.connect(copy)) as writer:
                    reader.backup(writer)
                yield copy, ()


def _read(path: Path) -> tuple[sqlite3.Connection, str]:
    """A connection that reads `path`, and what is wrong with it; an empty one if it is too bad."""
    try:
        reader, _ = connect(path, create=False, read_only=True)
    except DamageError as error:
        return sqlite3.connect(""), error.words
    return reader, _complaint(reader)


def _is_own_file(reader: sqlite3.Connection) -> bool:
    """Whether it reads the file that was asked for, not a copy that was brought up to date."""
    return bool(reader.execute("PRAGMA database_list").fetchone()[2])


def _complaint(reader: sqlite3.Connection) -> str:
    """What SQLite finds wrong with the pages, in one line; nothing if they are well."""
    try:
        found = [str(row[0]) for row in reader.execute("PRAGMA quick_check(1)")]
    except SQLITE_FAULTS as error:
        return in_words(error)
    return "" if found == ["ok"] else " ".join(" ".join(found).split())[:200]


@dataclass(frozen=True)
class Stale:
    """Records that are of no use any more, by the reason."""

    set_aside: int
    """Of another definition than the one in the file: no task finds them."""
    versions: Mapping[str, int]
    """Measured by another ansorc or compiler than this one: how many, by that version."""

    @property
    def count(self) -> int:
        """Return all of them."""
        return self.set_aside + sum(self.versions.values())


def stale(path: Path) -> Stale:
    """Return what `prune` would drop of the record file `path`."""
    reader, _ = connect(path, create=False, read_only=True)
    with translated(path), closing(reader):
        return _stale(reader)


def prune(path: Path) -> Stale:
    """Drop what is stale from the record file `path`, and what only that refers to; make it small.

    Return what was dropped. A winner goes with its record; then the fastest one is the best.
    """
    connection, _ = connect(path, create=False)
    with translated(path), closing(connection):
        with transaction(connection):
            found = _stale(connection)
            for statement in _PRUNE:
                connection.execute(statement, _kept() if ":version" in statement else {})
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return found


_ASIDE = f"task_key LIKE '{SET_ASIDE}%'"
_PRUNE = (
    f"DELETE FROM records WHERE {_ASIDE} OR version != :version",
    """
    DELETE FROM winners WHERE NOT EXISTS (SELECT 1 FROM records WHERE
        records.task_key = winners.task_key AND records.program_key = winners.program_key
        AND records.environment_key = winners.environment_key)
    """,
    """
    DELETE FROM kernel_threads WHERE NOT EXISTS (SELECT 1 FROM records WHERE
        records.task_key = kernel_threads.task_key
        AND records.program_key = kernel_threads.program_key
        AND records.environment_key = kernel_threads.environment_key)
    """,
    "DELETE FROM tasks WHERE key NOT IN (SELECT task_key FROM records)",
    "DELETE FROM environments WHERE key NOT IN (SELECT environment_key FROM records)",
)


def _kept() -> dict[str, str]:
    return {"version": current_version()}


def _stale(connection: sqlite3.Connection) -> Stale:
    aside = connection.execute(f"SELECT count(*) FROM records WHERE {_ASIDE}").fetchone()[0]
    query = f"SELECT version, count(*) FROM records WHERE NOT {_ASIDE} AND version != :version "
    rows = connection.execute(f"{query} GROUP BY version ORDER BY version", _kept())
    return Stale(int(aside), {str(version): int(count) for version, count in rows})


@dataclass(frozen=True)
class FileCheck:
    """What became of a record file since it was written."""

    path: Path
    records: int
    tasks: int
    faults: tuple[str, ...]
    """What is wrong with it, for people; nothing if every row is what was written."""


def verify(path: Path) -> FileCheck:
    """Hold every page and every row of the record file `path` against what was written.

    Keys are hashes of what they stand for, so a changed byte of a program or task is found; of a
    time it is not. Raise RecordError for what is not a record file or cannot be read.
    """
    reader, complaint = _read(path)
    with closing(reader):
        if complaint:
            return FileCheck(path, 0, 0, (complaint,))
        try:
            return _row_check(reader, path)
        except SQLITE_FAULTS as error:
            return FileCheck(path, 0, 0, (in_words(error),))


def _row_check(reader: sqlite3.Connection, path: Path) -> FileCheck:
    faults: list[str] = []
    tasks = reader.execute("SELECT * FROM tasks").fetchall()
    bad_tasks = sum(not is_task(tuple(row), is_checked=True) for row in tasks)
    environments = reader.execute("SELECT key, json FROM environments").fetchall()
    bad_environments = sum(not _is_environment(key, text) for key, text in environments)
    query = f"SELECT {COLUMNS} FROM records LEFT JOIN environments ON key = environment_key"
    count = bad_records = 0
    for row in reader.execute(query):
        count += 1
        bad_records += not is_record(tuple(row))
    for found, what in ((bad_records, "records"), (bad_tasks, "tasks"),
                        (bad_environments, "environments")):  # fmt: skip
        if found:
            faults.append(f"{found} {what} are not what was written")
    if reader.execute(_MISCOUNTED).fetchone():
        faults.append("the numbers of records are not what was written")
    return FileCheck(path, count, len(tasks), tuple(faults))


_COUNTED = (
    "SELECT task_key, environment_key, count(*), count(median_s) FROM records GROUP BY 1, 2",
    "SELECT * FROM totals WHERE programs",
)
_MISCOUNTED = " UNION ALL ".join(
    f"SELECT * FROM (SELECT * FROM ({one}) EXCEPT {other})"
    for one, other in (_COUNTED, _COUNTED[::-1])
)


def _is_environment(key: str, text: str) -> bool:
    try:
        return Environment.from_json(text).key == key
    except ROW_FAULTS:
        return False
