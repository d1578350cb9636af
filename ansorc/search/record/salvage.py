"""What is left in a damaged record file, read row by row from its pages.

The pages are those of the SQLite file format (sqlite.org/fileformat2.html, §1 and §2): SQLite gives
up on a file whose header or tree is damaged, but every row lies whole in a leaf page, which says
itself where. A row is taken if it is what was written: keys are hashes of what they stand for.
"""

from __future__ import annotations

import math
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TypeAlias, get_args

from ansorc.errors import RecordError
from ansorc.search.measure import CachePolicy
from ansorc.search.record.database import ROW_FAULTS, Records, record_of_row
from ansorc.search.record.record import Environment, current_environment
from ansorc.search.record.schema import (
    MIGRATIONS,
    SCHEMA_VERSION,
    SQLITE_FAULTS,
    connect,
    log_of,
    migrate_to,
    transaction,
    translated,
)
from ansorc.search.task import Task

TableRow: TypeAlias = tuple[object, ...]

_MAGIC = b"SQLite format 3\0"
_LEAF = 0x0D
_OTHER_PAGES = (0x02, 0x05, 0x0A)
"""Of indexes, and inner ones."""
_HEADER_BYTES = 100
_USUAL_PAGE_BYTES = 4096
_LOG_MAGIC = (0x377F0682, 0x377F0683)
_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_FIRST_RECORD, _LAST_RECORD = 16, 18
"""A record had 16 columns in version 1, and has 18 since version 5."""
_KEYS_SINCE, _NAMES_SINCE = 4, 6
"""The versions from which environments, and tasks, have the keys that they have now."""


