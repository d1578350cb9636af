"""Commands whose records are kept by a real PostgreSQL."""

from __future__ import annotations

import json
import time
from collections.abc import Generator

import pytest

pytest.importorskip("sqlalchemy", reason="needs the package sqlalchemy")
pytest.importorskip("psycopg", reason="needs the package psycopg")

from ansorc.search.record import Records
from tests.search.record.postgres_server import PostgresServer
from tests.support.command_line import CommandLine


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    yield from PostgresServer.served()


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.new_database()


def test_tune_build_and_report(cli: CommandLine, url: str) -> None:
    tuned = cli.run("tune", "ops.py:product", "--trials", "3", "--records", url)
    assert tuned.code == 0, tuned
    assert f"records: {url} (3 programs)" in tuned.out
    assert (
        "measured" not in cli.run("tune", "ops.py:product", "--trials", "3", "--records", url).err
    )
    built = cli.run("build", "ops.py:product", "--records", url, "-o", "product.so")
    assert built.out.startswith("product: tuned, "), built
    (best,) = json.loads(cli.run("records", "best", url, "--json").out)
    manifest = json.loads((cli.directory / "product.json").read_text())
    assert manifest["records"][0]["program"] == best["program"]
    assert " 3 " in cli.run("records", "list", url).out
    assert cli.run("records", "verify", url).out.endswith("3 records of 1 tasks, all as written\n")
    assert cli.run("records", "prune", url).out.endswith("nothing is stale\n")
    out = cli.run("records", "export", url).out
    assert out == f"{url.rpartition('/')[2]}.jsonl: 3 records\n"
    assert cli.run("records", "merge", url, "-o", "all.db").out.endswith("all.db: 3 records\n")
    assert json.loads(cli.run("records", "best", "all.db", "--json").out) == [best]
    refused = cli.run("records", "verify", url, "--salvage", "new.db").refused()
    assert "is not a file whose pages could be read" in refused
    pytest.importorskip("vl_convert", reason="vl-convert draws the charts")
    report = cli.run("report", url, "--no-limits")
    assert report.out.startswith("report.html: 3 trials of 1 tasks"), report


def test_a_server_that_is_not_there(cli: CommandLine) -> None:
    url = "postgresql://me:secret@127.0.0.1:1/records"
    refused = cli.run("build", "ops.py:product", "--records", url).refused()
    assert "postgresql://me:***@127.0.0.1:1/records: " in refused
    assert "refused" in refused
    assert "secret" not in refused
    assert "not by mysql://" in cli.run("records", "list", "mysql://host/db").refused()


@pytest.mark.nightly
def test_two_tuners_at_once_while_the_server_restarts(
    cli: CommandLine, server: PostgresServer, url: str
) -> None:
    """They measure the same task, each as many programs as it would alone."""
    trials = 40
    tuners = [
        cli.start(
            "tune", "ops.py:product", "--trials", str(trials), "--records", url, "--seed", seed
        )
        for seed in "12"
    ]
    with Records.open(url) as records:
        deadline = time.monotonic() + 120
        while records.count() < trials:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    server.stop()
    time.sleep(2.0)
    server.start()
    ends = [tuner.communicate(timeout=200) for tuner in tuners]
    assert [tuner.returncode for tuner in tuners] == [0, 0], ends
    with Records.open(url, read_only=True) as records:
        (key,) = records.task_keys()
        found = records.all(key)
        seeds = [sum(one.seed == seed for one in found) for seed in (1, 2)]
        assert sum(seeds) == len(found) == records.count()
        assert len({one.program_key for one in found}) == len(found)
        assert len(found) >= trials
        assert min(seeds) > 0, seeds
    assert all(f"measured {trials} programs" in err for _, err in ends), ends
    assert cli.run("records", "verify", url).code == 0
