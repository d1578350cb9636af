"""What the goals of building for a GPU are judged by: three products and two convolutions."""

from __future__ import annotations

import ansorc as ac


@ac.workload
def product(n: int = 1024) -> list[ac.Tensor]:
    """A product of n x n matrices."""
    a, b = ac.placeholder((n, n), "A"), ac.placeholder((n, n), "B")
    return [a, b, ac.ops.matmul(a, b, name="C")]


@ac.workload
def half_product(n: int = 4096) -> list[ac.Tensor]:
    """A product of n x n float16 numbers, summed in float32 by matrix units."""
    a, b = ac.placeholder((n, n), "A", "float16"), ac.placeholder((n, n), "B", "float16")
    return [a, b, ac.ops.matmul(a, b, sum_dtype="float32", name="C")]


@ac.workload
def batched(b: int = 16, n: int = 512, k: int = 64) -> list[ac.Tensor]:
    """Products of n x k and k x n matrices."""
    x, y = ac.placeholder((b, n, k), "A"), ac.placeholder((b, k, n), "B")
    return [x, y, ac.ops.batch_matmul(x, y, name="C")]


@ac.workload
def convolution(batch: int = 16, size: int = 56, channels: int = 64) -> list[ac.Tensor]:
    """A 3 x 3 convolution of images (NHWC), padding 1."""
    x = ac.placeholder((batch, size, size, channels), "X")
    w = ac.placeholder((3, 3, channels, channels), "W")
    return [x, w, ac.ops.conv2d(x, w, padding=1, name="Y")]
