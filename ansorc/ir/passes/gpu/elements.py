"""Find the elements of a buffer that the threads of a block touch, by evaluating indices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import Atom, Linear, atom_expr, difference
from ansorc.ir.arith.integer import rejoin
from ansorc.ir.arith.interval import Interval, linear_bounds
from ansorc.ir.arith.scalar import NUMPY_BINARY
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
)
from ansorc.ir.node import walk
from ansorc.ir.operator import BITWISE
from ansorc.ir.passes.queries import flat_offset
from ansorc.ir.substitute import free_vars

Values: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.bool_]
Extents: TypeAlias = Mapping[str, int]

_MAX_ELEMENTS = 1 << 21
"""A statement with more touches than this is assumed to touch every element."""
_MANY_ELEMENTS = 1 << 15
"""Fewer touches than this are evaluated at once, without a look at first iterations."""
_NOBODY, _SEVERAL = -1, -2
_MOST_DIFFERENCES = 16
"""Two offsets with more possible differences are treated as unknown."""

_ARITHMETIC = {
    BinaryOp.ADD: np.add, BinaryOp.SUB: np.subtract, BinaryOp.MUL: np.multiply,
    BinaryOp.FLOORDIV: np.floor_divide, BinaryOp.MOD: np.mod, BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum, BinaryOp.AND: np.logical_and, BinaryOp.OR: np.logical_or,
    **{op: NUMPY_BINARY[op] for op in BITWISE},
}  # fmt: skip
_COMPARISONS = {
    CompareOp.EQ: np.equal, CompareOp.NE: np.not_equal, CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal, CompareOp.GT: np.greater, CompareOp.GE: np.greater_equal,
}  # fmt: skip


def evaluate(expr: Expr, values: Mapping[str, npt.NDArray[np.int64]]) -> Values | None:
    """Return the scalar integer or bool `expr` for arrays of values; None for other types."""
    match expr:
        case Const(value, _):
            return np.asarray(value)
        case Var(name):
            return values.get(name)
        case Not(operand):
            value_ = evaluate(operand, values)
            return None if value_ is None else np.logical_not(value_)
        case Binary(op, left, right) if op in _ARITHMETIC:
            return _both(_ARITHMETIC[op], left, right, values)
        case Compare(op, left, right):
            return _both(_COMPARISONS[op], left, right, values)
        case Select(condition, then, otherwise):
            test, a, b = (evaluate(part, values) for part in (condition, then, otherwise))
            return None if test is None or a is None or b is None else np.where(test, a, b)
        case _:
            return None


def _both(
    function: Callable[[Values, Values], Values],
    left: Expr,
    right: Expr,
    values: Mapping[str, npt.NDArray[np.int64]],
) -> Values | None:
    a, b = evaluate(left, values), evaluate(right, values)
    return None if a is None or b is None else function(a, b)


@dataclass(frozen=True, eq=False)
class Touch:
    """The elements of `buffer` that one load or store reaches, in all threads of a block."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_store: bool
    statement: int
    """The number of the statement."""
    guards: tuple[Expr, ...] = ()
    fixed: Extents = field(default_factory=dict[str, int])
    """The loops around it that are in the current iteration of the walk."""
    free: Extents = field(default_factory=dict[str, int])
    """The loops around it that may be in any iteration."""
    is_atomic: bool = False
    """Whether it does not race with others that are atomic."""

    @cached_property
    def key(self) -> Hashable:
        """Equal for touches of the same elements, as long as both objects are alive."""
        guards = tuple(map(id, self.guards))
        return id(self.indices), guards, tuple(self.fixed.items()), tuple(self.free.items())

    def leaving(self, name: str) -> Touch:
        """Return the touch after the current iteration of the loop over `name`."""
        if name not in self.fixed:
            return self
        fixed = {key: value for key, value in self.fixed.items() if key != name}
        return replace(self, fixed=fixed, free={**self.free, name: self.fixed[name]})


