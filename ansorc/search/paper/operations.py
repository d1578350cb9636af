"""PaperOperations: the operations of a statement, by kind and by the type of their operands."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Compare,
    Expr,
    Load,
    Not,
    Select,
    Var,
    dtype_of,
)
from ansorc.ir.node import Node, walk
from ansorc.lang.compute_op import ComputeOp
from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.loop_nest import LoopNest


@dataclass(frozen=True, eq=False)
class PaperOperations:
    """Operations over all iterations, those in the indices of loads included."""

    float_multiply_added: FloatArray = field(metadata=LOG)
    """Float additions of a product, which one instruction does; they count as both as well."""
    float_added: FloatArray = field(metadata=LOG)
    """Float additions and subtractions."""
    float_multiplied: FloatArray = field(metadata=LOG)
    """Float multiplications."""
    float_divided: FloatArray = field(metadata=LOG)
    """Float divisions and remainders."""
    float_compared: FloatArray = field(metadata=LOG)
    """Float comparisons, minima and maxima."""
    float_math: FloatArray = field(metadata=LOG)
    """Calls of math functions."""
    float_called: FloatArray = field(metadata=LOG)
    """Calls of other functions: 0, as the language has none."""
    integer_multiply_added: FloatArray = field(metadata=LOG)
    """Integer additions of a product in the definition; they count as both as well."""
    integer_added: FloatArray = field(metadata=LOG)
    """Integer additions and subtractions, those that put an axis together from loops included."""
    integer_multiplied: FloatArray = field(metadata=LOG)
    """Integer multiplications, those by the steps of loops included."""
    integer_divided: FloatArray = field(metadata=LOG)
    """Integer divisions and remainders."""
    integer_compared: FloatArray = field(metadata=LOG)
    """Integer comparisons, minima and maxima."""
    integer_math: FloatArray = field(metadata=LOG)
    """Calls of math functions of integers: 0, as the language has none."""
    integer_called: FloatArray = field(metadata=LOG)
    """Calls of other functions of integers: 0, as the language has none."""
    logical: FloatArray = field(metadata=LOG)
    """Logical operations."""
    selected: FloatArray = field(metadata=LOG)
    """Selections of one of two values; both count as computed."""


_NAMES = tuple(PaperOperations.__dataclass_fields__)
_KINDS = {
    BinaryOp.MUL: "multiplied",
    BinaryOp.DIV: "divided",
    BinaryOp.FLOORDIV: "divided",
    BinaryOp.MOD: "divided",
    BinaryOp.MIN: "compared",
    BinaryOp.MAX: "compared",
    BinaryOp.ADD: "added",
    BinaryOp.SUB: "added",
}


def paper_operations(nest: LoopNest, iterations: FloatArray) -> PaperOperations:
    """Return the operations of the statement of `nest`; what it begins with costs none.

    An axis that is made of several loops is `Σ step * loop`, wherever the value reads it.
    """
    counts: dict[str, FloatArray] = {name: np.zeros_like(iterations) for name in _NAMES}
    for node in _nodes(nest.stage.op):
        for name in _kinds_of(node):
            counts[name] = counts[name] + 1
        if isinstance(node, Var):
            added, multiplied = _parts(nest, node.name, np.zeros_like(iterations))
            counts["integer_added"] = counts["integer_added"] + added
            counts["integer_multiplied"] = counts["integer_multiplied"] + multiplied
    return PaperOperations(**{name: count * iterations for name, count in counts.items()})


def _nodes(op: ComputeOp) -> list[Node]:
    values = list(op.bodies)
    if op.combiner is not None:
        indices = tuple(Var(axis.name) for axis in op.axes)
        values = list(op.combine([Load(buffer, indices) for buffer in op.buffers], values))
    return [node for value in values for node in walk(value)]


def _parts(nest: LoopNest, axis: str, zeros: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The additions and multiplications that make up an axis of its loops."""
    moving = scaled = zeros
    for loop, step in zip(nest.loops, nest.axes[axis], strict=True):
        if step is not None:
            is_part = (loop.extent > 1) & (step != 0)
            moving = moving + is_part
            scaled = scaled + (is_part & (np.abs(step) != 1))
    return np.maximum(moving - 1, 0), scaled


def _kinds_of(node: Node) -> tuple[str, ...]:
    match node:
        case Binary(op, left, right) if op in _KINDS:
            prefix, kind = _type(left), _KINDS[op]
            is_fused = kind == "added" and (_is_product(left) or _is_product(right))
            kinds = (kind, "multiply_added") if is_fused else (kind,)
            return tuple(f"{prefix}_{each}" for each in kinds)
        case Binary() | Not():
            return ("logical",)
        case Compare(_, left, _):
            return (f"{_type(left)}_compared",)
        case Select():
            return ("selected",)
        case Call():
            return (f"{_type(node)}_math",)
        case _:
            return ()


def _type(operand: Expr) -> str:
    return "float" if dtype_of(operand).is_float else "integer"


def _is_product(operand: Expr) -> bool:
    return isinstance(operand, Binary) and operand.op is BinaryOp.MUL
