"""Images made of patches, and convolutions whose taps lie where a tensor says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import Tensor


def sum_of_patches(
    data: Tensor,
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """Return the image [n, c, *size] that patches [n, c * elements of `kernel`, count] add up to.

    The patches lie where a convolution of the image would read them; `padding` lists the margins
    before, then those after. Raise LanguageError where their number is another.
    """
    require_rank("sum_of_patches", 3, data)
    rank, elements = len(size), math.prod(kernel)
    blocks = [
        (size[d] + padding[d] + padding[d + rank] - dilation[d] * (kernel[d] - 1) - 1) // stride[d]
        + 1
        for d in range(rank)
    ]
    fits = min(blocks) > 0 and data.shape[2] == math.prod(blocks) and data.shape[1] % elements == 0
    need = f"it must be [n, c * {elements}, {math.prod(blocks)}]"
    require(fits, "sum_of_patches", data, need=need)
    taps = [reduce_axis(extent, f"r{d}") for d, extent in enumerate(kernel)]

    def body(*i: Scalar) -> Reduction:
        tests, block_indices = list[Scalar](), list[Scalar]()
        for d, index in enumerate(i[2:]):
            position = index + padding[d] - taps[d] * dilation[d]
            block = position // stride[d]
            tests += [block >= 0, block < blocks[d], scalar.equal(position % stride[d], 0)]
            block_indices.append(scalar.minimum(scalar.maximum(block, 0), blocks[d] - 1))
        channel = i[1] * elements + row_major(taps, kernel)
        element = data[i[0], channel, row_major(block_indices, blocks)]
        zero = scalar.const(0, data.dtype)
        return sum(scalar.if_then_else(scalar.all_of(*tests), element, zero), axis=taps)

    return compute((data.shape[0], data.shape[1] // elements, *size), body, AutoName("patches"))


def deformable_conv2d(
    data: Tensor,
    weight: Tensor,
    offset: Tensor,
    *mask: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Tensor:
    """Return the convolution of data [n, ci, h, w] whose taps are moved by `offset`.

    weight [co, ci / groups, kh, kw]; offset [n, k * kh * kw * 2, oh, ow] moves the taps of k groups
    of channels down and to the right, and mask [n, k * kh * kw, oh, ow] weighs them. Between
    elements there are linear mixtures, outside of the image zeros. Two stages: the taps, and the
    sums. Raise LanguageError on other shapes.
    """
    require_rank("deformable_conv2d", 4, data, weight, offset, *mask)
    (batch, inputs, height, width), (outputs, depth, *kernel) = data.shape, weight.shape
    taps, size = math.prod(kernel), offset.shape[2:]
    parts = offset.shape[1] // (2 * taps)
    fits = inputs == depth * groups and outputs % groups == 0 and offset.shape[0] == batch
    fits = fits and offset.shape[1] == 2 * taps * parts and parts > 0 and inputs % parts == 0
    fits = fits and all(each.shape == (batch, taps * parts, *size) for each in mask)
    require(fits, "deformable_conv2d", data, weight, offset, *mask, need="see its docstring")

    def tap(*i: Scalar) -> Scalar:
        n, c, row, column, y, x = i
        number = c // (inputs // parts) * taps + row * kernel[1] + column
        starts = (y * stride[0] - padding[0] + row * dilation[0],
                  x * stride[1] - padding[1] + column * dilation[1])  # fmt: skip
        places = [
            start.astype(offset.dtype) + offset[n, number * 2 + d, y, x]
            for d, start in enumerate(starts)
        ]
        mixture = _mix(data, n, c, places, (height, width))
        return mixture * mask[0][n, number, y, x] if mask else mixture

    sampled = compute((batch, inputs, *kernel, *size), tap, AutoName("deformable_conv2d.taps"))
    rc = reduce_axis(depth, "rc")
    rh, rw = reduce_axis(kernel[0], "rh"), reduce_axis(kernel[1], "rw")

    def body(n: Scalar, c: Scalar, y: Scalar, x: Scalar) -> Reduction:
        channel = c // (outputs // groups) * depth + rc
        return sum(sampled[n, channel, rh, rw, y, x] * weight[c, rc, rh, rw], axis=[rc, rh, rw])

    return compute((batch, outputs, *size), body, AutoName("deformable_conv2d"))


def _mix(
    data: Tensor, n: Scalar, c: Scalar, places: Sequence[Scalar], extents: Sequence[int]
) -> Scalar:
    """The linear mixture of the four elements around a place, zeros outside of the image."""
    first = [scalar.floor(position) for position in places]
    total: Scalar | None = None
    for steps in product((0, 1), repeat=2):
        neighbours, tests, share = (
            list[Scalar](),
            list[Scalar](),
            as_scalar(scalar.const(1, data.dtype)),
        )
        for position, start, step, extent in zip(places, first, steps, extents, strict=True):
            index = start.astype("int64") + step
            tests += [index >= 0, index < extent]
            neighbours.append(scalar.minimum(scalar.maximum(index, 0), extent - 1))
            behind = position - start
            share = share * (behind if step else 1.0 - behind)
        element = data[(n, c, *neighbours)] * share
        zero = scalar.const(0, data.dtype)
        term = scalar.if_then_else(scalar.all_of(*tests), element, zero)
        total = term if total is None else total + term
    return scalar.const(0, data.dtype) if total is None else total


def row_major(indices: Sequence[Scalar], extents: Sequence[int]) -> Scalar:
    """Return the number of an element among all of a tensor of `extents`."""
    number = indices[0]
    for index, extent in zip(indices[1:], extents[1:], strict=True):
        number = number * extent + index
    return number


PATCHES: Mapping[str, Callable[..., Tensor]] = {
    "deformable_conv2d": deformable_conv2d,
    "sum_of_patches": sum_of_patches,
}
"""Definitions by the name of their operator."""
