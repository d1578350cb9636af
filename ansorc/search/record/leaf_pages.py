"""The rows of a database file, read from its leaf pages without its header or its tree.

The format is SQLite's (sqlite.org/fileformat2.html, §1 and §2). Each row of a table lies whole in a
leaf page, which says itself where, so a damaged page costs only its own rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ansorc.search.record.schema import MIGRATIONS, SCHEMA_VERSION

TableRow: TypeAlias = tuple[object, ...]

_MAGIC = b"SQLite format 3\0"
_LEAF = 0x0D
_OTHER_PAGES = (0x02, 0x05, 0x0A)
"""The types of pages of indexes, and of inner pages."""
_HEADER_BYTES = 100
_USUAL_PAGE_BYTES = 4096
_LOG_MAGIC = (0x377F0682, 0x377F0683)
_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24


@dataclass
class LeafPages:
    """The pages of a database, those of its log in place of older ones."""

    file: BinaryIO
    page_bytes: int
    usable_bytes: int
    """The usable bytes of a page."""
    count: int
    version: int
    """The version of the tables, see `schema.MIGRATIONS`."""
    newer: dict[int, bytes]
    losses: list[str]
    unreadable: int = 0
    """Rows that do not even have columns."""
    followers: set[int] = field(default_factory=set[int])
    """Pages with the ends of long rows."""

    @staticmethod
    def of(file: BinaryIO, log: Path) -> LeafPages:
        """Return the pages of an open file; without a header their size is the usual one."""
        header = file.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
        size = file.seek(0, 2)
        page_bytes = int.from_bytes(header[16:18], "big")
        page_bytes = 65536 if page_bytes == 1 else page_bytes
        is_whole = header.startswith(_MAGIC) and _is_page_size(page_bytes)
        losses = [] if is_whole else ["the file's header"]
        page_bytes = page_bytes if _is_page_size(page_bytes) else _USUAL_PAGE_BYTES
        version = int.from_bytes(header[60:64], "big")
        version = version if is_whole and 0 < version <= len(MIGRATIONS) else SCHEMA_VERSION
        newer = _read_log(log, page_bytes)
        count = max(-(-size // page_bytes), *newer, 0) if newer else -(-size // page_bytes)
        told = int.from_bytes(header[28:32], "big")
        if is_whole and size < told * page_bytes and not newer:
            losses.append(f"the end of the file after {size // page_bytes} of {told} pages")
        usable = page_bytes - (header[20] if is_whole else 0)
        return LeafPages(file, page_bytes, usable, count, version, newer, losses)

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows of all leaf pages that are in use."""
        unused, strange = self._find_free_pages(), set[int]()
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
            for pointer in range(start + 8, start + 8 + 2 * cells, 2):
                row = self._row(page, pointer)
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

    def _find_free_pages(self) -> set[int]:
        """Return the pages of the free list: what they hold was deleted."""
        unused: set[int] = set()
        (trunk,) = struct.unpack_from(">I", self._page(1).ljust(_HEADER_BYTES, b"\0"), 32)
        while 1 < trunk <= self.count and trunk not in unused:
            unused.add(trunk)
            page = self._page(trunk)
            if len(page) < self.page_bytes:
                break
            trunk, length = struct.unpack_from(">II", page)
            length = min(length, self.usable_bytes // 4 - 2)
            unused |= set(struct.unpack_from(f">{length}I", page, 8))
        return unused

    def _row(self, page: bytes, pointer: int) -> TableRow | None:
        """Return the row whose cell the `pointer` names; None if it is not a row."""
        try:
            (cell,) = struct.unpack_from(">H", page, pointer)
            length, begin = _varint(page, cell)
            number, begin = _varint(page, begin)
            return _columns(self._payload(page, begin, length), number)
        except (IndexError, ValueError, struct.error):
            return None

    def _payload(self, page: bytes, begin: int, length: int) -> bytes:
        """Return the bytes of a row: the first are in its cell, the others in other pages."""
        if length > self.count * self.page_bytes:
            raise ValueError("longer than the file")
        usable = self.usable_bytes
        local = length
        if length > usable - 35:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (length - least) % (usable - 4)
            local = local if local <= usable - 35 else least
        payload = page[begin : begin + local]
        follower = page[begin + local : begin + local + 4]
        while len(payload) < length:
            number = int.from_bytes(follower, "big")
            if not 1 < number <= self.count:
                raise ValueError("a page that is not there")
            self.followers.add(number)
            more = self._page(number)[:usable]
            if len(more) < 5:
                raise ValueError("a page that is not there")
            payload, follower = payload + more[4 : 4 + length - len(payload)], more[:4]
        return payload


def _is_page_size(number: int) -> bool:
    return 512 <= number <= 65536 and number.bit_count() == 1


def _read_log(log: Path, page_bytes: int) -> dict[int, bytes]:
    """Return the pages in the write-ahead log, up to its last commit."""
    if not log.exists():
        return {}
    text = log.read_bytes()
    if len(text) < _LOG_HEADER_BYTES:
        return {}
    magic, _, size, _, *salts = struct.unpack_from(">6I", text)
    if magic not in _LOG_MAGIC or size != page_bytes:
        return {}
    pages: dict[int, bytes] = {}
    open_frames: dict[int, bytes] = {}
    step = _FRAME_HEADER_BYTES + page_bytes
    for offset in range(_LOG_HEADER_BYTES, len(text) - step + 1, step):
        number, committed, *frame_salts = struct.unpack_from(">4I", text, offset)
        if frame_salts != salts:
            break
        open_frames[number] = text[offset + _FRAME_HEADER_BYTES : offset + step]
        if committed:
            pages |= open_frames
            open_frames = {}
    return pages


def _varint(text: bytes, offset: int) -> tuple[int, int]:
    """Return an integer of 1 to 9 bytes, the high ones first, and where it ends."""
    value = 0
    for count in range(8):
        byte = text[offset + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, offset + count + 1
    return value << 8 | text[offset + 8], offset + 9


_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_REAL, _ZERO, _ONE, _FIRST_BLOB = 7, 8, 9, 12


def _columns(payload: bytes, number: int) -> TableRow:
    """Return the values of a row; NULL in the first column stands for the row's number."""
    header, offset = _varint(payload, 0)
    kinds: list[int] = []
    while offset < header:
        kind, offset = _varint(payload, offset)
        kinds.append(kind)
    values: list[object] = []
    for kind in kinds:
        value, offset = _value(payload, kind, offset)
        values.append(value)
    if values and values[0] is None:
        values[0] = number
    return tuple(values)


def _value(payload: bytes, kind: int, offset: int) -> tuple[object, int]:
    if kind < len(_INTEGER_BYTES):
        size = _INTEGER_BYTES[kind]
    else:
        size = {_REAL: 8, _ZERO: 0, _ONE: 0}.get(kind, (kind - _FIRST_BLOB) // 2)
    text = payload[offset : offset + size]
    if size < 0 or len(text) < size:
        raise ValueError("no such value")
    if kind == 0:
        return None, offset
    if kind < _REAL:
        return int.from_bytes(text, "big", signed=True), offset + size
    if kind == _REAL:
        return struct.unpack(">d", text)[0], offset + size
    if kind in (_ZERO, _ONE):
        return kind - _ZERO, offset
    return (text.decode() if kind % 2 else text), offset + size
