"""Random expressions of complex elements, and the same in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from hypothesis import strategies as st

import ansorc as ac
from ansorc.ir.aligned import Array

Pair = tuple[Any, Any]
"""An element of the language, and the array of NumPy that has its values."""


@dataclass(frozen=True)
class Drawn:
    """Complex arrays x and y and a real one, the inputs of a definition, and an expression."""

    dtype: str
    shape: tuple[int, ...]
    evaluate: Callable[[Any, Any, Any], Any]
    """The expression of elements x, y, r of the language, or arrays of NumPy."""

    @property
    def part(self) -> str:
        """The dtype of a part."""
        return {"complex64": "float32", "complex128": "float64"}[self.dtype]

    def inputs(self) -> list[Array]:
        """Return arrays of numbers of which no quotient or power is large."""
        rng = np.random.default_rng(7)

        def parts() -> Array:
            return rng.uniform(0.5, 1.5, self.shape) * rng.choice([-1.0, 1.0], self.shape)

        complex_ = [(parts() + 1j * parts()).astype(self.dtype) for _ in range(2)]
        return [*complex_, parts().astype(self.part)]

    def dag(self) -> ac.ComputeDAG:
        """Return the definition."""
        x, y = (ac.placeholder(self.shape, name, self.dtype) for name in "xy")
        r = ac.placeholder(self.shape, "r", self.part)
        z = ac.compute(self.shape, lambda *i: self.evaluate(x[i], y[i], r[i]), "z")
        return ac.ComputeDAG([x, y, r, z])

    def expected(self) -> Array:
        """Return the values in complex128."""
        x, y, r = self.inputs()
        wide = np.complex128
        return np.asarray(self.evaluate(x.astype(wide), y.astype(wide), r.astype(np.float64)), wide)


def _choose(condition: Any, then: Any, otherwise: Any) -> Any:
    if isinstance(condition, ac.Scalar):
        return ac.if_then_else(condition, then, otherwise)
    return cast("Any", np.where(condition, then, otherwise))


def _exp(z: Any) -> Any:
    return ac.exp(z) if isinstance(z, ac.Scalar) else np.exp(z)


def _tame(z: Any) -> Any:
    """Return a number of the same direction whose size is below 1."""
    return z / (abs(z) + 1.0)


_ONE: tuple[Callable[[Any], Any], ...] = (
    lambda z: -z,
    lambda z: z.conj(),
    lambda z: _exp(_tame(z)),
    lambda z: _tame(z) ** 3,
    lambda z: z * 2.5,
    lambda z: z * (0.5 - 1j),
    lambda z: 1j + z,
    lambda z: 3 - z,
    lambda z: z * z.real,
    lambda z: z / (abs(z.imag) + 1.0),
    lambda z: abs(z) * z,
    lambda z: 2.0 / (_tame(z) + 2j),
)
_TWO: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / (_tame(b) + 2.0),
    lambda a, b: _choose(a.real < b.imag, a, b),
    lambda a, b: _choose(a * 1.0 == a, b, 1j),
    lambda a, b: _choose(a != b, a, 0.5),
)


@st.composite
def expressions(draw: st.DrawFn) -> Drawn:
    """Draw a definition of a complex tensor."""
    steps = draw(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=5))
    numbers = draw(st.lists(st.integers(0, 99), min_size=len(steps), max_size=len(steps)))

    def evaluate(x: Any, y: Any, r: Any) -> Any:
        values: list[Any] = [x, y, x * r + y]
        for (operation, first), second in zip(steps, numbers, strict=True):
            kind, a = operation % (len(_ONE) + len(_TWO)), values[first % len(values)]
            made = (
                _ONE[kind](a)
                if kind < len(_ONE)
                else _TWO[kind - len(_ONE)](a, values[second % len(values)])
            )
            values.append(made)
        return values[-1]

    shape = draw(st.sampled_from([(5,), (3, 8), (2, 3, 17), (1, 33)]))
    return Drawn(draw(st.sampled_from(["complex64", "complex128"])), shape, evaluate)
