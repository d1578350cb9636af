"""Frames on the pipe to `ansorc-runner`; `runtime/runner/frames.h` is the other side.

    magic "ANSR" | version, kind (16 bits each) | number | length | CRC-32 of payload | of header

All numbers are little-endian. An answer repeats the number of its request; its kind is that of the
request with `ANSWER` set, or `ERROR`.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

MAGIC = b"ANSR"
VERSION = 1
MOST_PAYLOAD = 1 << 20
ANSWER, ERROR = 0x8000, 0xFFFF
_HEADER = struct.Struct("<4sHHIII")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECKSUM.size


class FrameError(Exception):
    """Bytes that are not a frame, or a damaged frame."""


@dataclass(frozen=True)
class Frame:
    """A request or an answer."""

    kind: int
    number: int
    payload: bytes = b""

    def encode(self) -> bytes:
        """Return the bytes on the pipe."""
        size, checksum = len(self.payload), zlib.crc32(self.payload)
        assert size <= MOST_PAYLOAD, "what is longer goes in pieces"
        head = _HEADER.pack(MAGIC, VERSION, self.kind, self.number, size, checksum)
        return head + _CHECKSUM.pack(zlib.crc32(head)) + self.payload


class FrameDecoder:
    """Collects bytes in pieces of any size and hands out the frames that are complete."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._skipped = bytearray()
        self._is_open = False

    @property
    def skipped(self) -> bytes:
        """The bytes before the first frame: the greeting of a login shell, or an error's words."""
        return bytes(self._skipped) if self._is_open else bytes(self._skipped + self._pending)

    def feed(self, data: bytes) -> None:
        """Add bytes that arrived."""
        self._pending += data

    def next(self) -> Frame | None:
        """Remove and return the oldest complete frame, or None while there is none.

        Raise FrameError for bytes between frames, a damaged frame, and another version.
        """
        while not self._is_header():
            if len(self._pending) < HEADER_BYTES:
                return None
            if self._is_open:
                raise FrameError(f"bytes that are not a frame: {bytes(self._pending[:16])!r}")
            self._skipped.append(self._pending.pop(0))
        self._is_open = True
        _, version, kind, number, size, checksum = _HEADER.unpack_from(self._pending)
        if version != VERSION or size > MOST_PAYLOAD:
            raise FrameError(
                f"a frame of version {version} with {size} bytes; this ansorc speaks version "
                f"{VERSION} with at most {MOST_PAYLOAD}"
            )
        if len(self._pending) < HEADER_BYTES + size:
            return None
        payload = bytes(self._pending[HEADER_BYTES : HEADER_BYTES + size])
        del self._pending[: HEADER_BYTES + size]
        if zlib.crc32(payload) != checksum:
            raise FrameError(f"a frame of {size} bytes whose checksum is wrong")
        return Frame(kind, number, payload)

    def _is_header(self) -> bool:
        if len(self._pending) < HEADER_BYTES or not self._pending.startswith(MAGIC):
            return False
        (checksum,) = _CHECKSUM.unpack_from(self._pending, _HEADER.size)
        return checksum == zlib.crc32(self._pending[: _HEADER.size])
