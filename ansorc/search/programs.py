"""Which program a build uses: the best record of the task, or the untuned default."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ansorc.codegen.build import build_function
from ansorc.codegen.module import Module
from ansorc.errors import RecordError
from ansorc.schedule import Step, lower, replay, steps_from_json
from ansorc.search.default import default_steps
from ansorc.search.record import Record, Records, current_environment
from ansorc.search.task import Task


@dataclass(frozen=True)
class Program:
    """The steps of a complete program, and where they come from."""

    steps: tuple[Step, ...]
    origin: str
    """For people: "untuned default schedule", or the record's time."""


def default_program(task: Task) -> Program:
    """Return the program that is used without any tuning."""
    return Program(default_steps(task.dag, task.target), "untuned default schedule")


def recorded_program(record: Record) -> Program:
    """Return the program of `record`."""
    assert record.median_s is not None
    origin = f"tuned, {record.median_s * 1e3:.4g} ms when measured"
    return Program(steps_from_json(json.loads(record.steps)), origin)


def chosen_program(task: Task, path: Path, *, use_default: bool = False) -> Program:
    """Return the best program of `task` in the record file at `path`, or the default one.

    Raise RecordError if the file is missing or holds no checked program of the task for this
    machine: a build never falls back to the default unasked.
    """
    if use_default:
        return default_program(task)
    with Records.open(path, create=False) as records:
        environment = current_environment()
        best = records.best(task.key, environment)
        if best is not None:
            return recorded_program(best)
        elsewhere = records.elsewhere(task.key, environment)
    found = "no measured program"
    if elsewhere.count:
        found = f"only programs measured on another machine or thread count ({elsewhere.count})"
    raise RecordError(
        f"{path} holds {found} of '{task.name}' for {task.target.text}; run `ansorc tune` first, "
        "or use --default for the untuned schedule"
    )


def build_program(task: Task, program: Program, name: str = "") -> Module:
    """Return `program` compiled for the task's target under `name` (default: the task's)."""
    state = replay(task.dag, program.steps)
    return build_function(lower(state, name or task.name), task.target, name or task.name)
