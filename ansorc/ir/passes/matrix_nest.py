"""A nest of loops that the matrix unit of a CPU computes: which loops are rows, columns and terms.

    matrix i in 0..32:                 rows of a tile
        matrix j in 0..32:             columns
            matrix k.0 in 0..8:        steps, one after another
                matrix k.1 in 0..16:   groups of one step
                    matrix k.2 in 0..2:
                        C[i, j] = C[i, j] + cast(A[i, …]) * cast(B[k.1, j, k.2])

All of its loops are MATRIX loops. The innermost one runs over a group of terms that adjoin in both
factors. Along the groups of a step the rows go on without a gap; the columns take any step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ansorc.ir.arith.affine import Atom, Linear
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load
from ansorc.ir.passes.queries import flat_offset
from ansorc.ir.stmt import For, LoopKind, Stmt, Store, statements
from ansorc.ir.substitute import free_vars
from ansorc.target.matrix_units import MATRIX_UNITS, MatrixUnit, find_matrix_unit

GROUPS = frozenset(unit.group for unit in MATRIX_UNITS)
"""The lengths of a MATRIX loop for a CPU; those for GPUs are longer."""


_Side: TypeAlias = tuple[Load, Linear[Atom]]
"""A factor, and its elements from the start of its buffer."""


class UnfitError(Exception):
    """The reason why a nest cannot use a matrix unit."""


@dataclass(frozen=True)
class Factor:
    """One factor of the products, and the elements from one to the next along each loop."""

    load: Load
    row: int
    column: int
    group: int
    """From a group of terms to the next one."""


@dataclass(frozen=True)
class MatrixNest:
    """A sum of products as tiles; a missing loop has one iteration."""

    store: Store
    unit: MatrixUnit
    row: For | None
    column: For | None
    steps: tuple[For, ...]
    """The loops over terms outside of a tile, outermost first."""
    step: For | None
    """The groups of terms of one tile."""
    group: For
    left: Factor
    right: Factor
    pitch: int
    """From a row of the sums to the next one."""

    @property
    def rows(self) -> int:
        """The rows of the sums."""
        return self.row.extent if self.row is not None else 1

    @property
    def columns(self) -> int:
        """The columns of the sums."""
        return self.column.extent if self.column is not None else 1

    @property
    def groups(self) -> int:
        """The groups of terms of one tile."""
        return self.step.extent if self.step is not None else 1

    @property
    def loops(self) -> tuple[For, ...]:
        """All loops, in an order that a program may have."""
        tile = (each for each in (self.row, self.column) if each is not None)
        last = (self.group,) if self.step is None else (self.step, self.group)
        return (*tile, *self.steps, *last)


def is_matrix(stmt: Stmt) -> bool:
    """Return whether `stmt` is a loop of a matrix unit."""
    return isinstance(stmt, For) and stmt.kind is LoopKind.MATRIX


def holds_nests(stmt: Stmt) -> bool:
    """Return whether matrix units of a CPU compute a part of `stmt`."""
    return any(
        isinstance(part, For) and part.kind is LoopKind.MATRIX and part.extent in GROUPS
        for part in statements(stmt)
    )


def is_for_gpu(loop: For) -> bool:
    """Return whether a MATRIX loop is for a GPU: it neither is for a CPU's unit, nor sets sums."""
    stores = (part for part in statements(loop) if isinstance(part, Store))
    return not holds_nests(loop) and any(not isinstance(each.value, Const) for each in stores)


def matrix_nest(stmt: Stmt) -> MatrixNest | None:
    """Return the nest whose outermost loop is `stmt`, all of whose loops are MATRIX loops."""
    loops: list[For] = []
    while isinstance(stmt, For) and stmt.kind is LoopKind.MATRIX:
        loops.append(stmt)
        stmt = stmt.body
    if not loops or not isinstance(stmt, Store) or isinstance(stmt.value, Const):
        return None
    try:
        return find_nest(loops, stmt)
    except UnfitError:
        return None


def is_zero_fill(stmt: Stmt, nest: MatrixNest) -> bool:
    """Return whether `stmt` stores 0 in the sums of `nest`, and nothing else."""
    loops: list[For] = []
    while isinstance(stmt, For) and stmt.kind is LoopKind.MATRIX:
        loops.append(stmt)
        stmt = stmt.body
    names = [loop.var.name for loop in loops]
    return (
        isinstance(stmt, Store)
        and isinstance(stmt.value, Const)
        and stmt.value.value == 0
        and (stmt.buffer, stmt.indices) == (nest.store.buffer, nest.store.indices)
        and sorted(names) == sorted(x.var.name for x in (nest.row, nest.column) if x is not None)
        and {loop.var.name: loop.extent for loop in loops}.items()
        <= {loop.var.name: loop.extent for loop in nest.loops}.items()
    )


