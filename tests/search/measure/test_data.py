"""The inputs and references of a task, and the files they lie in."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from ansorc.errors import MeasureError
from ansorc.lang import ComputeDAG, compute, log, placeholder
from ansorc.lang.scalar_type import Scalar
from ansorc.search.measure.data import TaskData, draw_inputs, sweep_stale
from ansorc.search.task import Task


def task_of(dtype: str = "float32", *, logarithm: bool = False) -> Task:
    source = placeholder((50, 40), name="A", dtype=dtype)

    def body(i: Scalar, j: Scalar) -> Scalar:
        return log(source[i, j]) if logarithm else source[i, j] * 2

    return Task(ComputeDAG([source, compute((50, 40), body, name="B")]), "native", "t")


def test_inputs_depend_on_the_seed_alone_and_references_are_double() -> None:
    task = task_of()
    (first,), (reference,) = draw_inputs(task, np.random.default_rng(3))
    (second,), _ = draw_inputs(task, np.random.default_rng(3))
    (other,), _ = draw_inputs(task, np.random.default_rng(4))
    assert (first == second).all()
    assert (first != other).any()
    assert first.dtype == np.float32
    assert reference.dtype == np.float64
    assert np.allclose(reference, 2.0 * first.astype(np.float64), rtol=1e-15)
    assert first.min() < -0.9
    assert first.max() > 0.9


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8"])
def test_integers_are_small(dtype: str) -> None:
    (array,), _ = draw_inputs(task_of(dtype), np.random.default_rng(0))
    assert array.dtype == dtype
    assert np.abs(array.astype(np.int64)).max() <= 4


def test_floats_are_positive_where_negative_ones_give_nan() -> None:
    (array,), (reference,) = draw_inputs(task_of(logarithm=True), np.random.default_rng(0))
    assert array.min() >= 0.1
    assert not np.isnan(reference).any()


def test_the_data_of_a_dead_process_is_swept_and_that_of_a_living_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    living = TaskData.create(task_of(), np.random.default_rng(0))
    source = (
        "import os, sys, numpy as np; sys.path.insert(0, sys.argv[1])\n"
        "from tests.search.measure.test_data import TaskData, task_of\n"
        "print(TaskData.create(task_of(), np.random.default_rng(0)).directory)\n"
        "os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-uc", source, str(Path(__file__).parents[3])]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    dead = Path(done.stdout.decode().strip())
    assert dead.parent == tmp_path
    assert (dead / "input_0.npy").exists()
    foreign = tmp_path / "ansorc-measure-unknown"
    foreign.mkdir()
    sweep_stale()
    assert not dead.exists()
    assert (living.directory / "input_0.npy").exists()
    assert foreign.exists()
    living.remove()
    assert not living.directory.exists()


def test_data_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(np, "save", full)
    with pytest.raises(MeasureError, match="No space left on device; free some space there"):
        TaskData.create(task_of(), np.random.default_rng(0))
    assert not list(tmp_path.iterdir())


def test_a_process_that_died_before_it_had_a_lock_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    more_than_any_process = 1 << 23
    dead = tmp_path / f"ansorc-measure-{more_than_any_process}-a"
    living = tmp_path / f"ansorc-measure-{os.getpid()}-b"
    for directory in (dead, living):
        directory.mkdir()
        (directory / "input_0.npy").touch()
    TaskData.create(task_of(), np.random.default_rng(0)).remove()
    assert list(tmp_path.iterdir()) == [living]
