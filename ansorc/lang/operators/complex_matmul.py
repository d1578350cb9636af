"""Products of complex matrices as products of real ones, twice as long and wide.

(x + yi) (c + di) = x (c + di) + y (-d + ci), so that the parts of a row of the result are the parts
of a row of the left matrix, which alternate in memory as they are, times the real matrix

    [ c  d ]
    [-d  c ]   of each element c + di of the right one.

This takes as many multiplications as the complex product, without parts that are picked out of
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from ansorc.lang.complex_type import Complex
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.define import compute
from ansorc.lang.naming import stage_name
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar import if_then_else
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import ComplexTensor, Tensor, complex_buffer

Place = Callable[[Sequence[Scalar]], tuple[Scalar, ...]]
"""Indices in front of the last two, for those of the result."""


def multiply_complex(
    left: Callable[[Sequence[Scalar], Scalar], Scalar],
    right: Tensor,
    shape: Sequence[int],
    place: Place,
    name: str,
) -> Tensor:
    """Return the complex products of `shape` by the matrices `right` [..., k, m].

    `left(i, t)` is the part number t of 2 k of the row that the indices i of a result name;
    `place(i)` are the indices of the matrix for them.
    """
    *batch, length, width = right.shape
    table = compute(
        (*batch, 2 * length, 2 * width),
        lambda *i: _entry(right, i),
        stage_name(name, "parts"),
        axes=[*(f"b{d}" for d in range(len(batch))), "t", "j"],
    )
    t = reduce_axis(2 * length, "t")
    flat = complex_buffer(str(name), tuple(shape), table.dtype)

    def body(*i: Scalar) -> Reduction:
        return sum(left(i, t) * table[(*place(i), t, i[-1])], axis=t)

    made = compute(flat.shape, body, name, axes=[*(f"i{d}" for d in range(len(shape) - 1)), "j"])
    op = cast(ComputeOp, made.definition).with_buffers([flat])
    return ComplexTensor(flat, op, made.has_auto_name)


def _entry(right: Tensor, index: Sequence[Scalar]) -> Scalar:
    """Return an element of the real matrix."""
    *batch, t, j = index
    z = cast(Complex, right[(*batch, t // 2, j // 2)])
    is_real = j % 2 == 0
    first = if_then_else(is_real, z.real, z.imag)
    return if_then_else(t % 2 == 0, first, if_then_else(is_real, -z.imag, z.real))
