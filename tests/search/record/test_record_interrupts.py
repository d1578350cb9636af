"""Ctrl-C between any two statements of SQLite: it stays a Ctrl-C, and the file stays whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansorc.search.record import Records
from tests.search.record.examples import HERE, record_of, task_of


class Interrupted(sqlite3.Connection):
    """Raises KeyboardInterrupt just after statement number `at`, as a signal handler does."""

    at = 0
    count = 0

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        done = super().execute(*arguments)
        Interrupted.count += 1
        if Interrupted.count == Interrupted.at:
            raise KeyboardInterrupt
        return done


def interrupted_everywhere(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]
) -> list[type[BaseException]]:
    """What `act(n)` raised when it was interrupted after statement n = 1, 2, … until it was not."""
    connect = sqlite3.connect

    def interrupted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return connect(*arguments, **options, factory=Interrupted)

    monkeypatch.setattr(sqlite3, "connect", interrupted)
    ends: list[type[BaseException]] = []
    while True:
        Interrupted.at, Interrupted.count = len(ends) + 1, 0
        try:
            act(Interrupted.at)
        except BaseException as error:  # noqa: BLE001
            ends.append(type(error))
        else:
            monkeypatch.undo()
            return ends


def test_while_the_file_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(number: int) -> None:
        with Records.open(tmp_path / f"{number}.db") as records:
            records.add_task(task_of())

    interrupts = interrupted_everywhere(monkeypatch, act)
    assert len(interrupts) > 10
    assert set(interrupts) == {KeyboardInterrupt}
    for number in range(1, len(interrupts) + 1):
        with Records.open(tmp_path / f"{number}.db") as records:
            records.add_task(task_of())
            records.add(record_of(task_of().key, 1))
            assert len(records.all(task_of().key, HERE)) == 1


def test_while_a_record_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same connection goes on, because a run tells what it found before it ends."""
    path = tmp_path / "a.db"
    Records.open(path).close()

    def act(number: int) -> None:
        with Records.open(path) as records:
            before = len(records.all("t", HERE))
            try:
                records.add(record_of("t", number))
            finally:
                Interrupted.at = 0
                assert len(records.all("t", HERE)) in (before, before + 1)

    interrupts = interrupted_everywhere(monkeypatch, act)
    assert set(interrupts) == {KeyboardInterrupt}
    with Records.open(path) as records:
        found = len(records.all("t", HERE))
        assert found >= 1
        records.add(record_of("t", 1000))
        assert len(records.all("t", HERE)) == found + 1
