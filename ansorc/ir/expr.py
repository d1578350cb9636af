"""The expressions of the IR: a closed set of immutable classes, and how to build them.

Arithmetic operators on expressions build nodes; `==` compares structure, so use `equal(a, b)` to
build a comparison. Python numbers take the dtype of the other operand. Mixed dtypes are refused.
"""

from __future__ import annotations

import math
from typing import TypeAlias, cast

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import BOOL, FLOAT32, INT64, DType
from ansorc.ir.dtype import dtype as dtype_named
from ansorc.ir.fault import FaultKind
from ansorc.ir.node import Node, node
from ansorc.ir.operator import OF_FLOATS, BinaryOp, CompareOp, misuse
from ansorc.ir.own_function import OwnFunction


class Operand(Node):
    """Arithmetic syntax for expressions; each operator only builds a node."""

    __slots__ = ("_dtype",)
    is_walked_often = True
    _dtype: DType
    """The cached result of `dtype_of`, which is called at each level of a deep expression."""

    def __add__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.ADD, self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.ADD, other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.SUB, self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.SUB, other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.MUL, self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.MUL, other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.DIV, self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.DIV, other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.FLOORDIV, self, other)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary(BinaryOp.MOD, self, other)

    def __neg__(self) -> Expr:
        zero = -0.0 if dtype_of(as_expr(self)).is_float else 0  # -0.0 - x is -x for every x
        return binary(BinaryOp.SUB, zero, self)

    def __lt__(self, other: ExprLike) -> Expr:
        return compare(CompareOp.LT, self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return compare(CompareOp.LE, self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return compare(CompareOp.GT, self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return compare(CompareOp.GE, self, other)

    def astype(self, type: str | DType) -> Expr:
        """Return `self` converted to `type`; see `Cast`. Raise LanguageError on an unknown name."""
        expr, goal = as_expr(self), type if isinstance(type, DType) else dtype_named(type)
        return expr if dtype_of(expr).element == goal else Cast(goal, expr)

    def __bool__(self) -> bool:
        raise LanguageError(
            "an expression has no truth value while the program is being built; "
            "use if_then_else(condition, a, b), all_of(...) or any_of(...)"
        )


@node
class Const(Operand):  # noqa: PLW1641, `node` makes the hash
    """A literal. Its value is an int, float or bool as `dtype` says; build it with `const`."""

    value: float
    dtype: DType

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same number; 0.0 and -0.0 differ, since 1 / x does."""
        if other.__class__ is not self.__class__:
            return NotImplemented
        mine, theirs = self.value, cast(Const, other).value
        return (mine, self.dtype) == (theirs, cast(Const, other).dtype) and (
            bool(mine)
            or mine.__class__ is int
            or math.copysign(1, mine) == math.copysign(1, theirs)
        )


@node
class Var(Operand):
    """A loop variable or axis, unique by name inside one function."""

    name: str
    dtype: DType = INT64


@node
class Binary(Operand):
    """`left op right`; build it with `binary`, which checks dtypes."""

    op: BinaryOp
    left: Expr
    right: Expr


@node
class Compare(Operand):
    """`left op right` as a bool; build it with `compare`."""

    op: CompareOp
    left: Expr
    right: Expr


@node
class Not(Operand):
    """Logical negation of a bool."""

    operand: Expr


@node
class Select(Operand):
    """`then` if `condition` holds, else `otherwise`; only the chosen arm is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr


@node
class Checked(Operand):
    """`value`; the call fails unless `condition` holds.

    Only evaluated values are checked: the arm of a `Select` that is not chosen checks nothing.
    `kind` gives the meaning of the integers `args`; `about` is a tensor or the text of an
    assertion. In a vector, the condition must hold in every lane. See `Check`.
    """

    value: Expr
    condition: Expr
    kind: FaultKind
    about: str
    args: tuple[Expr, ...] = ()


@node
class Cast(Operand):
    """`operand` converted to `dtype` as NumPy's `astype` does (lanes follow the operand).

    Floats are truncated to integers; values out of range are clamped, and NaN becomes 0. Every
    number is converted to bfloat16 by way of float32.
    """

    dtype: DType
    operand: Expr


@node
class Call(Operand):
    """A function of `MATH_FUNCTIONS` or `BIT_FUNCTIONS`, with the dtype of its operands.

    These are floats, or integers for functions of `OF_INTEGERS` and `BIT_FUNCTIONS`.
    """

    name: str
    args: tuple[Expr, ...]


@node
class OwnCall(Call):
    """A call of a function of the user's, whose symbol is the name; it has a dtype of its own."""

    function: OwnFunction


@node
class Dot(Operand):
    """Lane l is `total[l] + sum of left[terms * l + t] * right[terms * l + t]` for t below `terms`.

    An operand of only `terms` lanes is used for every lane. The sums of four int8 or uint8, and of
    two int16, are int32 and wrap. Those of two bfloat16 are float32: the last term is added first,
    each sum is rounded, and numbers below 2^-126 may be treated as 0.
    """

    terms: int
    total: Expr
    left: Expr
    right: Expr
    in_pairs: bool = False
    """Whether each two of four products are added up in int16 first, at whose ends they stay."""


@node
class Load(Operand):
    """The element `buffer[indices]`; with vector indices, one element for each lane."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@node
class Ramp(Operand):
    """The vector `base, base + stride, …` of `lanes` integers."""

    base: Expr
    stride: Expr
    lanes: int


@node
class Broadcast(Operand):
    """`operand`, a scalar, in each of `lanes` lanes."""

    operand: Expr
    lanes: int


@node
class Reduce(Operand):
    """The lanes of `operand` combined by `op` of REDUCTIONS, by halving until one is left."""

    op: BinaryOp
    operand: Expr


@node
class Shuffle(Operand):
    """The value of `operand` in another thread of the GPU warp, whose number differs in one bit.

    The bit is `distance`: 1, 2, 4, 8 or 16. A Shuffle is the whole value of a store, which all
    threads of the block run together. A warp is 32 neighbours by threadIdx.x, then y, then z.
    """

    operand: Expr
    distance: int


@node
class MatrixLoad(Operand):
    """A load of four matrices of 8 rows of 16 bytes by the lanes of a GPU warp.

    Lane l provides row l % 8 of matrix l // 8 as the vector `operand`. From each matrix in turn it
    receives the 4 bytes number l % 4 of row l // 4. If `is_transposed` (16-bit elements only), it
    receives elements l % 4 * 2 and l % 4 * 2 + 1 of column l // 4. Restrictions are those of
    `Shuffle`.
    """

    operand: Expr
    is_transposed: bool


@node
class MatrixMultiply(Operand):
    """`total + left · right` of tiles in the registers of a warp: 16 x 8, 16 x k, k x 8.

    With P elements in 4 bytes, k is 8 P. Lane l holds, as lane i of `total`, row l // 4 + 8 (i //
    2) and column l % 4 * 2 + i % 2. Register i (P lanes) of `left` holds row l // 4 + 8 (i % 2)
    with k from l % 4 P + 4 P (i // 2) on; that of `right` holds column l // 4 with k from l % 4 P +
    4 P i on (PTX manual, "mma"). Products of float16 and bfloat16 are exact; those of float32
    ignore the lowest 13 bits of each factor. The rounding of sums depends on the GPU. Restrictions
    are those of `Shuffle`.
    """

    total: Expr
    left: Expr
    right: Expr


@node
class Transpose(Operand):
    """An exchange of pieces of the vectors `operand` among 2 or 4 neighbours of a GPU warp.

    Each vector has as many pieces as there are neighbours (`threads`). Neighbour i receives piece i
    of each neighbour, in order. Restrictions are those of `Shuffle`.
    """

    operand: Expr
    threads: int


Exchange: TypeAlias = Shuffle | MatrixLoad | MatrixMultiply | Transpose
"""Operations that the threads of a warp do together."""
_OfLanes: TypeAlias = Load | Ramp | Broadcast | Reduce | Dot | Exchange
_Compound: TypeAlias = Binary | Compare | Not | Select | Checked | Cast | Call | _OfLanes
Expr: TypeAlias = Const | Var | _Compound
ExprLike: TypeAlias = "Operand | float"
"""An operand that the builders accept: an expression or a Python number."""
Indices: TypeAlias = tuple[Expr, ...]
"""The position of a load or a store: one index for each dimension."""
_LEAVES = (Const, Var)


def dtype_of(expr: Expr) -> DType:
    """Return the dtype of `expr`, with its lanes."""
    if isinstance(expr, _LEAVES):
        return expr.dtype
    if not hasattr(expr, "_dtype"):
        object.__setattr__(expr, "_dtype", _dtype_of(expr))
    return expr._dtype  # pyright: ignore[reportPrivateUsage]


def _dtype_of(expr: _Compound) -> DType:
    match expr:
        case Binary(_, left, right):
            return _wider(dtype_of(left), dtype_of(right))
        case Compare(_, left, right):
            return BOOL.vector(max(dtype_of(left).lanes, dtype_of(right).lanes))
        case Not(operand) | Dot(_, operand, _, _) | Shuffle(operand) | MatrixLoad(operand):
            return dtype_of(operand)
        case Transpose(operand):
            return dtype_of(operand)
        case MatrixMultiply(total):
            return dtype_of(total)
        case Select(condition, then, otherwise):
            dtype_ = _wider(dtype_of(then), dtype_of(otherwise))
            return dtype_.vector(max(dtype_of(condition).lanes, dtype_.lanes))
        case Checked(value, condition):
            dtype_ = dtype_of(value)
            return dtype_.vector(max(dtype_of(condition).lanes, dtype_.lanes))
        case Cast(dtype, operand):
            return dtype.vector(dtype_of(operand).lanes)
        case OwnCall(_, args, function):
            lanes = max((dtype_of(arg).lanes for arg in args), default=1)
            return function.result.vector(lanes)
        case Call(_, args):
            return max((dtype_of(arg) for arg in args), key=lambda dtype_: dtype_.lanes)
        case Load(buffer, indices):
            lanes = max((dtype_of(index).lanes for index in indices), default=1)
            return buffer.dtype.vector(lanes)
        case Ramp(operand, _, lanes) | Broadcast(operand, lanes):
            return dtype_of(operand).vector(lanes)
        case Reduce(_, operand):
            return dtype_of(operand).element


def const(value: float, dtype: DType = INT64) -> Const:
    """Return `value` as a literal of `dtype`; raise LanguageError if it does not fit."""
    if type(value) is int and dtype is INT64:
        return Const(value, dtype)  # most are
    if dtype.is_float:
        return Const(float(value), dtype)
    if dtype.is_bool:
        return Const(bool(value), dtype)
    if isinstance(value, float) and not value.is_integer():
        raise LanguageError(f"{value} is not a {dtype}; cast the other operand to a float dtype")
    return Const(int(value), dtype)


def as_expr(value: ExprLike, dtype: DType | None = None) -> Expr:
    """Return `value` as an expression; a Python number becomes a `dtype` literal.

    Without `dtype` an int is int64, a float float32 and a bool bool.
    """
    if isinstance(value, Operand):
        return value  # pyright: ignore[reportReturnType]
    for kind, default in ((bool, BOOL), (int, INT64), (float, FLOAT32)):
        if isinstance(value, kind):  # pyright: ignore[reportUnnecessaryIsInstance]
            return const(value, dtype or default)
    raise LanguageError(f"{value!r} ({type(value).__name__}) is not a tensor expression")


def binary(op: BinaryOp, left: ExprLike, right: ExprLike) -> Expr:
    """Return `left op right`; raise LanguageError on dtypes that differ or do not have `op`.

    For floats, `//` and `%` are calls of math functions.
    """
    a, b = operands(op.value, left, right)
    if op in OF_FLOATS and dtype_of(a).is_float:
        return Call(OF_FLOATS[op], (a, b))
    if complaint := misuse(op, dtype_of(a).element):
        raise LanguageError(complaint)
    return Binary(op, a, b)


def compare(op: CompareOp, left: ExprLike, right: ExprLike) -> Expr:
    """Return `left op right` as a bool; raise LanguageError on dtypes that differ."""
    return Compare(op, *operands(op.value, left, right))


def operands(symbol: str, left: ExprLike, right: ExprLike) -> tuple[Expr, Expr]:
    """Return both as expressions of one dtype; raise LanguageError, with `symbol`, if not."""
    a, b = _match(left, right), _match(right, left)
    ta, tb = dtype_of(a), dtype_of(b)
    if ta.element != tb.element or (ta.lanes != tb.lanes and 1 not in (ta.lanes, tb.lanes)):
        raise LanguageError(f"'{symbol}' on {ta} and {tb}: cast one operand to the other's dtype")
    return a, b


def _match(value: ExprLike, other: ExprLike) -> Expr:
    if isinstance(value, Operand) or not isinstance(other, Operand):
        return as_expr(value)
    dtype = dtype_of(as_expr(other)).element
    if isinstance(value, float) and not dtype.is_float and math.isfinite(value):
        raise LanguageError(f"{value} on {dtype}: cast the {dtype} operand to a float dtype first")
    return as_expr(value, dtype)


def _wider(left: DType, right: DType) -> DType:
    return left if left.lanes >= right.lanes else right