def find_nest(loops: Sequence[For], store: Store) -> MatrixNest:
    """Return the nest of `loops`, outermost first, around `store`; raise UnfitError for another.

    Either factor may be that of the rows.
    """
    names = {loop.var.name for loop in loops}
    sums = _offset(store.buffer, store.indices, names)
    sides = [(load, _offset(load.buffer, load.indices, names)) for load in _factors(store)]
    try:
        return _nest(loops, store, sums, (sides[0], sides[1]))
    except UnfitError as error:
        try:
            return _nest(loops, store, sums, (sides[1], sides[0]))
        except UnfitError:
            raise error from None


def _nest(
    loops: Sequence[For], store: Store, sums: Linear[Atom], sides: tuple[_Side, _Side]
) -> MatrixNest:
    """Return the nest whose rows are of the first factor."""
    (left, at_left), (right, at_right) = sides
    space = [loop for loop in loops if loop.var.name in sums.terms]
    terms = [loop for loop in loops if loop.var.name not in sums.terms]
    row = _one([x for x in space if x.var.name in at_left.terms], "rows")
    column = _one([x for x in space if x.var.name in at_right.terms], "columns")
    if len(space) != len({id(x) for x in (row, column) if x is not None}) or (
        row is column and row is not None
    ):
        raise UnfitError("a loop over its sums moves both factors, or neither")
    unit = _unit(left, right)
    step, group = _terms_of_tile(terms, at_left, unit)
    steps = tuple(x for x in terms if x is not step and x is not group)
    nest = MatrixNest(
        store, unit, row, column, steps, step, group, _factor(left, at_left, row, column, step),
        _factor(right, at_right, row, column, step), _move(sums, row),
    )  # fmt: skip
    _check(nest, sums, at_right)
    return nest


def _factors(store: Store) -> tuple[Load, Load]:
    """Return a and b of `x = x + cast(a) * cast(b)`, or of a and b without casts."""
    total = Load(store.buffer, store.indices)
    match store.value:
        case Binary(BinaryOp.ADD, old, Binary(BinaryOp.MUL, left, right)) if old == total:
            sides = [side.operand if isinstance(side, Cast) else side for side in (left, right)]
            if isinstance(sides[0], Load) and isinstance(sides[1], Load):
                return sides[0], sides[1]
        case _:
            pass
    raise UnfitError("its statement does not add a product of two elements to a sum")


def _offset(buffer: Buffer, indices: Sequence[Expr], names: set[str]) -> Linear[Atom]:
    total = flat_offset(buffer, indices)
    if total is None or any(
        not isinstance(atom, str) and free_vars(atom) & names for atom in total.terms
    ):
        raise UnfitError(f"an index of '{buffer.name}' is not a sum of its loops")
    return total


def _one(loops: list[For], what: str) -> For | None:
    if len(loops) > 1:
        raise UnfitError(f"a tile has one loop over its {what}, not {len(loops)}")
    return loops[0] if loops else None


def _unit(left: Load, right: Load) -> MatrixUnit:
    unit = find_matrix_unit(left.buffer.dtype.name, right.buffer.dtype.name)
    if unit is None:
        raise UnfitError(f"no unit multiplies {left.buffer.dtype} and {right.buffer.dtype}")
    return unit


def _terms_of_tile(
    terms: Sequence[For], left: Linear[Atom], unit: MatrixUnit
) -> tuple[For | None, For]:
    """Return the loop over groups of a tile, and that over a group."""
    group = next((x for x in terms if left.coefficient(x.var.name) == 1), None)
    if group is None or group.extent != unit.group:
        raise UnfitError(f"{unit.group} terms of a row that adjoin are no loop of it")
    fitting = [x for x in terms if left.coefficient(x.var.name) == unit.group]
    step = next((x for x in fitting if x.extent <= unit.rows), None)
    return step, group


def _move(total: Linear[Atom], loop: For | None) -> int:
    return 0 if loop is None else total.coefficient(loop.var.name)


def _factor(
    load: Load, at: Linear[Atom], row: For | None, column: For | None, step: For | None
) -> Factor:
    return Factor(load, _move(at, row), _move(at, column), _move(at, step))


def _check(nest: MatrixNest, sums: Linear[Atom], at_right: Linear[Atom]) -> None:
    """Raise UnfitError unless the nest is as the unit wants it."""
    unit, right = nest.unit, nest.right
    if nest.columns > 1 and (_move(sums, nest.column), right.column) != (1, unit.group):
        raise UnfitError(
            f"its columns do not adjoin in groups of {unit.group} terms: pack them, or lay them out"
        )
    if _move(at_right, nest.group) != 1:
        raise UnfitError("the terms of a group do not adjoin in the columns")
    tall, wide = -(-nest.rows // unit.rows), -(-nest.columns // unit.columns)
    if tall * wide + tall + wide > unit.tiles:
        raise UnfitError(
            f"{nest.rows} x {nest.columns} sums are more than its {unit.tiles} tile registers hold "
            "beside their factors; split them into tiles of 32 x 32"
        )
