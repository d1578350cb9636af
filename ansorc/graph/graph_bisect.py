"""Find the rewrite that makes a network wrong: the reference after each, against the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.passes.pipeline import optimize_graph
from ansorc.graph.random_inputs import random_inputs
from ansorc.ir.aligned import Array

TOLERANCE = 1e-4
"""Allow this share of an output's largest element: folded constants are rounded to float32."""


@dataclass(frozen=True)
class GraphStage:
    """A network on its way through the rewrites."""

    name: str
    """The name of the rewrite that made it."""
    graph: Graph


def bisect_rewrites(
    graph: Graph, on_run: Callable[[GraphStage, str], None] = lambda _, __: None
) -> tuple[GraphStage | None, str]:
    """Return the first rewrite after which `graph` computes something else, and the difference.

    Return None and "" if all are right. Each stage is computed node by node in float64; `on_run` is
    called for each stage that was. Raise InternalError for a rewrite that fails.
    """
    stages: list[GraphStage] = []
    optimize_graph(graph, trace=lambda name, made: stages.append(GraphStage(name, made)))
    inputs = random_inputs(graph)
    expected = run_reference(graph, inputs)

    def complaint(stage: GraphStage) -> str:
        computed = run_reference(stage.graph, inputs)
        pairs = zip(expected.items(), stage.graph.outputs, strict=True)
        words = next(
            filter(None, (_difference(name, e, computed[new]) for (name, e), new in pairs)), ""
        )
        on_run(stage, words)
        return words

    words = complaint(stages[-1])
    if not words:
        return None, ""
    low, high = -1, len(stages) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if difference := complaint(stages[middle]):
            high, words = middle, difference
        else:
            low = middle
    return stages[high], words


def _difference(name: str, expected: Array, computed: Array) -> str:
    """Return how an output differs from the expected one; "" if it does not."""
    if computed.shape != expected.shape:
        return f"'{name}' has the shape {computed.shape}, not {expected.shape}"
    same = computed == expected
    if expected.dtype.kind == "f":
        largest = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=1e-30))
        with np.errstate(invalid="ignore"):
            same |= np.abs(computed - expected) <= TOLERANCE * largest
        same |= np.isnan(computed) & np.isnan(expected)
    wrong = np.argwhere(~same)
    if not len(wrong):
        return ""
    index = tuple(int(i) for i in wrong[0])
    return (
        f"{len(wrong)} of {expected.size} elements of '{name}' differ; at {list(index)} it is "
        f"{computed[index]:.9g}, not {expected[index]:.9g}"
    )
