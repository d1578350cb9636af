"""Which elements of a buffer the threads of a block touch: index expressions for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import Atom, Linear, atom_expr, difference
from ansorc.ir.arith.integer import rejoin
from ansorc.ir.arith.interval import Interval, linear_bounds
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
from ansorc.ir.passes.places import flat_place
from ansorc.ir.substitute import free_vars

Values: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.bool_]
Extents: TypeAlias = Mapping[str, int]

_MAX_ELEMENTS = 1 << 21
"""More touches of one statement than this are not written down; they are taken for all."""
_MANY_ELEMENTS = 1 << 15
"""Fewer are looked at all at once."""
_NOBODY, _SEVERAL = -1, -2
_MOST_DIFFERENCES = 16
"""Of two places with more between them nothing is known."""

_ARITHMETIC = {
    BinaryOp.ADD: np.add, BinaryOp.SUB: np.subtract, BinaryOp.MUL: np.multiply,
    BinaryOp.FLOORDIV: np.floor_divide, BinaryOp.MOD: np.mod, BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum, BinaryOp.AND: np.logical_and, BinaryOp.OR: np.logical_or,
}  # fmt: skip
_COMPARISONS = {
    CompareOp.EQ: np.equal, CompareOp.NE: np.not_equal, CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal, CompareOp.GT: np.greater, CompareOp.GE: np.greater_equal,
}  # fmt: skip


def evaluate(expr: Expr, values: Mapping[str, npt.NDArray[np.int64]]) -> Values | None:
    """Return the scalar integer or bool `expr` for arrays of values; None if it is of others."""
    match expr:
        case Const(value, _):
            return np.asarray(value)
        case Var(name):
            return values.get(name)
        case Not(operand):
            found = evaluate(operand, values)
            return None if found is None else np.logical_not(found)
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
    function: np.ufunc, left: Expr, right: Expr, values: Mapping[str, npt.NDArray[np.int64]]
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
    """Tells statements apart."""
    guards: tuple[Expr, ...] = ()
    fixed: Extents = field(default_factory=dict[str, int])
    """The loops around it that are in the iteration that the walk is in."""
    free: Extents = field(default_factory=dict[str, int])
    """Those that may be in any iteration."""

    @cached_property
    def key(self) -> Hashable:
        """Equal for touches that reach the same elements, as long as both are there."""
        guards = tuple(map(id, self.guards))
        return id(self.indices), guards, tuple(self.fixed.items()), tuple(self.free.items())

    def leaving(self, name: str) -> Touch:
        """Return the touch when the loop over `name` goes on, or ends."""
        if name not in self.fixed:
            return self
        fixed = {key: value for key, value in self.fixed.items() if key != name}
        return replace(self, fixed=fixed, free={**self.free, name: self.fixed[name]})


@dataclass(frozen=True, eq=False)
class _TouchedElements:
    """Places, and the number of the thread that touches each."""

    places: npt.NDArray[np.int64]
    threads: npt.NDArray[np.int64]

    @cached_property
    def is_crowded(self) -> bool:
        """Whether two threads touch one place."""
        order = np.lexsort((self.threads, self.places))
        places, threads = np.diff(self.places[order]), np.diff(self.threads[order])
        return bool(np.any((places == 0) & (threads != 0)))

    @cached_property
    def _owners(self) -> tuple[int, npt.NDArray[np.int32]] | None:
        """The first place, and from there on who is at each; None if they are too many."""
        low = int(self.places.min())
        size = int(self.places.max()) - low + 1
        if size > _MAX_ELEMENTS:
            return None
        owner = np.full(size, _NOBODY, dtype=np.int32)
        place = self.places - low
        owner[place] = self.threads
        owner[place[owner[place] != self.threads]] = _SEVERAL
        return low, owner

    def has_others(self, visitors: _TouchedElements, shift: int) -> bool:
        """Whether a thread is where another one of `visitors` is, `shift` elements further on."""
        if self._owners is None:
            return True
        low, owner = self._owners
        place = visitors.places + (shift - low)
        inside = (place >= 0) & (place < len(owner))
        if not inside.any():
            return False
        found = owner[np.where(inside, place, 0)]
        return bool((inside & (found != _NOBODY) & (found != visitors.threads)).any())


class Meetings:
    """Finds where the threads of a block meet; what was evaluated once is kept."""

    def __init__(self, threads: Extents) -> None:
        self._threads = threads
        self._places: dict[Hashable, tuple[tuple[Expr, ...], Linear[Atom] | None]] = {}
        self._known: dict[Hashable, _TouchedElements | None] = {}
        self._answers: dict[Hashable, tuple[bool, Touch, Touch]] = {}

    def may_meet(self, old: Touch, new: Touch) -> bool:
        """Whether different threads may touch one element, one in `old` and the other in `new`."""
        key = old.key, new.key
        if key not in self._answers:  # the touches are kept alive with their keys
            self._answers[key] = self._may_meet(old, new), old, new
        return self._answers[key][0]

    def _may_meet(self, old: Touch, new: Touch) -> bool:
        places = self._place(old), self._place(new)
        if places[0] is None or places[1] is None:
            return True
        common = {name: extent for name, extent in old.fixed.items() if name in new.fixed}
        own = [_own_part(place, common) for place in places if place is not None]
        shifts = _differences(own[0][1], own[1][1], common)
        if shifts is None:
            return True  # they are apart by something that is not known here
        (first, _), (second, _) = own
        if self._are_apart((first, old), (second, new), shifts=shifts):
            return False
        free = {n: max(old.free.get(n, 1), new.free.get(n, 1)) for n in (*old.free, *new.free)}
        if shifts == [0] and first == second and self._are_own(first, free):
            return False
        if max(map(self._size, (old, new))) > _MANY_ELEMENTS:  # the first iterations often tell
            found = self._elements(first, _first(old)), self._elements(second, _first(new))
            if found[0] is not None and found[1] is not None and _meet(found[0], found[1], shifts):
                return True
        found = self._elements(first, old), self._elements(second, new)
        return found[0] is None or found[1] is None or _meet(found[0], found[1], shifts)

    def is_stored_by_several(self, store: Touch) -> bool:
        """Whether threads meet in `store` itself, in the first iteration of all loops around it."""
        place = self._place(store)
        if place is not None and self._are_own(
            place, dict.fromkeys({**store.fixed, **store.free}, 1)
        ):
            return False
        if place is None or any(isinstance(x, Load) for guard in store.guards for x in walk(guard)):
            return False
        first = replace(store, fixed={}, free=dict.fromkeys({**store.fixed, **store.free}, 1))
        found = self._elements(place, first)
        return found is not None and found.is_crowded

    def _are_apart(self, *both: tuple[Linear[Atom], Touch], shifts: Sequence[int]) -> bool:
        """Whether their least and greatest places tell that they are two slots, say."""
        ends: list[tuple[int, int]] = []
        for place, touch in both:
            found = _guarded_bounds(place, touch.guards, self._ranges(touch))
            if found is None:
                return False
            ends.append(found)
        (low, high), (least, most) = ends
        return all(high + shift < least or most < low + shift for shift in shifts)

    def _are_own(self, place: Linear[Atom], loops: Extents) -> bool:
        """Whether the coefficients tell that each thread has places of its own, as digits do."""
        digits = _digits(place, {**loops, **self._threads})
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
            place = flat_place(touch.buffer, touch.indices)
            if place is not None:
                # Of loops over two axes that are fused, one number is left.
                rejoin(place, self._ranges(touch))
            self._places[key] = touch.indices, place
        return self._places[key][1]

    def _elements(self, place: Linear[Atom], touch: Touch) -> _TouchedElements | None:
        key = (tuple(place.terms.items()), place.constant, touch.guards, tuple(touch.free.items()))
        if key not in self._known:
            self._known[key] = _elements(place, touch, self._threads)
        return self._known[key]


def _guarded_bounds(
    place: Linear[Atom], guards: Sequence[Expr], ranges: Mapping[str, Interval]
) -> Interval | None:
    """Return bounds of a place where `guards` hold: of `4*t + v` with `t < 100`, v below 4, 399."""
    found = linear_bounds(place, ranges)
    for guard in guards:
        if found is None or not isinstance(guard, Compare) or guard.op is not CompareOp.LT:
            continue
        total = difference(guard.left, guard.right)  # it is at most -1
        terms = {} if total is None else total.terms
        if total is None or not terms:
            continue
        lead = max(terms, key=lambda atom: abs(terms[atom]))
        factor, left = divmod(place.coefficient(lead), terms[lead])
        rest = linear_bounds(place.plus(total, -factor), ranges)
        if factor > 0 and not left and rest is not None:
            found = found[0], min(found[1], rest[1] - factor)
    return found


def _digits(place: Linear[Atom], extents: Extents) -> dict[str, list[tuple[int, int]]] | None:
    """Return what each digit of each variable is multiplied by, and how many values it has.

    `x`, or all of `x % 4`, `x // 4 % 8` and `x // 32`; None where something else is added.
    """
    parts: dict[str, list[tuple[int, int, int]]] = {}
    for atom, coefficient in place.terms.items():
        name, divisor, modulus = _digit(atom)
        if name not in extents:
            return None
        parts.setdefault(name, []).append((divisor, modulus, abs(coefficient)))
    found: dict[str, list[tuple[int, int]]] = {}
    for name, digits in parts.items():
        below = 1
        for divisor, modulus, coefficient in sorted(digits):
            count = modulus or -(-extents[name] // divisor)
            if divisor != below:
                return None
            below = divisor * count
            found.setdefault(name, []).append((coefficient, count))
        if below < extents[name]:
            return None
    return found


def _digit(atom: Atom) -> tuple[str, int, int]:
    """Return a, c and d of an atom `a // c % d`: c may be 1, d is 0 where it is missing."""
    divisor, modulus = 1, 0
    if isinstance(atom, Binary) and atom.op is BinaryOp.MOD and isinstance(atom.right, Const):
        atom, modulus = atom.left, int(atom.right.value)
    if isinstance(atom, Binary) and atom.op is BinaryOp.FLOORDIV and isinstance(atom.right, Const):
        atom, divisor = atom.left, int(atom.right.value)
    name = atom if isinstance(atom, str) else atom.name if isinstance(atom, Var) else ""
    return name, divisor, modulus


def _first(touch: Touch) -> Touch:
    """Return what is touched in the first iterations alone."""
    return replace(touch, free=dict.fromkeys(touch.free, 1))


def _differences(
    old: Mapping[Atom, int], new: Mapping[Atom, int], loops: Extents
) -> list[int] | None:
    """Return by how much what is the same for all threads may differ; None if that is unknown.

    `S[(k + 2) % 3]` and `S[k % 3]` are 1 or 2 apart, for a `k` of `loops` that both are in.
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
        found = evaluate(atom_expr(atom), dict(zip(names, grid, strict=True)))
        if found is None:
            return None
        total = total + coefficient * found
    values = np.unique(total)
    return [int(value) for value in values] if len(values) <= _MOST_DIFFERENCES else None


