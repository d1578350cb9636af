"""Compare a kernel's output with the float64 reference, allowing what rounding explains.

The tolerance of an element with reference value r is

    8 · eps(dtype) · (stages + sqrt(L)) · max(|r|, rms(reference))

where L is the longest chain of lengths of reductions and scans from an input to that output.
Rounding errors of
a sum of L terms grow like sqrt(L) times the size of the partial sums, for which the rms stands
where the terms cancel; each further stage rounds once more. One missing or doubled term of a sum
of n terms changes the result by about rms / sqrt(n), far above that. Where more than that is
explained by how a value came about (a small difference of large sums, see
`ansorc/lang/rounding.py`), more is allowed, of that element alone. The dtype of eps is the
coarsest that something is computed in; an input of a coarser one is exact. Integers must be equal;
where they came from floats, one element in 100,000 may have been rounded over an edge; of the
places that a reduction of tuples found among computed floats, one in 1,000 may be that of a near
tie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ansorc.ir.aligned import Array
from ansorc.ir.dtype import DType
from ansorc.ir.expr import Binary, Call, Cast, Expr, dtype_of
from ansorc.ir.node import Node
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reducer import Reducer
from ansorc.lang.rounding import SAFETY, Bound

_CHUNK = 1 << 15  # the four arrays of a chunk stay in the second-level cache
Reference: TypeAlias = Array
"""The values of an output: float64, or the integers and bools themselves, with all their bits."""


@dataclass(frozen=True)
class Tolerance:
    """The deviation from its reference that an output may have."""

    relative: float
    """Times max(|reference|, `scale`); 0 for integers and bools, which must be equal."""
    scale: float
    unequal_share: float = 0.0
    """Share of the elements of an integer output that may differ."""
    smallest: float = 2.0**-149
    """The least positive number of the output's dtype: what underflow may cost."""


@dataclass(frozen=True)
class Comparison:
    """The outcome of one comparison."""

    max_error: float
    """Largest deviation in units of the tolerance (for integers: share of unequal elements)."""
    complaint: str = ""
    """The fault, in words; empty if there is none."""


def reduction_length(dag: ComputeDAG, output: str) -> tuple[int, int]:
    """Return (longest chain of reduction lengths, number of stages on the way) for `output`."""
    lengths: dict[str, tuple[int, int]] = {}
    for op in dag.ops:
        readable = [lengths[name] for name in lengths if op.name in dag.readers(name)]
        along = [axis for axis in op.axes if axis.name == op.scan_axis]
        own_length = math.prod(axis.extent for axis in (*op.reduce_axes, *along))
        length = own_length * max((length for length, _ in readable), default=1)
        lengths[op.name] = length, 1 + max((depth for _, depth in readable), default=0)
    return lengths[dag.op(output).name]


def tolerance(dag: ComputeDAG, output: str, reference: Reference) -> Tolerance:
    """Return the tolerance of the output called `output`, by the formula above."""
    dtype = next(buffer.dtype for buffer in dag.outputs if buffer.name == output)
    floats = _find_float_types(dag)
    if not dtype.is_float:
        share = 1e-3 if _has_near_ties(dag) else 1e-5 if floats else 0.0
        return Tolerance(0.0, 0.0, share)
    length, stages = reduction_length(dag, output)
    epsilon = max(kind.epsilon for kind in floats)
    finite = reference[np.isfinite(reference)]
    scale = math.sqrt(float(np.mean(np.square(finite)))) if finite.size else 0.0
    return Tolerance(
        SAFETY * epsilon * (stages + math.sqrt(length)), scale, smallest=dtype.smallest
    )


def _find_float_types(dag: ComputeDAG) -> set[DType]:
    """The float types that results are rounded to, and those of what integers are made of."""
    kinds = {buffer.dtype for op in dag.ops for buffer in op.buffers}
    for op in dag.ops:
        kinds |= {dtype_of(part) for part in op.nodes() if _computes(part)}
        if not all(buffer.dtype.is_float for buffer in op.buffers):
            kinds |= {buffer.dtype for buffer in op.reads}
    return {dtype for dtype in kinds if dtype.is_float}


def _computes(part: Node) -> TypeGuard[Expr]:
    return isinstance(part, Binary | Call | Cast)


def _has_near_ties(dag: ComputeDAG) -> bool:
    """Whether tuples are chosen among floats that rounding may have put in another order."""
    computed = {b.name for op in dag.ops for b in op.buffers if b.dtype.is_float}
    return any(
        isinstance(op.combiner, Reducer) and any(b.name in computed for b in op.reads)
        for op in dag.ops
    )


