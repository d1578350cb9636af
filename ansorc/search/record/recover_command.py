"""Rows of a damaged database that the command line of SQLite still reads, by its `.recover`.

`.recover` prints SQL that fills the tables anew. Some systems build their sqlite3 without what it
needs and still list it in the help (Debian 12, Ubuntu 24.04): a trial says whether it works.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ansorc.search.record.leaf_pages import TableRow
from ansorc.search.record.schema import SCHEMA_VERSION, SQLITE_FAULTS, TABLES, migrate_to

CHOICES = ("winners", "kernel_threads")
"""The tables that say which programs won; their rows look the same."""
_RECOVER = ".recover --ignore-freelist"
"""The command; pages of the free list are left out, for their rows were deleted."""
_WITH_ROWS = (
    b"INSERT OR IGNORE INTO '", b"CREATE TABLE lost_and_found(", b"INSERT INTO lost_and_found ",
)  # fmt: skip
"""How the statements begin that carry rows; no other statement of a damaged file is executed."""


@dataclass(frozen=True)
class RecoveredRows:
    """The rows that `.recover` reads from a record file; none where it does not work."""

    rows: list[TableRow] = field(default_factory=list[TableRow])
    """Rows of tasks, environments and records, and of tables that are not known any more."""
    choices: dict[str, list[TableRow]] = field(default_factory=dict[str, list[TableRow]])
    """The rows of each table in `CHOICES`."""


def find_recover_command() -> list[str] | None:
    """Return the command that recovers the database named after it; None if there is none."""
    program = shutil.which("sqlite3")
    if program is None:
        return None
    command = [program, "-batch", "-init", os.devnull, "-cmd", _RECOVER]
    with TemporaryDirectory() as directory:
        trial = Path(directory) / "empty.db"
        trial.touch()
        ended = subprocess.run([*command, str(trial)], stdin=subprocess.DEVNULL,
                               capture_output=True, check=False)  # fmt: skip
    return command if ended.returncode == 0 and b"COMMIT" in ended.stdout else None


def recover_rows(database: Path) -> RecoveredRows:
    """Return what `.recover` reads of a database; SQLite may change the file, so give a copy."""
    command = find_recover_command()
    if command is None:
        return RecoveredRows()
    with closing(_make_tables()) as connection:
        for statement in _recover(command, database):
            with suppress(*SQLITE_FAULTS):  # of a table that is not ours, or a broken value
                connection.execute(statement)
        tables = {name: _select_all(connection, name) for name in TABLES}
        with suppress(sqlite3.OperationalError):  # it is there only if something is in it
            tables["lost_and_found"] = [
                _unwrap(row) for row in connection.execute("SELECT * FROM lost_and_found")
            ]
    choices = {name: tables.pop(name) for name in CHOICES}
    return RecoveredRows([row for rows in tables.values() for row in rows], choices)


def _recover(command: list[str], database: Path) -> Iterator[str]:
    """Yield the statements that carry rows as the command prints them."""
    with subprocess.Popen(
        [*command, str(database)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        yield from _split_statements(process.stdout)


def _make_tables() -> sqlite3.Connection:
    """Return a new database with our tables without their constraints: damaged rows fit, too."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as schema:
        migrate_to(schema, SCHEMA_VERSION)
        columns = {
            name: [row[1] for row in schema.execute(f"PRAGMA table_info({name})")]
            for name in TABLES
        }
    connection = sqlite3.connect("", isolation_level=None)  # in a file that SQLite removes
    for name, names in columns.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(names)})")
    return connection


def _split_statements(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the statements that carry rows and are text; a value may have several lines."""
    statement = ""
    for line in lines:
        if not statement and not line.startswith(_WITH_ROWS):
            continue
        try:
            statement += line.decode()
        except UnicodeDecodeError:
            statement = ""
            continue
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _select_all(connection: sqlite3.Connection, table: str) -> list[TableRow]:
    """Return the rows of a table, without the columns that an earlier version did not have."""
    rows: list[TableRow] = []
    for row in connection.execute(f"SELECT * FROM {table}"):
        values = list(row)
        while values and values[-1] is None:
            values.pop()
        rows.append(tuple(values))
    return rows


def _unwrap(row: TableRow) -> TableRow:
    """Return a row as its lost table had it: NULL in its first column stands for its number."""
    _, _, count, number, *values = row
    values = values[: count if isinstance(count, int) else 0]
    if values and values[0] is None:
        values[0] = number
    return tuple(values)