@dataclass(frozen=True)
class Salvage:
    """What was saved of a damaged file, and what was lost."""

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
    Rows that were deleted may come back; which program won a contest is kept if SQLite still reads
    that.
    """
    if output.exists():
        raise RecordError(f"{output} is there already; give the path of a new file")
    try:
        with path.open("rb") as file:
            pages = _Pages.of(file, log_of(path))
            rows = _Rows()
            for row in pages.rows():
                rows.sort_in(row)
            rows.damaged += pages.unreadable
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error}; check its permissions") from error
    version = pages.version
    rows.keep_intact(version)
    if not rows.records and not rows.tasks:
        raise RecordError(f"{path} holds no row of a record file; nothing can be saved from it")
    known = _known(path)
    losses = [*pages.losses, *rows.losses]
    if known.count is not None and known.count > len(rows.records):
        losses.insert(0, f"{known.count - len(rows.records)} of {known.count} records")
    if known.choices is None:
        losses.append("who won the contests, and the threads of kernels in networks")
    _write(output, version, rows, known.choices or {})
    with Records.open(output, create=False) as saved:
        return Salvage(saved.count(), len(rows.tasks), tuple(losses))


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
                one.key: (one.key, one.to_json(), one.cpu)
                for one in _environments_here()
                if one.key in wanted
            }
        for key, row in list(self.records.items()):
            home = self.environments.get(str(row[5]))
            if home is None or not _is_record(row, str(home[1])):
                del self.records[key]
                self.homeless += home is None
                self.damaged += home is not None

    @property
    def losses(self) -> list[str]:
        """What was dropped, for people."""
        found: list[str] = []
        if self.damaged:
            found.append(f"{self.damaged} rows that are not what was written")
        undefined = sum(row[1] not in self.tasks for row in self.records.values())
        if undefined:
            found.append(f"what the task of {undefined} records is")
        if self.homeless:
            found.append(f"{self.homeless} records of a machine that the file no longer names")
        return found


def _kind(value: object) -> str:
    return "t" if isinstance(value, str) else "b" if isinstance(value, bytes) else "i"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def is_task(row: TableRow, *, is_checked: bool) -> bool:
    """Whether a row of `tasks` is what was written; its key too if it `is_checked`."""
    try:
        found = Task.from_texts(str(row[1]), str(row[2]), str(row[3]))
    except ROW_FAULTS:
        return False
    return found.key == row[0] or not is_checked


def _is_environment(row: TableRow, *, is_checked: bool) -> bool:
    try:
        found = Environment.from_json(str(row[1]))
    except ROW_FAULTS:
        return False
    return found.key == row[0] or not is_checked


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
    """What SQLite itself still reads of a damaged file."""

    count: int | None = None
    """Of records, by an index."""
    choices: dict[str, list[TableRow]] | None = None
    """The rows of `winners` and `kernel_threads`, which look the same."""


def _known(path: Path) -> _StillRead:
    found = _StillRead()
    try:
        connection, _ = connect(path, create=False, read_only=True)
    except RecordError:
        return found
    with closing(connection), suppress(*SQLITE_FAULTS):
        count = connection.execute("SELECT count(*) FROM records").fetchone()[0]
        found = replace(found, count=count)
        choices = {
            table: [tuple(row) for row in connection.execute(f"SELECT * FROM {table}")]
            for table in ("winners", "kernel_threads")
        }
        found = replace(found, choices=choices)
    return found


def _write(output: Path, version: int, rows: _Rows, choices: dict[str, list[TableRow]]) -> None:
    """Make a record file of `version` of the rows, and bring it up to date."""
    ordered = sorted(rows.records.values(), key=lambda row: _number(row[0]))
    with translated(output), closing(sqlite3.connect(output, isolation_level=None)) as connection:
        with transaction(connection):
            migrate_to(connection, version)
            _insert(connection, "tasks", list(rows.tasks.values()))
            _insert(connection, "environments", list(rows.environments.values()))
            for columns in range(_FIRST_RECORD, _LAST_RECORD + 1):
                _insert(connection, "records", [row for row in ordered if len(row) == columns])
        with transaction(connection):
            migrate_to(connection, SCHEMA_VERSION)
            for table, found in choices.items():
                _insert(connection, table, found)


def _insert(connection: sqlite3.Connection, table: str, rows: list[TableRow]) -> None:
    if rows:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        columns = ", ".join(names[: len(rows[0])])
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", rows)


@dataclass
class _Pages:
    """The pages of a database, those of its log in place of older ones."""

    file: BinaryIO
    page_bytes: int
    usable_bytes: int
    """Of a page."""
    count: int
    version: int
    """Of the tables, see `schema.MIGRATIONS`."""
    newer: dict[int, bytes]
    losses: list[str]
    unreadable: int = 0
    """Rows that do not even have columns."""
    followers: set[int] = field(default_factory=set[int])
    """Pages with the ends of long rows."""

    @staticmethod
    def of(file: BinaryIO, log: Path) -> _Pages:
        """Return the pages of an open file; one without a header is taken to be as ours are."""
        header = file.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
        size = file.seek(0, 2)
        page_bytes = int.from_bytes(header[16:18], "big")
        page_bytes = 65536 if page_bytes == 1 else page_bytes
        is_whole = header.startswith(_MAGIC) and _is_page_size(page_bytes)
        losses = [] if is_whole else ["the file's header"]
        page_bytes = page_bytes if _is_page_size(page_bytes) else _USUAL_PAGE_BYTES
        version = int.from_bytes(header[60:64], "big")
        version = version if is_whole and 0 < version <= len(MIGRATIONS) else SCHEMA_VERSION
        newer = _logged(log, page_bytes)
        count = max(-(-size // page_bytes), *newer, 0) if newer else -(-size // page_bytes)
        told = int.from_bytes(header[28:32], "big")
        if is_whole and size < told * page_bytes and not newer:
            losses.append(f"the end of the file after {size // page_bytes} of {told} pages")
        usable = page_bytes - (header[20] if is_whole else 0)
        return _Pages(file, page_bytes, usable, count, version, newer, losses)

    def rows(self) -> Iterator[TableRow]:
        """The rows of all leaf pages that are in use."""
        unused, strange = self._unused(), set[int]()
        for number in range(1, self.count + 1):
            if number in unused:
                continue
            page = self._page(number)
            start = _HEADER_BYTES if number == 1 else 0
            if len(page) < start + 8 or page[start] != _LEAF:
                if len(page) < self.page_bytes or page[start] not in _OTHER_PAGES:
                    strange.add(number)
                continue
            (cells,) = struct.unpack_from(">H", page, start + 3)
            for place in range(start + 8, start + 8 + 2 * cells, 2):
                row = self._row(page, place)
                if row is None:
                    self.unreadable += 1
                else:
                    yield row
        if strange - self.followers:
            words = f"{len(strange - self.followers)} of {self.count} pages, of rows or of indexes"
            self.losses.append(words)

    def _page(self, number: int) -> bytes:
        if number in self.newer:
            return self.newer[number]
        self.file.seek((number - 1) * self.page_bytes)
        return self.file.read(self.page_bytes)

    def _unused(self) -> set[int]:
        """The pages of the free list: what they hold was deleted."""
        found: set[int] = set()
        (trunk,) = struct.unpack_from(">I", self._page(1).ljust(_HEADER_BYTES, b"\0"), 32)
        while 1 < trunk <= self.count and trunk not in found:
            found.add(trunk)
            page = self._page(trunk)
            if len(page) < self.page_bytes:
                break
            trunk, length = struct.unpack_from(">II", page)
            length = min(length, self.usable_bytes // 4 - 2)
            found |= set(struct.unpack_from(f">{length}I", page, 8))
        return found

    def _row(self, page: bytes, place: int) -> TableRow | None:
        """The row whose cell is named at `place` of a page, or None if it is not one."""
        try:
            (cell,) = struct.unpack_from(">H", page, place)
            length, begin = _varint(page, cell)
            number, begin = _varint(page, begin)
            return _columns(self._payload(page, begin, length), number)
        except (IndexError, ValueError, struct.error):
            return None

    def _payload(self, page: bytes, begin: int, length: int) -> bytes:
        """The bytes of a row: the first of them in its cell, the others in pages of their own."""
        if length > self.count * self.page_bytes:
            raise ValueError("longer than the file")
        usable = self.usable_bytes
        local = length
        if length > usable - 35:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (length - least) % (usable - 4)
            local = local if local <= usable - 35 else least
        found = page[begin : begin + local]
        follower = page[begin + local : begin + local + 4]
        while len(found) < length:
            number = int.from_bytes(follower, "big")
            if not 1 < number <= self.count:
                raise ValueError("a page that is not there")
            self.followers.add(number)
            more = self._page(number)[:usable]
            if len(more) < 5:
                raise ValueError("a page that is not there")
            found, follower = found + more[4 : 4 + length - len(found)], more[:4]
        return found


def _is_page_size(number: int) -> bool:
    return 512 <= number <= 65536 and number.bit_count() == 1


def _logged(log: Path, page_bytes: int) -> dict[int, bytes]:
    """The pages that the write-ahead log has newer ones of, up to its last commit."""
    if not log.exists():
        return {}
    text = log.read_bytes()
    if len(text) < _LOG_HEADER_BYTES:
        return {}
    magic, _, size, _, *salts = struct.unpack_from(">6I", text)
    if magic not in _LOG_MAGIC or size != page_bytes:
        return {}
    found: dict[int, bytes] = {}
    open_frames: dict[int, bytes] = {}
    step = _FRAME_HEADER_BYTES + page_bytes
    for place in range(_LOG_HEADER_BYTES, len(text) - step + 1, step):
        number, committed, *own = struct.unpack_from(">4I", text, place)
        if own != salts:
            break
        open_frames[number] = text[place + _FRAME_HEADER_BYTES : place + step]
        if committed:
            found |= open_frames
            open_frames = {}
    return found


def _varint(text: bytes, place: int) -> tuple[int, int]:
    """An integer of 1 to 9 bytes, the high ones first, and where it ends."""
    value = 0
    for count in range(8):
        byte = text[place + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + count + 1
    return value << 8 | text[place + 8], place + 9


_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_REAL, _ZERO, _ONE, _FIRST_BLOB = 7, 8, 9, 12


def _columns(payload: bytes, number: int) -> TableRow:
    """The values of a row; NULL in the first column stands for the row's number."""
    header, place = _varint(payload, 0)
    kinds: list[int] = []
    while place < header:
        kind, place = _varint(payload, place)
        kinds.append(kind)
    values: list[object] = []
    for kind in kinds:
        value, place = _value(payload, kind, place)
        values.append(value)
    if values and values[0] is None:
        values[0] = number
    return tuple(values)


def _value(payload: bytes, kind: int, place: int) -> tuple[object, int]:
    if kind < len(_INTEGER_BYTES):
        size = _INTEGER_BYTES[kind]
    else:
        size = {_REAL: 8, _ZERO: 0, _ONE: 0}.get(kind, (kind - _FIRST_BLOB) // 2)
    text = payload[place : place + size]
    if size < 0 or len(text) < size:
        raise ValueError("no such value")
    if kind == 0:
        return None, place
    if kind < _REAL:
        return int.from_bytes(text, "big", signed=True), place + size
    if kind == _REAL:
        return struct.unpack(">d", text)[0], place + size
    if kind in (_ZERO, _ONE):
        return kind - _ZERO, place
    return (text.decode() if kind % 2 else text), place + size