@dataclass(frozen=True, eq=False)
class _TouchedElements:
    """Offsets, and the number of the thread that touches each."""

    places: npt.NDArray[np.int64]
    threads: npt.NDArray[np.int64]

    @cached_property
    def is_crowded(self) -> bool:
        """Whether two threads touch one offset."""
        order = np.lexsort((self.threads, self.places))
        places, threads = np.diff(self.places[order]), np.diff(self.threads[order])
        return bool(np.any((places == 0) & (threads != 0)))

    @cached_property
    def _owners(self) -> tuple[int, npt.NDArray[np.int32]] | None:
        """The first offset, and the thread at each offset from there on; None if too many."""
        low = int(self.places.min())
        size = int(self.places.max()) - low + 1
        if size > _MAX_ELEMENTS:
            return None
        owner = np.full(size, _NOBODY, dtype=np.int32)
        offsets = self.places - low
        owner[offsets] = self.threads
        owner[offsets[owner[offsets] != self.threads]] = _SEVERAL
        return low, owner

    def has_others(self, visitors: _TouchedElements, shift: int) -> bool:
        """Return whether different threads touch one element, `visitors` moved by `shift`."""
        if self._owners is None:
            return True
        low, owner = self._owners
        offsets = visitors.places + (shift - low)
        inside = (offsets >= 0) & (offsets < len(owner))
        if not inside.any():
            return False
        others = owner[np.where(inside, offsets, 0)]
        return bool((inside & (others != _NOBODY) & (others != visitors.threads)).any())


class Meetings:
    """Finds elements that several threads of a block touch; caches evaluations."""

    def __init__(self, threads: Extents) -> None:
        self._threads = threads
        self._places: dict[Hashable, tuple[tuple[Expr, ...], Linear[Atom] | None]] = {}
        self._known: dict[Hashable, _TouchedElements | None] = {}
        self._answers: dict[Hashable, tuple[bool, Touch, Touch]] = {}

    def may_meet(self, old: Touch, new: Touch) -> bool:
        """Return whether different threads may touch one element in `old` and in `new`."""
        key = old.key, new.key
        if key not in self._answers:  # the touches are kept alive with their keys
            self._answers[key] = self._may_meet(old, new), old, new
        return self._answers[key][0]

    def _may_meet(self, old: Touch, new: Touch) -> bool:
        offsets = self._place(old), self._place(new)
        if offsets[0] is None or offsets[1] is None:
            return True
        common = {name: extent for name, extent in old.fixed.items() if name in new.fixed}
        parts = [_thread_part(offset, common) for offset in offsets if offset is not None]
        shifts = _differences(parts[0][1], parts[1][1], common)
        if shifts is None:
            return True  # they are apart by something that is not known here
        (first, _), (second, _) = parts
        if self._are_apart((first, old), (second, new), shifts=shifts):
            return False
        free = {n: max(old.free.get(n, 1), new.free.get(n, 1)) for n in (*old.free, *new.free)}
        if shifts == [0] and first == second and self._are_own(first, free):
            return False
        if max(map(self._size, (old, new))) > _MANY_ELEMENTS:  # the first iterations often tell
            touched = self._elements(first, _first(old)), self._elements(second, _first(new))
            if (
                touched[0] is not None
                and touched[1] is not None
                and _meet(touched[0], touched[1], shifts)
            ):
                return True
        touched = self._elements(first, old), self._elements(second, new)
        return touched[0] is None or touched[1] is None or _meet(touched[0], touched[1], shifts)

    def is_stored_by_several(self, store: Touch) -> bool:
        """Return whether threads store to one element in the first iteration of all loops."""
        offset = self._place(store)
        if offset is not None and self._are_own(
            offset, dict.fromkeys({**store.fixed, **store.free}, 1)
        ):
            return False
        if offset is None or any(
            isinstance(x, Load) for guard in store.guards for x in walk(guard)
        ):
            return False
        first = replace(store, fixed={}, free=dict.fromkeys({**store.fixed, **store.free}, 1))
        touched = self._elements(offset, first)
        return touched is not None and touched.is_crowded

    def _are_apart(self, *both: tuple[Linear[Atom], Touch], shifts: Sequence[int]) -> bool:
        """Return whether the bounds of both offsets are disjoint, as for two slots."""
        ends: list[tuple[int, int]] = []
        for offset, touch in both:
            interval = _find_bounds(offset, touch.guards, self._ranges(touch))
            if interval is None:
                return False
            ends.append(interval)
        (low, high), (least, most) = ends
        return all(high + shift < least or most < low + shift for shift in shifts)

    def _are_own(self, offset: Linear[Atom], loops: Extents) -> bool:
        """Return whether each thread has its own offsets, since coefficients act as digits."""
        digits = _digits(offset, {**loops, **self._threads})
        if digits is None or any(
            extent > 1 and name not in digits for name, extent in self._threads.items()
        ):
            return False
        reach = 0
        for coefficient, extent in sorted(digit for each in digits.values() for digit in each):
            if coefficient <= reach:
                return False
            reach += coefficient * (extent - 1)
        return True

    def _ranges(self, touch: Touch) -> dict[str, Interval]:
        extents = {**self._threads, **touch.free}
        return {name: (0, extent - 1) for name, extent in extents.items()}

    def _size(self, touch: Touch) -> int:
        return prod((*self._threads.values(), *touch.free.values()))

    def _place(self, touch: Touch) -> Linear[Atom] | None:
        key = id(touch.indices), *touch.free.items()
        if key not in self._places:
            offset = flat_offset(touch.buffer, touch.indices)
            if offset is not None:
                # Of loops over two axes that are fused, one number is left.
                rejoin(offset, self._ranges(touch))
            self._places[key] = touch.indices, offset
        return self._places[key][1]

    def _elements(self, offset: Linear[Atom], touch: Touch) -> _TouchedElements | None:
        key = (
            tuple(offset.terms.items()),
            offset.constant,
            touch.guards,
            tuple(touch.free.items()),
        )
        if key not in self._known:
            self._known[key] = _elements(offset, touch, self._threads)
        return self._known[key]


