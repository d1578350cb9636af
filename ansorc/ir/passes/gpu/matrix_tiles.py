"""Use the matrix units of a GPU for the sums of products that the threads of a warp hold.

matrix k in 0..16:                               unrolled m in 0..4:
    unrolled v in 0..64:                             A.left[m, ramp(0, 1, 8)] = matrix_load(S[…])
        unrolled j in 0..2:                  ->  unrolled n in 0..4:
            C.local[v, j] = C.local[v, j]            B.right[n, ramp(0, 1, 8)] = matrix_load(T[…])
                + S[…, k] * T[k, …]              unrolled m in 0..4:
                                                     unrolled n in 0..8:
                                                         C.local[…] = matrix_multiply(C.local[…], …)

The indices determine the rows of the left and the columns of the right factor that a thread adds,
for all threads of a warp. Rows must depend on lane // 4 alone, columns on lane % 4, and two of each
form a tile. Any rows can form a tile. If the terms of a row, or 8 columns, are neighbours in shared
memory, one instruction loads four matrices; else elements are loaded one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ansorc.errors import BuildError
from ansorc.ir.arith.affine import Atom, Linear, atom_expr, integer, linear
from ansorc.ir.arith.interval import Interval
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Expr,
    Load,
    MatrixLoad,
    MatrixMultiply,
    Ramp,
    Var,
)
from ansorc.ir.matrix_units import REGISTER_BYTES, ROW_BYTES, SUMS
from ansorc.ir.passes.gpu.elements import evaluate
from ansorc.ir.passes.gpu.thread_nests import map_kernels
from ansorc.ir.passes.queries import flat_offset
from ansorc.ir.stmt import (
    Allocate,
    For,
    Function,
    If,
    LoopKind,
    Seq,
    Stmt,
    Store,
    map_substatements,
    statements,
)
from ansorc.ir.substitute import free_vars, substitute
from ansorc.target.gpu import WARP_THREADS

ElementNumbers = npt.NDArray[np.int64]
_PRIVATE = (Scope.LOCAL, Scope.REGISTER)
_MOST_SUMS = 512
"""The most sums of a thread: twice as many as its registers hold."""


def form_matrix_tiles(function: Function, *, has_tiles: bool) -> Function:
    """Return `function`, with kernels in normal form, without MATRIX loops.

    Raise BuildError if the threads of a warp do not hold the sums in the layout of the units, or
    the GPU has no such units (`has_tiles` is False), as before sm_80.
    """
    if not has_tiles and any(map(_is_matrix, statements(function.body))):
        raise BuildError(
            f"kernel '{function.name}' multiplies tiles by matrix units, which GPUs from sm_80 on "
            "have; build it for one, or leave tensorize out"
        )
    body = map_kernels(function.body, lambda nest: _in_kernel(function.name, nest))
    return function if body is function.body else replace(function, body=body)


class _UnfitError(Exception):
    """The reason why a loop cannot use matrix units."""


def _in_kernel(name: str, nest: Stmt) -> Stmt:
    if not any(map(_is_matrix, statements(nest))):
        return nest

    def visit(stmt: Stmt, around: Mapping[str, For]) -> Stmt:
        if not isinstance(stmt, For):
            return map_substatements(stmt, lambda part: visit(part, around))
        if stmt.kind is not LoopKind.BOUND and (chain := _chain(stmt)) is not None:
            loops, store = chain
            try:
                return _MatrixTile(loops, store, around).result()
            except _UnfitError as error:
                var = next(filter(_is_matrix, loops)).var
                raise BuildError(
                    f"kernel '{name}' cannot use matrix units for '{var.name}': {error}"
                ) from None
        inner = {**around, stmt.var.name: stmt}
        return map_substatements(stmt, lambda part: visit(part, inner))

    return visit(nest, {})


def _is_matrix(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is LoopKind.MATRIX


def _chain(stmt: Stmt) -> tuple[list[For], Store] | None:
    """Return the loops of a nest of one store, with a MATRIX loop; None for another nest."""
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    if not any(map(_is_matrix, loops)):
        return None
    if isinstance(stmt, If):
        return loops, _unconditional(stmt)
    return (loops, stmt) if isinstance(stmt, Store) else None


def _unconditional(stmt: If) -> Store:
    raise BuildError(
        "matrix units add up whole tiles, but some threads are kept from it by a condition: "
        "make the tiles divide the sum, and read the factors from shared memory"
    )


@dataclass(frozen=True)
class _Factor:
    """One factor of the products: the positions of its elements, relative to `outer`.

    The steps along each dimension are `tile` from one tile to the next, `half` from the first of
    two rows (or columns) of a thread to the second, `group` from one thread to the next, and `term`
    along the sum.
    """

    load: Load
    outer: tuple[Expr, ...]
    tile: tuple[int, ...]
    half: tuple[int, ...]
    group: tuple[int, ...]
    term: tuple[int, ...]

    def at(self, tile: Expr, half: Expr, group: Expr, term: Expr) -> list[Expr]:
        """Return the indices of an element."""
        parts = (tile, self.tile), (half, self.half), (group, self.group), (term, self.term)
        return [
            _sum(outer, [(value, steps[dimension]) for value, steps in parts])
            for dimension, outer in enumerate(self.outer)
        ]

    def moves_last(self, steps: tuple[int, ...], step: int = 1) -> bool:
        """Return whether `steps` are `step` along the last dimension and 0 along others."""
        return steps[-1] == step and not any(steps[:-1])


def _sum(first: Expr, terms: Sequence[tuple[Expr, int]]) -> Expr:
    for value, step in terms:
        if step:
            first = first + value * step
    return first


class _MatrixTile:
    """One nest of a sum of products, as tiles."""

    def __init__(self, loops: Sequence[For], store: Store, around: Mapping[str, For]) -> None:
        self._store = store
        (self._terms,) = filter(_is_matrix, loops)
        names = {name for index in store.indices for name in free_vars(index)}
        self._tile = [loop for loop in loops if loop.var.name in names]
        self._outside = [
            loop for loop in loops if loop is not self._terms and loop.var.name not in names
        ]
        self._thread = _only_thread(around)
        self._warp = Var(f"{self._thread.var.name}.warp")
        self._lane = Var(f"{self._thread.var.name}.lane")
        self._ranges: dict[str, Interval] = {
            loop.var.name: (0, loop.extent - 1) for loop in (*around.values(), *loops)
        }
        self._ranges[self._warp.name] = (0, self._thread.extent // WARP_THREADS - 1)
        self._ranges[self._lane.name] = (0, WARP_THREADS - 1)
        self._grid = self._values()
        first, second = _factors(store)
        self._dtype = first.buffer.dtype
        self._per = REGISTER_BYTES // self._dtype.bytes
        if self._terms.extent != 8 * self._per:
            raise _UnfitError(
                f"a tile adds up {8 * self._per} products of {self._dtype}, not "
                f"{self._terms.extent}"
            )
        self._left, self._right, self._sums = self._arrange(first, second)

    def result(self) -> Stmt:
        """Return the loads of the factors, and their multiplication."""
        left, load_left = self._load_left()
        right, load_right = self._load_right()
        stmt: Stmt = Seq((load_left, load_right, self._multiply(left, right)))
        for loop in reversed(self._outside):
            stmt = replace(loop, body=stmt)
        return Allocate(left, Allocate(right, stmt))

    def _values(self) -> dict[str, ElementNumbers]:
        """Return the variables for all elements, lanes and terms: [elements, 32, terms]."""
        count = int(np.prod([loop.extent for loop in self._tile]))
        if count > _MOST_SUMS:
            raise _UnfitError(f"each thread would have {count} sums, more than {_MOST_SUMS}")
        number = np.arange(count).reshape(-1, 1, 1)
        values: dict[str, ElementNumbers] = {}
        for loop in reversed(self._tile):
            values[loop.var.name] = number % loop.extent
            number = number // loop.extent
        values[self._lane.name] = np.arange(WARP_THREADS).reshape(1, -1, 1)
        values[self._terms.var.name] = np.arange(self._terms.extent).reshape(1, 1, -1)
        self._shape = (count, WARP_THREADS, self._terms.extent)
        return values

    def _evaluate(self, indices: Sequence[Expr]) -> tuple[list[Expr], list[ElementNumbers]]:
        """Return for each index its part outside of the tile, and its values for all elements."""
        outer: list[Expr] = []
        numbers: list[ElementNumbers] = []
        thread = self._warp * WARP_THREADS + self._lane
        for index in indices:
            of_lanes = substitute(index, {self._thread.var.name: thread})
            form = linear(simplify(of_lanes, self._ranges))
            if form is None:
                raise _UnfitError("an index depends on data")
            fixed: Linear[Atom] = Linear()
            inner = np.asarray(form.constant)
            for atom, factor in form.terms.items():
                names = {atom} if isinstance(atom, str) else free_vars(atom)
                if names.isdisjoint(self._grid):
                    fixed.add(atom, factor)
                    continue
                value = evaluate(atom_expr(atom), self._grid) if names <= set(self._grid) else None
                if value is None:
                    raise _UnfitError("rows and columns of a tile depend on the loops around it")
                inner = inner + factor * value.astype(np.int64)
            outer.append(fixed.to_expr())
            numbers.append(np.broadcast_to(inner, self._shape))
        return outer, numbers

    def _arrange(self, first: Load, second: Load) -> tuple[_Factor, _Factor, _SumTiles]:
        """Return the factor of the rows, that of the columns, and the layout of the sums."""
        both = [(load, *self._evaluate(load.indices)) for load in (first, second)]
        flat = [
            sum((p[:, :, 0] * s for p, s in zip(numbers, load.buffer.strides, strict=True)), _ZERO)
            for load, _, numbers in both
        ]
        starts = [each.reshape(-1, 8, 4) for each in flat]
        if not (_is_same(starts[0], 2) and _is_same(starts[1], 1)):
            both.reverse()
            starts.reverse()
        if not (_is_same(starts[0], 2) and _is_same(starts[1], 1)):
            raise _UnfitError(
                "the rows that a thread has must depend on its number % 32 // 4 alone, the columns "
                "on its number % 4 alone"
            )
        rows, columns = _number_rows(starts[0]), _number_rows(starts[1])
        counts = int(rows.max()) + 1, int(columns.max()) + 1
        elements = np.full(counts, -1)
        elements[rows, columns] = np.arange(len(rows))
        if elements.min() < 0 or elements.size != len(rows) or counts[0] % 2 or counts[1] % 2:
            raise _UnfitError(
                f"a thread needs the sums of 2, 4, … rows with 2, 4, … columns, not {len(rows)} of "
                f"{counts[0]} rows and {counts[1]} columns"
            )
        left = self._factor(*both[0], elements[:, 0], lambda numbers: numbers[:, ::4])
        right = self._factor(*both[1], elements[0], lambda numbers: numbers[:, :4])
        return left, right, self._number_sums(elements)

    def _factor(
        self,
        load: Load,
        outer: list[Expr],
        numbers: list[ElementNumbers],
        elements: ElementNumbers,
        groups: Callable[[ElementNumbers], ElementNumbers],
    ) -> _Factor:
        steps: list[tuple[int, ...]] = []
        starts: list[Expr] = []
        warp_number = {self._warp.name: self._thread.var // WARP_THREADS}
        for each, rest in zip(numbers, outer, strict=True):
            terms = each - each[:, :, :1]
            tiles = groups(each[elements][:, :, 0])
            tiles = tiles.reshape(-1, 2, tiles.shape[-1])
            along, term = _steps(tiles), _steps(terms[0, 0])
            if along is None or term is None or (terms != terms[0, 0]).any():
                raise _UnfitError(f"the elements of '{load.buffer.name}' do not lie evenly")
            steps.append((*along[1:], term[1]))
            starts.append(substitute(_sum(rest, [(integer(along[0]), 1)]), warp_number))
        tile, half, group, term = zip(*steps, strict=True)
        return _Factor(load, tuple(starts), tile, half, group, term)

    def _number_sums(self, elements: ElementNumbers) -> _SumTiles:
        outer, numbers = self._evaluate(self._store.indices)
        rows, columns = elements.shape[0] // 2, elements.shape[1] // 2
        all_steps: list[tuple[int, ...]] = []
        for each in numbers:
            if (each != each[:, :1, :1]).any():
                raise _UnfitError("the sums of a thread are numbered by its own number")
            steps = _steps(each[:, 0, 0][elements].reshape(rows, 2, columns, 2))
            if steps is None:
                raise _UnfitError("the sums of a thread are not numbered evenly")
            all_steps.append(steps)
        warp_number = {self._warp.name: self._thread.var // WARP_THREADS}
        around = tuple(substitute(index, warp_number) for index in outer)
        return _SumTiles(rows, columns, around, tuple(all_steps))

    def _load_left(self) -> tuple[Buffer, Stmt]:
        """Return the load of four matrices: the halves of the rows, then those of the terms."""
        factor, lane, per = self._left, self._lane, self._per
        row, half, late = lane % 8, lane // 8 % 2, lane // 16
        tile = Var(f"{self._terms.var.name}.row")
        rows: MatrixLoad | None = None
        if factor.moves_last(factor.term):
            rows = self._rows(factor.load, factor.at(tile, half, row, late * (4 * per)))
        elif self._dtype.bytes == 2 and factor.moves_last(factor.group):
            indices = factor.at(tile, half, integer(0), late * 8 + row)
            rows = self._rows(factor.load, indices, is_transposed=True)
        name = f"{factor.load.buffer.name}.left"
        count = self._sums.rows
        if rows is not None:
            return self._by_matrices(name, tile, count, rows)
        element = Var(f"{self._terms.var.name}.element")
        register = element // per
        term = lane % 4 * per + element % per + register // 2 * (4 * per)
        indices = factor.at(tile, register % 2, lane // 4, term)
        return self._by_elements(name, (tile, count), (element, 4 * per), indices)

    def _load_right(self) -> tuple[Buffer, Stmt]:
        """Return the load of four matrices: the halves of the terms of two tiles of columns."""
        factor, lane, per = self._right, self._lane, self._per
        row, late, odd = lane % 8, lane // 8 % 2, lane // 16
        pair = Var(f"{self._terms.var.name}.column")
        tile, zero = pair * 2 + odd, integer(0)
        rows: MatrixLoad | None = None
        is_even = self._sums.columns % 2 == 0
        if is_even and factor.moves_last(factor.term):
            rows = self._rows(factor.load, factor.at(tile, row % 2, row // 2, late * (4 * per)))
        elif (
            is_even
            and self._dtype.bytes == 2
            and factor.moves_last(factor.half)
            and factor.moves_last(factor.group, 2)
        ):
            indices = factor.at(tile, zero, zero, late * 8 + row)
            rows = self._rows(factor.load, indices, is_transposed=True)
        name = f"{factor.load.buffer.name}.right"
        if rows is not None:
            return self._by_matrices(name, pair, self._sums.columns // 2, rows)
        element = Var(f"{self._terms.var.name}.element")
        term = lane % 4 * per + element % per + element // per * (4 * per)
        indices = factor.at(pair, lane // 4 % 2, lane // 8, term)
        return self._by_elements(name, (pair, self._sums.columns), (element, 2 * per), indices)

    def _rows(
        self, load: Load, indices: Sequence[Expr], *, is_transposed: bool = False
    ) -> MatrixLoad | None:
        """Return the load of matrices with a row at `indices` for each thread, or None."""
        count = ROW_BYTES // self._dtype.bytes
        plain = [self._own(index) for index in indices]
        offset = flat_offset(load.buffer, plain)
        if load.buffer.scope is not Scope.SHARED or offset is None:
            return None
        if any(each % count for each in (offset.constant, *offset.terms.values())):
            return None
        row = Load(load.buffer, (*plain[:-1], Ramp(plain[-1], integer(1), count)))
        return MatrixLoad(row, is_transposed)

    def _by_matrices(
        self, name: str, tile: Var, count: int, rows: MatrixLoad
    ) -> tuple[Buffer, Stmt]:
        lanes = ROW_BYTES // self._dtype.bytes
        buffer = Buffer(name, (count, lanes), self._dtype, Scope.LOCAL)
        store = Store(buffer, (tile, _lanes(integer(0), lanes)), rows)
        return buffer, For(tile, count, LoopKind.UNROLLED, store)

    def _by_elements(
        self, name: str, tile: tuple[Var, int], element: tuple[Var, int], indices: Sequence[Expr]
    ) -> tuple[Buffer, Stmt]:
        source = self._left.load if name.endswith(".left") else self._right.load
        buffer = Buffer(name, (tile[1], element[1]), self._dtype, Scope.LOCAL)
        value = Load(source.buffer, tuple(map(self._own, indices)))
        stmt: Stmt = Store(buffer, (tile[0], element[0]), value)
        for var, extent in (element, tile):
            stmt = For(var, extent, LoopKind.UNROLLED, stmt)
        return buffer, stmt

    def _own(self, index: Expr) -> Expr:
        """Return `index` in terms of the variables of the program."""
        ranges = {**self._ranges, f"{self._terms.var.name}.element": (0, ROW_BYTES - 1)}
        index = simplify(index, ranges)
        return substitute(index, {self._lane.name: self._thread.var % WARP_THREADS})

    def _multiply(self, left: Buffer, right: Buffer) -> Stmt:
        row, column = (Var(f"{self._terms.var.name}.{name}") for name in ("row", "column"))
        indices = self._sums.at(row, column)
        half_lanes = 2 * self._per
        together = right.shape[1] // half_lanes
        a = Load(left, (row, _lanes(integer(0), 2 * half_lanes)))
        first = column % together * half_lanes if together > 1 else integer(0)
        b = Load(right, (column // together if together > 1 else column, _lanes(first, half_lanes)))
        total = Load(self._store.buffer, indices)
        stmt: Stmt = Store(self._store.buffer, indices, MatrixMultiply(total, a, b))
        stmt = For(column, self._sums.columns, LoopKind.UNROLLED, stmt)
        return For(row, self._sums.rows, LoopKind.UNROLLED, stmt)


@dataclass(frozen=True)
class _SumTiles:
    """The layout of the sums of a thread, along each dimension of their array."""

    rows: int
    """The number of tiles one below the other."""
    columns: int
    outer: tuple[Expr, ...]
    """The part of each index that depends on the loops around the tile."""
    steps: tuple[tuple[int, ...], ...]
    """A constant, then steps to the next tile of rows, its second row, tile, second column."""

    def at(self, row: Expr, column: Expr) -> tuple[Expr, ...]:
        """Return the indices of the four sums of a tile."""
        lanes = _lanes(integer(0), 4)
        indices: list[Expr] = []
        for outer, (constant, down, lower, right, odd) in zip(self.outer, self.steps, strict=True):
            base = _sum(outer + constant, [(row, down), (column, right)])
            if lower == 2 * odd and odd:
                indices.append(Ramp(base, integer(odd), 4))
            else:
                indices.append(_sum(base, [(lanes // 2, lower), (lanes % 2, odd)]))
        return tuple(indices)


_ZERO = np.zeros(1, np.int64)


def _lanes(first: Expr, count: int) -> Expr:
    return Ramp(first, integer(1), count)


def _is_same(values: ElementNumbers, axis: int) -> bool:
    return bool((values == np.take(values, [0], axis)).all())


def _number_rows(starts: ElementNumbers) -> ElementNumbers:
    """Return the number of each element's row; equal rows have equal numbers."""
    _, numbers = np.unique(starts.reshape(len(starts), -1), axis=0, return_inverse=True)
    return numbers.reshape(-1)


