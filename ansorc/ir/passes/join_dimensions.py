"""Join the dimensions of arrays of run-time shapes, so that all strides are numbers.

The last dimension whose extent is a size, and those before it, become one. A[i, j, k] of the shape
(m, n, 8) becomes A[i * n + j, k].
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import mul

from ansorc.errors import BuildError
from ansorc.ir.arith.affine import linear
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import Size, SizeLike, most_of
from ansorc.ir.expr import Binary, Expr, Indices, Load, const
from ansorc.ir.expr import BinaryOp as Op
from ansorc.ir.node import Node, rewrite
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.size_expr import size_expr
from ansorc.ir.stmt import Allocate, Function, Prefetch, Store


def join_dimensions(function: Function) -> Function:
    """Return `function` with run-time extents in the first dimension of its arrays alone."""
    if not function.dims:
        return function
    flat: dict[Buffer, Buffer] = {}

    def join(buffer: Buffer) -> Buffer:
        if buffer not in flat:
            flat[buffer] = _join(buffer)
        return flat[buffer]

    def rule(node: Node) -> Node | None:
        match node:
            case Load(buffer, indices) if buffer.sizes:
                return Load(join(buffer), _joined_indices(buffer, indices))
            case Store(buffer, indices) if buffer.sizes:
                place = _joined_indices(buffer, indices)
                return replace(node, buffer=join(buffer), indices=place)
            case Prefetch(buffer, indices) if buffer.sizes:
                return Prefetch(join(buffer), _joined_indices(buffer, indices))
            case Allocate(buffer, body) if buffer.sizes:
                return Allocate(join(buffer), body)
            case _:
                return None

    params = tuple(join(b) if b.sizes else b for b in function.params)
    return replace(function, params=params, body=rewrite(function.body, rule))


def _join(buffer: Buffer) -> Buffer:
    count = _count_joined(buffer)
    size: SizeLike = reduce(mul, buffer.extents[:count])
    assert isinstance(size, Size)
    rest = buffer.shape[count:]
    return replace(buffer, shape=(most_of(size), *rest), sizes=(size, *(None for _ in rest)))


def _joined_indices(buffer: Buffer, indices: Indices) -> Indices:
    count = _count_joined(buffer)
    first: Expr = indices[0]
    if count > 1 and any(map(reads_memory, indices[:count])):
        raise BuildError(
            f"'{buffer.name}' is read at an index that is data, and the caller gives the extents "
            f"{', '.join(map(str, buffer.extents[:count]))}: fix all but the first"
        )
    for index, extent in zip(indices[1:count], buffer.extents[1:count], strict=True):
        first = Binary(Op.ADD, _scaled(first, size_expr(extent)), index)
    return (first, *indices[count:])


def _scaled(index: Expr, stride: Expr) -> Expr:
    """Return `index * stride`, each term of a sum for itself, so that equal ones are seen."""
    total = linear(index)
    if total is None or not total.terms:
        return Binary(Op.MUL, index, stride)
    result: Expr | None = None
    for atom, factor in total.terms.items():
        single = type(total)({atom: 1}).to_expr()
        term: Expr = Binary(Op.MUL, single, stride)
        term = term if factor == 1 else Binary(Op.MUL, term, const(factor))
        result = term if result is None else Binary(Op.ADD, result, term)
    assert result is not None
    if total.constant:
        result = Binary(Op.ADD, result, Binary(Op.MUL, stride, const(total.constant)))
    return result


def _count_joined(buffer: Buffer) -> int:
    """Return the number of dimensions up to the last one of a run-time extent."""
    return max(n for n, size in enumerate(buffer.sizes) if size is not None) + 1
