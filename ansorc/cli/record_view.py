"""Show one record for `ansorc show --record`: its origin, why it failed, its steps."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from ansorc.codegen.base import backend_of
from ansorc.errors import AnsorcError, RecordError
from ansorc.schedule import Names
from ansorc.search.measure import Failure, MeasureOptions, Measurer, RunOptions
from ansorc.search.record import Record, RecordLocation, Records, is_missing
from ansorc.search.task import Task
from ansorc.target.units import seconds_text

_SHOWN_KEY = 12


def find_record(location: RecordLocation, name: str, known: Task | None) -> tuple[Task, Record]:
    """Return the task and the record whose program key begins with `name`.

    `name` may be TASK/PROGRAM, with the beginning of the task's key. If several machines have
    records, the latest one is returned. `known` is the task, if the command line names it. Raise
    RecordError if there is not exactly one.
    """
    if is_missing(location):
        raise RecordError(
            f"there is no record file {location}; name an existing one with --records"
        )
    task_key, _, program = name.rpartition("/")
    with Records.open(location, read_only=True) as records:
        matches = records.starting(program, known.key if known else task_key)
        if not matches or not program:
            words = f" of '{known.name}'" if known else ""
            raise RecordError(
                f"{location} has no record{words} whose program begins with '{program}'; "
                f"see: ansorc records list {location} --task NAME"
            )
        names = dict.fromkeys((record_.task_key, record_.program_key) for record_ in matches)
        if len(names) > 1:
            listed = ", ".join(f"{t[:_SHOWN_KEY]}/{p[:_SHOWN_KEY]}" for t, p in [*names][:5])
            raise RecordError(
                f"{len(names)} programs begin with '{name}'; choose one of {listed} …"
            )
        record = matches[0]
        return known or records.task(record.task_key), record


def show_record(task: Task, record: Record) -> None:
    """Print the origin of `record`, its time or its failure, and its steps."""
    made = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M")
    environment = record.environment
    threads = f"{environment.threads} threads" if environment.threads else "all cores"
    click.echo(f"# record {record.program_key} of {task.name}, for {task.target.text}")
    click.echo(
        f"measured {made} UTC on {environment.cpu}, {threads}, {environment.cache} caches, seed "
        f"{record.seed}, with ansorc {record.version or 'unknown'}"
    )
    if record.failure is not None:
        click.echo(f"failed ({record.failure.value}): {record.message}")
    else:
        checked = "checked" if record.checked else "not checked"
        spread = seconds_text(record.spread_s)
        click.echo(f"time: {seconds_text(record.median_s)}, spread {spread}, {checked}")
    if record.function:
        click.echo("\n# the loops, as they were given\n" + record.function.rstrip())
        return
    click.echo("\n# the steps")
    for line in _steps(task, record):
        click.echo(line)


def _steps(task: Task, record: Record) -> list[str]:
    try:
        return [str(step) for step in record.program.decode(Names(task.dag))] or ["none"]
    except AnsorcError as error:
        return [f"they do not fit the task: {error}", record.steps]


def rebuild(task: Task, record: Record) -> None:
    """Build and measure the program of `record` again, in worker processes; print the result."""
    obstacle = backend_of(task.target).capabilities(task.target).obstacle
    if obstacle:
        click.echo(f"\n# not rebuilt: '{task.target.text}' cannot be measured {obstacle}")
        return
    environment = record.environment
    run = RunOptions(threads=environment.threads, cache=environment.cache)
    with Measurer(task, MeasureOptions(run, builders=1, batch=1)) as measurer:
        (outcome,) = measurer.measure([record.program])
    click.echo(f"\n# rebuilt now (built in {seconds_text(outcome.build.total_s, 2)})")
    if isinstance(outcome, Failure):
        detail = outcome.detail.strip()
        click.echo(f"it fails ({outcome.kind.value}): {outcome.message}")
        if detail and detail != outcome.message:
            click.echo(detail)
    else:
        click.echo(
            f"it is right (error {outcome.max_error:.2g} of what rounding explains) and takes "
            f"{seconds_text(outcome.median_s)}"
        )
