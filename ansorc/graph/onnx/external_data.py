"""Weights that lie in files beside a model: mapped into memory, and nothing outside its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ansorc.errors import GraphError
from ansorc.ir.aligned import Array


class ExternalData:
    """The files of a folder that weights may lie in; None: weights of a model in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: dict[str, Array] = {}

    def bytes_of(self, name: str, entries: Mapping[str, str], count: int) -> Array:
        """Return the `count` bytes of the initializer `name`, mapped, not read, as uint8.

        `entries` are those of its protobuf: `location`, `offset`, `length`. Raise GraphError where
        they lead out of the folder, to no file, or to too few bytes.
        """
        if self._folder is None:
            raise GraphError(
                f"the values of '{name}' lie in a file, '{entries.get('location', '')}', that a "
                "model in memory does not lead to; give from_onnx the path of the model's file, or "
                "load the model with its external data"
            )
        data = self._file(name, entries.get("location", ""))
        offset = _number(name, "offset", entries.get("offset", "0"))
        length = _number(name, "length", entries.get("length", str(count)))
        if length != count:
            raise GraphError(f"'{name}' has {count} bytes, but {length} of them lie in its file")
        if offset + length > data.size:
            raise GraphError(
                f"'{name}' has the bytes {offset} to {offset + length} of "
                f"'{entries.get('location', '')}', which has {data.size}; is the file complete?"
            )
        return data[offset : offset + length]

    def _file(self, name: str, location: str) -> Array:
        """Return the bytes of a file."""
        if location not in self._files:
            path = self._path(name, location)
            try:
                empty = path.stat().st_size == 0
                contents: Any = np.zeros(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")
            except OSError as error:
                raise GraphError(f"'{path}', the values of '{name}': {error}") from error
            self._files[location] = contents
        return self._files[location]

    def _path(self, name: str, location: str) -> Path:
        """Return where a file is, links followed."""
        assert self._folder is not None
        try:
            folder = self._folder.resolve()
            path = (folder / location).resolve()
            is_file = path.is_file()
        except (OSError, RuntimeError, ValueError) as error:
            raise GraphError(f"{location!r}, the values of '{name}', is no file: {error}") from None
        if not path.is_relative_to(folder) or Path(location).is_absolute():
            raise GraphError(
                f"the values of '{name}' lie in '{location}', outside the folder of the model; "
                "put the file beside the model"
            )
        if not is_file:
            raise GraphError(f"there is no file '{path}', where the values of '{name}' should lie")
        return path


def _number(name: str, what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise GraphError(f"the {what} of the values of '{name}' is {text[:40]!r}, no such number")
    return int(text)
