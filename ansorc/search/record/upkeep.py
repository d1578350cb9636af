"""Whole record files and databases: joined, rid of what is stale, held against what was written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ansorc.errors import RecordError
from ansorc.search.record.database import COLUMNS, FIELDS, ROW_FAULTS, open_store
from ansorc.search.record.record import Environment, current_version
from ansorc.search.record.salvage import is_record, is_task, salvage
from ansorc.search.record.schema import (
    SET_ASIDE,
    SQLITE_FAULTS,
    TABLES,
    DamageError,
    connect,
    in_words,
    transaction,
    translate_errors,
)
from ansorc.search.record.store import FileStore, RecordLocation, RecordStore, RecordUrl

_BETTER = """(
    CASE WHEN {0}.failure IN ('wrong result', 'crash') THEN 1 ELSE 0 END, {0}.checked, {0}.created
)"""
_NEW_PAIRS = """
CREATE TEMP TABLE new_pairs AS
SELECT DISTINCT task_key, environment_key FROM source.records
EXCEPT SELECT DISTINCT task_key, environment_key FROM main.records
"""
_MERGE = (
    _NEW_PAIRS,
    "INSERT INTO main.tasks SELECT * FROM source.tasks WHERE true ON CONFLICT DO NOTHING",
    "INSERT INTO main.environments SELECT * FROM source.environments WHERE true "
    "ON CONFLICT DO NOTHING",
    f"""
    INSERT INTO main.records (id, {FIELDS})
    SELECT id + ?, {FIELDS} FROM source.records WHERE true ORDER BY id
    ON CONFLICT (task_key, program_key, environment_key) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in FIELDS.split(", ")[5:])}
    WHERE {_BETTER.format("excluded")} > {_BETTER.format("records")}
    """,
    """
    INSERT INTO main.winners (task_key, environment_key, program_key, last_id)
    SELECT task_key, environment_key, program_key, last_id + ?
    FROM source.winners JOIN new_pairs USING (task_key, environment_key) WHERE true
    ON CONFLICT (task_key, environment_key)
    DO UPDATE SET program_key = excluded.program_key, last_id = excluded.last_id
    """,
    """
    INSERT INTO main.kernel_threads (task_key, environment_key, program_key, threads)
    SELECT task_key, environment_key, program_key, threads
    FROM source.kernel_threads JOIN new_pairs USING (task_key, environment_key) WHERE true
    ON CONFLICT DO NOTHING
    """,
    "DROP TABLE new_pairs",
)
"""`winners` and threads are taken of what was not there: they say nothing of programs of others."""


@dataclass(frozen=True)
class MergeSummary:
    """The outcome of merging one file into another."""

    path: RecordLocation
    read: int
    """Records that the file has."""
    added: int
    """Those that were not there."""
    notes: tuple[str, ...]
    """Losses of a damaged file."""


def merge(output: RecordLocation, files: Sequence[RecordLocation]) -> list[MergeSummary]:
    """Add what the record `files` hold to the one at `output`, which is made if it is missing.

    Each may be a database, too. Of a program that two have in one environment the record stays that
    failed with a crash or a wrong result, else the one that was checked, else the later one: the
    order of merging does not matter, except that winners and threads come from the first file that
    has the task in an environment. What is readable of a damaged file is taken. `files` are not
    changed. Raise RecordError for what is not a record file; then nothing of it is in `output`.
    """
    for path in files:
        if _is_same(path, output):
            raise RecordError(f"{path} would be merged into itself; give another output")
        with suppress(DamageError):
            open_store(path, read_only=True)[0].close()
    store, _ = open_store(output)
    with closing(store):
        return [_merge(store, path) for path in files]


def _is_same(left: RecordLocation, right: RecordLocation) -> bool:
    if isinstance(left, RecordUrl) or isinstance(right, RecordUrl):
        return left == right
    return left.resolve() == right.resolve()


def _merge(store: RecordStore, path: RecordLocation) -> MergeSummary:
    with _current(path) as (source, notes):
        return MergeSummary(path, *store.merge(source, _MERGE), notes)


def _copy_rows(source: RecordStore, copy: Path) -> None:
    """Write what a database holds to the new record file `copy`.

    Others may write to it meanwhile: what a row refers to is read after it.
    """
    writer, _ = connect(copy, create=True)
    with closing(writer), translate_errors(copy), transaction(writer):
        for table in reversed(TABLES):
            for row in source.each(f"SELECT * FROM {table}"):
                marks = ", ".join("?" * len(row))
                writer.execute(f"INSERT INTO {table} VALUES ({marks})", row)


@contextmanager
def _current(path: RecordLocation) -> Generator[tuple[Path, tuple[str, ...]]]:
    """A file of this version that holds what there is at `path`, and what was lost."""
    with TemporaryDirectory() as directory:
        copy = Path(directory) / "copy.db"
        if isinstance(path, RecordUrl):
            store, _ = open_store(path, read_only=True)
            with closing(store):
                _copy_rows(store, copy)
            yield copy, ()
            return
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
    """Return what SQLite finds wrong with the pages, in one line; nothing if they are well."""
    try:
        complaints = [str(row[0]) for row in reader.execute("PRAGMA quick_check(1)")]
    except SQLITE_FAULTS as error:
        return in_words(error)
    return "" if complaints == ["ok"] else " ".join(" ".join(complaints).split())[:200]


@dataclass(frozen=True)
class Stale:
    """Records that are of no use any more, by the reason."""

    set_aside: int
    """Records of another definition than the one in the file: no task finds them."""
    versions: Mapping[str, int]
    """Measured by another ansorc or compiler than this one: how many, by that version."""

    @property
    def count(self) -> int:
        """Return all of them."""
        return self.set_aside + sum(self.versions.values())


def stale(path: RecordLocation) -> Stale:
    """Return what `prune` would drop of the records at `path`."""
    store, _ = open_store(path, read_only=True)
    with closing(store):
        return _stale(store)


def prune(path: RecordLocation) -> Stale:
    """Drop what is stale from the records at `path`, and what only that refers to.

    A file gets smaller by it. Return what was dropped. A winner goes with its record; then the
    fastest one is the best.
    """
    store, _ = open_store(path, create=False)
    with closing(store):
        stale = _stale(store)
        store.write([(text, _current_only() if "?" in text else ()) for text in _PRUNE])
        store.shrink()
        return stale


_ASIDE = f"task_key LIKE '{SET_ASIDE}%'"
_PRUNE = (
    f"DELETE FROM records WHERE {_ASIDE} OR version != ?",
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


def _current_only() -> tuple[str]:
    return (current_version(),)


def _stale(store: RecordStore) -> Stale:
    ((aside,),) = store.rows(f"SELECT count(*) FROM records WHERE {_ASIDE}")
    query = f"SELECT version, count(*) FROM records WHERE NOT {_ASIDE} AND version != ? "
    rows = store.rows(f"{query} GROUP BY version ORDER BY version", _current_only())
    return Stale(int(aside), {str(version): int(count) for version, count in rows})


@dataclass(frozen=True)
class FileCheck:
    """The state of a record file, beside what was written."""

    path: RecordLocation
    records: int
    tasks: int
    faults: tuple[str, ...]
    """Faults of the file, for people; none if every row is as it was written."""


def verify(path: RecordLocation) -> FileCheck:
    """Hold every page and every row of the records at `path` against what was written.

    Keys are hashes of what they stand for, so a changed byte of a program or task is found; of a
    time it is not. Pages are those of a file. Raise RecordError for what is not a record file or
    cannot be read.
    """
    if isinstance(path, RecordUrl):
        store, _ = open_store(path, read_only=True)
        with closing(store):
            return _row_check(store)
    reader, complaint = _read(path)
    with closing(reader):
        if complaint:
            return FileCheck(path, 0, 0, (complaint,))
        try:
            return _row_check(FileStore(path, reader))
        except RecordError as error:
            words = error.words if isinstance(error, DamageError) else str(error)
            return FileCheck(path, 0, 0, (words,))


def _row_check(store: RecordStore) -> FileCheck:
    faults: list[str] = []
    tasks = store.rows("SELECT * FROM tasks")
    bad_tasks = sum(not is_task(row, is_checked=True) for row in tasks)
    environments = store.rows("SELECT key, json FROM environments")
    bad_environments = sum(not _is_environment(key, text) for key, text in environments)
    query = f"SELECT {COLUMNS} FROM records LEFT JOIN environments ON key = environment_key"
    count = bad_records = 0
    for row in store.each(query):
        count += 1
        bad_records += not is_record(row)
    for bad, what in ((bad_records, "records"), (bad_tasks, "tasks"),
                        (bad_environments, "environments")):  # fmt: skip
        if bad:
            faults.append(f"{bad} {what} are not what was written")
    if store.rows(_MISCOUNTED):
        faults.append("the numbers of records are not what was written")
    return FileCheck(store.place, count, len(tasks), tuple(faults))


_COUNTED = (
    "SELECT task_key, environment_key, count(*), count(median_s) FROM records GROUP BY 1, 2",
    "SELECT * FROM totals WHERE programs > 0",
)
_MISCOUNTED = " UNION ALL ".join(
    f"SELECT * FROM (SELECT * FROM ({one}) AS one EXCEPT {other}) AS more"
    for one, other in (_COUNTED, _COUNTED[::-1])
)


def _is_environment(key: str, text: str) -> bool:
    try:
        return Environment.from_json(text).key == key
    except ROW_FAULTS:
        return False
