"""Records as JSON lines, to be read by people, merged, and carried to another machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ansorc.errors import RecordError
from ansorc.search.record.database import Records
from ansorc.search.record.record import Record
from ansorc.search.record.schema import with_canonical_names
from ansorc.search.task import Task


@dataclass(frozen=True)
class ImportSummary:
    """What `import_lines` took and what it left."""

    records: int
    tasks: int
    truncated: bool
    """The last line was cut off (by a kill or a full disk) and was dropped."""


def export_lines(records: Records, path: Path) -> int:
    """Write all of `records` to `path`, tasks first, a line each; return the number of records.

    A record's line is `Record.to_json`, a task's line is `{"define": Task.to_json}`. Where that is
    known, "packed_before" has its names.
    """
    count = 0
    try:
        with path.open("w") as file:
            names: dict[str, dict[str, str]] = {}
            for task in records.tasks():
                file.write(json.dumps({"define": task.to_json()}) + "\n")
                pairs = zip(task.dag.canonical.params, task.dag.params, strict=True)
                names[task.key] = {one.name: own.name for one, own in pairs}
            for key in records.task_keys():
                own = names.get(key, {})
                for record in records.all(key):
                    packed = [own.get(tensor, tensor) for tensor in record.packed_before]
                    fields = {**record.to_json(), "packed_before": packed}
                    file.write(json.dumps(fields) + "\n")
                    count += 1
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error}; give another path") from error
    return count


def import_lines(records: Records, path: Path) -> ImportSummary:
    """Add what `path` holds to `records`; raise RecordError naming the first bad line.

    A last line that is cut off is dropped and reported; nothing is imported if another line is bad.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    parsed: list[Task | Record] = []
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
    for item in parsed:
        if isinstance(item, Record):
            records.add(item)
    return ImportSummary(len(parsed) - len(new), len(new), truncated)


def _parse(line: str, tasks: dict[str, Task]) -> Task | Record:
    """What a line holds; a task is added to `tasks`, those by whose definitions steps are named."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise RecordError(f"not JSON ({error})") from error
    if not isinstance(fields, dict):
        raise RecordError("not a JSON object")
    if "define" in fields:
        task = Task.from_json(str(cast("dict[str, object]", fields)["define"]))
        tasks[task.key] = task
        return task
    record = Record.from_json(cast("dict[str, object]", fields))
    is_canonical = "names" in fields
    return record if is_canonical else with_canonical_names(record, tasks.get(record.task_key))
