"""Sums of products of narrow numbers, with factors of the types that instructions multiply.

"int16", for instructions that multiply pairs of int16: bytes are widened once, not in each product.

    y[i, j] = Σ over k of int32(a[i, k]) * int32(b[k, j])
->  a.int16[i, k] = int16(a[i, k])
    y[i, j] = Σ over k of int32(a.int16[i, k]) * int32(b[k, j])

A constant stays as it is: it would be widened in each call.

"widened" does the same for floats of 16 bits, which few instructions multiply: what is read for
many results is widened to float32 once, as a product would convert it one element at a time.

->  a.widened[i, k] = float32(a[i, k])
    y[i, j] = Σ over k of a.widened[i, k] * float32(b[k, j])

"shifted", for instructions that multiply uint8 by int8: what does not depend on the last axis is
shifted, and what that adds is taken away from the sums.

->  a.shifted[i, k] = uint8(a[i, k] + 128)
    y.surplus[j] = Σ over k of 128 * int32(b[k, j])
    y.sum[i, j] = Σ over k of int32(a.shifted[i, k]) * int32(b[k, j])
    y[i, j] = y.sum[i, j] - y.surplus[j]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, INT8, INT16, INT32, UINT8, DType
from ansorc.ir.expr import Binary, BinaryOp, Cast, Expr, Load, Var, const
from ansorc.ir.node import Node, rewrite
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp
from ansorc.lang.definitions.redefinition import Redefinition

LEAST_REUSE = 8
"""Results for which each element of a factor is read, from which on it pays to widen it before."""
_SHIFT = 128
"""The number that shifts int8 to uint8."""


def int16_factors(op: ComputeOp) -> Redefinition | None:
    """Return a sum of products of bytes with factors of int16; None for other computations."""
    factors = _factors(op)
    if factors is None:
        return None
    bytes_read = {
        load.buffer.name: load.buffer
        for load in factors
        if load.buffer.dtype.bits == 8 and not load.buffer.constant
    }
    if not bytes_read:
        return None
    widened = {
        name: _convert(source, INT16, "int16", lambda element: element)
        for name, source in bytes_read.items()
    }
    made = op
    for name, source in bytes_read.items():
        made = made.reading(source, widened[name].buffer)
    return Redefinition((*widened.values(), made))


def widened_factors(op: ComputeOp) -> Redefinition | None:
    """Return a sum of products of floats of 16 bits with factors of float32; None for others.

    Constants stay as they are, and so does what is read for few results.
    """
    if op.combiner is not Combiner.SUM or op.more or op.places or op.buffer.dtype != FLOAT32:
        return None
    match op.body:
        case Binary(BinaryOp.MUL, left, right):
            read = (_narrow_load(left), _narrow_load(right))
        case _:
            return None
    sources = {
        load.buffer.name: load.buffer
        for load in read
        if load is not None and not load.buffer.constant and _reuse(op, load) >= LEAST_REUSE
    }
    if not sources or any(axis.bounds for axis in op.reduce_axes):
        return None
    widened = {
        name: replace(
            _convert(source, FLOAT32, "widened", lambda element: element),
            hints=(("never_compute_inline", "1"),),
        )
        for name, source in sources.items()
    }

    def read_wide(node: Node) -> Node | None:
        load = _narrow_load(node)
        if load is None or load.buffer.name not in widened:
            return None
        return Load(widened[load.buffer.name].buffer, load.indices)

    made = op.with_bodies(lambda body: rewrite(body, read_wide))
    return Redefinition((*widened.values(), made))


def _narrow_load(node: Node) -> Load | None:
    """Return the element of 16 bits that `node` widens to float32; None if it does not."""
    match node:
        case Cast(kind, Load(buffer) as load) if buffer.dtype in (FLOAT16, BFLOAT16):
            return load if kind == FLOAT32 else None
        case _:
            return None


def _reuse(op: ComputeOp, load: Load) -> int:
    """Return for how many results an element is read, those of windows not counted."""
    used = {name for index in load.indices for name in free_vars(index)}
    return prod(axis.extent for axis in op.axes if axis.name not in used)


def shifted_factors(op: ComputeOp) -> Redefinition | None:
    """Return a sum of products of int8 with one factor in uint8; None for other computations.

    There must be one factor that depends on the last axis, the other must not.
    """
    factors = _factors(op)
    if factors is None or not op.axes or {load.buffer.dtype for load in factors} != {INT8}:
        return None
    column = op.axes[-1].name
    depends = [any(column in free_vars(i) for i in load.indices) for load in factors]
    if sorted(depends) != [False, True] or factors[0].buffer.name == factors[1].buffer.name:
        return None
    data, weight = factors[depends.index(False)], factors[depends.index(True)]
    shifted = _convert(
        data.buffer, UINT8, "shifted",
        lambda element: Binary(BinaryOp.ADD, Cast(INT16, element), const(_SHIFT, INT16)),
    )  # fmt: skip
    surplus = _sum_weights(op, weight)
    total = Buffer(f"{op.name}.sum", op.buffer.shape, INT32)
    product = op.reading(data.buffer, shifted.buffer).with_buffers([total])
    here = tuple(Var(axis.name) for axis in op.axes)
    of_columns = tuple(Var(axis.name) for axis in surplus.axes)
    body = Binary(BinaryOp.SUB, Load(total, here), Load(surplus.buffer, of_columns))
    result = ComputeOp(op.name, op.buffer, op.axes, (), None, body, op.hints)
    return Redefinition((shifted, surplus, product, result))


def _sum_weights(op: ComputeOp, weight: Load) -> ComputeOp:
    """Return the sum of the weights of each column, times what the data is shifted by."""
    used = {name for index in weight.indices for name in free_vars(index)}
    axes = tuple(axis for axis in op.axes if axis.name in used)
    buffer = Buffer(f"{op.name}.surplus", tuple(axis.extent for axis in axes), INT32)
    body = Binary(BinaryOp.MUL, const(_SHIFT, INT32), Cast(INT32, weight))
    return ComputeOp(buffer.name, buffer, axes, op.reduce_axes, Combiner.SUM, body)


def _factors(op: ComputeOp) -> tuple[Load, Load] | None:
    """Return the two elements whose products in int32 `op` sums; None for other computations.

    A range that is data may depend on any axis, so that no sums of columns are shared.
    """
    if op.combiner is not Combiner.SUM or op.more or op.places or op.buffer.dtype != INT32:
        return None
    if any(axis.bounds for axis in op.reduce_axes):
        return None
    match op.body:
        case Binary(BinaryOp.MUL, Cast(_, Load() as left), Cast(_, Load() as right)):
            are_integers = all(load.buffer.dtype.is_integer for load in (left, right))
            return (left, right) if are_integers else None
        case _:
            return None


def _convert(
    source: Buffer, dtype: DType, suffix: str, value_of: Callable[[Expr], Expr]
) -> ComputeOp:
    """Return the stage of a value of each element of `source`, in `dtype`."""
    axes = tuple(Axis(f"d{n}", extent) for n, extent in enumerate(source.shape))
    body = Cast(dtype, value_of(Load(source, tuple(Var(axis.name) for axis in axes))))
    buffer = Buffer(f"{source.name}.{suffix}", source.shape, dtype)
    return ComputeOp(buffer.name, buffer, axes, (), None, body)
