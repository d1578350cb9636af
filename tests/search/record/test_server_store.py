"""Records kept by a real PostgreSQL: as in a file, by several processes, over restarts."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("sqlalchemy", reason="needs the package sqlalchemy")
pytest.importorskip("psycopg", reason="needs the package psycopg")

from sqlalchemy.exc import DBAPIError

from ansorc.errors import RecordError
from ansorc.search.measure.result import FailureKind
from ansorc.search.record import (
    KernelThreads,
    Record,
    Records,
    export_lines,
    import_lines,
    parse_record_uri,
    schema,
    server_store,
)
from ansorc.search.record.upkeep import merge, prune, stale, verify
from tests.search.record.examples import ELSEWHERE, HERE, record_of, task_of
from tests.search.record.postgres_server import PostgresServer


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    yield from PostgresServer.served()


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.new_database()


def random_records(seed: int, tasks: tuple[str, ...], count: int) -> Iterator[Record]:
    """Records of few programs, so that many are of one that was measured before."""
    rng = random.Random(seed)
    for _ in range(count):
        seconds = rng.choice([None, *(1e-3 * (n + 1) for n in range(5))])
        made = record_of(rng.choice(tasks), rng.randrange(9), seconds, checked=rng.random() < 0.7)
        if seconds is None:
            made = replace(made, failure=rng.choice(list(FailureKind)), message="a\tb 'c' %s ?")
        environment = rng.choice([HERE, ELSEWHERE, replace(HERE, threads=1)])
        yield replace(made, environment=environment, created=1e9 + rng.random(), seed=2**40,
                      version=rng.choice(["0.1", "0.2"]))  # fmt: skip


def told(records: Records) -> list[object]:
    """All that the records answer."""
    keys = records.task_keys()
    found: list[object] = [keys, records.defined_keys(), records.count(), records.environments()]
    found += [records.holdings(), [one.to_json() for one in records.tasks()]]
    for environment in records.environments():
        found.append(records.threads(environment))
        for key in keys:
            found += [records.all(key, environment), records.undefeated(key, environment),
                      records.measured(key, environment), records.elsewhere(key, environment),
                      records.best(key, environment)]  # fmt: skip
    for key in keys:
        found += [records.all(key), records.undefeated(key), records.decisions(key),
                  [records.is_winner(one) for one in records.all(key)]]  # fmt: skip
    return found


def filled(records: Records, seed: int) -> None:
    task, rng = task_of(), random.Random(seed)
    records.add_task(task)
    records.add_task(task)
    for record in random_records(seed, (task.key, "other"), 120):
        records.add(record)
        if record.checked and rng.random() < 0.2:
            records.decide(record)
        if rng.random() < 0.1:
            threads = KernelThreads(record.task_key, record.program_key, rng.randrange(4))
            records.keep_threads(record.environment, [threads])


@pytest.mark.parametrize("seed", range(2))
def test_a_database_answers_as_a_file_does(url: str, tmp_path: Path, seed: int) -> None:
    with Records.open(url) as there, Records.open(tmp_path / "a.db") as here:
        filled(there, seed)
        filled(here, seed)
        assert told(there) == told(here)
        assert here.count() > 40
    assert verify(parse_record_uri(url)).faults == verify(tmp_path / "a.db").faults == ()
    assert verify(parse_record_uri(url)).records == verify(tmp_path / "a.db").records
    assert stale(parse_record_uri(url)) == stale(tmp_path / "a.db")
    assert prune(parse_record_uri(url)) == prune(tmp_path / "a.db")
    with Records.open(url) as there, Records.open(tmp_path / "a.db") as here:
        assert told(there) == told(here)


def test_merging_is_that_of_files(server: PostgresServer, tmp_path: Path) -> None:
    places = [tmp_path / f"{name}.db" for name in "abc"]
    urls = [server.new_database() for _ in places]
    for seed, pair in enumerate(zip(places[:2], urls[:2], strict=True)):
        for place in pair:
            with Records.open(place) as records:
                filled(records, seed)
    files = merge(places[2], places[:2])
    for sources in (places[:2], [parse_record_uri(url) for url in urls[:2]]):
        for output in (
            tmp_path / f"{len(sources[0].name)}.db",
            parse_record_uri(server.new_database()),
        ):
            assert [(one.read, one.added) for one in merge(output, sources)] == [
                (one.read, one.added) for one in files
            ]
            with Records.open(output) as there, Records.open(places[2]) as here:
                assert told(there) == told(here)
                there.add(record_of("new", 1))
                assert there.all("new") == [record_of("new", 1)]
            assert not verify(output).faults
    with pytest.raises(RecordError, match="merged into itself"):
        merge(parse_record_uri(urls[0]), [parse_record_uri(urls[0])])


def test_lines_go_out_and_in(server: PostgresServer, url: str, tmp_path: Path) -> None:
    other = server.new_database()
    with Records.open(url) as one, Records.open(other) as copy:
        filled(one, 5)
        export_lines(one, tmp_path / "one.jsonl")
        import_lines(copy, tmp_path / "one.jsonl")
        assert copy.count() == one.count()
        export_lines(copy, tmp_path / "copy.jsonl")
    lines = (tmp_path / "one.jsonl").read_text().splitlines()
    assert sorted(lines) == sorted((tmp_path / "copy.jsonl").read_text().splitlines())


WRITERS, EACH, SHARED = 2, 300, 60


def writer(place: str, first: int, end: int) -> subprocess.Popen[str]:
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        (sys.executable, "-m", "tests.search.record.record_writer", place, str(first), str(end)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def finish(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors


@pytest.mark.parametrize(
    "way", [signal.SIGINT, pytest.param(signal.SIGQUIT, marks=pytest.mark.nightly)]
)
def test_no_record_is_lost_or_doubled(
    server: PostgresServer, url: str, way: signal.Signals
) -> None:
    """Writers whose programs overlap; meanwhile the server restarts, or crashes and does."""
    with ExitStack() as stack:
        begins = [number * (EACH - SHARED) for number in range(WRITERS)]
        processes = [stack.enter_context(writer(url, one, one + EACH)) for one in begins]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "first\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("on\n")
            process.stdin.flush()
        server.stop(way)
        time.sleep(0.5)
        assert all(process.poll() is None for process in processes)
        server.start()
        finish(processes)
    expected = {record_of("t", number).program_key for number in range(begins[-1] + EACH)}
    with Records.open(url, read_only=True) as records:
        found = records.all("t")
        assert len(found) == len(expected)
        assert {one.program_key for one in found} == expected
        assert records.count() == len(expected)
        assert {one.to_json()["median_s"] for one in found} == {1e-3}
    assert not verify(parse_record_uri(url)).faults


def test_a_tuner_that_stops_in_a_transaction_lets_others_write(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = cast("Any", server_store)
    monkeypatch.setattr(server_store, "_SESSION", module._SESSION.replace("30s", "300ms"))
    with Records.open(url) as held, Records.open(url) as other:
        engine = cast("Any", held)._store._engine
        with suppress(DBAPIError), engine.connect() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({module._LOCK})")
            other.add(record_of("t", 1))
        held.add(record_of("t", 2))
        assert held.count() == 2


def test_a_server_that_stays_away(
    server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_store, "_OPEN_S", 0.1)
    monkeypatch.setattr(server_store, "_AWAY_S", 0.5)
    with Records.open(url) as records:
        server.stop()
        try:
            with pytest.raises(RecordError, match="what was recorded before is safe"):
                records.add(record_of("t", 1))
            with pytest.raises(RecordError, match="refused"):
                Records.open(url)
        finally:
            server.start()
        records.add(record_of("t", 1))
        assert records.count() == 1


def test_a_read_only_role_reads(server: PostgresServer, url: str) -> None:
    name = url.rpartition("/")[2]
    with Records.open(url) as records:
        records.add(record_of("t", 1))
    for statement in (
        "CREATE ROLE reader LOGIN", "GRANT USAGE ON SCHEMA ansorc TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA ansorc TO reader",
    ):  # fmt: skip
        server.execute(statement, name)
    reader = url.replace("ansorc@", "reader@")
    with Records.open(reader, read_only=True) as records:
        assert records.count() == 1
        with pytest.raises(RecordError, match="read-only"):
            records.add(record_of("t", 2))
    with (
        Records.open(reader, create=False) as records,
        pytest.raises(RecordError, match="permission denied"),
    ):
        records.add(record_of("t", 2))


def test_other_databases_are_refused_in_words(server: PostgresServer, url: str) -> None:
    with pytest.raises(RecordError, match="has no records"):
        Records.open(url, create=False)
    with pytest.raises(RecordError, match='database "nowhere" does not exist'):
        Records.open(server.url("nowhere"))
    Records.open(url).close()
    server.execute("UPDATE ansorc.about SET version = 99", url.rpartition("/")[2])
    with pytest.raises(RecordError, match=r"a newer ansorc \(schema 99"):
        Records.open(url)


def test_tables_of_an_earlier_version_are_brought_up_to_date(
    server: PostgresServer, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file is, with a migration that changes tables, rows and keys."""
    with Records.open(url) as there, Records.open(tmp_path / "a.db") as here:
        filled(there, 0)
        filled(here, 0)

    def migrate(connection: sqlite3.Connection) -> str:
        connection.execute("CREATE TABLE more (key TEXT PRIMARY KEY)")
        connection.execute("ALTER TABLE winners ADD COLUMN margin REAL")
        connection.execute("UPDATE records SET message = 'new ' || message")
        connection.execute("DELETE FROM records WHERE id = (SELECT max(id) FROM records)")
        return "messages are new"

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, migrate))
    for module in (schema, server_store):
        monkeypatch.setattr(module, "SCHEMA_VERSION", len(schema.MIGRATIONS))
    with pytest.raises(RecordError, match="an older ansorc"):
        Records.open(url, read_only=True)
    name = url.rpartition("/")[2]
    for statement in ('CREATE ROLE "A reader" LOGIN', 'GRANT USAGE ON SCHEMA ansorc TO "A reader"',
                      'GRANT SELECT ON ALL TABLES IN SCHEMA ansorc TO "A reader"',
                      "GRANT SELECT ON ansorc.tasks TO PUBLIC"):  # fmt: skip
        server.execute(statement, name)
    with Records.open(url) as there, Records.open(tmp_path / "a.db") as here:
        assert there.notes[0] == here.notes[0] == "messages are new"
        assert told(there) == told(here)
        for records in (there, here):
            records.add(record_of("t", 1))
            records.decide(record_of("t", 1))
        assert told(there) == told(here)
        assert here.holdings()
    with Records.open(url) as there:
        assert not there.notes
        assert there.count() > 40
    assert not verify(parse_record_uri(url)).faults
    with Records.open(url.replace("ansorc@", "A%20reader@"), read_only=True) as there:
        assert there.count() > 40


def test_a_migration_that_fails_changes_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: sqlite3.Connection) -> str:
        connection.execute("DELETE FROM records")
        raise RecordError("no")

    with Records.open(url) as records:
        filled(records, 0)
        before = told(records)
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, fail))
        patched.setattr(server_store, "SCHEMA_VERSION", len(schema.MIGRATIONS))
        with pytest.raises(RecordError, match="no"):
            Records.open(url)
    with Records.open(url) as records:
        assert told(records) == before


def test_what_a_text_may_hold(url: str) -> None:
    message = "NUL \0, ' \" \\ % ? %s :x {0} \N{SNOWMAN}"
    with Records.open(url) as records:
        records.add(replace(record_of("t", 1, None), message=message))
        (found,) = records.all("t")
    assert found.message == message.replace("\0", "\N{REPLACEMENT CHARACTER}")
