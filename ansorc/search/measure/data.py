"""The inputs and the float64 reference of a task, made once and shared with the workers as files.

The files are `lock`, `task.json`, `input_0.npy` …, `reference_0.npy` … and, of outputs that may be
rounded, `rounding_0.npy` …, in a directory of the system's place for temporary files. The lock is
held by the process that made them: if nobody holds it, they are rubbish.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ansorc.codegen.base import backend_of
from ansorc.errors import MeasureError
from ansorc.ir.aligned import Array
from ansorc.lang.rounding import Bound, rounding_of
from ansorc.search.measure.drawn_data import Inputs, draw_data
from ansorc.search.task import Task

_PREFIX = "ansorc-measure-"


@dataclass(frozen=True)
class TaskData:
    """Where the files of a task lie, and how many bytes its arrays take."""

    directory: Path
    array_bytes: int
    lock: int
    """The descriptor of the locked file; the lock goes with the process."""
    is_for_device: bool = False
    """A new run worker has a device to start."""

    @staticmethod
    def create(task: Task, rng: np.random.Generator, given: Inputs | None = None) -> TaskData:
        """Draw inputs, evaluate the reference and write both to a new private directory.

        `given` are inputs that are not drawn, by their names.
        """
        sweep_stale()
        directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        lock = os.open(directory / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            inputs, references, roundings = draw_with_rounding(task, rng, given)
            (directory / "task.json").write_text(task.to_json())
            for index, array in enumerate(inputs):
                np.save(directory / f"input_{index}.npy", array)
            for index, array in enumerate(references):
                np.save(directory / f"reference_{index}.npy", array)
            for index, bound in enumerate(roundings):
                if bound is not None:
                    np.save(directory / f"rounding_{index}.npy", bound.astype(np.float32))
        except OSError as error:
            _delete(directory, lock)
            raise MeasureError(
                f"the task's data cannot be written to {directory.parent}: {error}; "
                "free some space there or set TMPDIR to another directory"
            ) from error
        except BaseException:
            _delete(directory, lock)
            raise
        arrays = sum(array.nbytes for array in (*inputs, *references))
        is_for_device = backend_of(task.target).capabilities(task.target).device
        return TaskData(directory, arrays, lock, is_for_device)

    def remove(self) -> None:
        """Delete the files."""
        _delete(self.directory, self.lock)


def draw_inputs(
    task: Task, rng: np.random.Generator, given: Inputs | None = None
) -> tuple[list[Array], list[Array]]:
    """Return random inputs of `task` and the float64 reference outputs for them."""
    inputs, tensors = draw_data(task.dag, rng, given or {})
    return inputs, [tensors[buffer.name] for buffer in task.dag.outputs]


def draw_with_rounding(
    task: Task, rng: np.random.Generator, given: Inputs | None = None
) -> tuple[list[Array], list[Array], list[Bound]]:
    """Return what `draw_inputs` does, and bounds of the references' rounding."""
    inputs, tensors = draw_data(task.dag, rng, given or {})
    names = [buffer.name for buffer in task.dag.outputs]
    bounds = rounding_of(task.dag, tensors)
    return inputs, [tensors[name] for name in names], [bounds.get(name) for name in names]


def sweep_stale() -> None:
    """Delete the directories of measuring runs whose process is gone (for example by kill -9)."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(directory / "lock", os.O_RDWR)
        except OSError:  # another user's, or its process ended before it made the lock
            if not _is_alive(directory):
                shutil.rmtree(directory, ignore_errors=True)
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
        else:
            _delete(directory, lock)


def _is_alive(directory: Path) -> bool:
    """Return whether the process that made `directory`, whose number its name has, is there."""
    number = directory.name.removeprefix(_PREFIX).partition("-")[0]
    return not number.isdigit() or Path("/proc", number).exists()


def _delete(directory: Path, lock: int) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    os.close(lock)
