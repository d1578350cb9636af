from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.base import backend_of
from ansorc.codegen.build import compile_function, prepare
from ansorc.codegen.cuda.image import image_for
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import BuildError
from ansorc.ir.aligned import Array
from ansorc.ir.passes.fill_memory import VARIABLE as FILL_VARIABLE
from ansorc.lang.reference import evaluate
from ansorc.schedule import Schedule, lower
from ansorc.search.measure.data import draw_inputs
from ansorc.search.task import Task
from ansorc.target import Target
from tests.codegen.cuda.hand_schedules import (
    elementwise,
    matmul_dag,
    softmax,
    tiled_matmul,
    transpose,
)
from tests.codegen.cuda.wheels import needs_wheels

EMULATED, GPU = Target.parse("cuda-emulated"), Target.parse("cuda -arch=sm_80")
SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "matmul": lambda: tiled_matmul(matmul_dag(64, 64, 32), (2, 4, 4), (2, 4, 4), 8, 4),
    "tails": lambda: tiled_matmul(matmul_dag(50, 45, 21), (2, 4, 4), (2, 4, 4), 8, 1),
    "transpose": lambda: transpose(32, 24),
    "elementwise": lambda: elementwise(1000, 128),
    "half": lambda: elementwise(1024, 32, "float16", 4),
    "softmax": lambda: softmax(6, 100, 32),
}


def called(schedule: Schedule, target: Target) -> tuple[list[Array], list[Array]]:
    """What the program gives for random inputs, and what it should."""
    task = Task(schedule.dag, target, "kernel")
    inputs, _ = draw_inputs(task, np.random.default_rng(1))
    references = evaluate(schedule.dag, inputs, np.float64)
    outputs = [np.full(b.shape, 0, b.dtype.numpy) for b in schedule.dag.outputs]
    by_name = dict(zip((b.name for b in schedule.dag.inputs), inputs, strict=True))
    by_name |= dict(zip((b.name for b in schedule.dag.outputs), outputs, strict=True))
    ac.build(schedule, target)(*(by_name[b.name] for b in schedule.dag.params))
    return outputs, list(references)


@pytest.mark.parametrize("name", SCHEDULES)
def test_an_emulated_program_is_called_as_any_other(name: str) -> None:
    outputs, references = called(SCHEDULES[name](), EMULATED)
    for output, reference in zip(outputs, references, strict=True):
        rtol = 1e-3 if output.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(output.astype(np.float64), reference, rtol, 1e-6)


def test_an_emulated_program_is_timed_but_not_saved(tmp_path: Path) -> None:
    module = ac.build(SCHEDULES["elementwise"](), EMULATED)
    arrays = [np.ones(1000, np.float32) for _ in range(3)]
    assert module.time(*arrays, min_time_s=0.001).median_s > 0
    with pytest.raises(BuildError, match="is emulated, to be checked, and not saved; build it for"):
        module.save(tmp_path / "kernel.so")


@needs_wheels
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_gpu_gets_the_same_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILL_VARIABLE)  # what fills memory is part of the emulated text alone
    function = lower(SCHEDULES[name](), "kernel")
    programs = [
        backend_of(target).emit(prepare(function, target), target)
        for target in (GPU, Target.parse("cuda-emulated -arch=sm_80"))
    ]
    assert programs[0] == programs[1]
    code = compile_function(function, GPU).code
    assert code.source == programs[0]
    assert code.image[:4] == b"\x7fELF"
    assert CompiledProgram.from_bytes(code.to_bytes()) == code


@needs_wheels
def test_a_program_is_saved_in_four_forms() -> None:
    code = compile_function(lower(SCHEDULES["transpose"](), "kernel"), GPU).code
    assert image_for(".cu", code, GPU).startswith(b'extern "C" __global__ void')
    assert b".target sm_80" in image_for(".ptx", code, GPU)
    assert image_for(".cubin", code, GPU) == code.image
    assert len(image_for(".fatbin", code, GPU)) > 4 * len(image_for(".cubin", code, GPU)) / 2
    with pytest.raises(BuildError, match=r"'\.so' does not say what to write for a GPU"):
        image_for(".so", code, GPU)


@needs_wheels
def test_what_is_shown_of_a_program() -> None:
    backend = backend_of(GPU)
    source = backend.emit(prepare(lower(SCHEDULES["matmul"](), "kernel"), GPU), GPU)
    shown = {view: listing(source, GPU) for view, listing in backend.listings.items()}
    assert shown["cuda"] == cuda_text(source)
    assert ".entry kernel_0" in shown["ptx"]
    assert "FFMA" in shown["sass"]
