"""A cache on the disk of compiled code, for other processes and later runs: `DiskCache`."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_SHARDS, _DIGEST_BYTES = 16, 32


class DiskCache:
    """Files by the hash of what they were made of; the oldest used go when there are too many.

    Several processes may use one directory at once: a file is renamed into place when complete,
    and its head is a hash of the rest. What cannot be written is made again each time.
    """

    def __init__(self, directory: Path, capacity_bytes: int = 256 << 20) -> None:
        self._directory = directory
        self._shard_bytes = capacity_bytes // _SHARDS

    def get(self, key: str, make: Callable[[], bytes]) -> bytes:
        """Return what `make` returned for all that `key` says, now or before."""
        name = hashlib.sha256(key.encode()).hexdigest()
        path = self._directory / name[0] / name
        data = _read(path)
        if data is None:
            data = make()
            with suppress(OSError):
                _write(path, data)
                self._trim(path.parent)
        return data

    def _trim(self, shard: Path) -> None:
        """Remove what was used longest ago, until a shard is no larger than its share."""
        files = [(path.stat(), path) for path in shard.iterdir()]
        size = sum(status.st_size for status, _ in files)
        for status, path in sorted(files, key=lambda file: file[0].st_mtime_ns)[:-1]:
            if size <= self._shard_bytes:
                break
            with suppress(FileNotFoundError):  # another process removed it
                path.unlink()
            size -= status.st_size


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return data if digest == hashlib.sha256(data).digest() else None


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix="making-", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
    Path(name).replace(path)
