"""`ansorc records`: every verb, on files as a user has them."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ansorc.search.record import Records
from ansorc.search.record.record import current_version
from ansorc.search.task import Task
from tests.search.record.damaged_files import COUNT, written
from tests.search.record.examples import ELSEWHERE, HERE, record_of, task_of
from tests.support.command_line import CommandLine

KEY = task_of(8).key


@pytest.fixture
def tuned(cli: CommandLine) -> CommandLine:
    written(Path("tune.db"))
    return cli


def test_list(tuned: CommandLine) -> None:
    ended = tuned.run("records", "list", "tune.db")
    assert ended.code == 0, ended
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[0] == ["tune.db"]
    assert lines[1] == ["task", "key", "machine", "programs", "failed", "best", "time"]
    row = "double 507448c77594 Test CPU, 2 threads, warm 40 6 1 ms"
    assert row.split() in lines
    assert len(lines) == 2 + 4  # two tasks, two machines


def test_list_for_programs(tuned: CommandLine) -> None:
    rows = json.loads(tuned.run("records", "list", "tune.db", "--json").out)
    assert sum(row["programs"] for row in rows) == COUNT
    assert {row["cpu"] for row in rows} == {HERE.cpu, ELSEWHERE.cpu}
    assert {row["best_s"] for row in rows} == {1e-3}
    text = tuned.run("records", "list", "tune.db", "--csv").out
    found = list(csv.DictReader(io.StringIO(text)))
    assert [row["task"] for row in found] == [row["task"] for row in rows]
    assert [float(row["best_s"]) for row in found] == [row["best_s"] for row in rows]


def test_the_programs_of_one_task(tuned: CommandLine) -> None:
    rows = json.loads(tuned.run("records", "list", "tune.db", "--task", KEY[:9], "--json").out)
    assert len(rows) == COUNT // 2
    crashed = [row for row in rows if row["failure"]]
    assert {(row["failure"], row["message"], row["median_s"]) for row in crashed} == {
        ("crash", "SIGSEGV", None)
    }
    assert rows[1]["created"].startswith("2023-11-14T22:")
    table = tuned.run("records", "list", "tune.db", "--task", "double").out
    assert table.count(" crash ") == sum(number % 7 == 0 for number in range(COUNT))
    error = tuned.run("records", "list", "tune.db", "--task", "triple").refused()
    assert error == "error: tune.db has no task 'triple'; it has double"


def test_best(tuned: CommandLine) -> None:
    rows = json.loads(tuned.run("records", "best", "tune.db", "--json").out)
    assert len(rows) == 4
    assert {row["version"] for row in rows} == {"0.1"}
    assert all(row["gflop_per_s"] == pytest.approx(8e-6 * row_size(row)) for row in rows)
    with Records.open("tune.db") as records:
        for row in rows:
            environment = HERE if row["cpu"] == HERE.cpu else ELSEWHERE
            best = records.best(row["task"], environment)
            assert best is not None
            assert (row["program"], row["steps"]) == (best.program_key, json.loads(best.steps))
    assert "\n double " in tuned.run("records", "best", "tune.db").out


def row_size(row: dict[str, object]) -> int:
    return 1 if row["task"] == KEY else 2


def test_what_a_file_says_does_not_steer_the_terminal(cli: CommandLine) -> None:
    task = Task(task_of().dag, task_of().target, "\x1b[2J[red]evil\n")
    with Records.open("tune.db") as records:
        records.add_task(task)
        records.add(record_of(task.key, 1))
    out = cli.run("records", "list", "tune.db").out
    assert "\x1b" not in out
    assert "\N{REPLACEMENT CHARACTER}[2J[red]evil" in out


def test_export_and_import(tuned: CommandLine) -> None:
    ended = tuned.run("records", "export", "tune.db")
    assert ended.out == f"tune.jsonl: {COUNT} records\n"
    ended = tuned.run("records", "import", "new.db", "tune.jsonl")
    assert ended.out == f"tune.jsonl: {COUNT} records of 2 tasks\n"
    text = Path("tune.jsonl").read_text()
    Path("cut.jsonl").write_text(text[:-20])
    ended = tuned.run("records", "import", "cut.db", "cut.jsonl")
    assert (ended.code, "the last line is cut off and was left out" in ended.err) == (0, True)
    assert tuned.run("records", "export", "tune.db", "--csv").out == f"tune.csv: {COUNT} records\n"
    rows = list(csv.DictReader(Path("tune.csv").read_text().splitlines()))
    assert len(rows) == COUNT
    assert json.loads(rows[5]["steps"])[0][0] == "Split"
    error = tuned.run("records", "export", "tune.db", "-o", "tune.db").refused()
    assert "is the record file itself" in error
    error = tuned.run("records", "import", "new.db", "tune.db").refused()
    assert "tune.db cannot be read" in error


def test_a_line_of_deep_nesting_is_refused(cli: CommandLine) -> None:
    Path("deep.jsonl").write_text("[" * 100_000 + "\n{}\n")
    assert "deep.jsonl, line 1: not JSON" in cli.run(
        "records", "import", "new.db", "deep.jsonl"
    ).refused()  # fmt: skip


def test_merge(tuned: CommandLine) -> None:
    with Records.open("more.db") as records:
        records.add(replace(record_of(KEY, 2), created=9e9))
        records.add(record_of(KEY, 999))
    ended = tuned.run("records", "merge", "tune.db", "more.db", "-o", "all.db")
    assert ended.out == (
        f"tune.db: {COUNT} records added\nmore.db: 1 records added, 1 programs were known\n"
        f"all.db: {COUNT + 1} records\n"
    )
    assert "Missing option '--output'" in tuned.run("records", "merge", "tune.db").refused(2)


def test_prune_shows_before_it_drops(tuned: CommandLine) -> None:
    with Records.open("tune.db") as records:
        records.add(replace(record_of(KEY, 999), version=current_version()))
    shown = tuned.run("records", "prune", "tune.db").out
    assert shown == (
        f"{COUNT} records were measured with ansorc 0.1\n"
        f"tune.db: {COUNT} of {COUNT + 1} records are stale; nothing was dropped yet, "
        "--yes does it\n"
    )
    assert tuned.run("records", "prune", "tune.db").out == shown
    dropped = tuned.run("records", "prune", "tune.db", "--yes").out
    assert dropped.endswith(f"tune.db: dropped {COUNT}, 1 records are left\n")
    assert tuned.run("records", "prune", "tune.db").out == "tune.db: nothing is stale\n"


def test_verify_and_salvage(tuned: CommandLine) -> None:
    whole = f"tune.db: {COUNT} records of 2 tasks, all as written\n"
    assert tuned.run("records", "verify", "tune.db").out == whole
    text = Path("tune.db").read_bytes()
    Path("cut.db").write_bytes(text[: len(text) * 2 // 3])
    ended = tuned.run("records", "verify", "tune.db", "cut.db")
    assert ended.code == 1
    assert ended.out.startswith(f"{whole}cut.db: damaged: ")
    assert "error: 1 of 2 files are damaged; save what is readable of each with: " in ended.err
    for verb in ("list", "best", "export"):
        assert "ansorc records verify cut.db --salvage NEW.db" in tuned.run(
            "records", verb, "cut.db"
        ).refused()  # fmt: skip
    ended = tuned.run("records", "verify", "cut.db", "--salvage", "saved.db")
    assert ended.code == 0
    assert ended.out.startswith("saved.db: saved ")
    assert "the end of the file after " in ended.out
    assert tuned.run("records", "verify", "saved.db").code == 0
    two = ("records", "verify", "tune.db", "cut.db", "--salvage", "x.db")
    assert "takes one file" in tuned.run(*two).refused(2)


@pytest.mark.parametrize("verb", ["list", "best", "export", "prune", "verify", "merge"])
def test_files_that_are_none(cli: CommandLine, verb: str) -> None:
    more = ("-o", "all.db") if verb == "merge" else ()
    Path("notes.txt").write_text("my notes\n" * 900)
    Path("folder").mkdir()
    error = cli.run("records", verb, "notes.txt", *more).refused()
    assert "notes.txt is not a record file" in error
    assert "folder is a directory" in cli.run("records", verb, "folder", *more).refused()
    assert "there is no record file none.db" in cli.run("records", verb, "none.db", *more).refused()


def test_help_does_not_wait_for_the_compiler(cli: CommandLine) -> None:
    began = time.perf_counter()
    process = cli.start("--help")
    out, _ = process.communicate()
    assert "records" in out
    assert time.perf_counter() - began < 10  # 0.1 s on an idle machine; a hang is what fails
    loaded = "import ansorc.cli.main, sys; print(*sys.modules)"
    modules = cli.start(before=f"{loaded}; sys.exit()").communicate()[0].split()
    assert not {"numpy", "rich", "onnx", "ansorc.lang", "ansorc.search"} & set(modules)
