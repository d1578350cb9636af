"""Match the body of a reduction with a dot-product instruction, and emit the instruction."""

from __future__ import annotations

from ansorc.ir.arith.interval import Ranges
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, INT8, INT16, INT32, UINT8, DType
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Cast,
    Dot,
    Expr,
    Load,
    Ramp,
    Var,
    const,
    dtype_of,
)
from ansorc.ir.operator import DOT_FUNCTIONS
from ansorc.ir.stmt import Store
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import Combiner, ComputeOp
from ansorc.lang.hints import FITS

_FACTORS: dict[tuple[str, DType], tuple[DType, ...]] = {
    ("dot4", INT32): (INT8, UINT8),
    ("dot4_pairs", INT32): (INT8, UINT8),
    ("dot2", INT32): (INT8, UINT8, INT16),
    ("dot2", FLOAT32): (BFLOAT16,),
    ("mma_f16", FLOAT32): (FLOAT16,),
    ("mma_f16", FLOAT16): (FLOAT16,),
    ("mma_bf16", FLOAT32): (BFLOAT16,),
    ("mma_bf16", BFLOAT16): (BFLOAT16,),
    ("mma_tf32", FLOAT32): (FLOAT32,),
    ("mma_s8", INT32): (INT8,),
    ("tile_bf16", FLOAT32): (BFLOAT16,),
    ("tile_f16", FLOAT32): (FLOAT16,),
    ("tile_i8", INT32): (INT8, UINT8),
}
"""The types that factors may have before they are cast, by function and dtype of the sum."""


PAIRS = "dot4_pairs"
"""The function that adds each two products in int16, where a hint says that they always fit."""
TERM = Var("dot.term")
"""Stands for the variable of the loop that the instruction replaces."""


def misfit(op: ComputeOp, function: str) -> str:
    """Return why `function` cannot compute the reduction `op`; "" if it can."""
    if op.combiner is not Combiner.SUM:
        return f"'{op.name}' is no sum"
    dtype = op.buffer.dtype
    allowed = _FACTORS.get((function, dtype))
    if allowed is None:
        sums = " or ".join(str(into) for name, into in _FACTORS if name == function)
        return f"'{op.name}' is summed in {dtype}, but {function} makes sums of {sums}"
    product = "a * b" if dtype in allowed else f"cast({dtype}, a) * cast({dtype}, b)"
    wanted = f"{product}, a and b of {' or '.join(map(str, allowed))}"
    pair = factors(op.body)
    if pair is None or not all(dtype_of(factor).element in allowed for factor in pair):
        return f"the terms of '{op.name}' are not {wanted}"
    if function == PAIRS:
        return _misfit_of_pairs(op, pair)
    return ""


def _misfit_of_pairs(op: ComputeOp, pair: tuple[Expr, Expr]) -> str:
    if {dtype_of(factor).element for factor in pair} != {UINT8, INT8}:
        return f"the factors of '{op.name}' are not uint8 and int8"
    if FITS not in dict(op.hints):
        return f"two products of '{op.name}' may leave int16; the hint {FITS} says that none do"
    return ""


def dot_update(
    buffer: Buffer, indices: tuple[Expr, ...], body: Expr, function: str, ranges: Ranges
) -> Store:
    """Return the statement that adds `body` for TERM = 0, 1, … to `buffer[indices]` by `function`.

    `ranges` bounds the other variables of `body`; it lets the simplifier drop quotients and
    remainders that do not depend on TERM.
    """
    terms = DOT_FUNCTIONS[function]
    pair = factors(body)
    assert pair is not None, "the step has checked it"
    every = {TERM.name: Ramp(const(0), const(1), terms)}
    known = {**ranges, TERM.name: (0, terms - 1)}
    left, right = (
        _operand(substitute(simplify(factor, known), every), function, terms) for factor in pair
    )
    in_pairs = function == PAIRS
    return Store(buffer, indices, Dot(terms, Load(buffer, indices), left, right, in_pairs))


def factors(body: Expr) -> tuple[Expr, Expr] | None:
    """Return a and b of `cast(a) * cast(b)`, or of elements a and b; None for another body."""
    match body:
        case Binary(BinaryOp.MUL, Load() as left, Load() as right):
            return left, right
        case Binary(BinaryOp.MUL, Cast(_, left), Cast(_, right)):
            return left, right
        case _:
            return None


def _operand(factor: Expr, function: str, terms: int) -> Expr:
    dtype = dtype_of(factor)
    if dtype.lanes == 1:
        factor = Broadcast(factor, terms)
    is_widened = function == "dot2" and dtype.is_integer and dtype.bits < 16
    return Cast(INT16, factor) if is_widened else factor
