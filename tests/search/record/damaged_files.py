"""Record files damaged in many ways, each by a seed, and what opening them may do."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ansorc.errors import RecordError
from ansorc.search.record import Record, Records
from ansorc.search.record.salvage import Salvage, salvage
from ansorc.search.record.upkeep import verify
from tests.search.record.examples import ELSEWHERE, record_of, task_of

T = TypeVar("T")
COUNT = 120
KINDS = ("cut", "flipped", "noise", "zeros", "header", "root", "doubled", "text", "row", "log")


def written(path: Path, count: int = COUNT) -> list[Record]:
    """Write a record file with two tasks, two machines and long steps; return its records."""
    tasks, found = (task_of(8), task_of(16)), list[Record]()
    with Records.open(path) as records:
        for task in tasks:
            records.add_task(task)
        for number in range(count):
            record = record_of(tasks[number % 2].key, number, None if number % 7 == 0 else 1e-3)
            found.append(replace(record, environment=ELSEWHERE) if number % 3 == 0 else record)
            records.add(found[-1])
        records.decide(found[1])
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return found


def damage(path: Path, seed: int) -> str:
    """Damage the record file at `path` as `seed` says; return how."""
    rng, kind = random.Random(seed), KINDS[seed % len(KINDS)]
    text = bytearray(path.read_bytes())
    if kind == "row":
        return _change_row(path, rng)
    if kind == "log":
        path.with_name(f"{path.name}-wal").write_bytes(rng.randbytes(rng.randrange(1, 9000)))
        return kind
    place = rng.randrange(100, len(text))
    if kind == "cut":
        del text[rng.randrange(len(text)) :]
    elif kind == "flipped":
        for _ in range(rng.choice((1, 10, 300))):
            text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
    elif kind == "noise":
        size = rng.randrange(1, 9000)
        text[place : place + size] = rng.randbytes(len(text[place : place + size]))
    elif kind == "zeros":
        page = place // 4096 * 4096
        text[page : page + 4096] = bytes(4096)
    elif kind == "header":
        place = rng.randrange(100)
        text[place : place + 4] = rng.randbytes(4)
    elif kind == "root":
        text[100:140] = rng.randbytes(40)
    elif kind == "doubled":
        text += text[rng.randrange(len(text)) :]
    else:
        text = bytearray(rng.choice((b"", b"SQLite format 3\0", b"my notes\n" * 900, b"\0" * 5000)))
    path.write_bytes(text)
    return kind


def _change_row(path: Path, rng: random.Random) -> str:
    """Put what does not belong there into a column of some rows, as SQLite allows."""
    column = rng.choice(("steps", "median_s", "failure", "program_key", "message", "created"))
    value = rng.choice(("[[[", "\0", b"\xff\xfe", 7, -3.0, float("inf"), "{}", "[" * 5000))
    table, where = rng.choice((("records", f"id % {rng.randrange(1, 9)} = 0"), ("tasks", "1")))
    column = column if table == "records" else rng.choice(("dag_text", "target_text", "name"))
    with sqlite3.connect(path) as connection:
        query = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {where}"
        connection.execute(query, (value,))
    connection.close()
    return f"{table}.{column} = {value!r}"


def salvaged_or_refused(path: Path, output: Path, before: list[Record]) -> Salvage | None:
    """Verify and salvage `path`; None if it was refused. What is salvaged is what was written."""
    in_one_line(lambda: verify(path))
    found = in_one_line(lambda: salvage(path, output))
    if found is None:
        return None
    assert not verify(output).faults
    with Records.open(output, read_only=True) as saved:
        defined = saved.defined_keys()
        kept = [one for key in saved.task_keys() for one in saved.all(key)]
    assert len(kept) == found.records
    programs = {(one.environment, one.program_key, one.steps): one for one in before}
    for one in kept:  # the key of a task that is no longer defined may be any
        own = programs[one.environment, one.program_key, one.steps]
        assert own.task_key == one.task_key or one.task_key not in defined
    return found


def in_one_line(action: Callable[[], T]) -> T | None:
    """Return what `action` does; None if it raises a RecordError of one line."""
    try:
        return action()
    except RecordError as error:
        words = str(error)
    assert "\n" not in words
    return None
