"""OperationFeatures: how much arithmetic a statement does."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from ansorc.ir.arith.affine import affine
from ansorc.ir.dtype import BFLOAT16, FLOAT16
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Compare,
    Expr,
    Load,
    Not,
    Select,
    dtype_of,
)
from ansorc.ir.node import Node, children
from ansorc.ir.operator import BIT_FUNCTIONS
from ansorc.ir.passes.queries import reads_memory
from ansorc.ir.passes.skip_padding import present
from ansorc.lang.compute_op import Combiner, ComputeOp, StateBuffer
from ansorc.lang.reducer import Reducer
from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.memo import memoize
from ansorc.target.costs import CALL_INSTRUCTIONS, CoreCosts


@dataclass(frozen=True, eq=False)
class OperationFeatures:
    """Operations of one statement over all its iterations."""

    fused: FloatArray = field(metadata=LOG)
    """Float multiplications whose product is added to the running sum: one instruction."""
    added: FloatArray = field(metadata=LOG)
    """Other float additions and subtractions."""
    multiplied: FloatArray = field(metadata=LOG)
    """Other float multiplications."""
    divided: FloatArray = field(metadata=LOG)
    """Float divisions, square roots included."""
    compared: FloatArray = field(metadata=LOG)
    """Float minima, maxima and comparisons."""
    called: FloatArray = field(metadata=LOG)
    """Math functions that take tens of instructions, such as exp."""
    selected: FloatArray = field(metadata=LOG)
    """Selections, logical operations and comparisons of integers; not those of padding, which is
    skipped outside of the innermost loops."""
    integer: FloatArray = field(metadata=LOG)
    """Integer operations on data, and in indices that are read from memory."""
    total: FloatArray = field(metadata=LOG)
    """Float operations, a fused one counted as two."""


@dataclass(frozen=True)
class OperationCounts:
    """Operations in one iteration, by the kinds of `OperationFeatures`."""

    fused: int
    added: int
    multiplied: int
    divided: int
    compared: int
    called: int
    call_instructions: int
    """Instructions of those math functions, for one vector."""
    selected: int
    integer: int

    @property
    def total(self) -> int:
        """Float operations, a fused one counted as two."""
        plain = self.added + self.multiplied + self.divided + self.compared + self.called
        return 2 * self.fused + plain

    def vector_instructions(self, costs: CoreCosts) -> float:
        """Return the arithmetic instructions for one vector of results, in simple ones' time."""
        simple = self.fused + self.added + self.multiplied + self.compared
        return (
            simple
            + self.selected
            + self.integer
            + costs.division * self.divided
            + self.call_instructions
        )


_ROOTS = ("sqrt", "rsqrt")


@memoize
def operation_counts(op: ComputeOp) -> OperationCounts:
    """Return what one iteration of `op` does, the combining of a reduction included."""
    counts = dict.fromkeys(OperationCounts.__dataclass_fields__, 0)
    for body in op.parts:
        _count(_without_padding(op, body), counts)
    for each in op.step_sums:
        term = dict.fromkeys(counts, 0)
        _count(each.combiner.combine(Load(each.buffer, ()), each.body), term)
        terms = prod(axis.extent for axis in each.axes)
        counts = {name: count + terms * term[name] for name, count in counts.items()}
    is_float = op.buffer.dtype.is_float
    if isinstance(op.combiner, Reducer):
        for result in op.combiner.results:
            _count(result, counts)
    elif op.combiner is not None:
        body = _without_padding(op, op.body)
        is_product = isinstance(body, Binary) and body.op is BinaryOp.MUL
        if op.combiner is Combiner.SUM and is_product and is_float:
            counts["fused"], counts["multiplied"] = 1, counts["multiplied"] - 1
        elif not is_float:
            counts["integer"] += 1
        else:
            kinds = {Combiner.SUM: "added", Combiner.PROD: "multiplied"}
            counts[kinds.get(op.combiner, "compared")] += 1
    return OperationCounts(**counts)


