"""`ansorc records`: list, merge, export, prune and check record files."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TextIO, TypeAlias

import click
from rich.console import Console
from rich.markup import escape

from ansorc.cli.arguments import RECORD_PLACE
from ansorc.cli.tables import new_table
from ansorc.errors import RecordError
from ansorc.search.record import (
    Environment,
    Record,
    RecordLocation,
    Records,
    export_lines,
    import_lines,
)
from ansorc.search.record.database import Holding
from ansorc.search.record.salvage import salvage
from ansorc.search.record.upkeep import merge, prune, stale, verify
from ansorc.target.units import seconds_text

Fields: TypeAlias = dict[str, object]
"""One row of the output, by the field names of JSON and CSV."""
Show: TypeAlias = Callable[[str, Sequence[Fields], Mapping[str, str]], None]
"""A function that prints rows, with the title and the headings of a table."""
P = ParamSpec("P")
_PIPED_WIDTH = 200
_RECORD_FILE = click.Path(path_type=Path)
_TASKS = {"name": "task", "short": "key", "machine": "machine"}


@click.group()
def records() -> None:
    """List, merge, export, prune and check record files.

    A FILE may also be a database, postgresql://user@host/database.

    Example:  ansorc records list tune.db
    """


def _takes_file(command: Callable[P, None]) -> Callable[P, None]:
    return click.argument("file", type=RECORD_PLACE)(command)


def _shows(command: Callable[Concatenate[Show, P], None]) -> Callable[P, None]:
    """Add --json and --csv to a command, which gets a function that prints its rows."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON, times in seconds.")
    @click.option("--csv", "as_csv", is_flag=True, help="Print CSV, times in seconds.")
    @wraps(command)
    def with_format(*args: P.args, **options: P.kwargs) -> None:
        as_json, as_csv = options.pop("as_json"), options.pop("as_csv")
        if as_json and as_csv:
            raise click.UsageError("--json or --csv, not both")
        show = _show_json if as_json else _show_csv if as_csv else _show_table
        command(show, *args, **options)

    return with_format


def _takes_task(command: Callable[P, None]) -> Callable[P, None]:
    return click.option("--task", default="", metavar="NAME|KEY",
                        help="Only this task, by name or by the first letters of its key.")(
        command)  # fmt: skip


@records.command("list", short_help="Show what a file holds, by task and machine.")
@_takes_file
@_takes_task
@_shows
def list_records(show: Show, file: RecordLocation, task: str) -> None:
    """Show the programs, failures and best time of each task in a record file.

    With --task, show each program of that task.

    Example:  ansorc records list tune.db
    """
    with Records.open(file, read_only=True) as opened:
        holdings = _choose_tasks(opened, task)
        if not task:
            show(str(file), [_of_holding(holding) for holding in holdings], {
                **_TASKS, "programs": "programs", "failed": "failed", "best_time": "best time",
            })  # fmt: skip
            return
        rows = [
            {**_of_task(holding), **_of_record(record)}
            for holding in holdings
            for record in opened.all(holding.task_key, holding.environment)
        ]
        show(f"{file}: {', '.join(dict.fromkeys(holding.name for holding in holdings))}", rows, {
            "program": "program", "time": "time", "spread": "spread", "failure": "failure",
            "created": "measured", "seed": "seed", "version": "with",
        })  # fmt: skip


@records.command("best", short_help="Show the best program of each task.")
@_takes_file
@_takes_task
@_shows
def best_records(show: Show, file: RecordLocation, task: str) -> None:
    """Show the best program of each task and machine: the one that a build uses.

    Example:  ansorc records best tune.db
    """
    with Records.open(file, read_only=True) as opened:
        defined = set(opened.defined_keys())
        rows: list[Fields] = []
        for holding in _choose_tasks(opened, task):
            if holding.best is None:
                continue
            flops = opened.task(holding.task_key).dag.flops if holding.task_key in defined else 0.0
            seconds = holding.best.median_s or 0.0
            rate = flops / seconds / 1e9 if flops and seconds else None
            rows.append({**_of_task(holding), **_of_record(holding.best), "gflop_per_s": rate,
                         "rate": "" if rate is None else f"{rate:.1f}",
                         "steps": json.loads(holding.best.steps)})  # fmt: skip
    show(str(file), rows, {**_TASKS, "time": "time", "spread": "spread", "rate": "GFLOP/s",
                           "created": "measured", "version": "with"})  # fmt: skip


