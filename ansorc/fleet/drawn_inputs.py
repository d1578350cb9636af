"""Inputs that a board and its host make alike, from a seed: they need not travel.

Element `i` of an array follows from x = splitmix64(seed + (i + 1) · 0x9E3779B97F4A7C15), where
splitmix64 is the mixing function of Steele, Lea and Flood (Fast splittable pseudorandom number
generators, 2014). Floats: with the leading m bits of x as a fraction u in [0, 1), m the digits of
the type, 2 u - 1; where inputs must be positive m is less by one and they are (1 + u) / 2. All are
exact. Integers: x mod 9 - 4, unsigned x mod 5, bool x mod 2. `runtime/runner/arrays.cc` does this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ansorc.errors import FaultError, LanguageError, MeasureError
from ansorc.ir.aligned import Array
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import DType, Kind
from ansorc.lang.rounding import Bound, evaluate_with_rounding
from ansorc.search.measure.check import Expectation, expectations
from ansorc.search.measure.drawn_data import POSITIVE, draw_array, value_spans
from ansorc.search.task import Task

_SIGNED, _POSITIVE = 0, 1
_INTEGERS = {Kind.INT: 2, Kind.UINT: 3, Kind.BOOL: 4}
_INTEGER_ELEMENT = 4
_FLOATS = {"float16": (0, 11), "bfloat16": (1, 8), "float32": (2, 24), "float64": (3, 53)}
"""The number of each type on the pipe, and its binary digits."""


@dataclass(frozen=True)
class Draw:
    """A rule that makes one array."""

    seed: int
    dtype: DType
    is_positive: bool = False

    @property
    def codes(self) -> tuple[int, int, int]:
        """Draw, Element and bytes of an element, as `runtime/runner/arrays.h` numbers them."""
        if not self.dtype.is_float:
            return _INTEGERS[self.dtype.kind], _INTEGER_ELEMENT, self.dtype.bytes
        element, _ = _FLOATS[self.dtype.name]
        return _POSITIVE if self.is_positive else _SIGNED, element, self.dtype.bytes

    def array(self, shape: tuple[int, ...]) -> Array:
        """Return the array."""
        mixed = _mix(self.seed, int(np.prod(shape, dtype=np.int64)))
        if not self.dtype.is_float:
            kind = _INTEGERS[self.dtype.kind]
            modulus, low = {2: (9, -4), 3: (5, 0), 4: (2, 0)}[kind]
            values = (mixed % np.uint64(modulus)).astype(np.int64) + low
            return values.astype(self.dtype.numpy).reshape(shape)
        _, digits = _FLOATS[self.dtype.name]
        digits -= self.is_positive
        u = (mixed >> np.uint64(64 - digits)).astype(np.float64) / 2.0**digits
        numbers = (1.0 + u) / 2.0 if self.is_positive else 2.0 * u - 1.0
        return numbers.astype(self.dtype.numpy).reshape(shape)


def _mix(seed: int, count: int) -> NDArray[np.uint64]:
    index = np.arange(1, count + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        x = np.uint64(seed) + index * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class DrawnTask:
    """A task with its inputs, and what its outputs must hold by the float64 reference."""

    task: Task
    draws: dict[str, Draw]
    """The rules of the inputs; indices and inputs with declared values are sent as arrays."""
    inputs: dict[str, Array]
    expected: tuple[tuple[Buffer, Expectation], ...]

    @staticmethod
    def of(task: Task, seed: int) -> DrawnTask:
        """Draw the inputs of `task`; positive ones where others give NaN or are refused."""
        if task.dag.updates:
            raise MeasureError(
                f"'{task.name}' updates its inputs, which boards cannot measure: they keep the "
                "inputs from call to call; measure the definition without ac.update"
            )
        spans, rng = value_spans(task.dag), np.random.default_rng(seed)
        sent = {
            b.name: draw_array(b, -1.0, spans.get(b.name), rng)
            for b in task.dag.inputs
            if b.name in spans or b.is_sorted
        }
        outputs, roundings = list[Array](), list[Bound]()
        for is_positive in (False, True):
            if is_positive:  # boards draw no integers above 0
                sent |= {
                    b.name: draw_array(b, POSITIVE, None, rng)
                    for b in task.dag.inputs
                    if b.dtype.is_integer and b.name not in sent
                }
            draws = {
                buffer.name: Draw((seed << 32) + number, buffer.dtype, is_positive)
                for number, buffer in enumerate(task.dag.inputs)
                if buffer.name not in sent
            }
            inputs = {
                b.name: sent[b.name] if b.name in sent else draws[b.name].array(b.shape)
                for b in task.dag.inputs
            }
            try:
                outputs, roundings = evaluate_with_rounding(task.dag, list(inputs.values()))
            except (FaultError, LanguageError):
                if is_positive:
                    raise
                continue
            if not any(np.isnan(output).any() for output in outputs):
                break
        checks = expectations(task.dag, outputs, roundings)
        expected = tuple(zip(task.dag.outputs, checks, strict=True))
        return DrawnTask(task, draws, inputs, expected)
