"""The tables of records in a database of PostgreSQL, reached through SQLAlchemy.

They are those of `schema.py`, in a schema of the database that is called "ansorc". They are not
written down again: SQLite tells what a new record file has, and the names of types are replaced.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from sqlalchemy import create_engine
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ansorc.errors import RecordError
from ansorc.search.record.schema import COUNTS, SCHEMA_VERSION, TABLES, migrate_to
from ansorc.search.record.store import RecordUrl, StoredRow, StoreStatement

T = TypeVar("T")

_LOCK = 0x616E7372  # "ansr"
"""One transaction writes at a time, as in a file: so records are numbered in the order in which
they can be seen, by which `Records.decide` knows what was there before."""
_OPEN_S, _AWAY_S = 2.0, 120.0
"""So long a server may be away when it is asked first, and later: as long as it restarts."""
_PAUSE_S = 0.25
_CONNECT = {
    "connect_timeout": 10, "application_name": "ansorc",
    "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}  # fmt: skip
"""Seconds, the last one milliseconds: in half a minute a network that is gone is noticed."""
_SESSION = "-c search_path=ansorc -c lock_timeout=30s -c idle_in_transaction_session_timeout=30s"
"""A tuner that was stopped within a transaction does not hold the others for ever."""
_PASSING = ("08", "57P", "55P03", "25P03", "40", "53300")
"""How the SQL states begin of what passes: no connection, a server that starts or ends, a lock
that another has, a transaction that took too long, a conflict, too many connections."""
_COMING = ("starting up", "shutting down", "recovery", "too many")
_BATCH = 500


class ServerStore:
    """The tables in a database of PostgreSQL; while the server restarts, a call waits."""

    def __init__(self, url: RecordUrl, *, create: bool, read_only: bool) -> None:
        """Connect; make the tables if there are none and `create` is set."""
        self._url, self._away_s = url, _OPEN_S
        self.notes: tuple[str, ...] = ()
        """Changes to tables of an earlier version."""
        session = f"{_SESSION} -c default_transaction_read_only=on" if read_only else _SESSION
        try:
            address = make_url(url.text).set(drivername="postgresql+psycopg")
            self._engine = create_engine(
                address, connect_args={**_CONNECT, "options": session}, pool_size=1
            )
        except (SQLAlchemyError, ValueError) as error:
            raise RecordError(f"{url} is no URL of a database: {_line(error)}") from error
        try:
            self._transact(lambda connection: self._prepare(connection, create, read_only))
        except BaseException:
            self.close()
            raise
        self._away_s = _AWAY_S

    @property
    def place(self) -> RecordUrl:
        """The database's URL."""
        return self._url

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[StoredRow]:
        """Return the rows that `query` finds."""
        return self._transact(lambda connection: _fetch(connection, query, parameters))

    def each(self, query: str) -> Iterator[StoredRow]:
        """Yield the rows that `query` finds, some at a time."""
        try:
            with self._engine.connect() as connection:
                streaming = connection.execution_options(stream_results=True)
                for row in streaming.exec_driver_sql(_driver_text(query)):
                    yield tuple(row)
        except DBAPIError as error:
            raise self._in_words(error) from error

    def write(self, statements: Sequence[StoreStatement]) -> None:
        """Do all statements or none, again if the connection was lost meanwhile."""

        def do(connection: Connection) -> None:
            _take_turn(connection)
            for query, parameters in statements:
                connection.exec_driver_sql(_driver_text(query), _driver_values(parameters))

        self._transact(do)

    def merge(self, source: Path, statements: Sequence[str]) -> tuple[int, int]:
        """Do `statements` or none on the tables here and those of a file, as temporary ones."""

        def do(connection: Connection) -> tuple[int, int]:
            _take_turn(connection)
            with closing(sqlite3.connect(source)) as file:
                for table in TABLES:
                    _copy(connection, file, table)
            before = _count(connection, "records")
            (offset,) = _fetch(connection, _LAST)
            for statement in statements:
                text = statement.replace("source.", "source_").replace("main.", "ansorc.")
                values = _driver_values(offset) if "?" in text else ()
                connection.exec_driver_sql(_driver_text(text), values)
            connection.exec_driver_sql(_GO_ON)
            return _count(connection, "source_records"), _count(connection, "records") - before

        return self._transact(do, is_repeatable=False)

    def shrink(self) -> None:
        """Do nothing: PostgreSQL does that by itself."""

    def close(self) -> None:
        """Close the connection."""
        self._engine.dispose()

    def _transact(self, act: Callable[[Connection], T], *, is_repeatable: bool = True) -> T:
        """Run `act` in a transaction, on another connection if one is lost; return its result."""
        begin = time.monotonic()
        while True:
            try:
                with self._engine.begin() as connection:
                    return act(connection)
            except DBAPIError as error:
                is_late = time.monotonic() > begin + self._away_s
                if is_late or not is_repeatable or not _may_pass(error):
                    raise self._in_words(error) from error
            time.sleep(_PAUSE_S)

    def _prepare(self, connection: Connection, create: bool, read_only: bool) -> None:  # noqa: FBT001
        """See that there are tables of this version."""
        if not read_only:
            _take_turn(connection)
        if _fetch(connection, "SELECT to_regclass('ansorc.about')") == [(None,)]:
            if read_only or not create:
                raise RecordError(f"{self._url} has no records; `ansorc tune` makes the tables")
            for statement in _definitions():
                connection.exec_driver_sql(statement)
        ((version,),) = _fetch(connection, "SELECT version FROM about")
        if version > SCHEMA_VERSION or (version < SCHEMA_VERSION and read_only):
            words = "a newer ansorc", "update ansorc"
            if version < SCHEMA_VERSION:
                words = "an older ansorc", "`ansorc tune` or `ansorc records verify` changes that"
            raise RecordError(
                f"{self._url} was written by {words[0]} (schema {version}, this one has "
                f"{SCHEMA_VERSION}); {words[1]}"
            )
        if version < SCHEMA_VERSION:
            self.notes = _migrate(connection, version)

    def _in_words(self, error: DBAPIError) -> RecordError:
        words = _line(error.orig or error)
        if _may_pass(error):
            words += "; when the server is back run again: what was recorded before is safe"
        return RecordError(f"{self._url}: {words}")


