"""The tables of a record file, and the one place where SQLite's errors become ours.

A file of an earlier version is brought up to date when it is opened, by those of `MIGRATIONS` that
it has not seen; nothing that was recorded is lost.
"""

from __future__ import annotations

import errno
import fcntl
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ansorc.errors import AnsorcError, RecordError
from ansorc.schedule import Names
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.record.record import Environment, Record
from ansorc.search.task import Task

SET_ASIDE = "of another definition: "
"""The prefix of the task's key of a record whose names the stored definition does not have."""


def name_canonically(connection: sqlite3.Connection) -> str:
    """Give tasks and programs the keys, and steps the names, that follow from the computation.

    Return what was done, for the user. Programs that were recorded for another definition of the
    computation than the one that the file holds cannot be translated: they stay in the file, but
    are not found by a task. A loop program without steps stays what it is.
    """
    counts = {True: 0, False: 0}
    for row in connection.execute("SELECT * FROM tasks").fetchall():
        task = Task.from_texts(*row[1:])
        names = Names(task.dag)
        query = "SELECT id, program_key, steps FROM records WHERE task_key = ? AND function = ''"
        for number, key, steps in connection.execute(query, row[:1]).fetchall():
            program = _translate(names, steps)
            counts[program is not None] += 1
            _rewrite(connection, row[0], (number, key), program)
        _move(connection, row[0], task.key)
    if not any(counts.values()):
        return ""
    words = f"{counts[True]} programs of an earlier ansorc now have names that fit every definition"
    if counts[False]:
        words += (
            f"; {counts[False]} were recorded for another definition than the one in the file and "
            "cannot be translated: they are kept, but not used"
        )
    return words


def with_canonical_names(record: Record, task: Task | None) -> Record:
    """Return a record whose steps have the names of the definition `task` under canonical ones.

    It is set aside, as in `name_canonically`, where these are not its names.
    """
    program = None if task is None else _translate(Names(task.dag), record.steps)
    if record.function or program is None:
        aside = record.task_key if record.function else SET_ASIDE + record.task_key
        return replace(record, task_key=aside)
    return replace(record, steps=program.steps, program_key=program.key)


def _translate(names: Names, steps: str) -> ProgramText | None:
    try:
        return ProgramText.encode(ProgramText(steps).written_steps, names)
    except AnsorcError:
        return None


def _rewrite(
    connection: sqlite3.Connection, task: str, old: tuple[int, str], new: ProgramText | None
) -> None:
    """Give a record its new steps, or set it aside."""
    number, key = old
    if new is None:
        connection.execute(
            "UPDATE records SET task_key = ? WHERE id = ?", (SET_ASIDE + task, number)
        )
        return
    connection.execute(
        "UPDATE records SET steps = ?, program_key = ? WHERE id = ?", (new.steps, new.key, number)
    )
    connection.execute(
        "UPDATE winners SET program_key = ? WHERE task_key = ? AND program_key = ?",
        (new.key, task, key),
    )


