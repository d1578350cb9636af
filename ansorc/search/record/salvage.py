"""The rows that are left in a damaged record file.

Rows are read from the file's leaf pages and, where it works, by SQLite's own `.recover`. That loses
more rows, but knows tables by their names (docs/decisions/0071-damaged-record-files.md). A row is
taken if it is what was written: keys are hashes of what they stand for.
"""

from __future__ import annotations

import math
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from ansorc.errors import RecordError
from ansorc.search.measure import CachePolicy
from ansorc.search.record.database import ROW_FAULTS, Records, record_of_row
from ansorc.search.record.leaf_pages import LeafPages, TableRow
from ansorc.search.record.record import Environment, current_environment
from ansorc.search.record.recover_command import (
    CHOICES,
    find_recover_command,
    recover_rows,
)
from ansorc.search.record.schema import (
    SCHEMA_VERSION,
    SQLITE_FAULTS,
    log_of,
    migrate_to,
    transaction,
    translate_errors,
)
from ansorc.search.task import Task

_FIRST_RECORD, _LAST_RECORD = 16, 18
"""A record had 16 columns in version 1, and has 18 since version 5."""
_KEYS_SINCE, _NAMES_SINCE = 4, 6
"""The versions from which environments, and tasks, have the keys that they have now."""


@dataclass(frozen=True)
class Salvage:
    """The rows saved from a damaged file, and a summary of the losses."""

    records: int
    tasks: int
    losses: tuple[str, ...]
    """For people, each without a full stop; never empty if a row is known to be lost."""

    @property
    def sentence(self) -> str:
        """Both, for people."""
        lost = "; ".join(self.losses) or "nothing that is known of"
        return f"saved {self.records} records of {self.tasks} tasks; lost: {lost}"


def salvage(path: Path, output: Path) -> Salvage:
    """Write what is readable of the damaged record file `path` to the new one `output`.

    Raise RecordError if there is no row of ours in the file, or if `output` is there already.
    Rows that were deleted may come back. Which programs won contests is kept as far as SQLite, or
    its `.recover`, still reads that.
    """
    if output.exists():
        raise RecordError(f"{output} is there already; give the path of a new file")
    rows = _Rows()
    try:
        with path.open("rb") as file:
            pages = LeafPages.of(file, log_of(path))
            for row in pages.rows():
                rows.sort_in(row)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error}; check its permissions") from error
    with TemporaryDirectory() as directory:
        copy = _copy(path, Path(directory))
        recovered = recover_rows(copy)
        known = _read_by_sql(copy)
    for row in recovered.rows:
        rows.sort_in(row)
    rows.damaged += pages.unreadable
    rows.keep_intact(pages.version)
    if not rows.records and not rows.tasks:
        raise RecordError(f"{path} holds no row of a record file; nothing can be saved from it")
    choices = known.choices
    losses = [*pages.losses, *rows.losses]
    if known.count is not None and known.count > len(rows.records):
        losses.insert(0, f"{known.count - len(rows.records)} of {known.count} records")
    if choices is None:
        choices = {table: rows.choices(chosen) for table, chosen in recovered.choices.items()}
        losses.append(_describe_lost_choices(is_partly_read=any(choices.values())))
    _write(output, pages.version, rows, choices)
    with Records.open(output, create=False) as saved:
        return Salvage(saved.count(), len(rows.tasks), tuple(losses))


def _copy(path: Path, directory: Path) -> Path:
    """Copy a database and its log, for SQLite may change what it opens; return the copy's path."""
    copy = directory / "damaged.db"
    try:
        shutil.copyfile(path, copy)
        if log_of(path).exists():
            shutil.copyfile(log_of(path), log_of(copy))
    except OSError as error:
        raise RecordError(
            f"{path} cannot be copied to {directory}: {error}; set TMPDIR to a folder with space"
        ) from error
    return copy


def _describe_lost_choices(*, is_partly_read: bool) -> str:
    """Say that the winners of contests are lost, and what might still read them."""
    words = "who won the contests, and the threads of kernels in networks"
    if is_partly_read:
        return f"perhaps some of {words}"
    if find_recover_command() is None:
        return f"{words} (a command sqlite3 whose .recover works might still read them)"
    return words