def _steps(values: ElementNumbers) -> tuple[int, ...] | None:
    """Return a constant and the step along each axis that produce `values`; None if none do."""
    start = int(values.flat[0])
    reached: ElementNumbers = np.full(values.shape, start)
    steps: list[int] = []
    for axis, length in enumerate(values.shape):
        step = int(np.take(values, min(1, length - 1), axis).flat[0]) - start
        shape = [1] * values.ndim
        shape[axis] = length
        reached = reached + step * np.arange(length, dtype=np.int64).reshape(shape)
        steps.append(step)
    return (start, *steps) if (reached == values).all() else None


def _only_thread(around: Mapping[str, For]) -> For:
    threads = [loop for loop in around.values() if loop.thread.startswith("threadIdx")]
    if len(threads) != 1 or threads[0].thread != "threadIdx.x" or threads[0].extent % WARP_THREADS:
        listed = ", ".join(f"{loop.extent} along {loop.thread}" for loop in threads) or "none"
        raise _UnfitError(
            f"it takes threads along threadIdx.x, a multiple of {WARP_THREADS}, not {listed}"
        )
    return threads[0]


def _factors(store: Store) -> tuple[Load, Load]:
    """Return the factors of `C[…] = C[…] + a * b`."""
    match store.value:
        case Binary(BinaryOp.ADD, Load(buffer, indices), Binary(BinaryOp.MUL, left, right)) if (
            buffer == store.buffer and indices == store.indices
        ):
            operands = [part.operand if isinstance(part, Cast) else part for part in (left, right)]
            first, second = operands
            if isinstance(first, Load) and isinstance(second, Load):
                dtype = first.buffer.dtype
                fits = buffer.dtype in SUMS.get(dtype, ()) and second.buffer.dtype == dtype
                if fits and buffer.scope in _PRIVATE:
                    return first, second
        case _:
            pass
    raise _UnfitError(
        "it is no sum, held by each thread, of products of elements: of float16 or "
        "bfloat16 in float32 or their own dtype, of float32 in float32, or of int8 in int32"
    )
