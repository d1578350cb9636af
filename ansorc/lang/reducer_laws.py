"""Test whether a user's reducer may be applied in any order, on numbers that its terms can have.

A schedule combines terms in any order and from any start, so a reducer must be associative and
commutative, and its identity must be neutral. This is tested on 48 samples. The elements that terms
read are drawn: small numbers of both signs, zeros, equal numbers, within the promised range of an
input. Axes have values in their ranges, and combined terms are combined again. The test is repeated
on numbers up to 500, and on the ends of 8-bit integers. Floats are computed in float64, so rounding
errors are far below the tolerance. NaN and infinite results are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import DType, Kind
from ansorc.ir.expr import Expr, Load, Var
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.node import Node, map_children
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.grid import Grid
from ansorc.lang.reducer import Reducer
from ansorc.lang.scalar import all_of, if_then_else
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tuple_fold import combine

Elements: TypeAlias = list[Array]
"""A tuple for each sample: one array for each element of the tuple."""

_SAMPLES = 48
_TERMS = 5
_PLAIN = ((1, 2, 3, 4, 5), (3, 1, 2, 5, 4), (-1, -2, -3, 1, 2), (2, 2, 1, 2, 1), (0, -3, 0, 1, -1))
"""The values read in the first samples; small, so that an error message is easy to follow."""
_FAR = (500, -500, 300, -300, 255, -128, 127, 100, -100, 50, -50)
"""Further values that are read: a maximum may begin at -100, and a sum be cut at 100."""
_TOLERANCE = 1e-6
_FLOATS = np.dtype(np.float64)


def check_laws(op: ComputeOp, name: str) -> None:
    """Raise LanguageError, with an example, if the Reducer of `op` breaks one of its laws.

    The result may depend on the order of equal elements if it is one of them: a search for the
    largest element that returns an index may prefer the left one.
    """
    assert isinstance(op.combiner, Reducer)
    with np.errstate(all="ignore"):
        laws = _Laws(op.combiner, name)
        terms = _terms(op)
        laws.check(*terms[:3])
        laws.check(laws.f(*terms[:2]), terms[2], laws.f(*terms[3:]))
        laws.check(*_terms(op, is_far=True)[:3])


def with_kept_identity(reducer: Reducer) -> Reducer:
    """Return `reducer`, with a test for the identity if two identities combine to NaN.

    Threads without terms combine identities, and -inf - -inf (of a largest element) is NaN.
    """
    start = [np.array([each.value], _numpy(each.dtype)) for each in reducer.identities]
    with np.errstate(all="ignore"):
        merged = combine(reducer, start, start, _FLOATS)
    if not any(each.dtype.kind == "f" and np.isnan(each).any() for each in merged):
        return reducer
    left, right = (list(map(Scalar, side)) for side in reducer.operands)
    pairs = zip(left, reducer.identities, strict=True)
    is_start = all_of(*(element == Scalar(identity) for element, identity in pairs))
    results = [
        if_then_else(is_start, other, Scalar(result)).expr
        for other, result in zip(right, reducer.results, strict=True)
    ]
    return replace(reducer, results=tuple(results))


@dataclass(frozen=True)
class _Laws:
    """The laws of one reducer, named `name` in messages."""

    reducer: Reducer
    name: str

    def f(self, left: Elements, right: Elements) -> Elements:
        """Return the combined tuples of each sample."""
        return combine(self.reducer, left, right, _FLOATS)

    def check(self, x: Elements, y: Elements, z: Elements) -> None:
        """Raise LanguageError if a law does not hold for one of the samples."""
        forward, backward = self.f(x, y), self.f(y, x)
        if (sample := self._differing(forward, backward, (x, y), (x, y))) is not None:
            a, b, c, d = (_show(each, sample) for each in (x, y, forward, backward))
            self._refuse("commutative", f"f({a}, {b}) = {c}, but f({b}, {a}) = {d}")
        first, second = self.f(self.f(x, y), z), self.f(x, self.f(y, z))
        if (sample := self._differing(first, second, (x, y, z), (x, y, z))) is not None:
            a, b, c, d, e = (_show(each, sample) for each in (x, y, z, first, second))
            numbers = f"f(f({a}, {b}), {c}) = {d}, but f({a}, f({b}, {c})) = {e}"
            self._refuse("associative", numbers)
        self._check_identity(x)

    def _check_identity(self, x: Elements) -> None:
        start = self.identity
        for left, right in ((start, x), (x, start)):
            result = self.f(left, right)
            if (sample := self._differing(result, x, (), (x,))) is not None:
                shown = [_show(each, sample) for each in (left, right, result)]
                raise LanguageError(
                    f"the identity of the reducer '{self.name}' changes a term: f({shown[0]}, "
                    f"{shown[1]}) = {shown[2]}; every reduction begins at it, so choose "
                    "the value that changes none, as 0 of a sum and -float('inf') of a maximum"
                )

    @property
    def identity(self) -> Elements:
        """The identity, for each sample."""
        return [
            np.full(_SAMPLES, each.value, _numpy(each.dtype)) for each in self.reducer.identities
        ]

    def _differing(
        self,
        first: Elements,
        second: Elements,
        tied: Sequence[Elements],
        operands: Sequence[Elements],
    ) -> int | None:
        """Return the first sample in which two tuples differ by more than a choice of `tied`."""
        scale = 1.0 + np.max(
            [_size(each) for t in (*operands, first, second) for each in t], axis=0
        )
        same = [_same(a, b, scale) for a, b in zip(first, second, strict=True)]
        known = np.all([_is_known(each) for t in operands for each in t], axis=0)
        differ = known & ~np.all(same, axis=0)
        if tied and len(first) > 1:
            chosen = [_is_one_of(each, tied, scale) for each in (first, second)]
            differ &= ~(np.any(same, axis=0) & chosen[0] & chosen[1])
        return int(np.argmax(differ)) if differ.any() else None

    def _refuse(self, law: str, numbers: str) -> None:
        raise LanguageError(
            f"the reducer '{self.name}' is not {law}: {numbers}; terms are combined in any order, "
            "so combine what can be joined in any, like a sum and a count instead of a mean, and "
            "compute the rest from that in a compute behind it"
        )


def _terms(op: ComputeOp, *, is_far: bool = False) -> list[Elements]:
    """Return some terms of the reduction for each sample; only reduce axes differ between them.

    With `is_far`, values that are read are far from 0.
    """
    rng = np.random.default_rng(0)
    reduced = {axis.name for axis in op.reduce_axes}
    places: dict[tuple[str, int], Array] = {}
    for axis in (*op.axes, *op.reduce_axes):
        drawn = rng.integers(0, axis.extent, (_TERMS, _SAMPLES))
        for term in range(_TERMS):
            places[axis.name, term] = drawn[term if axis.name in reduced else 0]
    bodies, loads = _without_loads(op.bodies)
    read = {
        n: _far(load.buffer, rng) if is_far else _read(load.buffer, rng, is_first=not n)
        for n, load in enumerate(loads)
    }
    terms: list[Elements] = []
    for term in range(_TERMS):
        values = {axis.name: places[axis.name, term] for axis in (*op.axes, *op.reduce_axes)}
        for n, load in enumerate(loads):
            is_moving = any(free_vars(index) & reduced for index in load.indices)
            values[_name(n)] = read[n][term if is_moving else 0]
        terms.append(list(_evaluate(bodies, values)))
    return terms


def _evaluate(bodies: Sequence[Expr], values: Mapping[str, Array]) -> Iterator[Array]:
    grid = Grid(values, {}, _FLOATS, "reducer", 1)
    for body in bodies:
        yield np.broadcast_to(grid.evaluate(body), (_SAMPLES,))


def _without_loads(bodies: Sequence[Expr]) -> tuple[list[Expr], list[Load]]:
    """Return `bodies` with a variable for each different load, and the loads."""
    loads: dict[Load, int] = {}

    def visit(node: Node) -> Node:
        if isinstance(node, Load):
            return Var(_name(loads.setdefault(node, len(loads))), node.buffer.dtype)
        return map_children(node, visit)

    return [visit(body) for body in bodies], list(loads)  # pyright: ignore[reportReturnType]


def _name(number: int) -> str:
    return f"read {number}"


def _read(buffer: Buffer, rng: np.random.Generator, *, is_first: bool) -> Array:
    """Return numbers that may be read from `buffer`: [_TERMS, _SAMPLES]."""
    dtype, shape = buffer.dtype, (_TERMS, _SAMPLES)
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    drawn = rng.integers(-3, 4, shape).astype(np.float64)
    if dtype.is_float:
        half = _SAMPLES // 2
        drawn[:, half:] = rng.normal(scale=2.0, size=(_TERMS, _SAMPLES - half)).round(2)
    if is_first:
        drawn[:, : len(_PLAIN)] = np.transpose(_PLAIN)
    return _within(drawn, buffer.promised, dtype)


def _far(buffer: Buffer, rng: np.random.Generator) -> Array:
    """Return numbers far from 0 that may be read from `buffer`: [_TERMS, _SAMPLES]."""
    dtype, shape = buffer.dtype, (_TERMS, _SAMPLES)
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    drawn = rng.permuted(np.resize(np.array(_FAR, np.float64), shape), axis=1)
    if dtype.is_integer:
        drawn = np.clip(drawn, *integer_range(dtype))
    return _within(drawn, buffer.promised, dtype)


def _within(drawn: Array, promised: tuple[float, float] | None, dtype: DType) -> Array:
    """Return `drawn` moved into the promised range, or into that of an unsigned dtype."""
    numpy = _numpy(dtype)
    if promised is None:
        return (np.abs(drawn) if dtype.kind is Kind.UINT else drawn).astype(numpy)
    low, high = promised
    span = (high - low) + (0 if dtype.is_float else 1)
    if not math.isfinite(span) or span <= 0:
        return np.clip(drawn, low, high).astype(numpy)
    return (low + np.mod(drawn - low, span)).astype(numpy)


def _numpy(dtype: DType) -> np.dtype[np.generic]:
    """Return the type in which numbers of `dtype` are tested."""
    return _FLOATS if dtype.is_float else dtype.numpy


def _size(values: Array) -> Array:
    """Return the magnitude of finite values, and 0 for others."""
    wide = np.abs(values.astype(np.float64))
    return np.where(np.isfinite(wide), wide, 0.0)


def _is_known(values: Array) -> Array:
    return np.isfinite(values) if values.dtype.kind == "f" else np.ones(values.shape, np.bool_)


def _same(first: Array, second: Array, scale: Array) -> Array:
    """Return where two numbers are equal up to rounding, or one is not finite."""
    if first.dtype.kind != "f":
        return first == second
    near = np.abs(first - second) <= _TOLERANCE * scale
    return near | ~np.isfinite(first) | ~np.isfinite(second)


def _is_one_of(result: Elements, operands: Sequence[Elements], scale: Array) -> Array:
    """Return where a tuple is one of its operands."""
    hits = [
        np.all([_same(a, b, scale) for a, b in zip(result, each, strict=True)], axis=0)
        for each in operands
    ]
    return np.any(hits, axis=0)


def _show(values: Elements, sample: int) -> str:
    """Return the tuple of a sample as text, without brackets if it is one number."""
    words = [
        f"{each[sample]:.6g}" if each.dtype.kind == "f" else f"{each[sample]}" for each in values
    ]
    return words[0] if len(words) == 1 else f"({', '.join(words)})"
