"""Bring record files in which steps have the names of one definition to canonical names."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

from ansorc.errors import AnsorcError
from ansorc.schedule import Names, steps_from_json, steps_to_json
from ansorc.search.measure.result import Source
from ansorc.search.record.record import Record
from ansorc.search.task import Task

SET_ASIDE = "of another definition: "
"""What stands before the task's key of a record whose names the stored definition does not have."""


def name_canonically(connection: sqlite3.Connection) -> str:
    """Give tasks and programs the keys, and steps the names, that follow from the computation.

    Return what was done, for the user. Programs that were recorded for another definition of the
    computation than the one that the file holds cannot be translated: they stay in the file, but
    are not found by a task. A loop program without steps stays what it is.
    """
    counts = {True: 0, False: 0}
    for row in connection.execute("SELECT * FROM tasks").fetchall():
        task = Task.from_texts(*row[1:])
        names = Names(task.dag)
        query = "SELECT id, program_key, steps FROM records WHERE task_key = ? AND function = ''"
        for number, key, steps in connection.execute(query, row[:1]).fetchall():
            source = _translated(names, steps)
            counts[source is not None] += 1
            _rewrite(connection, row[0], (number, key), source)
        _move(connection, row[0], task.key)
    if not any(counts.values()):
        return ""
    words = f"{counts[True]} programs of an earlier ansorc now have names that fit every definition"
    if counts[False]:
        words += (
            f"; {counts[False]} were recorded for another definition than the one in the file and "
            "cannot be translated: they are kept, but not used"
        )
    return words


def with_canonical_names(record: Record, task: Task | None) -> Record:
    """Return a record whose steps have the names of the definition `task` under canonical ones.

    It is set aside, as in `name_canonically`, where these are not its names.
    """
    source = None if task is None else _translated(Names(task.dag), record.steps)
    if record.function or source is None:
        aside = record.task_key if record.function else SET_ASIDE + record.task_key
        return replace(record, task_key=aside)
    return replace(record, steps=source.steps, program_key=source.key)


def _translated(names: Names, steps: str) -> Source | None:
    try:
        return Source.of_steps(steps_to_json(names.canonical(steps_from_json(json.loads(steps)))))
    except AnsorcError:
        return None


def _rewrite(
    connection: sqlite3.Connection, task: str, old: tuple[int, str], new: Source | None
) -> None:
    """Give a record its new steps, or set it aside."""
    number, key = old
    if new is None:
        connection.execute(
            "UPDATE records SET task_key = ? WHERE id = ?", (SET_ASIDE + task, number)
        )
        return
    connection.execute(
        "UPDATE records SET steps = ?, program_key = ? WHERE id = ?", (new.steps, new.key, number)
    )
    connection.execute(
        "UPDATE winners SET program_key = ? WHERE task_key = ? AND program_key = ?",
        (new.key, task, key),
    )


def _move(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Give a task another key; of two tasks that become one a program that both have stays once."""
    if old == new:
        return
    for table, column in (("tasks", "key"), ("records", "task_key"), ("winners", "task_key")):
        connection.execute(
            f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} = ?", (new, old)
        )
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (old,))
