"""Records in a file or a database, which several processes may read and write at once."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from ansorc.errors import AnsorcError, RecordError
from ansorc.search.measure.result import FailureKind
from ansorc.search.record.record import Environment, Record
from ansorc.search.record.schema import DamageError, connect
from ansorc.search.record.store import (
    FileStore,
    RecordLocation,
    RecordStore,
    RecordUrl,
    StoreStatement,
    parse_record_uri,
)
from ansorc.search.task import Task

FIELDS = (
    "task_key, program_key, steps, function, environment_key, median_s, spread_s, repeats, "
    "failure, message, checked, build_s, created, seed, version, run_s, known"
)
COLUMNS = FIELDS.replace("environment_key", "environments.json")
_SELECT = f"SELECT {COLUMNS} FROM records JOIN environments ON environments.key = environment_key "
_UPSERT = f"""
INSERT INTO records ({FIELDS}) VALUES ({", ".join("?" * len(FIELDS.split()))})
ON CONFLICT (task_key, program_key, environment_key) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in FIELDS.split(", ")[5:-1])}
WHERE excluded.checked >= records.checked OR excluded.failure IN ('wrong result', 'crash')
"""
_DECIDE = """
INSERT INTO winners (task_key, environment_key, program_key, last_id)
VALUES (?, ?, ?, (SELECT max(id) FROM records))
ON CONFLICT (task_key, environment_key)
DO UPDATE SET program_key = excluded.program_key, last_id = excluded.last_id
"""
_THREADS = """
INSERT INTO kernel_threads (task_key, environment_key, program_key, threads)
VALUES (?, ?, ?, ?)
ON CONFLICT (task_key, environment_key)
DO UPDATE SET program_key = excluded.program_key, threads = excluded.threads
"""
_ALL = 2**62
_UNDEFEATED = """AND NOT EXISTS (
    SELECT 1 FROM winners WHERE winners.task_key = records.task_key
    AND winners.environment_key = records.environment_key
    AND winners.last_id >= records.id AND winners.program_key != records.program_key
) """


@dataclass(frozen=True)
class OtherEnvironments:
    """How many records of a task were measured on other machines or with other settings."""

    count: int
    environments: tuple[Environment, ...]


@dataclass(frozen=True)
class Holding:
    """The records of a task in one environment, counted."""

    task_key: str
    name: str
    """The task's; empty if the file does not say what it is."""
    target: str
    environment: Environment
    programs: int
    failed: int
    best: Record | None
    """The first of `Records.undefeated`."""


@dataclass(frozen=True)
class Decision:
    """Who won when the fastest programs of a task were compared in an environment."""

    task_key: str
    program_key: str
    environment: Environment
    after: int
    """Records of the task that there were then, in the order of `Records.all`."""


@dataclass(frozen=True)
class KernelThreads:
    """How many threads work on a kernel in a network, chosen by measured times."""

    task_key: str
    program_key: str
    """The program that it was measured with; it says nothing of another."""
    threads: int
    """0: all."""