def _take_turn(connection: Connection) -> None:
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def _fetch(
    connection: Connection, query: str, parameters: Sequence[object] = ()
) -> list[StoredRow]:
    result = connection.exec_driver_sql(_driver_text(query), _driver_values(parameters))
    return [tuple(row) for row in result]


def _count(connection: Connection, table: str) -> int:
    return int(_fetch(connection, f"SELECT count(*) FROM {table}")[0][0])


def _driver_text(query: str) -> str:
    return query.replace("%", "%%").replace("?", "%s")


def _driver_values(values: Sequence[object]) -> tuple[object, ...]:
    """The values as the driver takes them: PostgreSQL keeps no NUL in a text."""
    return tuple(
        value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value
        for value in values
    )


def _may_pass(error: DBAPIError) -> bool:
    """Whether the same may work later: the connection was lost, or the server is not ready."""
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_PASSING)
    text = str(error.orig)
    is_refusal = "FATAL" in text and not any(words in text for words in _COMING)
    return type(error.orig).__name__ == "OperationalError" and not is_refusal


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _copy(connection: Connection, file: sqlite3.Connection, table: str) -> None:
    """Make a temporary table of one of a record file."""
    connection.exec_driver_sql(
        f"CREATE TEMP TABLE source_{table} (LIKE ansorc.{table}) ON COMMIT DROP"
    )
    _fill(connection, file, table, f"source_{table}")