@memoize
def widened_factors(op: ComputeOp) -> tuple[str, ...]:
    """Return the tensors of 16 bits whose elements a sum of products widens where it loads them.

    A tile converts each vector that it loads once, not once for each product.
    """
    body = op.body
    if (
        op.combiner is not Combiner.SUM
        or not isinstance(body, Binary)
        or body.op is not BinaryOp.MUL
    ):
        return ()
    return tuple(
        factor.operand.buffer.name
        for factor in (body.left, body.right)
        if isinstance(factor, Cast)
        and isinstance(factor.operand, Load)
        and factor.operand.buffer.dtype in (FLOAT16, BFLOAT16)
    )


def operation_features(counts: OperationCounts, iterations: FloatArray) -> OperationFeatures:
    """Return `counts` over `iterations`, [rows]."""
    names = OperationFeatures.__dataclass_fields__
    return OperationFeatures(**{name: iterations * getattr(counts, name) for name in names})


def _without_padding(op: ComputeOp, body: Expr) -> Expr:
    """Return `body` without the choices of values that leave the loops (`skip_padding`)."""
    kinds = {Combiner.SUM: BinaryOp.ADD, Combiner.MAX: BinaryOp.MAX, Combiner.MIN: BinaryOp.MIN}
    kind = kinds.get(op.combiner) if isinstance(op.combiner, Combiner) else None
    return body if kind is None else present(body, kind)[0]


def _count(node: Node, counts: dict[str, int]) -> None:
    if isinstance(node, Select) and _is_border(node.condition):
        _count(node.then, counts)
        _count(node.otherwise, counts)
        return
    kind = _kind(node)
    if kind:
        counts[kind] += 1
    if isinstance(node, Call):
        counts["call_instructions"] += CALL_INSTRUCTIONS.get(node.name, 0)
    if isinstance(node, Load) and not any(map(reads_memory, node.indices)):
        return  # what only loops move is worked out outside of the innermost ones
    for child in children(node):
        _count(child, counts)


def _is_border(condition: Expr) -> bool:
    """Whether loops are split where a condition changes (`ansorc.ir.passes.partition_loops`)."""
    match condition:
        case Binary(BinaryOp.AND, left, right):
            return _is_border(left) and _is_border(right)
        case Compare(_, left, right):
            return affine(left) is not None and affine(right) is not None
        case _:
            return False


def _kind(node: Node) -> str:
    match node:
        case Binary(op, left, _):
            return _binary_kind(op, is_float=dtype_of(left).is_float)
        case Compare(_, left, _):
            return "compared" if dtype_of(left).is_float else "selected"
        case Select() | Not():
            return "selected"
        case Cast():
            return "integer"
        case Call(name, _):
            if name in BIT_FUNCTIONS:
                return "integer"
            if name in CALL_INSTRUCTIONS:
                return "called"
            return "divided" if name in _ROOTS else "added"
        case _:
            return ""


def _binary_kind(op: BinaryOp, *, is_float: bool) -> str:
    if op in (BinaryOp.AND, BinaryOp.OR):
        return "selected"
    if not is_float:
        return "integer"
    kinds = {
        BinaryOp.MUL: "multiplied",
        BinaryOp.DIV: "divided",
        BinaryOp.MIN: "compared",
        BinaryOp.MAX: "compared",
    }
    return kinds.get(op, "added")


@memoize
def chain_length(op: ComputeOp) -> int:
    """Return how many operations a step of a scan does one after the other, from its states on.

    A product with something added counts as one.
    """
    return max(1, *(_depth(body) or 0 for body in op.bodies))


def _depth(node: Node) -> int | None:
    """Return the operations between the states and `node`; None if it does not depend on them."""
    if isinstance(node, Load):
        return 0 if isinstance(node.buffer, StateBuffer) else None
    below = [depth for child in children(node) if (depth := _depth(child)) is not None]
    if not below:
        return None
    is_sum = isinstance(node, Binary) and node.op in (BinaryOp.ADD, BinaryOp.SUB)
    is_fused = is_sum and any(
        isinstance(side, Binary) and side.op is BinaryOp.MUL and _depth(side) is not None
        for side in children(node)
    )
    return max(below) + (not is_fused)
