"""One random ONNX node: its inputs, its attributes, and what may be said of its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ansorc.ir.aligned import Array

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class NodeCase:
    """A node with the values of its inputs; None for those that are left out."""

    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    known: Sequence[int] = ()
    """The places of inputs that a shape depends on: always constants."""
    outputs: int = 1
    tolerance: float = 1e-5
    """Of the largest number of the result, from one way to compute it to another."""
    steps: int = 0
    """How far rounding may take a result of integers."""
    has_peer: bool = True
    """Whether ONNX says what comes out: not where floats are out of the range of integers."""


@dataclass
class Draw:
    """Random values for a node of one version of ONNX's operators."""

    rng: np.random.Generator
    opset: int

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def int(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, low: int = 0, high: int = 4, most: int = 5) -> tuple[int, ...]:
        rank = self.int(low, high)
        return tuple(self.one_of(1, *range(2, most + 1), *range(2, most + 1)) for _ in range(rank))

    def axis(self, rank: int) -> int:
        return self.int(-rank, rank - 1)

    def floats(self, *shape: int, kind: str = "float32", scale: float = 2.0) -> Array:
        return np.asarray(self.rng.uniform(-scale, scale, shape), kind)

    def positive(self, *shape: int, kind: str = "float32", low: float = 0.1) -> Array:
        return np.asarray(self.rng.uniform(low, 2.0, shape), kind)

    def strange(self, *shape: int, kind: str = "float32") -> Array:
        """Floats, now and then NaN, infinite, a zero of either sign, huge or tiny."""
        found = self.floats(*shape, kind=kind, scale=self.one_of(1.0, 3.0, 100.0))
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-40, 0.5, 2.5], kind)
        mask = self.rng.random(shape) < self.one_of(0.0, 0.0, 0.3)
        return np.where(mask, self.rng.choice(special, shape), found).astype(kind)

    def ints(self, low: int, high: int, *shape: int, kind: str = "int64") -> Array:
        return np.asarray(self.rng.integers(low, high + 1, shape), kind)

    def any_ints(self, kind: str, *shape: int) -> Array:
        """Integers of the whole range, or small ones."""
        info = np.iinfo(kind)
        if self.chance(0.3):
            return self.rng.integers(info.min, info.max, shape, kind, endpoint=True)
        return np.asarray(self.rng.integers(max(info.min, -20), 21, shape), kind)

    def bools(self, *shape: int) -> Array:
        return np.asarray(self.rng.random(shape) < 0.5)

    def numbers(self, *shape: int, kinds: Sequence[str] = ("float32",)) -> Array:
        """Floats or integers of one of the dtypes `kinds`."""
        kind = self.one_of(*kinds)
        if kind == "bool":
            return self.bools(*shape)
        return self.any_ints(kind, *shape) if "int" in kind else self.floats(*shape, kind=kind)

    def part_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that is broadcast to `shape`."""
        kept = [1 if self.chance(0.3) else extent for extent in shape]
        return tuple(kept[self.int(0, len(kept)) :] if self.chance(0.4) else kept)

    def known_ints(self, *values: int) -> Array:
        return np.array(values, np.int64)

    def axes_or_input(
        self, axes: Sequence[int] | None, since: int
    ) -> tuple[dict[str, Any], list[Array | None]]:
        """Axes as an attribute before the version `since`, then as an input."""
        if axes is None:
            return {}, []
        if self.opset < since:
            return {"axes": list(axes)}, []
        return {}, [self.known_ints(*axes)]

    def some_axes(self, rank: int) -> list[int]:
        """One axis or more, each once, some counted from the end."""
        count = self.int(1, rank)
        axes = sorted(int(one) for one in self.rng.choice(rank, count, replace=False))
        return [axis - rank if self.opset >= 11 and self.chance(0.3) else axis for axis in axes]


CaseMaker: TypeAlias = Callable[[Draw], NodeCase]