class Records:
    """The records in one file or database. Every change is kept when the method returns.

    One program of a task has one record in one environment: a later measuring replaces the earlier
    one, unless that was checked and the later one is not. One that does harm or gives a wrong
    result is a failure from then on, however often it went well. All methods raise RecordError.
    """

    def __init__(self, store: RecordStore, notes: tuple[str, ...] = ()) -> None:
        if not hasattr(store, "place"):
            raise RecordError(f"records are opened by Records.open(path), not Records({store!r})")
        self.path = store.place
        """The file's path, or the database's URL."""
        self.notes = notes
        """Changes to a file of an earlier version when it was opened."""
        self._store = store

    @staticmethod
    def open(
        path: str | os.PathLike[str] | RecordUrl, *, create: bool = True, read_only: bool = False
    ) -> Records:
        """Open the file at `path`, or the database whose URL that is: postgresql://user@host/name.

        It is made if it is missing and `create` is set, of a database the tables. With `read_only`
        it must be there, and is not changed.
        """
        return Records(*open_store(path, create=create, read_only=read_only))

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file or the connection."""
        self._store.close()

    def add_task(self, task: Task) -> None:
        """Remember what `task` is, so that its records can be built from the file alone."""
        row = (task.key, task.dag.to_text(), task.target.text, task.name)
        self._store.write([("INSERT INTO tasks VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)])

    def add(self, record: Record) -> None:
        """Write `record` to disk."""
        self._store.write([_environment(record.environment), (_UPSERT, _row(record))])

    def keep_threads(self, environment: Environment, chosen: Sequence[KernelThreads]) -> None:
        """Note how many threads each program of `chosen` gets in a network; earlier ones go."""
        rows = [
            (choice.task_key, environment.key, choice.program_key, choice.threads)
            for choice in chosen
        ]
        self._store.write([_environment(environment), *((_THREADS, row) for row in rows)])

    def threads(self, environment: Environment) -> dict[str, KernelThreads]:
        """Return what `keep_threads` noted last of each task, by its key."""
        query = (
            "SELECT task_key, program_key, threads FROM kernel_threads WHERE environment_key = ?"
        )
        rows = self._store.rows(query, (environment.key,))
        return {str(row[0]): KernelThreads(*row) for row in rows}

    def decide(self, winner: Record) -> None:
        """Note that `winner` was the fastest when the best programs so far were compared."""
        row = (winner.task_key, winner.environment.key, winner.program_key)
        self._store.write([(_DECIDE, row)])

    def is_winner(self, record: Record) -> bool:
        """Return whether `record` is the program that `decide` named last."""
        query = "SELECT program_key FROM winners WHERE task_key = ? AND environment_key = ?"
        rows = self._store.rows(query, (record.task_key, record.environment.key))
        return any(row[0] == record.program_key for row in rows)

    def decisions(self, task_key: str) -> list[Decision]:
        """Return what `decide` noted last of a task, one for each environment, oldest first."""
        query = (
            "SELECT program_key, json, (SELECT count(*) FROM records WHERE "
            "records.task_key = winners.task_key AND id <= last_id) FROM winners "
            "JOIN environments ON environments.key = environment_key WHERE task_key = ? "
            "ORDER BY 3, last_id, environment_key"
        )
        rows = self._store.rows(query, (task_key,))
        return [Decision(task_key, row[0], Environment.from_json(row[1]), row[2]) for row in rows]

    def environments(self) -> list[Environment]:
        """Return the environments that anything was measured in."""
        rows = self._store.rows("SELECT json FROM environments ORDER BY key", ())
        with intact(self.path):
            return [Environment.from_json(row[0]) for row in rows]

    def holdings(self) -> list[Holding]:
        """Return what there is of each task in each environment."""
        query = (
            "SELECT totals.*, json, coalesce(target_text, ''), coalesce(name, '') FROM totals "
            "LEFT JOIN environments ON environments.key = environment_key LEFT JOIN tasks "
            "ON tasks.key = task_key WHERE programs > 0 ORDER BY task_key, environment_key"
        )
        holdings: list[Holding] = []
        for key, _, count, timed, text, target, name in self._store.rows(query, ()):
            with intact(self.path):
                environment = Environment.from_json(text)
                best = self.best(key, environment)
                holdings.append(Holding(key, name, target, environment, count, count - timed, best))
        return holdings

    def task_keys(self) -> list[str]:
        """Return the keys of the tasks in the file."""
        query = (
            "SELECT key FROM tasks UNION SELECT task_key FROM totals WHERE programs > 0 ORDER BY 1"
        )
        return [str(row[0]) for row in self._store.rows(query, ())]

    def defined_keys(self) -> list[str]:
        """Return the keys of the tasks that `task` can return."""
        return [str(row[0]) for row in self._store.rows("SELECT key FROM tasks ORDER BY 1", ())]

    def task(self, task_key: str) -> Task:
        """Return the task called `task_key`."""
        query = "SELECT dag_text, target_text, name FROM tasks WHERE key = ?"
        for dag_text, target_text, name in self._store.rows(query, (task_key,)):
            with intact(self.path):
                return Task.from_texts(dag_text, target_text, name)
        raise RecordError(f"{self.path} does not say what the task {task_key} is")

    def tasks(self) -> list[Task]:
        """Return the tasks that `add_task` wrote."""
        return [self.task(key) for key in self.defined_keys()]

    def measured(self, task_key: str, environment: Environment) -> set[str]:
        """Return the keys of the programs that need not be measured again.

        Those that failed by a fault of the measuring itself (UNKNOWN) may be tried again.
        """
        query = (
            "SELECT program_key FROM records WHERE task_key = ? AND environment_key = ? "
            "AND (failure IS NULL OR failure != ?)"
        )
        parameters = (task_key, environment.key, FailureKind.UNKNOWN.value)
        return {str(row[0]) for row in self._store.rows(query, parameters)}

    def best(self, task_key: str, environment: Environment | None = None) -> Record | None:
        """Return the first of `undefeated`, or None."""
        return next(iter(self.undefeated(task_key, environment, 1)), None)

    def undefeated(
        self, task_key: str, environment: Environment | None = None, count: int = _ALL
    ) -> list[Record]:
        """Return the records whose output was checked, fastest first, `count` of them or all.

        Programs older than the last decision lost to its winner, whatever time they have: times of
        different minutes do not compare to the percent. Without `environment` records of all
        machines compete.
        """
        where = "WHERE task_key = ? AND checked = 1 AND median_s IS NOT NULL " + _UNDEFEATED
        keys: tuple[str | int, ...] = (task_key,)
        if environment is not None:
            where += "AND environment_key = ? "
            keys = (task_key, environment.key)
        query = f"{_SELECT}{where}ORDER BY median_s, id LIMIT ?"
        with intact(self.path):
            return [record_of_row(row) for row in self._store.rows(query, (*keys, count))]

    def all(self, task_key: str, environment: Environment | None = None) -> list[Record]:
        """Return the records of a task (in one environment, if given), oldest first."""
        where = "WHERE task_key = ? "
        if environment is not None:
            where += "AND environment_key = ? "
        keys = (task_key,) if environment is None else (task_key, environment.key)
        with intact(self.path):
            rows = self._store.rows(f"{_SELECT}{where}ORDER BY records.id", keys)
            return [record_of_row(row) for row in rows]

    def starting(self, program: str, task_key: str = "") -> list[Record]:
        """Return the records whose program's key begins with `program`, the latest first.

        `task_key`: those of tasks whose key begins with it.
        """
        where = "WHERE substr(program_key, 1, ?) = ? AND substr(task_key, 1, ?) = ? "
        keys = (len(program), program, len(task_key), task_key)
        with intact(self.path):
            rows = self._store.rows(f"{_SELECT}{where}ORDER BY records.id DESC", keys)
            return [record_of_row(row) for row in rows]

    def elsewhere(self, task_key: str, environment: Environment) -> OtherEnvironments:
        """Return what there is of a task from other environments, which is not used silently."""
        query = (
            "SELECT json, programs FROM totals JOIN environments ON key = environment_key "
            "WHERE task_key = ? AND environment_key != ? AND programs > 0 ORDER BY environment_key"
        )
        rows = list(self._store.rows(query, (task_key, environment.key)))
        environments = tuple(Environment.from_json(row[0]) for row in rows)
        return OtherEnvironments(sum(int(row[1]) for row in rows), environments)

    def count(self) -> int:
        """Return how many records there are."""
        query = "SELECT coalesce(sum(programs), 0) FROM totals"
        return next(int(row[0]) for row in self._store.rows(query, ()))


def open_store(
    path: str | os.PathLike[str] | RecordUrl, *, create: bool = True, read_only: bool = False
) -> tuple[RecordStore, tuple[str, ...]]:
    """Return what keeps the records at `path`, and what was changed there, as `Records.open`."""
    location = parse_record_uri(path)
    if not isinstance(location, RecordUrl):
        connection, notes = connect(location, create=create and not read_only, read_only=read_only)
        return FileStore(location, connection), notes
    try:  # here, not with ansorc: it is an extra, and takes a third of a second
        server = import_module("ansorc.search.record.server_store")
        import_module("psycopg")
    except ImportError as error:
        raise RecordError(
            f"records by PostgreSQL need SQLAlchemy and psycopg ({error}); "
            "pip install 'ansorc[postgresql]'"
        ) from error
    store = server.ServerStore(location, create=create, read_only=read_only)
    return cast("RecordStore", store), store.notes


def _environment(environment: Environment) -> StoreStatement:
    row = (environment.key, environment.to_json(), environment.cpu)
    return "INSERT INTO environments VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row


def _row(record: Record) -> tuple[object, ...]:
    return (
        record.task_key, record.program_key, record.steps, record.function, record.environment.key,
        record.median_s, record.spread_s, record.repeats,
        record.failure.value if record.failure else None, record.message, int(record.checked),
        record.build_s, record.created, record.seed, record.version, record.run_s,
        record.known,
    )  # fmt: skip


def record_of_row(row: Sequence[Any]) -> Record:
    """Return the record of a row of `COLUMNS`; raise ValueError, KeyError or TypeError."""
    texts = (*row[:5], row[9], row[14])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a column that holds text holds something else")
    if not isinstance(json.loads(row[2]), list):
        raise TypeError("the steps are no list")
    times = [None if value is None else float(value) for value in (row[5], row[6], row[11])]
    if not all(value is None or 0 <= value < _NEVER_S for value in times):
        raise ValueError("a time that cannot be")
    failure = None if row[8] is None else FailureKind(row[8])
    return Record(
        row[0], row[1], row[2], row[3], Environment.from_json(row[4]), times[0], float(row[6]),
        int(row[7]), failure, row[9], bool(row[10]), float(row[11]), float(row[12]), int(row[13]),
        row[14], float(row[15]), int(row[16]),
    )  # fmt: skip


_NEVER_S = 1e9
ROW_FAULTS = (AnsorcError, ValueError, KeyError, TypeError, RecursionError)
"""Errors from reading a row of random bytes."""


@contextmanager
def intact(path: RecordLocation) -> Generator[None]:
    """Turn what a row with bytes of chance provokes into a RecordError of one sentence."""
    try:
        yield
    except RecordError:
        raise
    except ROW_FAULTS as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        words = f"a row is not what was written: {words}"
        if isinstance(path, RecordUrl):
            raise RecordError(f"{path} is damaged ({words}) and was left as it is") from error
        raise DamageError(path, words) from error
