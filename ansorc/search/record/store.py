"""Stores of the tables of records: an SQLite file, or a database of PostgreSQL.

Both have the same tables (`schema.py`) and take the same SQL; parameters are question marks.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from ansorc.errors import RecordError
from ansorc.search.record.schema import address, transaction, translate_errors

_SCHEMES = ("postgresql", "postgresql+psycopg")

StoredRow: TypeAlias = tuple[Any, ...]
StoreStatement: TypeAlias = tuple[str, Sequence[object]]
"""SQL, and what its question marks stand for."""

_CACHE_KB = 256 * 1024
"""The indexes of a large output, whose pages would be written again and again with less."""


@dataclass(frozen=True)
class RecordUrl:
    """A database of PostgreSQL, such as postgresql://user@host/database."""

    text: str = field(repr=False)
    """It may hold a password, so it is never printed."""

    def __str__(self) -> str:
        """The URL without a password, for people."""
        return re.sub(r"(?<=://)([^/@:]*):[^/]*@", r"\1:***@", self.text).partition("?")[0]

    @property
    def name(self) -> str:
        """The database's name."""
        return urlsplit(self.text).path.strip("/") or "postgresql"


RecordLocation: TypeAlias = Path | RecordUrl


def parse_record_uri(given: str | os.PathLike[str] | RecordUrl) -> RecordLocation:
    """Return the place that a path or the text of a URL names.

    Raise RecordError for a URL of something else than PostgreSQL.
    """
    if isinstance(given, RecordUrl):
        return given
    try:
        text = os.fspath(given)
    except TypeError:
        raise RecordError(f"{given!r} is no place of records; give a path or a URL") from None
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RecordError(f"{given!r} is no place of records; give a path or a URL")
    if re.match(r"postgresql(\+psycopg)?:/[^/]", text):
        raise RecordError(f"a path has no '//': give the URL as text, not as a path, of {text}")
    scheme, mark, rest = text.partition("://")
    if not mark or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return Path(text)
    if scheme not in _SCHEMES or not rest:
        raise RecordError(
            f"records are kept in a file or by PostgreSQL, not by {scheme}://…; give the path of a "
            "file, or postgresql://user@host/database"
        )
    return RecordUrl(text)


def text_of(location: RecordLocation) -> str:
    """Return a text of which `parse_record_uri` makes `location`; it may hold a password."""
    return location.text if isinstance(location, RecordUrl) else str(location.absolute())


def is_missing(location: RecordLocation) -> bool:
    """Return whether `location` is a missing file; a server is asked when it is opened."""
    return isinstance(location, Path) and not location.exists()


class RecordStore(Protocol):
    """Tables that several processes may read and write at once; all methods raise RecordError."""

    @property
    def place(self) -> RecordLocation:
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
    def place(self) -> RecordLocation:
        """The file's path."""
        return self._path

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[StoredRow]:
        """Return the rows that `query` finds."""
        with translate_errors(self._path):
            return self._connection.execute(query, tuple(parameters)).fetchall()

    def each(self, query: str) -> Iterator[StoredRow]:
        """Yield the rows that `query` finds, page by page."""
        with translate_errors(self._path):
            yield from self._connection.execute(query)

    def write(self, statements: Sequence[StoreStatement]) -> None:
        """Do all statements or none."""
        with translate_errors(self._path), transaction(self._connection):
            for query, parameters in statements:
                self._connection.execute(query, tuple(parameters))

    def merge(self, source: Path, statements: Sequence[str]) -> tuple[int, int]:
        """Do `statements` or none on this file as `main` and another one as `source`."""
        connection = self._connection
        with translate_errors(self._path):
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
        with translate_errors(self._path):
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
