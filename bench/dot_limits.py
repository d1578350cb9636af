"""What this machine can do at most with a dot-product instruction, as `limits` says for the FMA."""

from __future__ import annotations

from ansorc.codegen.call.build import compile_module
from ansorc.errors import BuildError
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import dtype
from ansorc.ir.expr import Dot, Expr, Load, Ramp, Var, const
from ansorc.ir.stmt import Allocate, For, Function, LoopKind, Seq, Stmt, Store
from ansorc.target import Target
from ansorc.target.dot_products import dot_products

_STEPS = 100_000
"""Long enough that waking the threads does not count."""
_ROWS = 4
_SHARE = 0.75
"""Accumulators, as a share of the vector registers: enough to cover latency × ports."""
_SETS = 64
"""Factors of an instruction that does not add take turns in a loop, lest the compiler multiply them
once and for all."""


class DotProbe:
    """A kernel of `threads` threads that each do dot products on a tile in registers.

    `terms`, `left` and `right` are those of `Dot`. Raise BuildError where the target has none.
    """

    def __init__(self, target: Target, threads: int, terms: int, left: str, right: str) -> None:
        found = dot_products(target, terms, left, right)
        if not found:
            raise BuildError(f"'{target.text}' has no dot{terms} of {left} and {right}")
        sets = 1 if found[0].adds else _SETS
        vectors = int(target.vector_registers * _SHARE) // _ROWS - (sets > 1)
        shape = (threads, _ROWS, vectors, target.vector_bytes // 4)
        function = _function(shape, sets, terms, (left, right))
        self._module = compile_module(function, target, "dot_probe")
        self._arrays = [_aligned_ones(buffer) for buffer in function.params]
        self._threads = threads
        self._operations = 2.0 * terms * (_STEPS // sets * sets) * self._arrays[0].size

    def time(self, min_time_s: float = 0.1) -> tuple[float, float]:
        """Return operations a second, (median, best): a product and its addition are two."""
        found = self._module.time(*self._arrays, threads=self._threads, min_time_s=min_time_s)
        return self._operations / found.median_s, self._operations / found.fastest_s


def _aligned_ones(buffer: Buffer) -> Array:
    """Return ones where no vector crosses a cache line."""
    found = aligned_empty(buffer.shape, buffer.dtype.numpy)
    found[...] = 1
    return found


def _function(
    shape: tuple[int, int, int, int], sets: int, terms: int, factors: tuple[str, str]
) -> Function:
    """Return a kernel whose threads each add products of rows of `a` and vectors of `b`.

    Of a single set of factors all sums take the same two.
    """
    threads, rows, vectors, lanes = shape
    total = dtype("float32" if "bfloat16" in factors else "int32")
    start, out = Buffer("start", shape, total), Buffer("out", shape, total)
    a = Buffer("a", (sets, rows, terms), dtype(factors[0]))
    b = Buffer("b", (sets, vectors, terms * lanes), dtype(factors[1]))
    tile = Buffer("tile", (rows, vectors, lanes), total, Scope.REGISTER)
    row, vector, number = Var("row"), Var("vector"), Var("set")
    place = (row, vector, _ramp(lanes))
    slot, whole = Load(tile, place), (Var("thread"), *place)
    its_row, its_vector = (row, vector) if sets > 1 else (const(0), const(0))
    left = Load(a, (number, its_row, _ramp(terms)))
    right = Load(b, (number, its_vector, _ramp(terms * lanes)))
    added = Store(tile, place, Dot(terms, slot, left, right))

    def over_tile(stmt: Stmt) -> Stmt:
        inner = For(vector, vectors, LoopKind.UNROLLED, stmt)
        return For(row, rows, LoopKind.UNROLLED, inner)

    update = For(number, sets, LoopKind.SERIAL, over_tile(added))
    body = Seq((
        over_tile(Store(tile, place, Load(start, whole))),
        For(Var("step"), _STEPS // sets, LoopKind.SERIAL, update),
        over_tile(Store(out, whole, slot)),
    ))  # fmt: skip
    nest = For(Var("thread"), threads, LoopKind.PARALLEL, Allocate(tile, body))
    return Function("dot_probe", (start, a, b, out), nest)


def _ramp(lanes: int) -> Expr:
    return Ramp(const(0), const(1), lanes)
