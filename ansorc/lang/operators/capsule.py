"""Capsule convolution: a convolution whose elements are 4 x 4 matrices, multiplied as such."""

from __future__ import annotations

from typing import Unpack

from ansorc.errors import LanguageError
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.pad import pad
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.operators.wide import SumTypes, product
from ansorc.lang.operators.window import Window, WindowOptions
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

_OPERATOR = "capsule_conv2d"


def capsule_conv2d(data: Tensor, weight: Tensor, **options: Unpack[WindowOptions]) -> Tensor:
    """Return the convolution [n, h, w, p, r, co] of matrices (paper, section 7.1: CAP).

    data [n, h, w, p, q, ci] holds matrices p x q, weight [kh, kw, q, r, ci, co] matrices q x r.
    Raise LanguageError on other shapes or layouts. There is a stage `<name>.pad` only if there is
    padding.
    """
    window = Window.of(_OPERATOR, 2, options)
    if not window.is_channels_last:
        raise LanguageError(f"{_OPERATOR} takes the layout NHWC alone")
    require_rank(_OPERATOR, 6, data, weight)
    fits = data.shape[4] == weight.shape[2] and data.shape[5] == weight.shape[4]
    need = "they must be [n, h, w, p, q, ci] and [kh, kw, q, r, ci, co]"
    require(fits, _OPERATOR, data, weight, need=need)
    kernel, margins = weight.shape[:2], window.margins
    spatial = window.output(data, kernel)
    name = options.get("name", AutoName(_OPERATOR))
    padded = data
    if any(margins):
        before, after = [0, *margins[:2], 0, 0, 0], [0, *margins[2:], 0, 0, 0]
        padded = pad(data, before, after, 0.0, stage_name(name, "pad"), list("nhwpqc"))
    rh, rw = window.reduce_axes(kernel)
    rq, rc = reduce_axis(data.shape[4], "rq"), reduce_axis(data.shape[5], "rc")

    def body(n: Scalar, h: Scalar, w: Scalar, p: Scalar, r: Scalar, c: Scalar) -> Reduction:
        row, column = window.places([h, w], [rh, rw])
        term = product(padded[n, row, column, p, rq, rc], weight[rh, rw, rq, r, rc, c])
        return sum(term, axis=[rh, rw, rq, rc])

    shape = (data.shape[0], *spatial, data.shape[3], weight.shape[3], weight.shape[5])
    return SumTypes.of(data.dtype).total(shape, body, name)
