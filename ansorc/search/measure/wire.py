"""Messages between the tuner and its worker processes: a JSON header and a block of bytes.

On the pipe a message is two big-endian 32-bit lengths, the UTF-8 JSON header, and the bytes.
Nothing on the pipe is ever executed or unpickled.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ansorc.errors import MeasureError

_LENGTHS = struct.Struct(">II")
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Message:
    """Named JSON values and, optionally, a block of bytes such as object code."""

    fields: Mapping[str, object]
    blob: bytes = b""

    def text(self, name: str) -> str:
        """Return the string called `name`; an absent one is empty."""
        value = self.fields.get(name, "")
        if not isinstance(value, str):
            raise MeasureError(f"message field '{name}' is {value!r}, not text")
        return value

    def number(self, name: str, default: float = 0.0) -> float:
        """Return the number called `name`, or `default` where it is absent or null."""
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, int | float):
            raise MeasureError(f"message field '{name}' is {value!r}, not a number")
        return float(value)

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return the list of numbers called `name`; an absent one is empty."""
        value = self.fields.get(name)
        if not isinstance(value, list):
            return ()
        items = cast("list[object]", value)
        return tuple(float(item) for item in items if isinstance(item, int | float))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the list of strings called `name`; an absent one is empty."""
        items = cast("list[object]", self.fields.get(name, []))
        return tuple(item for item in items if isinstance(item, str))

    def encode(self) -> bytes:
        """Return the bytes that stand for this message on a pipe."""
        header = json.dumps(self.fields).encode()
        return _LENGTHS.pack(len(header), len(self.blob)) + header + self.blob


class Decoder:
    """Collects bytes in pieces of any size and hands out the messages that are complete."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes that arrived."""
        self._pending += data

    def next(self) -> Message | None:
        """Remove and return the oldest complete message, or None while there is none."""
        if len(self._pending) < _LENGTHS.size:
            return None
        header_bytes, blob_bytes = _LENGTHS.unpack_from(self._pending)
        split = _LENGTHS.size + header_bytes
        end = split + blob_bytes
        if len(self._pending) < end:
            return None
        header = bytes(self._pending[_LENGTHS.size : split])
        blob = bytes(self._pending[split:end])
        del self._pending[:end]
        return Message(_object(header), blob)


def read_message(descriptor: int, decoder: Decoder) -> Message | None:
    """Wait for the next message on a blocking pipe; None at its end."""
    while (message := decoder.next()) is None:
        data = os.read(descriptor, _CHUNK_BYTES)
        if not data:
            return None
        decoder.feed(data)
    return message


def write_message(descriptor: int, message: Message) -> None:
    """Write `message` to a blocking pipe."""
    view = memoryview(message.encode())
    while view:
        view = view[os.write(descriptor, view) :]


def _object(header: bytes) -> dict[str, object]:
    value: object = json.loads(header)
    if not isinstance(value, dict):
        raise MeasureError("a message header is not a JSON object")
    return cast("dict[str, object]", value)
