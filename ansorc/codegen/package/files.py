"""Write files that belong together: all of them, or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ansorc.errors import BuildError


@contextmanager
def replace_together(paths: Sequence[Path]) -> Generator[list[Path]]:
    """Yield a place to make each of `paths` in, under its name; at the end all are renamed.

    Those of one directory share a new directory beside them, which may hold other files until then.
    Raise BuildError if it cannot be written; then the old files are untouched.
    """
    try:
        with ExitStack() as stack:
            made = {parent: _directory(stack, parent) for parent in {p.parent for p in paths}}
            places = [made[path.parent] / path.name for path in paths]
            yield places
            for temporary, path in zip(places, paths, strict=True):
                temporary.replace(path)
    except OSError as error:
        raise BuildError(
            f"{paths[-1]} cannot be written: {error.strerror or error}; nothing was changed there"
        ) from error


def write_synced(path: Path, *contents: bytes | memoryview) -> None:
    """Write through to the disk, so that a full one is noticed before anything is renamed."""
    with path.open("wb") as file:
        for content in contents:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _directory(stack: ExitStack, parent: Path) -> Path:
    made = Path(tempfile.mkdtemp(prefix=".ansorc-", dir=parent.absolute()))
    stack.callback(shutil.rmtree, made, ignore_errors=True)
    return made
