"""Record files of commit d79701b, whose steps had the names of one definition, and other names."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from ansorc.lang.reference import evaluate
from ansorc.schedule import Step, lower, replay, steps_to_json
from ansorc.search.measure import ProgramText
from ansorc.search.programs import compile_program, program_of_record
from ansorc.search.record import Record, Records, export_lines, import_lines
from ansorc.search.record.schema import SET_ASIDE
from ansorc.search.task import Task
from tests.search.other_names import hostile

DUMP = Path(__file__).with_name("written_by_d79701b.sql")
COUNTS = {"product": 4, "rows": 5, "soft": 6, "conv": 9, "pair": 2}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    connection = sqlite3.connect(tmp_path / "earlier.db")
    connection.executescript(DUMP.read_text())
    connection.close()
    return tmp_path / "earlier.db"


def test_everything_is_found_again(earlier: Path) -> None:
    before = sqlite3.connect(earlier)
    old = before.execute("SELECT steps, median_s, created, seed FROM records").fetchall()
    before.close()
    with Records.open(earlier) as records:
        assert records.notes == (
            "26 programs of an earlier ansorc now have names that fit every definition; 1 were "
            "recorded for another definition than the one in the file and cannot be translated: "
            "they are kept, but not used",
        )
        tasks = records.tasks()
        assert {task.name: len(records.all(task.key)) for task in tasks} == COUNTS
        every = [record for key in records.task_keys() for record in records.all(key)]
        assert sum(record.task_key.startswith(SET_ASIDE) for record in every) == 1
        for task in tasks:
            found = records.all(task.key)
            for record in found:  # in the names of its definition it is what it was
                steps = ProgramText.of_json(steps_to_json(steps_of(task, record))).steps
                old.remove((steps, record.median_s, record.created, record.seed))
            assert records.is_winner(found[1])
            assert all(record.program.key == record.program_key for record in found)
    assert len(old) == 1
    with Records.open(earlier) as again:
        assert again.notes == ()


@pytest.mark.parametrize("name", COUNTS)
def test_what_was_recorded_is_built_for_other_names(earlier: Path, name: str) -> None:
    with Records.open(earlier) as records:
        task = next(task for task in records.tasks() if task.name == name)
        other = Task(hostile(task.dag), "native", name)
        assert Task(other.dag, task.target).key == task.key
        for record in records.all(task.key):
            lower(replay(other.dag, steps_of(other, record)))
        best = records.best(task.key)
    assert best is not None
    run(other, best)


def steps_of(task: Task, record: Record) -> tuple[Step, ...]:
    return program_of_record(task, record).steps


def run(task: Task, record: Record) -> None:
    """Build a recorded program and compare its results with the reference."""
    program = program_of_record(task, record)
    module = compile_program(task, program)
    rng = np.random.default_rng(0)
    values = {b.name: rng.uniform(-1, 1, b.shape).astype(np.float32) for b in task.dag.inputs}
    names = [buffer.name for buffer in task.dag.outputs]
    wanted = dict(zip(names, evaluate(task.dag, list(values.values())), strict=True))
    results = {b.name: np.full(b.shape, np.nan, np.float32) for b in task.dag.outputs}
    packed = program.packed_before
    given = {n: module.pack(n, v) if n in packed else v for n, v in values.items()}
    module(*((given | results)[buffer.name] for buffer in task.dag.params))
    for tensor, result in results.items():
        np.testing.assert_allclose(result, wanted[tensor], 1e-3, 1e-3)


def test_lines_of_an_earlier_version_are_translated(earlier: Path, tmp_path: Path) -> None:
    with Records.open(earlier) as records:
        export_lines(records, tmp_path / "new.jsonl")
        wanted = [record for task in records.tasks() for record in records.all(task.key)]
    with Records.open(tmp_path / "same.db") as same:
        import_lines(same, tmp_path / "new.jsonl")
        assert [r for task in same.tasks() for r in same.all(task.key)] == wanted
    lines = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    tasks = {t.key: t for t in (Task.from_json(x["define"]) for x in lines if "define" in x)}
    for fields in lines:
        if "task" in fields and fields["task"] in tasks:
            record = Record.from_json(fields)
            own = program_of_record(tasks[record.task_key], record).steps
            fields["steps"] = steps_to_json(own)
            del fields["names"]
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    with Records.open(tmp_path / "copy.db") as copy:
        import_lines(copy, tmp_path / "old.jsonl")
        assert [r for task in copy.tasks() for r in copy.all(task.key)] == wanted
