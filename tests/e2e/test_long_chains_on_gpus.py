"""Long chains of element-wise stages as CUDA text: each value once, and right."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.codegen.cuda.emit import emit_cuda
from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.passes.fill_memory import fill_memory
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.pipeline import run_passes
from ansorc.schedule import lower, replay
from ansorc.search.default import default_steps
from ansorc.target import Target
from tests.support.element_chains import SHAPE, chain, expected

SM_80 = Target.parse("cuda -arch=sm_80")


def program_of(kind: str, length: int, *, is_filled: bool = False) -> DeviceProgram:
    dag = chain(kind, length)
    function = run_passes(CUDA_PASSES, lower(replay(dag, default_steps(dag, SM_80))), SM_80)
    return emit_cuda(fill_memory(function, has_threads=True) if is_filled else function, SM_80)


def array(values: Array) -> Array:
    found = aligned_empty(values.nbytes, np.uint8).view(np.float32).reshape(values.shape)
    found[...] = values
    return found


@pytest.mark.parametrize(("kind", "length"), [("celu", 20), ("mixed", 30)])
def test_the_text_is_right(kind: str, length: int) -> None:
    x = np.random.default_rng(length).uniform(-1, 1, SHAPE).astype(np.float32)
    arrays = [array(x), array(np.full(SHAPE, np.nan, np.float32))]
    program = program_of(kind, length, is_filled=True)
    assert EmulatedProgram(compile_library(program)).run(arrays, None) == 0
    # exp(x) - 1 loses digits near 0, once a node
    atol = length * 1e-7 if kind in ("celu", "mixed") else 1e-30
    np.testing.assert_allclose(arrays[1], expected(kind, length, x), 1e-3, atol)


@pytest.mark.parametrize("kind", ["mixed"])
def test_the_text_grows_with_the_nodes(kind: str) -> None:
    short, long = (len(cuda_text(program_of(kind, length))) for length in (20, 60))
    assert long < 5 * short
