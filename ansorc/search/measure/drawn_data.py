"""Data to measure a task with: values that its definition can use, or those that the user gives.

Floats are uniform in [-1, 1), so that sums cancel and a wrong sign shows; integers are -4 to 4.
What says places of a tensor is drawn over all of that (`ansorc/lang/wanted_values.py`), what was
declared with a range within that, and sorted if that was declared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from ansorc.errors import FaultError, LanguageError, MeasureError, OptionError
from ansorc.ir.aligned import Array
from ansorc.ir.buffer import Buffer
from ansorc.ir.complex_view import is_complex_array, view_parts
from ansorc.ir.dtype import DType, Kind
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import all_tensors
from ansorc.lang.wanted_values import Span, find_wanted_values

Inputs = Mapping[str, Array]
POSITIVE = 0.1
"""The least float of those that are drawn above 0."""
_MARGIN = 1e-3
"""The share of a range of floats at its upper end that is left out: rounding may leave it."""


def draw_data(
    dag: ComputeDAG, rng: np.random.Generator, given: Inputs
) -> tuple[list[Array], dict[str, Array]]:
    """Return the inputs of `dag`, those that are `given` by name, and all that follows from them.

    Where those give NaN (a logarithm, a variance) or are refused (a divisor of 0, an assertion) all
    are drawn again above 0: floats from [0.1, 1), integers from 1 to 4. Raise MeasureError if that
    is refused, too, or reads outside of a tensor.
    """
    spans = value_spans(dag)
    try:
        data = _draw(dag, -1.0, spans, rng, given)
    except MeasureError as refusal:
        try:
            return _draw(dag, POSITIVE, spans, rng, given)
        except MeasureError:
            raise refusal from None
    if not any(np.isnan(data[1][buffer.name]).any() for buffer in dag.outputs):
        return data
    try:
        return _draw(dag, POSITIVE, spans, rng, given)
    except MeasureError:
        return data


def _draw(
    dag: ComputeDAG, low: float, spans: Mapping[str, Span], rng: np.random.Generator, given: Inputs
) -> tuple[list[Array], dict[str, Array]]:
    try:
        inputs = [
            given[b.name] if b.name in given else draw_array(b, low, spans.get(b.name), rng)
            for b in dag.inputs
        ]
        return inputs, _compute_tensors(dag, inputs, given)
    except MemoryError as error:
        buffers = [*dag.inputs, *(buffer for op in dag.ops for buffer in op.buffers)]
        size = sum(buffer.bytes for buffer in buffers) / 2**30
        raise MeasureError(
            f"the arrays of this program take {size:.3g} GiB, and more to check them in float64, "
            f"which this machine has no memory for ({error}); tune it at a smaller size"
        ) from error


def _compute_tensors(dag: ComputeDAG, inputs: Sequence[Array], given: Inputs) -> dict[str, Array]:
    try:
        return all_tensors(dag, inputs)
    except (LanguageError, FaultError) as error:
        if all(buffer.name in given for buffer in dag.inputs):
            raise MeasureError(
                f"the definition refuses the inputs that are given: {error}"
            ) from error
        raise MeasureError(
            f"no data that fits the definition can be drawn: {error}; say what values an input has "
            "by ac.placeholder(…, range=(low, high), sorted=…), or give arrays by "
            "ac.tune(…, inputs={name: array}), --inputs file.npz"
        ) from error


def value_spans(dag: ComputeDAG) -> dict[str, Span]:
    """Return the least and the largest value of those inputs that are not drawn as others are."""
    spans = find_wanted_values(dag)
    for buffer in dag.inputs:
        if buffer.promised is None:
            continue
        wanted = spans.get(buffer.name, buffer.promised)
        both = max(wanted[0], buffer.promised[0]), min(wanted[1], buffer.promised[1])
        spans[buffer.name] = both if both[0] <= both[1] else buffer.promised
    return spans


def draw_array(buffer: Buffer, low: float, span: Span | None, rng: np.random.Generator) -> Array:
    """Return random values of an input; floats from `low` to 1 where there is no `span`.

    Integers are above 0 if `low` is.
    """
    if span is None or not all(map(math.isfinite, span)):
        values = _usual(buffer.shape, buffer.dtype, low, rng)
    elif buffer.dtype.is_float:
        width = (span[1] - span[0]) * (1 - _MARGIN)
        values = rng.uniform(span[0], span[0] + width, buffer.shape).astype(buffer.dtype.numpy)
    else:
        dtype = np.uint64 if span[1] >= 2**63 else np.int64
        values = rng.integers(int(span[0]), int(span[1]), buffer.shape, dtype, endpoint=True)
        values = values.astype(buffer.dtype.numpy)
    return np.sort(values, axis=-1) if buffer.is_sorted else values


def _usual(shape: tuple[int, ...], dtype: DType, low: float, rng: np.random.Generator) -> Array:
    match dtype.kind:
        case Kind.FLOAT | Kind.BFLOAT:
            return rng.uniform(low, 1.0, shape).astype(dtype.numpy)
        case Kind.INT:
            return rng.integers(1 if low > 0 else -4, 5, shape).astype(dtype.numpy)
        case Kind.UINT:
            return rng.integers(1 if low > 0 else 0, 5, shape).astype(dtype.numpy)
        case Kind.BOOL:
            return rng.integers(0, 2, shape).astype(dtype.numpy)


def describe_data(dag: ComputeDAG, given: Inputs) -> str:
    """Return which data a task is measured with, for its records; "" where it is all as usual."""
    parts: list[str] = []
    spans = value_spans(dag)
    for buffer in dag.inputs:
        name = buffer.name
        if name in given:
            digest = hashlib.sha256(np.ascontiguousarray(given[name]).tobytes()).hexdigest()[:8]
            parts.append(f"{name} given ({digest})")
        elif name in spans:
            ends = "{:g} to {:g}" if buffer.dtype.is_float else "{:.0f} to {:.0f}"
            parts.append(f"{name} {ends.format(*spans[name])}{' sorted' * buffer.is_sorted}")
        elif buffer.is_sorted:
            parts.append(f"{name} sorted")
    return "; ".join(parts)


def require_inputs(dags: Iterable[ComputeDAG], given: Mapping[str, object]) -> dict[str, Array]:
    """Return the arrays that are `given`; raise OptionError unless each is an input of all `dags`
    that have one of its name."""
    arrays: dict[str, Array] = {}
    known: dict[str, list[Buffer]] = {}
    for dag in dags:
        for buffer in dag.inputs:
            known.setdefault(buffer.name, []).append(buffer)
    for name, value in given.items():
        if name not in known:
            names = ", ".join(f"'{each}'" for each in known) or "none"
            raise OptionError(f"inputs: there is no input '{name}'; there are {names}")
        if not isinstance(value, (np.ndarray, np.generic)):
            kind = type(value).__name__
            raise OptionError(f"inputs: '{name}' is a {kind}; it must be a NumPy array")
        array = np.asarray(cast(Array, value))
        if is_complex_array(array) and array.ndim and known[name][0].is_complex:
            array = view_parts(np.ascontiguousarray(array))
        for buffer in known[name]:
            if array.shape != buffer.shape or array.dtype != buffer.dtype.numpy:
                raise OptionError(
                    f"inputs: '{name}' is {array.dtype}{list(array.shape)}, but the definition "
                    f"has {buffer.dtype}{list(buffer.shape)}"
                )
            if buffer.is_sorted and np.any(array[..., 1:] < array[..., :-1]):
                raise OptionError(
                    f"inputs: '{name}' was declared with sorted=True, but an element is less than "
                    "the one before it; sort the array, or leave out sorted=True"
                )
        arrays[name] = np.asarray(array, order="C")
    return arrays
