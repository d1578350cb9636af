"""Another back end, which neither the search nor code generation knows, through the protocol."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ansorc as ac
from ansorc.cli.main import cli
from ansorc.codegen.base import backend_of
from ansorc.codegen.build import CompileCache, compile_function
from ansorc.codegen.call.library import load_kernel
from ansorc.errors import BuildError, TargetError
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.lang import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, packings, replay
from ansorc.search.measure import Failure, MeasureOptions, Measurer, ProgramText, RunOptions
from ansorc.search.measure.check import Expectation, tolerance
from ansorc.search.programs import default_program, program_of_record, require_this_machine
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from tests.e2e import toy_backend
from tests.support.nightly import sampled

TOY = ac.Target.parse("native -backend=tests.e2e.toy_backend")


def product() -> ComputeDAG:
    a, b = ac.placeholder((33, 20), name="A"), ac.placeholder((20, 18), name="B", constant=True)
    return ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")])


def normalised() -> ComputeDAG:
    a = ac.placeholder((9, 40), name="A")
    return ComputeDAG([a, ac.ops.softmax(a)])


def padded() -> ComputeDAG:
    a = ac.placeholder((1, 9, 9, 3), name="A")
    w = ac.placeholder((3, 3, 3, 4), name="W", constant=True)
    return ComputeDAG([a, w, ac.ops.conv2d(a, w, stride=2, padding=1)])


def assert_right(dag: ComputeDAG, module: ac.Module) -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(b.shape).astype(np.float32) for b in dag.inputs]
    (expected,) = evaluate(dag, [array.astype(np.float64) for array in inputs])
    found = np.full(expected.shape, np.nan, np.float32)
    module(*inputs, found)
    allowed = tolerance(dag, dag.outputs[0].name, expected)
    assert not Expectation(expected, allowed).compare(found).complaint
    assert module.time(*inputs, found, min_time_s=0.01).median_s > 0
    np.testing.assert_array_equal(module(*inputs), found)  # by the checks in Python alone
    again = np.zeros_like(found)
    module.bind(*inputs, again)()
    np.testing.assert_array_equal(again, found)


def test_its_target_survives_text_and_pickling() -> None:
    assert TOY.text.endswith("-backend=tests.e2e.toy_backend")
    assert ac.Target.parse(TOY.text) == TOY == pickle.loads(pickle.dumps(TOY))
    assert backend_of(TOY) is toy_backend.BACKEND
    assert ac.Task(product(), TOY).key != ac.Task(product()).key


@pytest.mark.parametrize("dag", [product(), normalised(), padded()])
def test_it_builds_what_is_right_and_saves_it(dag: ComputeDAG, tmp_path: Path) -> None:
    module = ac.build(dag, TOY, "kernel")
    assert_right(dag, module)
    artifact = module.save(tmp_path / "kernel.so")
    assert toy_backend.MARKER.encode() in artifact.library.read_bytes()
    assert not module.signature.parallel
    assert "runs on the calling thread" in artifact.header.read_text()
    assert_right(dag, load_kernel(artifact.library))


@pytest.mark.parametrize("make", sampled([product, normalised], [product]))
def test_it_is_tuned(make: Callable[[], ComputeDAG], tmp_path: Path) -> None:
    task = ac.Task(make(), TOY, "kernel")
    measuring = MeasureOptions(run=RunOptions(min_total_s=0.002), builders=1, batch=8)
    options = TuneOptions(16, tmp_path / "tune.db", threads=1, measuring=measuring)
    result = tune_task(task, options)
    assert (result.measured_now, result.failures) == (16, {})
    assert result.best is not None
    assert result.best.checked
    assert_right(task.dag, result.build())
    state = replay(task.dag, program_of_record(task, result.best).steps)
    for target, is_marked in ((TOY, True), (ac.Target.parse("native"), False)):
        layouts = packings(state)
        built = compile_function(lower(state), target, packings=layouts, cache=CompileCache())
        assert (toy_backend.MARKER.encode() in built.code.image) is is_marked


def test_what_a_worker_runs_is_its_code() -> None:
    run = RunOptions(min_total_s=0.001)
    for target, words in ((TOY, "the kernel returned 77"), (ac.Target.parse("native"), "")):
        task = ac.Task(product(), target)
        text = to_text(lower(replay(task.dag, ()), "returns_77"))
        with Measurer(task, MeasureOptions(run=run, builders=1)) as measurer:
            (found,) = measurer.measure([ProgramText.of_function(text)])
        assert (found.message if isinstance(found, Failure) else "") == words


def test_its_text_is_shown(tmp_path: Path) -> None:
    workload = tmp_path / "ops.py"
    workload.write_text(
        "import ansorc as ac\n\n@ac.workload\ndef copied(n: int = 4):\n"
        "    a = ac.placeholder((n,), name='A')\n    return a, ac.compute((n,), lambda i: a[i])\n"
    )
    words = ["show", str(workload), "--target", TOY.text, "--default", "--view", "c"]
    shown = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert toy_backend.MARKER in shown.output
    assert "is not one of" in CliRunner().invoke(cli, [*words, "--view", "d"]).output


def test_it_refuses_to_be_measured_with_cold_caches(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot be measured with cold caches: its back end evic"):
        tune_task(ac.Task(product(), TOY), TuneOptions(2, tmp_path / "tune.db", cache="cold"))
    with pytest.raises(TargetError, match="cannot be measured with cold weights: its back end evi"):
        require_this_machine(TOY, "cold-weights")


def test_it_refuses_what_it_lacks() -> None:
    half = ac.placeholder((4,), dtype="float16", name="A")
    with pytest.raises(BuildError, match="the toy back end has no code for float16"):
        ac.build(ComputeDAG([half, ac.ops.relu(half)]), TOY)
    bound = parse("kernel f(A: float32[4]):\n    bound threadIdx.x i in 0..4:\n        A[i] = 1.0")
    with pytest.raises(BuildError, match="the toy back end has no code for For"):
        toy_backend.BACKEND.emit(bound, TOY)


def test_a_back_end_that_cannot_be_found() -> None:
    for name, words in (
        ("nowhere.to_be_found", "there is no module 'nowhere.to_be_found' on its path"),
        ("json", "the module 'json' is no back end of ansorc: it has no BACKEND"),
    ):
        with pytest.raises(TargetError, match=words):
            ac.build(product(), f"native -backend={name}")
        with pytest.raises(TargetError, match=words):
            default_program(ac.Task(product(), f"native -backend={name}"))
    with pytest.raises(TargetError, match="'-backend=2d' in 'native -backend=2d' is not an option"):
        ac.Target.parse("native -backend=2d")
