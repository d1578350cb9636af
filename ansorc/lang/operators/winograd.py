"""Winograd convolutions: 3 × 3 windows with fewer multiplications than elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from ansorc.errors import LanguageError
from ansorc.ir.transform import Matrix, combine_rows
from ansorc.lang.define import compute
from ansorc.lang.definitions.filters import F2
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.pad import pad
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.operators.wide import sum_type, widen
from ansorc.lang.operators.window import Window, WindowOptions
from ansorc.lang.reduction import reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

_WEIGHTS = AutoName("winograd_weights")
_UNROLLED = {"simplify_const_tensor_indices": ["e", "s"]}


TILE = F2.results
"""The outputs a side of a tile. A tile of 4 would need 9/16 of the multiplications, but with the
usual points its rounding errors are some 15 times as large, about the tolerance of measured
programs."""
_WEIGHT: Matrix = ((2, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, 2))
"""Times 2, so that its elements are whole numbers."""


def conv2d_winograd(data: Tensor, weight: Tensor, **options: Unpack[WindowOptions]) -> Tensor:
    """Return the convolution of data [n, h, w, ci] with weight [3, 3, ci, co], by Winograd.

    It takes 4/9 of the multiplications of `conv2d` and has similar rounding errors. The weight may
    be transformed in advance by `winograd_weights`: [4, 4, ci, co]. Raise LanguageError on other
    shapes, on a stride, a dilation and another layout. The stages are `<name>.pad`, `.weights`,
    `.rows`, `.data` (the transformed tiles), `.product`, `.columns`, `.tiles`, and the result.
    """
    operator = "conv2d_winograd"
    window = Window.of(operator, 2, options)
    require_rank(operator, 4, data, weight)
    if window.stride != (1, 1) or window.dilation != (1, 1) or not window.is_channels_last:
        raise LanguageError(
            f"{operator} has stride 1, dilation 1 and layout NHWC; use conv2d for others"
        )
    name = options.get("name", AutoName(operator))
    transformed = weight
    if weight.shape[:2] == (3, 3):
        transformed = _wide_weights(weight, stage_name(name, "weights"))
    fits = transformed.shape[:3] == (F2.points, F2.points, data.shape[3])
    fits = fits and data.dtype == weight.dtype
    require(fits, operator, data, weight, need="weight must be [3, 3, ci, co] or transformed, "
            "[4, 4, ci, co], with the ci and the dtype of the data")  # fmt: skip
    height, width = window.output(data, (3, 3))
    spread = _data_tiles(data, window, (height, width), name)
    product = _product(spread, transformed, name)
    tiles = _twice(product, F2.result, (stage_name(name, "columns"), stage_name(name, "tiles")))
    return compute(
        (data.shape[0], height, width, weight.shape[3]),
        lambda n, h, w, c: tiles[h % TILE, w % TILE, n, h // TILE, w // TILE, c].astype(data.dtype),
        name,
    )


def winograd_weights(weight: Tensor, name: str = _WEIGHTS) -> Tensor:
    """Return weight [3, 3, ci, co] as [4, 4, ci, co], for `conv2d_winograd`.

    Raise LanguageError on other shapes.
    """
    fits = len(weight.shape) == 4 and weight.shape[:2] == (3, 3)
    require(fits, "winograd_weights", weight, need="it must be [3, 3, ci, co]")
    if sum_type(weight.dtype) == weight.dtype:
        return _wide_weights(weight, name)
    wide = _wide_weights(weight, stage_name(name, "wide"))
    return compute(wide.shape, lambda *i: wide[i].astype(weight.dtype), name)


def _wide_weights(weight: Tensor, name: str) -> Tensor:
    """Return the transformed weights; those of 16-bit floats in float32."""
    return _twice(weight, _WEIGHT, (stage_name(name, "rows"), name), divisor=4)


def _data_tiles(data: Tensor, window: Window, outputs: tuple[int, int], name: str) -> Tensor:
    """Return the transformed tiles of the data [e, s, n, row of tiles, column of tiles, ci]."""
    counts = [-(-extent // TILE) for extent in outputs]
    after = [
        count * TILE + 2 - before - extent
        for count, before, extent in zip(counts, window.margins, data.shape[1:3], strict=False)
    ]
    after = [max(0, margin) for margin in after]
    padded = pad(
        data, (0, *window.margins[:2], 0), (0, *after, 0), 0.0, stage_name(name, "pad"),
        window.axes,
    )  # fmt: skip
    batch, _, _, channels = data.shape
    rows = compute(
        (F2.points, F2.points, batch, *counts, channels),
        lambda e, s, n, y, x, c: _combine(
            F2.data, e, lambda r: padded[n, y * TILE + r, x * TILE + s, c]
        ),
        stage_name(name, "rows"),
        _UNROLLED,
    )
    return compute(
        rows.shape,
        lambda e, s, n, y, x, c: _combine(F2.data, s, lambda r: rows[e, r, n, y, x, c]),
        stage_name(name, "data"),
        _UNROLLED,
    )


def _product(spread: Tensor, weight: Tensor, name: str) -> Tensor:
    """Return the products of transformed tiles and weights, summed over the input channels."""
    *outer, channels = spread.shape
    rc = reduce_axis(channels, "rc")
    return compute(
        (*outer, weight.shape[3]),
        lambda e, s, n, y, x, c: sum(
            spread[e, s, n, y, x, rc] * widen(weight[e, s, rc, c]), axis=rc
        ),
        stage_name(name, "product"),
    )


def _twice(source: Tensor, matrix: Matrix, names: tuple[str, str], divisor: int = 1) -> Tensor:
    """Return `matrix` x `source` x its transpose / `divisor`, over the first two dimensions."""
    first, second = names
    rest = source.shape[2:]
    axes = ("e", "s", *(f"i{number}" for number in range(len(rest))))

    def row(e: Scalar, s: Scalar, *others: Scalar) -> Scalar:
        return _combine(matrix, e, lambda r: source[(r, s, *others)])

    rows = compute((len(matrix), source.shape[1], *rest), row, first, _UNROLLED, axes)

    def column(e: Scalar, s: Scalar, *others: Scalar) -> Scalar:
        value = _combine(matrix, s, lambda r: rows[(e, r, *others)])
        return value / divisor if divisor > 1 else value

    return compute((len(matrix), len(matrix), *rest), column, second, _UNROLLED, axes)


def _combine(matrix: Matrix, row: Scalar, element: Callable[[int], Scalar]) -> Scalar:
    """Return the sum of the elements times a row of `matrix`; for 16-bit floats in float32."""
    return Scalar(combine_rows([(matrix, row.expr)], lambda taken: widen(element(taken[0])).expr))
