"""Build calls of math functions."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import Call, Const, Expr, ExprLike, as_expr, const, dtype_of
from ansorc.ir.operator import BIT_FUNCTIONS, MATH_FUNCTIONS, OF_INTEGERS


def call(name: str, *args: ExprLike) -> Expr:
    """Return the math function `name` of `args`; raise LanguageError on other dtypes or counts."""
    is_of_bits = name in BIT_FUNCTIONS
    count = BIT_FUNCTIONS[name] if is_of_bits else MATH_FUNCTIONS.get(name)
    if count != len(args):
        raise LanguageError(f"there is no math function '{name}' of {len(args)} operands")
    exprs = tuple(as_expr(arg, FLOAT32) for arg in args)
    anchor = next((dtype_of(e) for e in exprs if not isinstance(e, Const)), dtype_of(exprs[0]))
    exprs = tuple(const(e.value, anchor.element) if isinstance(e, Const) else e for e in exprs)
    fits = anchor.is_integer if is_of_bits else anchor.is_float
    fits = fits or (anchor.is_integer and name in OF_INTEGERS)
    for expr in exprs:
        if dtype_of(expr).element != anchor.element or not fits:
            kind = "an integer" if is_of_bits else "floats of one dtype"
            raise LanguageError(f"{name} needs {kind}, not {dtype_of(expr)}")
    return Call(name, exprs)
