"""Small loop programs, as text, that the tests of libraries and modules build."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.module import Module
from ansorc.ir.parser import parse
from ansorc.target import Target

TWICE = """\
kernel twice(A: float32[24, 40], B: float32[24, 40]):
    for i in 0..24:
        vectorized j in 0..40:
            B[i, j] = A[i, j] * 2.0
"""
PARALLEL_TWICE = TWICE.replace("kernel twice", "kernel parallel_twice").replace(
    "for i", "parallel i"
)
WORKSPACE_SQUARE = """\
kernel square(A: float32[24, 40], B: float32[24, 40]):
    alloc twice: float32[24, 40]
    parallel i in 0..24:
        vectorized j in 0..40:
            twice[i, j] = A[i, j] + A[i, j]
    parallel k in 0..24:
        vectorized l in 0..40:
            B[k, l] = twice[k, l] * A[k, l] * 0.5
"""
MATMUL_RELU = """\
kernel matmul_relu(A: float32[12, 9], B: float32[9, 20] constant, D: float32[12, 20]):
    parallel i in 0..12:
        vectorized j in 0..20:
            D[i, j] = 0.0
        for k in 0..9:
            vectorized j in 0..20:
                D[i, j] = D[i, j] + A[i, k] * B[k, j]
        vectorized j in 0..20:
            D[i, j] = max(D[i, j], 0.0)
"""
CONV2D_BN_RELU = """\
kernel conv2d_bn_relu(
    X: float32[1, 9, 9, 3],
    W: float32[3, 3, 3, 5] constant,
    scale: float32[5] constant,
    shift: float32[5] constant,
    Y: float32[1, 5, 5, 5],
):
    alloc X.pad: float32[11, 11, 3]
    for i in 0..11:
        for j in 0..11:
            for c in 0..3:
                X.pad[i, j, c] = 0.0
    for i in 0..9:
        for j in 0..9:
            for c in 0..3:
                X.pad[i + 1, j + 1, c] = X[0, i, j, c]
    parallel i in 0..5:
        for j in 0..5:
            for f in 0..5:
                Y[0, i, j, f] = 0.0
                for u in 0..3:
                    for v in 0..3:
                        for c in 0..3:
                            Y.here = Y.here + X.pad[i * 2 + u, j * 2 + v, c] * W[u, v, c, f]
                Y[0, i, j, f] = max(Y[0, i, j, f] * scale[f] + shift[f], 0.0)
""".replace("Y.here", "Y[0, i, j, f]")

Floats = NDArray[np.float32]


def build(text: str, name: str | None = None) -> Module:
    return compile_module(parse(text), Target.parse("native"), name)


def arguments() -> tuple[Floats, Floats]:
    """An input of the 24 × 40 kernels, and room for their output."""
    rng = np.random.default_rng(0)
    return rng.random((24, 40), dtype=np.float32), np.zeros((24, 40), np.float32)