def _own_part(
    place: Linear[Atom], common: Mapping[str, int]
) -> tuple[Linear[Atom], dict[Atom, int]]:
    """Return the part of a place that is each thread's own, and what is the same for all."""
    own: Linear[Atom] = Linear({}, place.constant)
    same: dict[Atom, int] = {}
    for atom, coefficient in place.terms.items():
        names = {atom} if isinstance(atom, str) else free_vars(atom)
        if names and names <= common.keys():
            same[atom] = coefficient
        else:
            own.add(atom, coefficient)
    return own, same


def _elements(place: Linear[Atom], touch: Touch, threads: Extents) -> _TouchedElements | None:
    """Return the elements touched and the number of the thread for each; None if unknown."""
    used = set[str]().union(*(_names(atom) for atom in place.terms))
    tests = [g for g in touch.guards if free_vars(g) <= threads.keys() | touch.free.keys()]
    used |= set[str]().union(*(free_vars(test) for test in tests))
    loops = {**threads, **{n: e for n, e in touch.free.items() if n in used}}
    if used - loops.keys() or np.prod([float(e) for e in loops.values()]) > _MAX_ELEMENTS:
        return None
    shape = tuple(loops.values())
    grid = np.ix_(*map(np.arange, shape))
    values = dict(zip(loops, grid, strict=True))
    total: npt.NDArray[np.int64] = np.asarray(place.constant)
    for atom, coefficient in place.terms.items():
        found = evaluate(atom_expr(atom), values)
        if found is None:
            return None
        total = total + coefficient * found
    thread: npt.NDArray[np.int64] = np.asarray(0)
    for name, extent in threads.items():
        thread = thread * extent + values[name]
    total, thread = np.broadcast_to(total, shape), np.broadcast_to(thread, shape)
    found = [holds for test in tests if (holds := evaluate(test, values)) is not None]
    if not found:
        return _TouchedElements(total.ravel(), thread.ravel())
    wanted = np.ones(shape, dtype=bool)
    for holds in found:
        wanted &= holds.astype(bool)
    return _TouchedElements(total[wanted], thread[wanted])


def _names(atom: Atom) -> set[str]:
    if isinstance(atom, str):
        return {atom}
    return {"?"} if any(isinstance(part, Load) for part in walk(atom)) else free_vars(atom)


def _meet(first: _TouchedElements, second: _TouchedElements, shifts: Sequence[int]) -> bool:
    """Whether threads meet where `first` is any of `shifts` elements further on."""
    if not first.places.size or not second.places.size:
        return False
    if first.places.size < second.places.size:
        return any(second.has_others(first, shift) for shift in shifts)
    return any(first.has_others(second, -shift) for shift in shifts)