@dataclass
class _Rows:
    """Rows by the table that they are of, known by their columns."""

    records: dict[tuple[object, ...], TableRow] = field(
        default_factory=dict[tuple[object, ...], TableRow]
    )
    tasks: dict[str, TableRow] = field(default_factory=dict[str, TableRow])
    environments: dict[str, TableRow] = field(default_factory=dict[str, TableRow])
    damaged: int = 0
    """Rows that are not what was written."""
    homeless: int = 0
    """Records whose environment is lost."""

    def sort_in(self, row: TableRow) -> None:
        """Take a row to where it belongs: the one that was written last of a key stays."""
        kinds = "".join(_kind(value) for value in row)
        if _FIRST_RECORD <= len(row) <= _LAST_RECORD and kinds.startswith("ittttt"):
            key = (row[1], row[2], row[5])
            known = self.records.get(key)
            if known is None or _number(known[0]) < _number(row[0]):
                self.records[key] = row
        elif kinds == "tttt" and str(row[1])[:1] not in {"", "{"}:
            self.tasks[str(row[0])] = row
        elif kinds == "ttt" and str(row[1]).startswith("{"):
            self.environments[str(row[0])] = row

    def keep_intact(self, version: int) -> None:
        """Drop what is not what was written into a file of `version`, and count it."""
        for key, row in list(self.tasks.items()):
            if not is_task(row, is_checked=version >= _NAMES_SINCE):
                del self.tasks[key]
                self.damaged += 1
        for key, row in list(self.environments.items()):
            if not _is_environment(row, is_checked=version >= _KEYS_SINCE):
                del self.environments[key]
                self.damaged += 1
        wanted = {str(row[5]) for row in self.records.values()} - set(self.environments)
        if wanted:
            self.environments |= {
                environment.key: (environment.key, environment.to_json(), environment.cpu)
                for environment in _environments_here()
                if environment.key in wanted
            }
        for key, row in list(self.records.items()):
            home = self.environments.get(str(row[5]))
            if home is None or not _is_record(row, str(home[1])):
                del self.records[key]
                self.homeless += home is None
                self.damaged += home is not None

    def choices(self, rows: list[TableRow]) -> list[TableRow]:
        """Return those rows of a table of `CHOICES` whose program is in the records."""
        keys = {(row[1], row[5], row[2]) for row in self.records.values()}
        return [row for row in rows if len(row) == 4 and row[:3] in keys and _kind(row[3]) == "i"]

    @property
    def losses(self) -> list[str]:
        """Return a description of the rows that were dropped."""
        lines: list[str] = []
        if self.damaged:
            lines.append(f"{self.damaged} rows that are not what was written")
        undefined = sum(row[1] not in self.tasks for row in self.records.values())
        if undefined:
            lines.append(f"what the task of {undefined} records is")
        if self.homeless:
            lines.append(f"{self.homeless} records of a machine that the file no longer names")
        return lines


def _kind(value: object) -> str:
    return "t" if isinstance(value, str) else "b" if isinstance(value, bytes) else "i"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def is_task(row: TableRow, *, is_checked: bool) -> bool:
    """Whether a row of `tasks` is what was written; its key too if it `is_checked`."""
    try:
        task = Task.from_texts(str(row[1]), str(row[2]), str(row[3]))
    except ROW_FAULTS:
        return False
    return task.key == row[0] or not is_checked


def _is_environment(row: TableRow, *, is_checked: bool) -> bool:
    try:
        environment = Environment.from_json(str(row[1]))
    except ROW_FAULTS:
        return False
    return environment.key == row[0] or not is_checked


def _is_record(row: TableRow, environment: str) -> bool:
    filled = (*row, *(0.0, 0)[len(row) - _FIRST_RECORD :])  # run_s and known came later
    return is_record((*filled[1:5], environment, *filled[6:]))


def is_record(row: TableRow) -> bool:
    """Whether a row of `database.COLUMNS` is what was written, as far as can be known."""
    try:
        record = record_of_row(row)
        return record.program.key == record.program_key and math.isfinite(record.created)
    except ROW_FAULTS:
        return False


def _environments_here() -> list[Environment]:
    """Those that this machine measures in: a record may be from here, though the file forgot."""
    cores = current_environment().cores
    return [
        current_environment(threads, cache)
        for threads in range(cores)
        for cache in get_args(CachePolicy)
    ]


@dataclass(frozen=True)
class _StillRead:
    """The rows that SQL itself still reads from a damaged file."""

    count: int | None = None
    """The number of records, by an index."""
    choices: dict[str, list[TableRow]] | None = None
    """The rows of `CHOICES`."""


def _read_by_sql(copy: Path) -> _StillRead:
    count = choices = None
    with suppress(*SQLITE_FAULTS), closing(sqlite3.connect(copy)) as connection:
        count = connection.execute("SELECT count(*) FROM records").fetchone()[0]
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        choices = {
            table: [tuple(row) for row in connection.execute(f"SELECT * FROM {table}")]
            for table in CHOICES
            if table in tables
        }
    return _StillRead(count, choices)


def _write(output: Path, version: int, rows: _Rows, choices: dict[str, list[TableRow]]) -> None:
    """Make a record file of `version` of the rows, and bring it up to date."""
    ordered = sorted(rows.records.values(), key=lambda row: _number(row[0]))
    with (
        translate_errors(output),
        closing(sqlite3.connect(output, isolation_level=None)) as connection,
    ):
        with transaction(connection):
            migrate_to(connection, version)
            _insert(connection, "tasks", list(rows.tasks.values()))
            _insert(connection, "environments", list(rows.environments.values()))
            for columns in range(_FIRST_RECORD, _LAST_RECORD + 1):
                _insert(connection, "records", [row for row in ordered if len(row) == columns])
            for table, chosen in choices.items():
                _insert(connection, table, chosen)
        with transaction(connection):
            migrate_to(connection, SCHEMA_VERSION)


def _insert(connection: sqlite3.Connection, table: str, rows: list[TableRow]) -> None:
    if rows:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        columns = ", ".join(names[: len(rows[0])])
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", rows)
