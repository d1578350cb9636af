"""Write the files of `ANSORC_DUMP=DIR`: each stage of a build, as readable text.

DIR/matmul/00_dag.txt … 03_lowered.ir, 04_simplify.ir … 21_llvm.ll, 23_asm.s
DIR/resnet/00_imported.txt, 02_fold_constants.txt …, kernel0_conv2d/00_dag.txt …
"""

from __future__ import annotations

import os
import re
from itertools import count
from pathlib import Path

from ansorc.errors import OptionError

VARIABLE = "ANSORC_DUMP"
"""The environment variable that names the folder; unset or empty: nothing is written."""
_LONGEST_NAME = 80


class DumpFolder:
    """The folder of one build; its files are numbered in the order of the stages.

    Raise OptionError if it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stages = 0

    def write(self, stage: str, text: str, suffix: str = "txt") -> Path:
        """Write `text`, the result of the next stage, and return the file."""
        path = self.path / f"{self._stages:02d}_{_file_name(stage)}.{suffix}"
        self._stages += 1
        try:
            path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
        except OSError as error:
            raise _unwritable(path, error) from error
        return path

    def skip(self) -> None:
        """Count a stage that changed nothing, so that the numbers of two builds agree."""
        self._stages += 1

    def folder(self, name: str) -> DumpFolder:
        """Return a new folder inside this one, for a part of the build."""
        return _new_folder(self.path, name)


def dump_folder(name: str) -> DumpFolder | None:
    """Return a new folder for a build of `name` if `ANSORC_DUMP` is set, else None.

    A second build of that name, in this process or in another, gets `name-2`, and so on.
    """
    path = os.environ.get(VARIABLE)
    return _new_folder(Path(path), name) if path else None


def _new_folder(parent: Path, name: str) -> DumpFolder:
    title = _file_name(name)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            path = parent / (title if number == 1 else f"{title}-{number}")
            try:
                path.mkdir()  # of several processes one succeeds
            except FileExistsError:
                continue
            return DumpFolder(path)
    except OSError as error:
        raise _unwritable(parent, error) from error
    raise AssertionError  # `count` does not end


def _file_name(name: str) -> str:
    """Return `name` as part of a path on any system."""
    return re.sub(r"[^\w.-]+", "_", name).strip(".")[:_LONGEST_NAME] or "unnamed"


def _unwritable(path: Path, error: OSError) -> OptionError:
    return OptionError(
        f"{VARIABLE} asks for files in {path}, which cannot be written: "
        f"{error.strerror or error}; set it to a folder of your own, or unset it"
    )