def _move(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Give a task another key; of two tasks that become one a program that both have stays once."""
    if old == new:
        return
    for table, column in (("tasks", "key"), ("records", "task_key"), ("winners", "task_key")):
        connection.execute(
            f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} = ?", (new, old)
        )
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (old,))


_APPLICATION_ID = 0x616E7372  # "ansr"
_BUSY_TIMEOUT_S = 10.0

_TABLES = """
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
"""
_WINNERS = """
CREATE TABLE winners (
    task_key TEXT NOT NULL, environment_key TEXT NOT NULL, program_key TEXT NOT NULL,
    last_id INTEGER NOT NULL, PRIMARY KEY (task_key, environment_key)
);
"""
"""Who won when the fastest programs were timed against each other, and the last record that there
was then."""
_KERNEL_THREADS = """
CREATE TABLE kernel_threads (
    task_key TEXT NOT NULL, environment_key TEXT NOT NULL, program_key TEXT NOT NULL,
    threads INTEGER NOT NULL, PRIMARY KEY (task_key, environment_key)
);
"""
"""How many threads were the fastest for a program within a network; 0 are all."""
_TOTALS = """
CREATE TABLE totals (
    task_key TEXT NOT NULL, environment_key TEXT NOT NULL, programs INTEGER NOT NULL,
    timed INTEGER NOT NULL, PRIMARY KEY (task_key, environment_key)
) WITHOUT ROWID;
INSERT INTO totals
SELECT task_key, environment_key, count(*), count(median_s) FROM records GROUP BY 1, 2
"""
"""How many records there are: counting a million of them reads 80 MB of an index from disk."""
_COUNTED = """
INSERT INTO totals VALUES ({0}.task_key, {0}.environment_key, {1},
    CASE WHEN {0}.median_s IS NULL THEN 0 ELSE {1} END)
ON CONFLICT (task_key, environment_key) DO UPDATE SET
    programs = totals.programs + excluded.programs, timed = totals.timed + excluded.timed;"""
_ADD, _TAKE = _COUNTED.format("new", 1), _COUNTED.format("old", -1)
_MOVES = "UPDATE OF task_key, environment_key, median_s"
COUNTS = ("INSERT", _ADD), ("DELETE", _TAKE), (_MOVES, _TAKE + _ADD)
"""By which change of a record the totals change how."""
TABLES = ("tasks", "environments", "records", "winners", "kernel_threads")
"""Those that are not counted from others; each after what it refers to."""
_RUN_SECONDS = "ALTER TABLE records ADD COLUMN run_s REAL NOT NULL DEFAULT 0.0"
_KNOWN = "ALTER TABLE records ADD COLUMN known INTEGER NOT NULL DEFAULT 0"


def _migration_of(statements: str) -> Migration:
    def migrate(connection: sqlite3.Connection) -> str:
        for statement in filter(str.strip, statements.split(";")):
            connection.execute(statement)
        return ""

    return migrate


def _keep_totals(connection: sqlite3.Connection) -> str:
    """Count what there is, and from now on with each change."""
    for number, (event, then) in enumerate(COUNTS):
        name = f"totals_{number}"
        connection.execute(f"CREATE TRIGGER {name} AFTER {event} ON records BEGIN {then} END")
    return _migration_of(_TOTALS)(connection)


def _rename_environments(connection: sqlite3.Connection) -> str:
    """Write all environments as this version does, which gives them other keys.

    They tell what the caches held, before always what the call before had left there, and as many
    threads as cores are all cores. Two of them may become one: a program or a winner of both stays
    what it is in the one that has that key already.
    """
    for key, text, cpu in connection.execute("SELECT * FROM environments").fetchall():
        environment = Environment.from_json(text)
        if environment.key == key:
            continue
        row = (environment.key, environment.to_json(), cpu)
        connection.execute("INSERT OR IGNORE INTO environments VALUES (?, ?, ?)", row)
        for table in ("records", "winners"):
            connection.execute(
                f"UPDATE OR IGNORE {table} SET environment_key = ? WHERE environment_key = ?",
                (environment.key, key),
            )
            connection.execute(f"DELETE FROM {table} WHERE environment_key = ?", (key,))
        connection.execute("DELETE FROM environments WHERE key = ?", (key,))
    return ""


Migration: TypeAlias = Callable[[sqlite3.Connection], str]
"""Changes the tables and what they hold; returns what the user should know of it, or nothing."""

MIGRATIONS: tuple[Migration, ...] = (
    _migration_of(_TABLES),
    _migration_of(_WINNERS),
    _migration_of(_RUN_SECONDS),
    _rename_environments,
    _migration_of(_KNOWN),
    name_canonically,
    _migration_of(_KERNEL_THREADS),
    _keep_totals,
)
"""Migrations: number N takes a file from version N to N + 1; an empty file has version 0."""
SCHEMA_VERSION = len(MIGRATIONS)


def connect(
    path: Path, *, create: bool, read_only: bool = False
) -> tuple[sqlite3.Connection, tuple[str, ...]]:
    """Open the record file at `path`; return the connection and what was changed in the file.

    With `read_only` nothing is: of a file of an earlier version a copy is brought up to date, which
    goes with the connection. Raise RecordError saying what is wrong with the file. One that is not
    ours is left exactly as it is.
    """
    if path.is_dir():
        raise RecordError(f"{path} is a directory; give the path of a record file")
    if not create and not path.exists():
        raise RecordError(f"there is no record file {path}; `ansorc tune` makes one")
    with translate_errors(path):
        if read_only:
            return _reader(path), ()
        connection = _open(path, "mode=rwc")
        try:
            version = _version_of(connection, path)
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            notes = _migrate(connection) if version < SCHEMA_VERSION else ()
        except BaseException:
            connection.close()
            raise
    return connection, notes


SQLITE_FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of SQLite's functions; they decode its messages, which may quote damaged bytes."""


@contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Turn an error of SQLite on `path` into a RecordError of one clear sentence."""
    try:
        yield
    except SQLITE_FAULTS as error:
        text = in_words(error)
        if any(words in text for words in _OF_DAMAGE):
            raise DamageError(path, text) from error
        raise RecordError(_explain(str(path), text)) from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Do all of the statements inside or none; an interrupt may come between any two of them.

    After the last one too: then there is nothing to roll back, which SQLite would call an error.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_NO_LOCKS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def log_of(path: Path) -> Path:
    """Return where SQLite keeps what was written last to the file at `path`."""
    return path.with_name(f"{path.name}-wal")


def address(path: Path, options: str) -> str:
    """Return the URI by which SQLite opens the file at `path`, e.g. with "mode=ro"."""
    return f"{path.absolute().as_uri()}?{options}"


def _open(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        address(path, options), timeout=_BUSY_TIMEOUT_S, isolation_level=None, uri=True
    )


def _reader(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing."""
    connection = _open(path, "mode=ro")
    try:
        try:
            version = _version_of(connection, path)
        except sqlite3.OperationalError as error:
            is_locked_out = error.sqlite_errorcode & 0xFF in _NO_LOCKS and path.exists()
            if not is_locked_out or log_of(path).exists():
                raise
            connection.close()  # no locks can be made beside the file: nobody else writes there
            connection = _open(path, "immutable=1")
            version = _version_of(connection, path)
        if version < SCHEMA_VERSION:
            copy = sqlite3.connect("", isolation_level=None)  # of a file that SQLite removes
            with closing(connection):
                connection.backup(copy)
            connection = copy
            _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _version_of(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the tables; raise RecordError if they are not ours."""
    connection.execute("BEGIN")  # one snapshot: another process may be making the tables now
    version = _pragma(connection, "user_version")
    is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    is_ours = is_empty or _pragma(connection, "application_id") == _APPLICATION_ID
    connection.execute("COMMIT")
    if not is_ours:
        raise RecordError(
            f"{path} is a database of another program; give the path of a new record file"
        )
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{path} was written by a newer ansorc (schema {version}, this one reads up to "
            f"{SCHEMA_VERSION}); update ansorc or give another file"
        )
    return version


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let readers go on while one writes.

    SQLite does not wait for another connection here, as it does in statements: so this does.
    """
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _migrate(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Do the migrations that are missing, all or none; return what they say."""
    with transaction(connection):
        return migrate_to(connection, SCHEMA_VERSION)


def migrate_to(connection: sqlite3.Connection, version: int) -> tuple[str, ...]:
    """Do the migrations up to `version` that are missing, in a transaction that is open."""
    present = _pragma(connection, "user_version")  # another process may have been faster
    notes = [migrate(connection) for migrate in MIGRATIONS[present:version]]
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    return tuple(filter(None, notes))


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


class DamageError(RecordError):
    """A file that was written by ansorc, but not as it is now; `words` say what is wrong."""

    def __init__(self, path: Path | str, words: str) -> None:
        super().__init__(
            f"{path} is damaged ({words}) and was left as it is; use another record file, "
            f"or save what is readable with: ansorc records verify {path} --salvage NEW.db"
        )
        self.words = words


_OF_DAMAGE = ("malformed", "corrupt", "unreadable", "not decode", "no such")


def in_words(error: Exception) -> str:
    """Return what SQLite says, in one line: it may quote a damaged file."""
    text = "unreadable text in its tables" if isinstance(error, UnicodeDecodeError) else str(error)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _explain(path: str, text: str) -> str:
    if "not a database" in text:
        return f"{path} is not a record file; give another path (the file was left as it is)"
    if "disk I/O error" in text:
        return (
            f"{path} cannot be written ({text}); check that its disk works and has space, then "
            "run again: what was recorded before is safe"
        )
    if "full" in text:
        return f"the disk that holds {path} is full; free some space and run again, nothing is lost"
    if ("locked" in text or "busy" in text) and not _has_locks(path):
        return (
            f"the file system of {path} has no locks, without which two runs would damage it; "
            "give a path on a local disk with --records"
        )
    if "locked" in text or "busy" in text:
        return f"{path} is in use by another process; wait for it or give another file"
    if "readonly" in text or "unable to open" in text:
        return f"{path} cannot be written ({text}); check its permissions or give another path"
    return f"{path}: {text}"


def _has_locks(path: str) -> bool:
    """Whether the file system of `path` has the locks that SQLite asks for, as far as is known."""
    try:
        with Path(path).open("rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL}
    return True
