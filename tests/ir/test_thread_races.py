"""The threads of a GPU block take turns at barriers, and share what is shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from ansorc.errors import IRError
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from tests.support.ir_strategies import arrays_for, gpu_functions
from tests.support.nightly import examples


def run(text: str, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Run the kernel on the arrays and return the last."""
    interpret(parse(text), arrays)
    return arrays[-1]


def assert_same(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(found, wanted)


REVERSE = """
kernel reverse(A: float32[2, 4], B: float32[2, 4]):
    bound blockIdx.x b in 0..2:
        alloc S: float32[4] shared
        bound threadIdx.x t in 0..4:
            S[t] = A[b, t]
            {barrier}
            B[b, t] = S[3 - t]
"""


def test_threads_meet_at_a_barrier() -> None:
    a = np.arange(8, dtype="f4").reshape(2, 4)
    found = run(REVERSE.format(barrier="barrier shared"), a, np.zeros_like(a))
    assert_same(found, a[:, ::-1])


def test_a_missing_barrier_is_a_race() -> None:
    a = np.arange(8, dtype="f4").reshape(2, 4)
    reason = r"threads threadIdx.x=1 and threadIdx.x=2 of a block both go to S\[2\] of S: float32"
    with pytest.raises(IRError, match=reason):
        run(REVERSE.format(barrier="pass"), a, np.zeros_like(a))


RACES = {
    "blocks store one element": ("        B[0] = 1.0", r"blocks \(0\) and \(1\) both go to B\[0\]"),
    "a block reads what another stores": (
        "        B[b] = B[(b + 1) % 2]", "stores it, the second loads it, and blocks cannot",
    ),
    "a load before the store of another thread": (
        "        bound threadIdx.x t in 0..4:\n"
        "            B[b * 4 + t] = B[b * 4 + (t + 1) % 4]", "threadIdx.x=0 and threadIdx.x=1",
    ),
    "the next iteration comes too early": (
        "        alloc S: float32[4] shared\n"
        "        bound threadIdx.x t in 0..4:\n"
        "            for k in 0..2:\n"
        "                S[t] = B[b * 4 + t]\n"
        "                barrier shared\n"
        "                B[b * 4 + t] = S[3 - t]", r"go to S\[1\].*stores it, the second loads",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RACES)
def test_races_are_refused(name: str) -> None:
    body, reason = RACES[name]
    text = f"kernel f(B: float32[8]):\n    bound blockIdx.x b in 0..2:\n{body}\n"
    with pytest.raises(IRError, match=reason):
        run(text, np.zeros(8, "f4"))


def test_kernels_follow_each_other() -> None:
    text = """
kernel f(A: float32[4], B: float32[4]):
    bound blockIdx.x b in 0..4:
        A[b] = B[b] + 1.0
    bound blockIdx.x c in 0..4:
        B[c] = A[3 - c]
"""
    assert_same(run(text, np.zeros(4, "f4"), np.arange(4, dtype="f4")), [4, 3, 2, 1])


def test_a_barrier_that_some_threads_miss_is_refused() -> None:
    barrier = "if t < 2:\n                barrier shared"
    a = np.zeros((2, 4), "f4")
    with pytest.raises(IRError, match="a barrier that only some threads of a block reach"):
        run(REVERSE.format(barrier=barrier).replace("3 - t", "t"), a, a.copy())


def test_a_nested_loop_over_the_same_thread_index_is_that_thread() -> None:
    text = """
kernel sums(A: float32[4, 8], B: float32[4]):
    bound threadIdx.x t in 0..4:
        bound threadIdx.y u in 0..2:
            for k in 0..4:
                alloc S: float32[4, 2] shared
                bound threadIdx.y load in 0..2:
                    S[t, load] = A[t, k * 2 + load]
                barrier shared
                if u == 0:
                    B[t] = B[t] + S[t, 0] + S[t, 1]
                barrier shared
"""
    a = np.arange(32, dtype="f4").reshape(4, 8)
    assert_same(run(text, a, np.zeros(4, "f4")), a.sum(axis=1))


def test_virtual_threads_are_copies_within_a_thread() -> None:
    text = """
kernel copy(A: float32[2, 3], B: float32[2, 3]):
    bound vthread v in 0..2:
        bound threadIdx.x t in 0..3:
            bound vthread w in 0..1:
                B[v, t + w] = A[v, t]
"""
    a = np.arange(6, dtype="f4").reshape(2, 3)
    assert_same(run(text, a, np.zeros_like(a)), a)


@examples(12, nightly=60)
@given(gpu_functions())
def test_gpu_programs_write_all_of_their_output(function: Function) -> None:
    arrays = [np.ones_like(array) for array in arrays_for(function, 0)]
    arrays[-1][...] = -12345.0
    interpret(function, arrays)
    assert not (arrays[-1] == -12345.0).any()


SHUFFLE = """
kernel f(A: float32[8], B: float32[8]):
    bound threadIdx.y u in 0..2:
        bound threadIdx.x t in 0..4:
            alloc v: float32[] local
            v[] = A[u * 4 + t]
            for k in 0..2:
                v[] = shuffle({operand}, {distance})
            B[u * 4 + t] = v[]
"""


@pytest.mark.parametrize(
    ("distance", "expected"), [(2, [2, 3, 0, 1, 6, 7, 4, 5]), (4, [4, 5, 6, 7])]
)
def test_threads_of_a_warp_exchange_values(distance: int, expected: list[int]) -> None:
    text = SHUFFLE.format(operand="v[]", distance=distance).replace("k in 0..2", "k in 0..1")
    found = run(text, np.arange(8, dtype="f4"), np.zeros(8, "f4"))
    assert_same(found[: len(expected)], expected)
    assert to_text(parse(text)).count(f"shuffle(v[], {distance})") == 1


def test_a_shuffle_is_alone_and_reached_by_all() -> None:
    arrays = np.arange(8, dtype="f4"), np.zeros(8, "f4")
    with pytest.raises(IRError, match="store it on its own"):
        run(SHUFFLE.format(operand="v[]", distance="1) + abs(1.0"), *arrays)
    with pytest.raises(IRError, match="a distance of 1, 2, 4, 8 or 16"):
        run(SHUFFLE.format(operand="v[]", distance=3), *arrays)
    text = SHUFFLE.format(operand="v[]", distance=1).replace("for k in 0..2:", "if t < 2:")
    with pytest.raises(IRError, match="a shuffle that only some threads of a block reach"):
        run(text, *arrays)


def test_atomic_stores_of_threads_do_not_race_with_each_other() -> None:
    text = """
kernel f(I: int64[8], A: float32[2]):
    bound blockIdx.x b in 0..2:
        bound threadIdx.x t in 0..4:
            atomic A[I[b * 4 + t]] = A[I[b * 4 + t]] + 1.0
"""
    places, counts = np.array([0, 0, 1, 0, 1, 1, 1, 1]), np.zeros(2, np.float32)
    interpret(parse(text), [places, counts])
    assert counts.tolist() == [3, 5]
    with pytest.raises(IRError, match="has a race"):
        interpret(parse(text.replace("atomic ", "")), [places, counts])
