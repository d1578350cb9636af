"""The workloads as a library sees them: four kinds of problem, on plain arrays.

Ten of the twelve operators are convolutions. All arrays are float32 and channels-last; a side may
lay them out as it likes best before it is timed, weights in any way, inputs and outputs unpacked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Convolution:
    """A convolution of 1 to 3 dimensions, or a transposed one."""

    x: Array
    """[n, …spatial, ci]"""
    weight: Array
    """[…kernel, ci / groups, co]"""
    stride: Numbers
    padding: Numbers
    dilation: Numbers
    groups: int = 1
    is_transposed: bool = False
    scale: Array | None = None
    """[co]: the result times `scale` plus `shift`, no less than 0; None for the plain result."""
    shift: Array | None = None

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return self.x.ndim - 2

    @property
    def out_shape(self) -> Numbers:
        """[n, …spatial, co] of the result."""
        sizes: list[int] = []
        for axis, extent in enumerate(self.x.shape[1:-1]):
            stride, padding = self.stride[axis], self.padding[axis]
            window = self.dilation[axis] * (self.weight.shape[axis] - 1) + 1
            if self.is_transposed:
                sizes.append((extent - 1) * stride + window - 2 * padding)
            else:
                sizes.append((extent + 2 * padding - window) // stride + 1)
        return (self.x.shape[0], *sizes, self.weight.shape[-1])

    def folded(self) -> tuple[Array, Array | None]:
        """Return (weight, bias) with `scale` multiplied into the weight."""
        if self.scale is None or self.shift is None:
            return self.weight, None
        return np.ascontiguousarray(self.weight * self.scale), self.shift


@dataclass(frozen=True)
class Product:
    """a · b, [n, k] times [k, m] for each of a batch; b is a weight."""

    a: Array
    """[batch, n, k]"""
    b: Array
    """[batch, k, m]"""


@dataclass(frozen=True)
class Norm:
    """The square root of the sum of squares of each matrix of a batch."""

    x: Array
    """[batch, n, m]"""


@dataclass(frozen=True)
class Scores:
    """softmax(query · keyᵀ) of each head: the result is [batch, heads, length, length]."""

    query: Array
    """[batch, length, heads, hidden]"""
    key: Array


Problem = Convolution | Product | Norm | Scores


def problem(operator: str, shape: Numbers, inputs: list[Array]) -> Problem:
    """Return the workload of `operator` with the appendix' numbers `shape` on `inputs`."""
    match operator:
        case "GMM":
            return Product(*inputs)
        case "NRM":
            return Norm(*inputs)
        case "TBS":
            return Scores(*inputs)
        case "CAP":
            return _capsule(shape, *inputs)
        case "DEP":
            x, weight = inputs
            return _convolution(x, weight[:, :, None, :], shape[-2:], groups=shape[2])
        case "GRP":
            x, weight = inputs
            return _convolution(x, weight, shape[-3:-1], groups=shape[-1])
        case "DIL":
            x, weight = inputs
            return _convolution(x, weight, shape[-3:-1], dilation=shape[-1])
        case "T2D":
            x, weight = inputs
            return _convolution(x, weight, shape[-2:], is_transposed=True)
        case "ConvLayer":
            x, weight, scale, shift = inputs
            return _convolution(x, weight, shape[-2:], scale=scale, shift=shift)
        case "C1D" | "C2D" | "C3D":
            x, weight = inputs
            return _convolution(x, weight, shape[-2:])
        case _:
            raise ValueError(f"there is no operator '{operator}'")


def _convolution(
    x: Array, weight: Array, numbers: Numbers, *, dilation: int = 1, **options: Any
) -> Convolution:
    rank = x.ndim - 2
    stride, padding = numbers
    return Convolution(
        x, weight, (stride,) * rank, (padding,) * rank, (dilation,) * rank, **options
    )


def _capsule(shape: Numbers, x: Array, weight: Array) -> Convolution:
    """A convolution of three dimensions, whose last, the rows of the capsules, has a kernel of 1.

    Only the weights are laid out anew: [kh, kw, k, j, ci, co] as [kh, kw, 1, k·ci, j·co].
    """
    *_, stride, padding, _ = shape
    kh, kw, size, _, ci, co = weight.shape
    ordered = weight.transpose(0, 1, 2, 4, 3, 5).reshape(kh, kw, 1, size * ci, size * co)
    return Convolution(
        x.reshape(*x.shape[:4], -1),
        np.ascontiguousarray(ordered),
        (stride, stride, 1),
        (padding, padding, 0),
        (1, 1, 1),
    )
