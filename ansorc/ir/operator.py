"""The operators and functions of the IR, for Binary, Compare and Call."""

from __future__ import annotations

from enum import Enum

from ansorc.ir.dtype import DType


class BinaryOp(Enum):
    """Operators on two operands of one dtype, giving that dtype."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    """Floats only."""
    FLOORDIV = "//"
    """Integers only, rounding towards minus infinity; of floats it is a Call."""
    MOD = "%"
    """Integers only; the sign is the divisor's. Of floats it is a Call."""
    MIN = "min"
    MAX = "max"
    """A NaN operand gives NaN for MIN and MAX, as in NumPy."""
    AND = "and"
    OR = "or"
    """AND and OR take bools; both operands are evaluated."""
    BIT_AND = "&"
    BIT_OR = "|"
    BIT_XOR = "^"
    """Integers only, bit by bit in two's complement."""
    SHL = "<<"
    SHR = ">>"
    """Integers only; SHR of signed ones keeps the sign. A count that is negative, or at least the
    number of bits, leaves only zeros, or copies of the sign, as in NumPy."""


SHIFTS = (BinaryOp.SHL, BinaryOp.SHR)
BITWISE = (BinaryOp.BIT_AND, BinaryOp.BIT_OR, BinaryOp.BIT_XOR, *SHIFTS)
"""The operators on the bits of integers."""

DIVISIONS = (BinaryOp.FLOORDIV, BinaryOp.MOD)
"""The divisions of integers: a divisor of 0 is a fault of the data."""


class CompareOp(Enum):
    """Operators on two operands of one dtype, giving bool."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


REDUCTIONS: dict[BinaryOp, str] = {
    BinaryOp.ADD: "reduce_sum", BinaryOp.MUL: "reduce_prod", BinaryOp.MIN: "reduce_min",
    BinaryOp.MAX: "reduce_max",
}  # fmt: skip
"""The operators that may combine lanes of a vector or terms of a reduction; names in the text."""

DOT_FUNCTIONS = {"dot2": 2, "dot4": 4, "dot4_pairs": 4}
"""The name of each dot product, and the number of products that it adds to a lane."""

TILE_FUNCTIONS = {"tile_bf16": 2, "tile_f16": 2, "tile_i8": 4}
"""The name of each function of the matrix units of CPUs, and the terms of a group."""

MATRIX_FUNCTIONS = {
    "mma_f16": 16, "mma_bf16": 16, "mma_tf32": 8, "mma_s8": 32, **TILE_FUNCTIONS
}  # fmt: skip
"""The name of each function of matrix units, and the terms of the loop that it computes.

Those of GPUs multiply tiles of 16 x k and k x 8, and the loop has k terms. Those of CPUs
(TILE_FUNCTIONS) multiply tiles of rows and columns whose terms adjoin in groups, and the loop is
over a group."""

MATH_FUNCTIONS: dict[str, int] = {
    "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log2": 1, "log1p": 1, "tanh": 1, "erf": 1,
    "sigmoid": 1, "sqrt": 1, "rsqrt": 1, "sin": 1, "cos": 1, "abs": 1, "floor": 1, "ceil": 1,
    "round": 1, "trunc": 1, "copysign": 2, "pow": 2, "fmod": 2, "mod": 2, "floor_divide": 2,
    "fma": 3,
}  # fmt: skip
"""The name and the number of operands of each math function.

Remainders are exact, whatever the size of the quotient. `fmod` has the sign of the dividend, as in
C; `mod` has that of the divisor, also if it is zero, as in NumPy (it rounds where it adds the
divisor to an `fmod`). `floor_divide` is that of NumPy: the dividend minus the remainder, divided
and rounded to a whole number. Division by zero gives the plain quotient.
"""

OF_INTEGERS = frozenset(("pow",))
"""The math functions that integers also have. Powers wrap around. Those with a negative exponent
are truncated to a whole number: bases 1 and -1 give 1 or -1, others 0."""

BIT_FUNCTIONS = {"popcount": 1, "clz": 1, "ctz": 1}
"""The functions of the bits of an integer, and their number of operands: how many are 1, and how
many zeros are before the first 1 and behind the last; both are the number of bits for 0."""

MOST_COUNTED = 16
"""The most operands that `popcount` has in a loop program: it is the sum of their popcounts."""

OF_FLOATS = {BinaryOp.FLOORDIV: "floor_divide", BinaryOp.MOD: "mod"}
"""The math functions for `//` and `%` of floats."""

SHORT_FUNCTIONS = frozenset(
    ("sqrt", "rsqrt", "abs", "floor", "ceil", "round", "trunc", "copysign", "fma")
)
"""Functions of one or two instructions on a CPU; others are chains of dozens of instructions."""


def has_operands(name: str, count: int) -> bool:
    """Return whether there is a function `name` of `count` operands in loop programs."""
    if name == "popcount":
        return 1 <= count <= MOST_COUNTED
    return {**MATH_FUNCTIONS, **BIT_FUNCTIONS}.get(name) == count


def misuse(op: BinaryOp, element: DType) -> str:
    """Return why `op` does not accept operands of `element`, and what to do; "" if it does."""
    is_logical = op in (BinaryOp.AND, BinaryOp.OR)
    if is_logical and not element.is_bool:
        return f"'{op.value}' needs bools, not {element}; compare first"
    if op is BinaryOp.DIV and not element.is_float:
        return f"'/' needs floats, not {element}; use // or cast one operand"
    if op in OF_FLOATS and element.is_float:
        return f"'{op.value}' of floats is the math function {OF_FLOATS[op]}; call that"
    if op in BITWISE and not element.is_integer:
        cure = "use 'and', 'or', '!='" if element.is_bool else "cast the operand"
        return f"'{op.value}' needs integers, not {element}; {cure}"
    if element.is_bool and not is_logical:
        return f"'{op.value}' needs numbers, not bools; use cast or if_then_else"
    return ""