@records.command("export", short_help="Write a file's records as JSON lines or CSV.")
@_takes_file
@click.option("--output", "-o", type=_RECORD_FILE,
              help="The file to write; default: FILE with .jsonl or .csv.")  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="CSV, which `import` doesn't read.")
def export_records(file: RecordLocation, output: Path | None, *, as_csv: bool) -> None:
    """Write all records as JSON lines, for people, other programs and `import`.

    Example:  ansorc records export tune.db -o tune.jsonl
    """
    source = file if isinstance(file, Path) else Path(file.name)
    path = output or source.with_suffix(".csv" if as_csv else ".jsonl")
    if isinstance(file, Path) and path.exists() and path.samefile(file):
        raise RecordError(f"{path} is the record file itself; give another output")
    with Records.open(file, read_only=True) as opened:
        if as_csv:
            rows = [
                {**_of_task(holding), **_of_record(record), "steps": record.steps}
                for holding in opened.holdings()
                for record in opened.all(holding.task_key, holding.environment)
            ]
            with path.open("w", newline="") as stream:
                _write_csv(rows, stream)
            count = len(rows)
        else:
            count = export_lines(opened, path)
    click.echo(f"{path}: {count} records")


@records.command("import", short_help="Add JSON lines to a record file.")
@_takes_file
@click.argument("lines", type=_RECORD_FILE, nargs=-1, required=True)
def import_records(file: RecordLocation, lines: tuple[Path, ...]) -> None:
    """Add the JSON lines of `export` to a record file; create the file if it is missing.

    Example:  ansorc records import tune.db tune.jsonl
    """
    with Records.open(file) as opened:
        for path in lines:
            counts = import_lines(opened, path)
            click.echo(f"{path}: {counts.records} records of {counts.tasks} tasks")
            if counts.truncated:
                click.echo(f"note: {path}: the last line is cut off and was left out", err=True)


@records.command("merge", short_help="Join record files of several machines.")
@click.argument("files", type=RECORD_PLACE, nargs=-1, required=True)
@click.option("--output", "-o", type=RECORD_PLACE, required=True,
              help="The merged file; records are added if it exists.")  # fmt: skip
def merge_records(files: tuple[RecordLocation, ...], output: RecordLocation) -> None:
    """Merge record files; each record keeps the machine on which it was measured.

    If several files have a program, a record of a crash or of a wrong result is kept, else the
    latest record.

    Example:  ansorc records merge desk.db server.db -o all.db
    """
    for merged in merge(output, files):
        for note in merged.notes:
            click.echo(f"note: {note}", err=True)
        known = merged.read - merged.added
        click.echo(f"{merged.path}: {merged.added} records added"
                   + (f", {known} programs were known" if known else ""))  # fmt: skip
    click.echo(f"{output}: {_count(output)} records")


def _count(path: RecordLocation) -> int:
    with Records.open(path, read_only=True) as opened:
        return opened.count()


@records.command("prune", short_help="Drop what another version measured.")
@_takes_file
@click.option("--yes", is_flag=True, help="Drop it; without this it is only shown.")
def prune_records(file: RecordLocation, *, yes: bool) -> None:
    """Drop stale records: those of other compilers and of other definitions.

    Example:  ansorc records prune tune.db
    """
    dropped = prune(file) if yes else stale(file)
    for version, count in dropped.versions.items():
        click.echo(f"{count} records were measured with ansorc {_plain(version or 'unknown')}")
    if dropped.set_aside:
        click.echo(f"{dropped.set_aside} records are of definitions that the file does not have")
    if not dropped.count:
        click.echo(f"{file}: nothing is stale")
    elif yes:
        click.echo(f"{file}: dropped {dropped.count}, {_count(file)} records are left")
    else:
        click.echo(f"{file}: {dropped.count} of {_count(file)} records are stale; "
                   "nothing was dropped yet, --yes does it")  # fmt: skip


@records.command("verify", short_help="Check files for damage, and save what is readable.")
@click.argument("files", type=RECORD_PLACE, nargs=-1, required=True)
@click.option("--salvage", "output", type=_RECORD_FILE, metavar="NEW.db",
              help="Write the readable records to this new file.")  # fmt: skip
