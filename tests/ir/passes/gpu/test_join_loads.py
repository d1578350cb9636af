"""Neighbours of a shared array are loaded as vectors: where they are, and where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.passes.gpu.join_loads import join_loads
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify

TEXT = """
kernel f(X: {dtype}[1024], D: {dtype}[8, 3]):
    bound threadIdx.x t in 0..8:
        alloc S: {dtype}[1024] shared
        alloc C: {dtype}[3] local
        unrolled z in 0..128:
            S[z * 8 + t] = X[z * 8 + t]
        barrier shared
        unrolled i in 0..3:
            C[i] = {dtype}(0.0)
        unrolled k in 0..{extent}:
            {kind} i in 0..3:
                {line}
        unrolled i in 0..3:
            D[t, i] = C[i]
"""
SUM = "C[i] = C[i] + S[{place}]"


def made(line: str, dtype: str = "float32", extent: int = 8, kind: str = "unrolled") -> Function:
    return parse(TEXT.format(line=line, dtype=dtype, extent=extent, kind=kind))


def computed(function: Function) -> np.ndarray:
    dtype = function.params[0].dtype.numpy
    x = np.arange(1024).astype(dtype)
    out = np.zeros((8, 3), dtype)
    interpret(function, [x, out])
    return out


@pytest.mark.parametrize(
    ("place", "dtype", "extent", "lanes"),
    [
        ("t * 64 + i * 16 + k", "float32", 8, 4),
        ("t * 64 + i * 16 + k + 2", "float32", 8, 2),
        ("t * 64 + i * 16 + k", "float32", 6, 2),
        ("t * 64 + i * 16 + k", "float16", 8, 8),
        ("t // 2 * 8 + k", "float32", 4, 4),
    ],
)
def test_aligned_neighbours_are_one_vector(place: str, dtype: str, extent: int, lanes: int) -> None:
    function = made(SUM.format(place=place), dtype, extent)
    joined = join_loads(function)
    verify(joined)
    assert "= S[ramp(" in to_text(joined)
    assert f", 1, {lanes})]\n" in to_text(joined)
    np.testing.assert_array_equal(computed(joined), computed(function))


def test_the_loops_that_a_load_depends_on_are_run_before() -> None:
    text = to_text(join_loads(made(SUM.format(place="t * 64 + i * 16 + k"))))
    assert text.count("S.row1[i, k.lane]") == 1
    assert "unrolled k.vector in 0..2:\n            alloc S.row1: float32[3, 4] local" in text


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (SUM.format(place="t * 64 + i * 16 + k * 2"), "unrolled"),
        (SUM.format(place="t * 65 + i * 16 + k"), "unrolled"),
        (SUM.format(place="t * 64 + i * 16 + (k + t) % 8"), "unrolled"),
        (SUM.format(place="t * 64 + i * 16 + k"), "for"),
        ("C[i] = C[i] + (S[t * 64 + k] if k < t else 0.0)", "unrolled"),
        ("S[t * 64 + k] = S[t * 64 + k] + C[i]", "unrolled"),
    ],
)
def test_others_are_loaded_one_by_one(line: str, kind: str) -> None:
    function = made(line, kind=kind)
    assert join_loads(function) is function
