"""Read a tensor at linear indices as a view of NumPy, without a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numpy.lib.stride_tricks import as_strided

from ansorc.ir.aligned import Array
from ansorc.ir.arith.affine import affine
from ansorc.ir.expr import Expr


def find_strided_view(
    tensor: Array, indices: Sequence[Expr], axes: Mapping[str, Array]
) -> Array | None:
    """Return `tensor[indices]` for all values of `axes` as a view, with extent 1 if constant.

    Axis number d runs over consecutive values along dimension d. Return None unless all indices are
    sums of multiples of axes and inside the tensor.
    """
    start: list[slice] = []
    strides = dict.fromkeys(axes, 0)
    for index, extent, stride in zip(indices, tensor.shape, tensor.strides, strict=True):
        form = affine(index)
        if form is None:
            return None
        terms = form.terms.items()
        first = form.constant + sum(f * int(axes[name].flat[0]) for name, f in terms)
        reach = [factor * (axes[name].size - 1) for name, factor in terms]
        low = first + sum(step for step in reach if step < 0)
        high = first + sum(step for step in reach if step > 0)
        if low < 0 or high >= extent:
            return None
        start.append(slice(first, first + 1))
        for name, factor in terms:
            strides[name] += factor * stride
    shape = [axes[name].size if step else 1 for name, step in strides.items()]
    corner = tensor[tuple(start)]
    return as_strided(corner, shape, tuple(strides.values()), writeable=False)
