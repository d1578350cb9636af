"""The passes that only GPUs need, each on a small program."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.cuda.text import cuda_text
from ansorc.errors import BuildError
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.passes.gpu.barriers import insert_barriers
from ansorc.ir.passes.gpu.order_reductions import order_reductions
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.gpu.virtual_threads import inject_virtual_threads
from ansorc.ir.passes.pipeline import run_passes
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import lower
from ansorc.target import Target
from tests.codegen.cuda.proof import SANITIZERS, Experiment, complaint_of, program_of_function


def same_results(before: Function, after: Function, *shapes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape).astype("f4") for shape in shapes]
    both = [[array.copy() for array in arrays] for _ in range(2)]
    interpret(before, both[0])
    interpret(after, both[1])
    for first, second in zip(*both, strict=True):
        np.testing.assert_array_equal(first, second)


TILE = """
kernel f(A: float32[4, 8], B: float32[4]):
    bound threadIdx.x t in 0..1:
        alloc S: float32[4, 8] shared
        for i in 0..4:
            for k in 0..8:
                S[i, k] = A[i, k]
        alloc C: float32[4] local
        for i in 0..4:
            C[i] = 0.0
            for k in 0..8:
                C[i] = C[i] + {term}
        for i in 0..4:
            B[i] = C[i]
"""


def test_the_terms_of_a_tile_are_the_outer_loop() -> None:
    before = parse(TILE.format(term="S[i, k]"))
    after = order_reductions(before)
    wanted = """
            for k in 0..8:
                for i in 0..4:
                    C[i] = C[i] + S[i, k]
"""
    assert wanted in to_text(after)
    same_results(before, after, (4, 8), (4,))


@pytest.mark.parametrize("term", ["C[(i + 1) % 4]", "C[i // 2]"])
def test_a_tile_whose_elements_need_each_other_stays(term: str) -> None:
    before = parse(TILE.format(term=term))
    assert order_reductions(before) == before


VIRTUAL = """
kernel f(A: float32[8, 3], B: float32[8]):
    bound vthread v in 0..2:
        bound threadIdx.x t in 0..4:
            alloc C: float32[] local
            C[] = 0.0
            for k in 0..3:
                alloc S: float32[8] shared
                for r in 0..2:
                    S[r * 4 + t] = A[r * 4 + t, k]
                barrier shared
                C[] = C[] + S[v * 4 + t]
                barrier shared
            B[v * 4 + t] = C[]
"""


def test_virtual_threads_share_copies_and_barriers() -> None:
    before = parse(VIRTUAL)
    after = inject_virtual_threads(before)
    text = to_text(after)
    assert "vthread" not in text
    assert text.count("barrier shared") == 2
    assert "alloc C: float32[2] local" in text
    assert "S[r * 4 + t] = A[r * 4 + t, k]\n            barrier" in text
    same_results(before, after, (8, 3), (8,))


SAME_NAMES = """
kernel f(A: float32[8, 32], B: float32[8, 32]):
    alloc T: float32[8, 32]:
        bound threadIdx.x t in 0..32:
            for i in 0..8:
                T[i, t] = A[i, t]
        bound threadIdx.x t in 0..32:
            B[0, t] = T[7, 31 - t]
    alloc T: float32[2, 32]:
        bound vthread v in 0..2:
            bound threadIdx.x t in 0..16:
                alloc C: float32[2] local:
                    C[1] = A[1, v * 16 + t]
                    T[0, v * 16 + t] = C[1]
                alloc C: float32[] local:
                    C[] = A[2, t]
                    T[1, v * 16 + t] = C[]
        bound threadIdx.x t in 0..32:
            alloc S: float32[32, 8] shared:
                for i in 0..8:
                    S[t, i] = T[0, t]
                barrier shared
                for i in 0..8:
                    B[i, t] = S[31 - t, i]
            alloc S: float32[32] shared:
                S[t] = T[1, t]
                barrier shared
                B[7, t] = S[31 - t]
"""


def test_arrays_of_one_name_are_told_apart() -> None:
    """One is gone before the next is allocated, in memory of another kind or of other extents."""
    before, target = parse(SAME_NAMES), Target.parse("cuda -arch=sm_80")
    after = run_passes(CUDA_PASSES, before, target)
    same_results(before, after, (8, 32), (8, 32))
    program = program_of_function(before)
    text = cuda_text(program)
    assert "C_2" in text
    assert "S_2[32]" in text
    arguments = (each for launch in program.plan.launches for each in launch.arguments)
    places = [each.place for each in arguments if each.kind == "workspace"]
    assert places == [0, 0, 1024, 1024]


RACING = """
kernel f(A: float32[8], B: float32[32, 4]):
    bound threadIdx.x t in 0..32:
        alloc S: float32[136] shared
        for i in 0..8:
            S[t * 4 + i] = A[i] + 1.0
        for i in 0..4:
            B[t, i] = S[t * 4 + i]
"""


def test_a_loop_of_the_same_name_may_be_longer() -> None:
    """In the second one each thread has four elements for itself, in the first it has not."""
    text = to_text(insert_barriers(parse(RACING)))
    assert text.index("S[t * 4 + i] = ") < text.rindex("barrier shared") < text.index("B[t, i] =")


def test_one_element_stored_by_several_threads_is_refused() -> None:
    """A copy in shared memory that each thread makes; the same copy made together is accepted."""
    a = ac.placeholder((64, 4), name="A")
    k = ac.reduce_axis(4, name="k")
    b = ac.compute((64,), lambda i: ac.sum(a[0, k] * a[i, k], axis=k), name="B")
    state = ac.schedule(ComputeDAG([a, b])).split("B", "i", [8])
    state = state.bind("B", "i.0", "blockIdx.x").bind("B", "i.1", "threadIdx.x")
    state = state.cache_read("A", "shared", ["B"])
    by_each = state.compute_at("A.shared", "B", "i.1")
    words = "several threads of a block store the same element of 'A.shared'; bind its loops"
    with pytest.raises(BuildError, match=words):
        program_of_function(lower(by_each, "kernel"))
    together = state.compute_at("A.shared", "B", "i.0").split("A.shared", "ax0", [8])
    together = together.bind("A.shared", "ax0.1", "threadIdx.x")
    experiment = Experiment.of(state.dag)
    assert complaint_of(lower(together, "kernel"), experiment, SANITIZERS) == ""
