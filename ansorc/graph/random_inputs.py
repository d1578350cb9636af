"""Inputs of a network for checks and timings: always the same random ones, or those given."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ansorc.errors import GraphError
from ansorc.graph.graph import Graph
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.lang.wanted_values import Span, find_wanted_values

_SEED, _LARGEST_INTEGER = 1, 100
"""Other inputs than those of the tuning; integers are mostly indices, and small ones exist."""


def random_inputs(graph: Graph, given: Mapping[str, Array] | None = None) -> dict[str, Array]:
    """Return random inputs: normal floats, small integers, truth values.

    Inputs that index a tensor are drawn over all of it. `given` are inputs by their names that are
    not random. Raise GraphError where they are no inputs, or do not fit.
    """
    known, rng = _check(graph, given or {}), np.random.default_rng(_SEED)
    spans, arrays = find_index_ranges(graph), dict[str, Array]()
    for name, kind in graph.inputs.items():
        drawn = _draw(kind, spans.get(name), rng)  # so that the others are what they always are
        arrays[name] = known.get(name, drawn)
    return arrays


def find_index_ranges(graph: Graph) -> dict[str, Span]:
    """Return the range of values of the inputs that index a tensor, by their names."""
    wanted = dict[str, Span]()
    for node in reversed(graph.nodes):
        dag = node.dag(graph.types)
        pairs = zip(dag.outputs, node.outputs, strict=True)
        outputs = {buffer.name: wanted[name] for buffer, name in pairs if name in wanted}
        spans = find_wanted_values(dag, outputs)
        for buffer, name in zip(dag.inputs, node.inputs, strict=True):
            if buffer.name in spans:
                wanted[name] = _common(wanted.get(name), spans[buffer.name])
    return {name: span for name, span in wanted.items() if name in graph.inputs}


def _common(known: Span | None, span: Span) -> Span:
    if known is None:
        return span
    both = max(known[0], span[0]), min(known[1], span[1])
    return both if both[0] <= both[1] else span


def _draw(kind: TensorType, span: Span | None, rng: np.random.Generator) -> Array:
    if kind.dtype.is_float:
        if span is not None and all(map(math.isfinite, span)):
            return rng.uniform(*span, kind.shape).astype(kind.dtype.numpy)
        return rng.standard_normal(kind.shape).astype(kind.dtype.numpy)
    low, most = 0, 2 if kind.dtype.is_bool else _LARGEST_INTEGER
    if span is not None and all(map(math.isfinite, span)) and not kind.dtype.is_bool:
        low, most = int(span[0]), int(span[1]) + 1
    return rng.integers(low, most, kind.shape).astype(kind.dtype.numpy)


def _check(graph: Graph, given: Mapping[str, Array]) -> dict[str, Array]:
    for name, array in given.items():
        kind = graph.inputs.get(name)
        if kind is None:
            known = ", ".join(f"'{each}'" for each in graph.inputs)
            raise GraphError(f"inputs: '{graph.name}' has no input '{name}'; it has {known}")
        if array.shape != kind.shape or array.dtype != kind.dtype.numpy:
            actual = f"{array.dtype}{list(array.shape)}"
            raise GraphError(f"inputs: '{name}' is {actual}, but '{graph.name}' takes {kind}")
    return dict(given)
