"""The reference results of a graph, computed node by node by NumPy in double precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from ansorc.errors import GraphError
from ansorc.graph.graph import Graph
from ansorc.ir.aligned import Array
from ansorc.lang.reference import evaluate


def run_reference(
    graph: Graph, inputs: Mapping[str, Array], dtype: type[np.floating[Any]] | None = np.float64
) -> dict[str, Array]:
    """Return the outputs of `graph`, floats in `dtype` (integers and bools in their own).

    None for `dtype`: each float in its own, rounded as `evaluate` says.

    Raise GraphError where inputs are missing, LanguageError where their shapes do not fit.
    """
    missing = [name for name in graph.inputs if name not in inputs]
    if missing:
        raise GraphError(f"'{graph.name}' needs the input '{missing[0]}'")
    left = Counter(name for node in graph.nodes for name in node.inputs)
    values: dict[str, Array] = {**graph.constants, **{name: inputs[name] for name in graph.inputs}}
    for node in graph.nodes:
        results = evaluate(node.dag(graph.types), [values[name] for name in node.inputs], dtype)
        values.update(zip(node.outputs, results, strict=True))
        for name in node.inputs:  # what is not read again is freed
            left[name] -= 1
            if not left[name] and name not in graph.outputs:
                values.pop(name, None)
    return {name: values[name] for name in graph.outputs}