def expectations(
    dag: ComputeDAG, references: Sequence[Array], roundings: Sequence[Bound]
) -> list[Expectation]:
    """Return what each output must hold, from `evaluate_with_rounding`, in the order of outputs."""
    expected: list[Expectation] = []
    for buffer, reference, rounding in zip(dag.outputs, references, roundings, strict=True):
        known = reference.astype(np.float64, copy=False) if buffer.dtype.is_float else reference
        expected.append(Expectation(known, tolerance(dag, buffer.name, known), rounding))
    return expected


class Expectation:
    """The expected values of an output, in the form in which they are compared fastest."""

    def __init__(self, reference: Reference, allowed: Tolerance, rounding: Bound = None):
        """`rounding`: a bound of each element's error, if known (`evaluate_with_rounding`)."""
        self._reference = reference
        self._allowed = allowed
        self._per_error: Reference | None = None
        if allowed.relative:
            limit = np.maximum(np.abs(reference), allowed.scale) * allowed.relative
            if rounding is not None:
                limit = np.maximum(limit, SAFETY * rounding)
            least = max(self._allowed.smallest, np.finfo(np.float64).tiny)  # whose inverse exists
            self._per_error = np.reciprocal(limit + least).reshape(-1)

    @property
    def reference(self) -> Reference:
        """The values that the output should hold."""
        return self._reference

    def wrong_places(self, actual: NDArray[np.generic]) -> NDArray[np.int64]:
        """Return the numbers, in memory order, of the elements that are not what they should be."""
        mine, theirs = actual.reshape(-1), self._reference.reshape(-1)
        if self._per_error is None:
            return np.flatnonzero(mine != theirs.astype(mine.dtype))
        with np.errstate(invalid="ignore", over="ignore"):
            return np.flatnonzero(_errors(mine, theirs, self._per_error) > 1.0)

    def compare(self, actual: NDArray[np.generic]) -> Comparison:
        """Compare `actual` with the reference element by element."""
        if self._per_error is None:
            return _compare_exactly(actual, self._reference, self._allowed)
        mine, theirs = actual.reshape(-1), self._reference.reshape(-1)
        worst, offset = 0.0, 0
        with np.errstate(invalid="ignore", over="ignore"):
            for begin in range(0, theirs.size, _CHUNK):
                part = slice(begin, begin + _CHUNK)
                error = _errors(mine[part], theirs[part], self._per_error[part])
                highest = float(error.max())
                if highest > worst:
                    worst, offset = highest, begin + int(np.argmax(error))
        if worst <= 1.0:
            return Comparison(worst)
        return Comparison(worst, _complaint(actual, self._reference, offset, worst))


def _errors(mine: NDArray[np.generic], theirs: Reference, per_error: Reference) -> Reference:
    """Deviations in units of the tolerance; infinite where one side alone is NaN or infinite."""
    error = np.subtract(mine, theirs, dtype=np.float64)
    np.abs(error, out=error)
    error *= per_error
    if math.isfinite(error.max()):
        return error
    got, expected = mine.astype(np.float64), theirs.astype(mine.dtype).astype(np.float64)
    odd = ~np.isfinite(error) | ~np.isfinite(expected)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    # such as 1 / x where x may as well be 0
    anything = (per_error == 0.0) & np.isfinite(theirs)
    error[odd] = np.where(same[odd] | anything[odd], 0.0, np.inf)
    return error


def _compare_exactly(
    actual: NDArray[np.generic], reference: Reference, allowed: Tolerance
) -> Comparison:
    expected = reference.astype(actual.dtype)
    unequal = actual != expected
    share = int(np.count_nonzero(unequal)) / max(actual.size, 1)
    if share <= allowed.unequal_share:
        return Comparison(share)
    offset = int(np.argmax(unequal.reshape(-1)))
    return Comparison(share, _complaint(actual, reference, offset, share))


def _complaint(actual: NDArray[np.generic], reference: Reference, offset: int, worst: float) -> str:
    index = tuple(int(i) for i in np.unravel_index(offset, actual.shape))
    got, wanted = actual.reshape(-1)[offset], reference.reshape(-1)[offset]
    said = f"{wanted:.9g}" if reference.dtype.kind == "f" else f"{wanted}"
    return (
        f"candidate rejected: element {list(index)} is {got}, the float64 reference says "
        f"{said} (error {worst:.3g} x tolerance)"
    )
