"""Where records are kept: the path of a file, or the URL of a database of PostgreSQL."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from ansorc.errors import RecordError

_SCHEMES = ("postgresql", "postgresql+psycopg")


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


RecordPlace: TypeAlias = Path | RecordUrl


def place_of(given: str | os.PathLike[str] | RecordUrl) -> RecordPlace:
    """Return the place that a path or the text of a URL names.

    Raise RecordError for a URL of something else than PostgreSQL.
    """
    if isinstance(given, RecordUrl):
        return given
    text = os.fspath(given)
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


def text_of(place: RecordPlace) -> str:
    """Return what `place_of` makes `place` of, in any directory; it may hold a password."""
    return place.text if isinstance(place, RecordUrl) else str(place.absolute())


def is_missing(place: RecordPlace) -> bool:
    """Whether `place` is a file that is not there; a server is asked when it is opened."""
    return isinstance(place, Path) and not place.exists()
