"""What keeps the tables of records: an SQLite file, or a database of PostgreSQL.

Both have the same tables (`schema.py`) and take the same SQL; parameters are question marks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ansorc.search.record.record_place import RecordPlace
from ansorc.search.record.schema import address, transaction, translated

StoredRow: TypeAlias = tuple[Any, ...]
StoreStatement: TypeAlias = tuple[str, Sequence[object]]
"""SQL, and what its question marks stand for."""

_CACHE_KB = 256 * 1024
"""The indexes of a large output, whose pages would be written again and again with less."""


class RecordStore(Protocol):
    """Tables that several processes may read and write at once; all methods raise RecordError."""

    @property
    def place(self) -> RecordPlace:
        """Where the tables are."""
        ...

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[StoredRow]:
        """Return the rows that `query` finds."""
        ...

    def each(self, query: str) -> Iterator[StoredRow]:
        """Yield the rows that `query` finds, of which there may be more than fit into memory."""
        ...

    def write(self, statements: Sequence[StoreStatement]) -> None:
        """Do all statements or none; what is written stays when the method returns.

        One transaction at a time writes. Statements may be done twice, where a connection was
        lost: to do them again must change nothing.
        """
        ...

    def merge(self, source: Path, statements: Sequence[str]) -> tuple[int, int]:
        """Do `statements` or none on the tables here, `main.…`, and those of a file, `source.…`.

        A question mark stands for what is added to the numbers of the file's records, so that all
        of them are new here. Return how many records the file has, and how many were added.
        """
        ...

    def shrink(self) -> None:
        """Give back the room of what was dropped."""
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


class FileStore:
    """The tables in an SQLite file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection

    @property
    def place(self) -> RecordPlace:
        """The file's path."""
        return self._path

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[StoredRow]:
        """Return the rows that `query` finds."""
        with translated(self._path):
            return self._connection.execute(query, tuple(parameters)).fetchall()

    def each(self, query: str) -> Iterator[StoredRow]:
        """Yield the rows that `query` finds, page by page."""
        with translated(self._path):
            yield from self._connection.execute(query)

    def write(self, statements: Sequence[StoreStatement]) -> None:
        """Do all statements or none."""
        with translated(self._path), transaction(self._connection):
            for query, parameters in statements:
                self._connection.execute(query, tuple(parameters))

    def merge(self, source: Path, statements: Sequence[str]) -> tuple[int, int]:
        """Do `statements` or none on this file as `main` and another one as `source`."""
        connection = self._connection
        with translated(self._path):
            connection.execute(f"PRAGMA cache_size = {-_CACHE_KB}")
            connection.execute("ATTACH DATABASE ? AS source", (address(source, "mode=ro"),))
            try:
                with transaction(connection):
                    before = self._count("main")
                    offset = connection.execute(_LAST).fetchone()
                    for statement in statements:
                        connection.execute(statement, offset if "?" in statement else ())
                    added = self._count("main") - before
                return self._count("source"), added
            finally:
                connection.execute("DETACH DATABASE source")

    def shrink(self) -> None:
        """Give back the room of what was dropped to the file system."""
        with translated(self._path):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _count(self, schema: str) -> int:
        query = f"SELECT count(*) FROM {schema}.records"
        return int(self._connection.execute(query).fetchone()[0])


_LAST = """
SELECT max(ifnull(max(id), 0), (SELECT ifnull(max(seq), 0) FROM main.sqlite_sequence
WHERE name = 'records')) FROM main.records
"""