def verify_records(files: tuple[RecordLocation, ...], output: Path | None) -> None:
    """Check every page and every row of record files for damage.

    Programs and tasks have hashes, so a changed byte is found; a changed time is not.

    Example:  ansorc records verify tune.db --salvage saved.db
    """
    if output is not None:
        if len(files) != 1:
            raise click.UsageError("--salvage takes one file; save several one by one")
        (path,) = files
        if not isinstance(path, Path):
            raise RecordError(
                f"{path} is not a file whose pages could be read; a database is restored by its "
                "own tools, or from what `ansorc records export` wrote"
            )
        click.echo(f"{output}: {salvage(path, output).sentence}")
        return
    damaged = 0
    for path in files:
        problems = verify(path)
        damaged += bool(problems.faults)
        if problems.faults:
            click.echo(f"{path}: damaged: {'; '.join(map(_plain, problems.faults))}")
        else:
            click.echo(
                f"{path}: {problems.records} records of {problems.tasks} tasks, all as written"
            )
    if damaged:
        raise RecordError(
            f"{damaged} of {len(files)} files are damaged; save what is readable of each with: "
            "ansorc records verify FILE --salvage NEW.db"
        )


def _choose_tasks(opened: Records, wanted: str) -> list[Holding]:
    """Return the tasks of the file that match `wanted`; raise RecordError if there is none."""
    holdings = opened.holdings()
    if not wanted:
        return holdings
    fitting = [
        holding
        for holding in holdings
        if wanted == holding.name or holding.task_key.startswith(wanted)
    ]
    if not fitting:
        names = ", ".join(dict.fromkeys(_plain(holding.name) for holding in holdings)) or "none"
        raise RecordError(f"{opened.path} has no task '{wanted}'; it has {names}")
    return fitting


def _of_task(holding: Holding) -> Fields:
    environment = holding.environment
    return {
        "task": holding.task_key, "name": holding.name, "target": holding.target,
        "cpu": environment.cpu, "cores": environment.cores, "threads": environment.running,
        "cache": environment.cache, "short": holding.task_key[:12],
        "machine": _machine(environment),
    }  # fmt: skip


def _machine(environment: Environment) -> str:
    return f"{environment.cpu}, {environment.running} threads, {environment.cache}"


def _of_holding(holding: Holding) -> Fields:
    best = holding.best.median_s if holding.best else None
    return {
        **_of_task(holding), "programs": holding.programs, "failed": holding.failed, "best_s": best,
        "best_time": _time(best),
    }  # fmt: skip


def _of_record(record: Record) -> Fields:
    return {
        "program": record.program_key, "median_s": record.median_s, "spread_s": record.spread_s,
        "repeats": record.repeats, "checked": record.checked,
        "failure": record.failure.value if record.failure else None, "message": record.message,
        "data": record.data,
        "build_s": record.build_s, "run_s": record.run_s, "created": _date(record.created),
        "seed": record.seed, "version": record.version, "known": record.known,
        "time": _time(record.median_s),
        "spread": f"{record.spread_s / record.median_s:.1%}" if record.median_s else "",
    }  # fmt: skip


def _time(seconds: float | None) -> str:
    return "" if seconds is None else seconds_text(seconds)


def _date(created: float) -> str:
    try:
        return datetime.fromtimestamp(created, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return "unknown"


_FOR_TABLES = ("short", "machine", "best_time", "time", "spread", "rate")
"""Fields that repeat others in a form for people."""


def _show_table(title: str, rows: Sequence[Fields], headings: Mapping[str, str]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    table = new_table(console, escape(_plain(title)), *headings.values())
    for row in rows:
        values = (row[name] for name in headings)
        table.add_row(*(escape(_plain("" if value is None else str(value))) for value in values))
    console.print(table)


def _show_json(title: str, rows: Sequence[Fields], headings: Mapping[str, str]) -> None:
    del title, headings
    click.echo(json.dumps(list(_for_programs(rows)), indent=2))


def _show_csv(title: str, rows: Sequence[Fields], headings: Mapping[str, str]) -> None:
    del title, headings
    _write_csv(rows, sys.stdout)


def _write_csv(rows: Sequence[Fields], stream: TextIO) -> None:
    flat = [
        {name: json.dumps(value) if isinstance(value, list) else value
         for name, value in row.items()}
        for row in _for_programs(rows)
    ]  # fmt: skip
    if flat:
        writer = csv.DictWriter(stream, list(flat[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)


def _for_programs(rows: Iterable[Fields]) -> Iterable[Fields]:
    for row in rows:
        yield {name: value for name, value in row.items() if name not in _FOR_TABLES}


def _plain(text: str) -> str:
    """Return the text without control sequences for a terminal: a file may be from anybody."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