def _fill(connection: Connection, file: sqlite3.Connection, source: str, table: str) -> None:
    """Add the rows of a table of a record file to one of the database."""
    rows = file.execute(f"SELECT * FROM {source}")
    marks = ", ".join("?" * len(rows.description))
    insert = _driver_text(f"INSERT INTO {table} VALUES ({marks})")
    while some := rows.fetchmany(_BATCH):
        connection.exec_driver_sql(insert, [_driver_values(row) for row in some])


_LAST = (
    "SELECT greatest(coalesce(max(id), 0), (SELECT last_value FROM records_id_seq)) FROM records"
)
_GO_ON = "SELECT setval('records_id_seq', greatest(coalesce(max(id), 0), 1)) FROM records"

_NAMES = "SELECT tablename FROM pg_tables WHERE schemaname = 'ansorc'"
_GRANTED = """
SELECT privilege_type, table_name,
    CASE grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(grantee) END
FROM information_schema.role_table_grants
WHERE table_schema = 'ansorc' AND grantee <> current_user
"""
"""The rights that other roles have on the tables."""

_DIALECT = (
    (r"INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
    (r"\bINTEGER\b", "BIGINT"),
    (r"\bREAL\b", "DOUBLE PRECISION"),
    (r"\bTEXT\b", 'TEXT COLLATE "C"'),
    (r"WITHOUT ROWID", ""),
)
"""Replacements for the words of SQLite's dialect; its texts are ordered by their bytes."""


def _migrate(connection: Connection, version: int) -> tuple[str, ...]:
    """Bring the tables up to date as those of a file, in memory; return what is to be known."""
    ((last,),) = _fetch(connection, _LAST)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        migrate_to(model, version)
        there = {name for (name,) in model.execute("SELECT name FROM sqlite_master")}
        for table in filter(there.__contains__, TABLES):
            rows = connection.exec_driver_sql(f"SELECT * FROM {table}")
            marks = ", ".join("?" * len(rows.keys()))
            model.executemany(f"INSERT INTO {table} VALUES ({marks})", map(tuple, rows))
        notes = migrate_to(model, SCHEMA_VERSION)
        granted = _fetch(connection, _GRANTED)
        for (table,) in _fetch(connection, _NAMES):
            connection.exec_driver_sql(f"DROP TABLE {table} CASCADE")
        for statement in _definitions():
            connection.exec_driver_sql(statement)
        for table in TABLES:
            _fill(connection, model, table, table)
    _fetch(connection, "SELECT setval('records_id_seq', ?)", (max(last, 1),))
    kept = {name for (name,) in _fetch(connection, _NAMES)}
    for right, table, role in granted:
        if table in kept:
            connection.exec_driver_sql(f"GRANT {right} ON {table} TO {role}")
    return notes


def _definitions() -> list[str]:
    """Return what makes the tables of a new record file, in the dialect of PostgreSQL."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        migrate_to(model, SCHEMA_VERSION)
        query = (
            "SELECT sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql NOT NULL "
            "AND name NOT LIKE 'sqlite%' ORDER BY rowid"
        )
        made = [str(row[0]) for row in model.execute(query)]
    for word, ours in _DIALECT:
        made = [re.sub(word, ours, statement) for statement in made]
    for number, (event, then) in enumerate(COUNTS):
        made += [
            f"CREATE OR REPLACE FUNCTION totals_{number}() RETURNS trigger LANGUAGE plpgsql "
            f"SET search_path = ansorc AS $$ BEGIN {then} RETURN NULL; END $$",
            f"CREATE TRIGGER totals_{number} AFTER {event} ON records "
            f"FOR EACH ROW EXECUTE FUNCTION totals_{number}()",
        ]
    about = "CREATE TABLE about (version BIGINT NOT NULL)"
    return [
        "CREATE SCHEMA IF NOT EXISTS ansorc", *made, about,
        f"INSERT INTO about VALUES ({SCHEMA_VERSION})",
    ]  # fmt: skip
