"""Reduction nests as lowering makes them, with every choice a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Expr,
    ExprLike,
    Load,
    Select,
    Var,
    as_expr,
    compare,
    const,
)
from ansorc.ir.expr import CompareOp as Order
from ansorc.ir.stmt import Allocate, For, Function, If, LoopKind, Seq, Stmt, Store

SERIAL, PARALLEL = LoopKind.SERIAL, LoopKind.PARALLEL
VECTORIZED, UNROLLED = LoopKind.VECTORIZED, LoopKind.UNROLLED
ZERO = const(0.0, FLOAT32)
Loop = tuple[str, int, LoopKind]


def loops(headers: Sequence[Loop], body: Stmt) -> Stmt:
    for name, extent, kind in reversed(headers):
        body = For(Var(name), extent, kind, body)
    return body


def index(value: ExprLike) -> Expr:
    return as_expr(value)


@dataclass(frozen=True)
class Matmul:
    """D = relu(A @ B), tiled in two levels, accumulated in a tile of its own."""

    i: tuple[int, int, int] = (2, 2, 6)
    j: tuple[int, int, int] = (2, 2, 16)
    k: tuple[int, int] = (2, 4)
    order: tuple[str, str, str] = ("k.1", "i.3", "j.3")
    i_kind: LoopKind = UNROLLED
    j_kind: LoopKind = VECTORIZED
    k_kind: LoopKind = SERIAL
    out_kinds: tuple[LoopKind, LoopKind] = (SERIAL, VECTORIZED)
    op: BinaryOp = BinaryOp.ADD
    initial: float = 0.0
    guard: str = ""
    """The variable whose last value is left out of the reduction, if any."""

    @property
    def shape(self) -> tuple[int, int, int]:
        i, j, k = self.i, self.j, self.k
        return i[0] * i[1] * i[2], j[0] * j[1] * j[2], k[0] * k[1]

    def function(self) -> Function:
        rows, columns, depth = self.shape
        a, b = Buffer("A", (rows, depth), FLOAT32), Buffer("B", (depth, columns), FLOAT32)
        d = Buffer("D", (rows, columns), FLOAT32)
        (i0, i2, i3), (j0, j2, j3) = self.i, self.j
        tile = Buffer("C.local", (i2 * i3, j2 * j3), FLOAT32, Scope.LOCAL)
        ci, cj = Var("i.2") * i3 + Var("i.3"), Var("j.2") * j3 + Var("j.3")
        i, j = Var("i.0") * (i2 * i3), Var("j.0") * (j2 * j3)
        k = Var("k.0") * self.k[1] + Var("k.1")
        outer: list[Loop] = [("i.2", i2, SERIAL), ("j.2", j2, SERIAL)]
        inner: dict[str, Loop] = {
            "k.1": ("k.1", self.k[1], self.k_kind),
            "i.3": ("i.3", i3, self.i_kind),
            "j.3": ("j.3", j3, self.j_kind),
        }
        first = Store(tile, (ci, cj), const(self.initial, FLOAT32))
        product = Load(a, (i + ci, k)) * Load(b, (k, j + cj))
        update: Stmt = Store(tile, (ci, cj), Binary(self.op, Load(tile, (ci, cj)), product))
        if self.guard:
            last = {name: extent - 1 for name, extent, _ in inner.values()}
            update = If(Var(self.guard) < last[self.guard], update)
        ri, rj = Var("i.1"), Var("j.1")
        relu = Binary(BinaryOp.MAX, Load(tile, (ri, rj)), ZERO)
        row_kind, column_kind = self.out_kinds
        body = Seq(
            (
                loops([*outer, inner["i.3"], inner["j.3"]], first),
                loops(
                    [("k.0", self.k[0], SERIAL), *outer, *(inner[x] for x in self.order)], update
                ),
                loops(
                    [("i.1", i2 * i3, row_kind), ("j.1", j2 * j3, column_kind)],
                    Store(d, (i + ri, j + rj), relu),
                ),
            )
        )
        return Function(
            "matmul",
            (a, b, d),
            loops([("i.0", i0, PARALLEL), ("j.0", j0, SERIAL)], Allocate(tile, body)),
        )


def untiled_matmul(rows: int, columns: int, depth: int) -> Function:
    """C = A @ B as three loops, accumulated in place."""
    a, b = Buffer("A", (rows, depth), FLOAT32), Buffer("B", (depth, columns), FLOAT32)
    c = Buffer("C", (rows, columns), FLOAT32)
    i, j, k = Var("i"), Var("j"), Var("k")
    update = Store(c, (i, j), Load(c, (i, j)) + Load(a, (i, k)) * Load(b, (k, j)))
    body = Seq((Store(c, (i, j), ZERO), loops([("k", depth, SERIAL)], update)))
    return Function("matmul", (a, b, c), loops([("i", rows, SERIAL), ("j", columns, SERIAL)], body))


def padded_convolution(channels: int = 8, width: int = 7) -> Function:
    """A 3x3 convolution with stride 2 over a padded copy, its filter loops unrolled."""
    size = 2 * width
    x = Buffer("X", (size, size, channels), FLOAT32)
    w = Buffer("W", (3, 3, channels, 16), FLOAT32)
    y = Buffer("Y", (width, width, 16), FLOAT32)
    pad = Buffer("pad", (3, size + 1, channels), FLOAT32, Scope.LOCAL)
    h, f = Var("h"), Var("w.3")
    row, column, channel = h * 2 + Var("p.h"), Var("p.w"), Var("p.c")
    inside = Binary(BinaryOp.AND, compare(Order.GE, row, 1), compare(Order.GE, column, 1))
    source = Load(x, (row - 1, column - 1, channel))
    fill = Store(pad, (Var("p.h"), column, channel), Select(inside, source, ZERO))
    rh, rw, rc, c = Var("rh"), Var("rw"), Var("rc"), Var("c.3")
    product = Load(pad, (rh, f * 2 + rw, rc)) * Load(w, (rh, rw, rc, c))
    update = Store(y, (h, f, c), Load(y, (h, f, c)) + product)
    tile: list[Loop] = [("w.3", width, UNROLLED), ("c.3", 16, VECTORIZED)]
    reduction: list[Loop] = [("rh", 3, UNROLLED), ("rw", 3, UNROLLED), ("rc", channels, SERIAL)]
    body = Seq(
        (
            loops(
                [("p.h", 3, SERIAL), ("p.w", size + 1, SERIAL), ("p.c", channels, VECTORIZED)], fill
            ),
            loops(tile, Store(y, (h, f, c), ZERO)),
            loops([*reduction, *tile], update),
        )
    )
    return Function("convolution", (x, w, y), loops([("h", width, PARALLEL)], Allocate(pad, body)))


@st.composite
def sums_of_gaps(draw: st.DrawFn) -> Function:
    """Sums over windows of a copy that is written where it is read, and guarded there.

    As lowering makes them of padding, of tails and of stages inside others: for each result the sum
    of products of elements of the copy, of an input, or of both, within an interval. The copy may
    have a border, of which nothing is written.
    """
    size, window = draw(st.integers(3, 12)), draw(st.integers(1, 5))
    lanes = draw(st.sampled_from((1, 4, 8)))
    low, high = draw(st.integers(-3, 2)), draw(st.integers(1, 14))
    x, w = Buffer("X", (size, lanes), FLOAT32), Buffer("W", (window, lanes), FLOAT32)
    scope = draw(st.sampled_from((Scope.LOCAL, Scope.GLOBAL)))
    border = draw(st.sampled_from((0, 2, 2)))
    room = size + (window + 4 if border else 0)
    copy, y = Buffer("T", (room, lanes), FLOAT32, scope), Buffer("Y", (size, lanes), FLOAT32)
    kinds = st.sampled_from((SERIAL, UNROLLED))
    lane_kind = draw(st.sampled_from((VECTORIZED, UNROLLED, SERIAL)))
    n, i, r, c = Var("n"), Var("i"), Var("r"), Var("c")
    shift = draw(st.integers(-2, 2))

    def inside(place: Expr) -> Expr:
        least, most = max(low, 0), min(high, size)
        first = compare(Order.GE, place, const(least))
        return Binary(BinaryOp.AND, first, compare(Order.LT, place, const(most)))

    written = If(inside(n), Store(copy, (n + border, c), Load(x, (n, c)) * const(0.5, FLOAT32)))
    place = i + r + shift
    element, weight = Load(copy, (place + border, c)), Load(w, (r, c))
    terms = (element, element * element, element * weight, weight * element * element)
    term = draw(st.sampled_from(terms))
    is_chosen = draw(st.booleans())
    value = Select(inside(place), term, ZERO) if is_chosen else term
    update: Stmt = Store(y, (i, c), Load(y, (i, c)) + value)
    update = update if is_chosen else If(inside(place), update)
    headers: list[Loop] = [("i", size, draw(kinds)), ("r", window, draw(kinds))]
    if draw(st.booleans()):
        headers.reverse()
    body = Seq(
        (
            loops([("n", size, draw(kinds)), ("c", lanes, lane_kind)], written),
            loops([("i", size, SERIAL), ("c", lanes, lane_kind)], Store(y, (i, c), ZERO)),
            loops([*headers, ("c", lanes, lane_kind)], update),
        )
    )
    return Function("sums", (x, w, y), Allocate(copy, body))
