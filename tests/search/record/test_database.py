"""Where records are kept is a path, or the URL of a PostgreSQL."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansorc.errors import RecordError
from ansorc.search.record import Records, RecordUrl, is_missing, parse_record_uri, text_of


def test_paths_and_urls_are_told_apart(tmp_path: Path) -> None:
    assert parse_record_uri("tune.db") == Path("tune.db")
    assert parse_record_uri(tmp_path / "a:b") == tmp_path / "a:b"
    url = parse_record_uri("postgresql://me:secret@host:5432/records?sslmode=require")
    assert isinstance(url, RecordUrl)
    assert parse_record_uri(url) is url
    assert str(url) == "postgresql://me:***@host:5432/records"
    assert "secret" not in repr(url)
    assert url.name == "records"
    assert parse_record_uri(text_of(url)) == url
    assert parse_record_uri(text_of(Path("tune.db"))) == Path("tune.db").absolute()
    assert is_missing(tmp_path / "a.db")
    assert not is_missing(url)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("mysql://host/db", "not by mysql://.*give the path of a file, or postgresql://"),
        ("sqlite:///tune.db", "not by sqlite://"),
        ("postgresql://", "or postgresql://user@host/database"),
        (Path("postgresql://host/db"), "give the URL as text, not as a path"),
    ],
)
def test_what_is_neither_is_refused(given: str | Path, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        Records.open(given)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(RecordError, match=r"pip install 'ansorc\[postgresql\]'"):
        Records.open("postgresql://host/db")