def _find_bounds(
    offset: Linear[Atom], guards: Sequence[Expr], ranges: Mapping[str, Interval]
) -> Interval | None:
    """Return bounds of an offset under `guards`: 399 of `4*t + v` with `t < 100` and v < 4."""
    interval = linear_bounds(offset, ranges)
    for guard in guards:
        if interval is None or not isinstance(guard, Compare) or guard.op is not CompareOp.LT:
            continue
        total = difference(guard.left, guard.right)  # it is at most -1
        terms = {} if total is None else total.terms
        if total is None or not terms:
            continue
        lead = max(terms, key=lambda atom: abs(terms[atom]))
        factor, left = divmod(offset.coefficient(lead), terms[lead])
        rest = linear_bounds(offset.plus(total, -factor), ranges)
        if factor > 0 and not left and rest is not None:
            interval = interval[0], min(interval[1], rest[1] - factor)
    return interval


def _digits(offset: Linear[Atom], extents: Extents) -> dict[str, list[tuple[int, int]]] | None:
    """Return the coefficient of each digit of each variable, and its number of values.

    The digits of x are `x`, or all of `x % 4`, `x // 4 % 8` and `x // 32`. Return None if the
    offset has other terms.
    """
    parts: dict[str, list[tuple[int, int, int]]] = {}
    for atom, coefficient in offset.terms.items():
        name, divisor, modulus = _digit(atom)
        if name not in extents:
            return None
        parts.setdefault(name, []).append((divisor, modulus, abs(coefficient)))
    result: dict[str, list[tuple[int, int]]] = {}
    for name, digits in parts.items():
        below = 1
        for divisor, modulus, coefficient in sorted(digits):
            count = modulus or -(-extents[name] // divisor)
            if divisor != below:
                return None
            below = divisor * count
            result.setdefault(name, []).append((coefficient, count))
        if below < extents[name]:
            return None
    return result


def _digit(atom: Atom) -> tuple[str, int, int]:
    """Return a, c and d of an atom `a // c % d`; c may be 1, and d is 0 if it is missing."""
    divisor, modulus = 1, 0
    if isinstance(atom, Binary) and atom.op is BinaryOp.MOD and isinstance(atom.right, Const):
        atom, modulus = atom.left, int(atom.right.value)
    if isinstance(atom, Binary) and atom.op is BinaryOp.FLOORDIV and isinstance(atom.right, Const):
        atom, divisor = atom.left, int(atom.right.value)
    name = atom if isinstance(atom, str) else atom.name if isinstance(atom, Var) else ""
    return name, divisor, modulus


def _first(touch: Touch) -> Touch:
    """Return the touch restricted to first iterations."""
    return replace(touch, free=dict.fromkeys(touch.free, 1))


def _differences(
    old: Mapping[Atom, int], new: Mapping[Atom, int], loops: Extents
) -> list[int] | None:
    """Return the possible differences of the parts that all threads share; None if unknown.

    `S[(k + 2) % 3]` and `S[k % 3]` are 1 or 2 apart, if both are in the loop over `k` of `loops`.
    """
    apart: Linear[Atom] = Linear(dict(old))
    for atom, coefficient in new.items():
        apart.add(atom, -coefficient)
    names = sorted(set[str]().union(*(_names(atom) for atom in apart.terms)))
    if not names:
        return [0]
    if set(names) - loops.keys() or np.prod([float(loops[n]) for n in names]) > _MAX_ELEMENTS:
        return None
    grid = np.meshgrid(*(np.arange(loops[name]) for name in names), indexing="ij")
    total: npt.NDArray[np.int64] = np.zeros(grid[0].shape, dtype=np.int64)
    for atom, coefficient in apart.terms.items():
        numbers = evaluate(atom_expr(atom), dict(zip(names, grid, strict=True)))
        if numbers is None:
            return None
        total = total + coefficient * numbers
    values = np.unique(total)
    return [int(value) for value in values] if len(values) <= _MOST_DIFFERENCES else None


def _thread_part(
    offset: Linear[Atom], common: Mapping[str, int]
) -> tuple[Linear[Atom], dict[Atom, int]]:
    """Return the part of an offset that depends on the thread, and the part that does not."""
    mine: Linear[Atom] = Linear({}, offset.constant)
    same: dict[Atom, int] = {}
    for atom, coefficient in offset.terms.items():
        names = {atom} if isinstance(atom, str) else free_vars(atom)
        if names and names <= common.keys():
            same[atom] = coefficient
        else:
            mine.add(atom, coefficient)
    return mine, same


def _elements(offset: Linear[Atom], touch: Touch, threads: Extents) -> _TouchedElements | None:
    """Return the elements touched and the number of the thread for each; None if unknown."""
    used = set[str]().union(*(_names(atom) for atom in offset.terms))
    tests = [g for g in touch.guards if free_vars(g) <= threads.keys() | touch.free.keys()]
    used |= set[str]().union(*(free_vars(test) for test in tests))
    loops = {**threads, **{n: e for n, e in touch.free.items() if n in used}}
    if used - loops.keys() or np.prod([float(e) for e in loops.values()]) > _MAX_ELEMENTS:
        return None
    shape = tuple(loops.values())
    grid = np.ix_(*map(np.arange, shape))
    values = dict(zip(loops, grid, strict=True))
    total: npt.NDArray[np.int64] = np.asarray(offset.constant)
    for atom, coefficient in offset.terms.items():
        values_ = evaluate(atom_expr(atom), values)
        if values_ is None:
            return None
        total = total + coefficient * values_
    thread: npt.NDArray[np.int64] = np.asarray(0)
    for name, extent in threads.items():
        thread = thread * extent + values[name]
    total, thread = np.broadcast_to(total, shape), np.broadcast_to(thread, shape)
    values_ = [holds for test in tests if (holds := evaluate(test, values)) is not None]
    if not values_:
        return _TouchedElements(total.ravel(), thread.ravel())
    wanted = np.ones(shape, dtype=bool)
    for holds in values_:
        wanted &= holds.astype(bool)
    return _TouchedElements(total[wanted], thread[wanted])


def _names(atom: Atom) -> set[str]:
    if isinstance(atom, str):
        return {atom}
    return {"?"} if any(isinstance(part, Load) for part in walk(atom)) else free_vars(atom)


def _meet(first: _TouchedElements, second: _TouchedElements, shifts: Sequence[int]) -> bool:
    """Return whether different threads touch one element, with `first` moved by one of `shifts`."""
    if not first.places.size or not second.places.size:
        return False
    if first.places.size < second.places.size:
        return any(second.has_others(first, shift) for shift in shifts)
    return any(first.has_others(second, -shift) for shift in shifts)
