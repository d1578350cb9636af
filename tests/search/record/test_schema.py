"""Files that are not good record files: one clear sentence each, and the file stays as it is."""

import os
import sqlite3
from pathlib import Path

import pytest

from ansorc.errors import RecordError
from ansorc.search.record import Records, schema
from ansorc.search.record.store import FileStore
from tests.search.record.examples import record_of


def refused(path: Path, words: str) -> None:
    """Opening `path` is refused with `words` in one line, and leaves its bytes alone."""
    before = path.read_bytes()
    with pytest.raises(RecordError, match=words) as caught:
        Records.open(path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes, which must not be lost\n" * 200)
    refused(path, "is not a record file; give another path")


def test_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    refused(path, "a database of another program; give the path of a new record file")


def test_a_newer_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Records.open(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    connection.close()
    refused(path, "newer ansorc .* update ansorc or give another file")


def test_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Records.open(path) as records:
        for number in range(300):
            records.add(record_of("t", number))
    path.write_bytes(path.read_bytes()[: 3 * 4096 + 100])
    with pytest.raises(RecordError, match=r"is damaged .* was left as it is") as caught:
        Records.open(path).all("t")
    assert "\n" not in str(caught.value)
    assert path.stat().st_size == 3 * 4096 + 100


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="is a directory"):
        Records.open(tmp_path)


def test_a_file_that_must_exist(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"there is no record file .*none\.db"):
        Records.open(tmp_path / "none.db", create=False)
    assert not (tmp_path / "none.db").exists()


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="check its permissions or give another path"):
        Records.open(tmp_path / "no" / "a.db")


def test_a_read_only_directory(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        path = Path("/proc/self/a.db")  # root may write anywhere else
    else:
        tmp_path.chmod(0o500)
        path = tmp_path / "a.db"
    with pytest.raises(RecordError, match=r"cannot be written .* check its permissions"):
        Records.open(path)


def test_a_locked_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "a.db"
    with Records.open(path) as records:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RecordError, match="in use by another process; wait for it"):
            records.add(record_of("t", 1))
        other.execute("ROLLBACK")
        other.close()
        records.add(record_of("t", 1))
        assert len(records.all("t")) == 1


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    connection, _ = schema.connect(tmp_path / "a.db", create=True)
    records = Records(FileStore(tmp_path / "a.db", connection))
    connection.execute("PRAGMA max_page_count = 12")
    with pytest.raises(RecordError, match="is full; free some space and run again"):
        add_many(records, 1000)
    added = len(records.all("t"))
    assert added > 5
    assert records.all("t") == [record_of("t", number) for number in range(added)]
    connection.execute("PRAGMA max_page_count = 1000")
    records.add(record_of("t", added))
    assert len(records.all("t")) == added + 1
    records.close()


def add_many(records: Records, count: int) -> None:
    for number in range(count):
        records.add(record_of("t", number))


def test_an_empty_file_is_a_new_record_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    with Records.open(path) as records:
        records.add(record_of("t", 1))
        assert len(records.all("t")) == 1
