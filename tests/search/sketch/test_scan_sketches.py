"""The programs of the search for scans are right, and long rows are computed in blocks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import lower, replay
from ansorc.schedule.steps import Redefine
from ansorc.search.evolution.sampling import sample
from ansorc.search.programs import default_program
from ansorc.search.space import design_space, steps
from ansorc.search.task import Task
from ansorc.target import Target
from tests.codegen.cuda.proof import Experiment, complaint_of
from tests.schedule.meaning import keeps_the_meaning

CPU, GPU = Target.parse("native"), Target.parse("cuda -arch=sm_80")


def long_row(step: Callable[[Scalar, Scalar], Scalar], *, extent: int = 700) -> ac.ComputeDAG:
    x = ac.placeholder((extent,), "x")
    y = ac.compute(
        extent,
        lambda t: ac.scan(0.5, lambda s: step(s, x[t] * 2.0), axis=t, reverse=True),
        "y",
    )
    return ac.ComputeDAG([x, y])


def between() -> ac.ComputeDAG:
    """A scan between stages that are computed in other loops, and a window of its results."""
    x = ac.placeholder((6, 40), "x")
    before = ac.compute((6, 40), lambda i, t: ac.exp(x[i, t]), "before")
    y = ac.compute((6, 40), lambda i, t: ac.scan(1.0, lambda s: s + before[i, t], axis=t), "y")
    mean = ac.compute((6, 33), lambda i, t: (y[i, t + 7] - y[i, t]) / 7.0, "mean")
    k = ac.reduce_axis(33, "k")
    return ac.ComputeDAG([x, ac.compute(6, lambda i: ac.max(mean[i, k], axis=k), "top")])


def across() -> ac.ComputeDAG:
    """Two states, along an axis in the middle."""
    x = ac.placeholder((5, 6, 20), "x")
    pair = ac.compute_tuple(
        (5, 6, 20),
        lambda i, t, j: ac.scan(
            (0.0, 1.0), lambda s, m: (s * 0.9 + x[i, t, j] * m, m * 0.5), axis=t
        ),
        ["s", "m"],
    )
    return ac.ComputeDAG([x, *pair])


DAGS = {
    "sum": long_row(lambda s, x: s + x),
    "linear": long_row(lambda s, x: s * 0.5 + x),
    "other": long_row(lambda s, x: ac.tanh(s + x), extent=100),
    "between": between(),
    "across": across(),
}


@pytest.mark.parametrize("dag", DAGS.values(), ids=DAGS)
def test_programs_of_cpus(dag: ac.ComputeDAG) -> None:
    for sketch in design_space(dag, CPU).sketches:
        for row in sample(sketch, 1, np.random.default_rng(0)):
            keeps_the_meaning(replay(dag, steps(sketch, row)))


@pytest.mark.parametrize("name", ["sum", "between", "across"])
def test_programs_of_gpus(name: str) -> None:
    dag = DAGS[name]
    experiment = Experiment.of(dag)
    for sketch in design_space(dag, GPU).sketches:
        for row in sample(sketch, 1, np.random.default_rng(0)):
            assert complaint_of(lower(replay(dag, steps(sketch, row))), experiment) == ""


def test_one_long_row_is_in_blocks_and_many_rows_are_not() -> None:
    def is_in_blocks(rows: int, extent: int) -> bool:
        x = ac.placeholder((rows, extent), "x")
        y = ac.compute(
            (rows, extent), lambda i, t: ac.scan(0.0, lambda s: s + x[i, t], axis=t), "y"
        )
        task = Task(ac.ComputeDAG([x, y]), Target.parse("x86_64-linux-gnu -mcpu=znver3"), "scan")
        return any(isinstance(step, Redefine) for step in default_program(task).steps)

    assert is_in_blocks(1, 1 << 20)
    assert not is_in_blocks(256, 2048)


def test_the_untuned_program_of_a_gpu_is_in_blocks() -> None:
    dag = long_row(lambda s, x: s + x, extent=5000)
    program = default_program(Task(dag, GPU, "scan"))
    assert any(isinstance(step, Redefine) for step in program.steps)
    assert complaint_of(lower(replay(dag, program.steps)), Experiment.of(dag)) == ""


def test_a_tuned_scan(tmp_path: Path) -> None:
    dag = DAGS["sum"]
    result = ac.tune(Task(dag, name="scan"), trials=4, records=tmp_path / "scan.db")
    x = np.random.default_rng(0).random(700, dtype=np.float32)
    found = np.full(700, np.nan, np.float32)
    result.build()(x, found)
    wanted = np.cumsum(2.0 * x[::-1].astype(np.float64))[::-1] + 0.5
    np.testing.assert_allclose(found, wanted, 1e-5)
