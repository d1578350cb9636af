"""Records as JSON lines, to be read by people, merged, and carried to another machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from ansorc.errors import RecordError
from ansorc.search.record.database import KernelThreads, Records
from ansorc.search.record.record import Environment, Record
from ansorc.search.record.schema import with_canonical_names
from ansorc.search.task import Task


@dataclass(frozen=True)
class ImportSummary:
    """Counts of the lines that `import_lines` took and left."""

    records: int
    tasks: int
    truncated: bool
    """The last line was cut off (by a kill or a full disk) and was dropped."""


def export_lines(records: Records, path: Path) -> int:
    """Write all of `records` to `path`, tasks first, a line each; return the number of records.

    A record's line is `Record.to_json`, a task's line is `{"define": Task.to_json}`. Where that is
    known, "packed_before" has its names. `{"choose": "winner", …}` follows the records that the
    winner was compared with; `{"choose": "threads", …}` of kernels in networks come last.
    """
    count = 0
    try:
        with path.open("w") as file:
            names: dict[str, dict[str, str]] = {}
            for task in records.tasks():
                file.write(json.dumps({"define": task.to_json()}) + "\n")
                pairs = zip(task.dag.canonical.params, task.dag.params, strict=True)
                names[task.key] = {stored.name: here.name for stored, here in pairs}
            for key in records.task_keys():
                here, decisions = names.get(key, {}), records.decisions(key)
                for number, record in enumerate(records.all(key), 1):
                    packed = [here.get(tensor, tensor) for tensor in record.packed_before]
                    fields = {**record.to_json(), "packed_before": packed}
                    file.write(json.dumps(fields) + "\n")
                    count += 1
                    for decision in decisions:
                        if decision.after == number:
                            won = decision.program_key
                            file.write(_ChosenProgram(key, won, decision.environment).to_line())
            for environment in records.environments():
                for choice in records.threads(environment).values():
                    chosen = _ChosenProgram(
                        choice.task_key, choice.program_key, environment, choice.threads
                    )
                    file.write(chosen.to_line())
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error}; give another path") from error
    return count


def import_lines(records: Records, path: Path) -> ImportSummary:
    """Add what `path` holds to `records`; raise RecordError naming the first bad line.

    A last line that is cut off is dropped and reported; nothing is imported if another line is bad.
    Winners and threads are taken of tasks of which `records` held nothing in that environment: of
    programs that others measured they say nothing.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    parsed: list[_LineItem] = []
    tasks = {task.key: task for task in records.tasks()}
    truncated = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            parsed.append(_parse(line, tasks))
        except RecordError as error:
            if number < len(lines):
                raise RecordError(f"{path}, line {number}: {error}") from error
            truncated = True
    new = [item for item in parsed if isinstance(item, Task)]
    for task in new:
        records.add_task(task)
    chosen = [
        item for item in parsed if isinstance(item, _ChosenProgram) and item.is_new_to(records)
    ]
    count = sum(isinstance(item, Record) for item in parsed)
    _add_in_order(records, [item for item in parsed if isinstance(item, Record) or item in chosen])
    return ImportSummary(count, len(new), truncated)


def _add_in_order(records: Records, items: Sequence[_LineItem]) -> None:
    """Add records, and what was chosen when those before it were there."""
    added: dict[tuple[str, str, str], Record] = {}
    for item in items:
        if isinstance(item, Record):
            records.add(item)
            added[item.task_key, item.environment.key, item.program_key] = item
        elif isinstance(item, _ChosenProgram) and not item.is_winner:
            choice = KernelThreads(item.task_key, item.program_key, item.threads)
            records.keep_threads(item.environment, [choice])
        elif isinstance(item, _ChosenProgram):
            winner = added.get((item.task_key, item.environment.key, item.program_key))
            if winner is not None:
                records.decide(winner)


@dataclass(frozen=True)
class _ChosenProgram:
    """A line that says what was chosen of a task in an environment: a winner, or its threads."""

    task_key: str
    program_key: str
    environment: Environment
    threads: int = -1
    """The threads of a program within a network, 0: all; -1: the line names the winner."""

    @property
    def is_winner(self) -> bool:
        """Whether it is about a program, not about threads."""
        return self.threads < 0

    def is_new_to(self, records: Records) -> bool:
        """Whether `records` have neither programs nor threads of the task in the environment."""
        is_known = records.measured(self.task_key, self.environment)
        return not is_known and self.task_key not in records.threads(self.environment)

    def to_line(self) -> str:
        """Return the line, without its end."""
        fields = {
            "choose": "winner" if self.is_winner else "threads",
            "task_key": self.task_key,
            "program_key": self.program_key,
            "environment": json.loads(self.environment.to_json()),
        }
        return json.dumps(fields if self.is_winner else {**fields, "threads": self.threads}) + "\n"

    @staticmethod
    def of(fields: Mapping[str, object]) -> _ChosenProgram:
        """Return what `to_line` wrote; raise RecordError for other fields."""
        try:
            return _ChosenProgram(
                str(fields["task_key"]),
                str(fields["program_key"]),
                Environment.from_json(json.dumps(fields["environment"])),
                -1 if fields["choose"] == "winner" else int(cast("int", fields["threads"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"not a choice: {type(error).__name__}: {error}") from error


_LineItem: TypeAlias = Task | Record | _ChosenProgram


def _parse(line: str, tasks: dict[str, Task]) -> _LineItem:
    """Return the content of a line; a task is added to `tasks`, whose definitions name steps."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not JSON ({error})") from error
    if not isinstance(parsed, dict):
        raise RecordError("not a JSON object")
    fields = cast("dict[str, object]", parsed)
    if "define" in fields:
        task = Task.from_json(str(fields["define"]))
        tasks[task.key] = task
        return task
    if "choose" in fields:
        return _ChosenProgram.of(fields)
    record = Record.from_json(fields)
    is_canonical = "names" in fields
    return record if is_canonical else with_canonical_names(record, tasks.get(record.task_key))
