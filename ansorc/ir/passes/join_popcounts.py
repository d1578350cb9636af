"""Let sums of popcounts count the bits of several words at once.

for k in 0..64:                             for k in 0..4:
    vectorized j:                               vectorized j:
        C[j] = C[j] + popcount(X[k, j])   ->        C[j] = C[j] + popcount(X[k * 16, j], …,
                                                                           X[k * 16 + 15, j])

Full adders on vectors of bits turn 15 words into 4 (Harley and Seal; Warren, Hacker's Delight,
section 5-1), so most of the table look-ups of a popcount are saved where it is no instruction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.ir.arith.affine import integer
from ansorc.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Load, const, dtype_of
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.node import walk
from ansorc.ir.operator import MOST_COUNTED
from ansorc.ir.stmt import For, Function, LoopKind, Stmt, Store, map_substatements
from ansorc.ir.substitute import free_vars, substitute

_FEWEST = 4
"""Fewer words are counted one after another."""
_KINDS = (LoopKind.SERIAL, LoopKind.UNROLLED)


def join_popcounts(function: Function) -> Function:
    """Return `function` with sums of popcounts over a loop joined, up to MOST_COUNTED of them."""
    body = _convert(function.body)
    return function if body is function.body else replace(function, body=body)


def _convert(stmt: Stmt) -> Stmt:
    inside = map_substatements(stmt, _convert)
    if isinstance(inside, For) and inside.kind in _KINDS:
        return _join(inside) or inside
    return inside


def _join(loop: For) -> Stmt | None:
    """Return a loop over words with several of them in each step; None for another loop."""
    *inner, store = _nest(loop.body)
    if not isinstance(store, Store) or not all(isinstance(each, For) for each in inner):
        return None
    term = _term(store)
    if term is None or any(loop.var.name in free_vars(index) for index in store.indices):
        return None
    count = term.count_joined(loop)
    if count is None:
        return None
    steps = loop.extent // count
    first: Expr = Binary(BinaryOp.MUL, loop.var, integer(count)) if steps > 1 else integer(0)
    words = tuple(
        substitute(word, {loop.var.name: Binary(BinaryOp.ADD, first, integer(n))})
        for n in range(count)
        for word in term.words
    )
    joined = replace(term, words=words, bits=term.bits * count).to_expr()
    body: Stmt = replace(store, value=Binary(BinaryOp.ADD, _total(store), joined))
    for each in reversed(inner):
        assert isinstance(each, For)
        body = replace(each, body=body)
    return body if steps == 1 else replace(loop, extent=steps, body=body)


@dataclass(frozen=True)
class _Term:
    """The sum of the popcounts of words, or what it leaves of a number of bits."""

    words: tuple[Expr, ...]
    bits: int
    """The number from which the sum is subtracted; 0: it is not."""
    cast: Cast | None
    """The conversion of the result, if there is one."""

    def count_joined(self, loop: For) -> int | None:
        """Return how many steps of `loop` are joined, None if none are."""
        dtype = dtype_of(self.words[0]).element
        most = min(MOST_COUNTED, integer_range(dtype)[1] // dtype.bits) // len(self.words)
        count = max((n for n in range(1, most + 1) if loop.extent % n == 0), default=1)
        is_moving = all(loop.var.name in free_vars(word) for word in self.words)
        is_enough = count > 1 and count * len(self.words) >= _FEWEST
        return count if is_enough and is_moving else None

    def to_expr(self) -> Expr:
        """Return the term as an expression."""
        result: Expr = Call("popcount", self.words)
        if self.bits:
            dtype = dtype_of(self.words[0]).element
            result = Binary(BinaryOp.SUB, const(self.bits, dtype), result)
        return result if self.cast is None else Cast(self.cast.dtype, result)


def _term(store: Store) -> _Term | None:
    """Return the term that `store` adds, if it is of popcounts that read other buffers."""
    value = store.value
    if not isinstance(value, Binary) or value.op is not BinaryOp.ADD or value.left != _total(store):
        return None
    cast = value.right if isinstance(value.right, Cast) else None
    match value.right if cast is None else cast.operand:
        case Call("popcount", (Binary(BinaryOp.BIT_XOR, word, Const(ones, dtype)),)) if (
            ones % (1 << dtype.bits) == (1 << dtype.bits) - 1
        ):
            term = _Term((word,), dtype.bits, cast)  # an inverted word has ones for zeros
        case Call("popcount", words):
            term = _Term(words, 0, cast)
        case Binary(BinaryOp.SUB, Const(bits), Call("popcount", words)):
            term = _Term(words, int(bits), cast)
        case _:
            return None
    loads = (node for word in term.words for node in walk(word) if isinstance(node, Load))
    return None if any(load.buffer.name == store.buffer.name for load in loads) else term


def _total(store: Store) -> Load:
    return Load(store.buffer, store.indices)


def _nest(stmt: Stmt) -> list[Stmt]:
    """Return the loops around the innermost statement, and that statement."""
    loops: list[Stmt] = []
    while isinstance(stmt, For) and stmt.kind in (*_KINDS, LoopKind.VECTORIZED):
        loops.append(stmt)
        stmt = stmt.body
    return [*loops, stmt]
