"""Known updates go to the places that the definitions of the scatters give them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import OutOfRangeError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.node_values import node_values
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.lang.reference import evaluate
from tests.graph.onnx.onnx_models import model_of, node

WAYS = ("none", "add", "mul", "max", "min")
KINDS = ("float32", "float64", "int8", "int64", "uint8")
PAIRS = [("none", "bool"), *((way, kind) for way in WAYS for kind in KINDS)]


def drawn(rng: np.random.Generator, kind: str, shape: Sequence[int]) -> Array:
    """Small numbers, floats also infinite and NaN."""
    if kind.startswith("float"):
        special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], shape)
        return np.where(rng.random(shape) < 0.1, special, rng.normal(0, 9, shape)).astype(kind)
    return rng.integers(0, 100, shape).astype(kind)


def both_ways(operator: str, inputs: Sequence[Array], **given: Any) -> tuple[Array, Array]:
    """What is folded, and what the definition makes of the same."""
    builder = GraphBuilder("known")
    names = [builder.input(f"x{n}", TensorType.of_array(one)) for n, one in enumerate(inputs)]
    graph = builder.graph([builder.add(operator, names, "y", **given)])
    (made,) = graph.nodes
    (found,) = node_values(made, graph.types, inputs)
    (wanted,) = evaluate(made.dag(graph.types), inputs, None)
    return found, wanted


@pytest.mark.parametrize(("combine", "kind"), PAIRS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements(combine: str, kind: str, axis: int) -> None:
    rng = np.random.default_rng(len(combine) + 10 * (axis + 1))
    shape = [[2, 3, 4], [7, 2, 4], [2, 3, 9]][axis]
    indices = rng.integers(-[5, 3, 4][axis], [5, 3, 4][axis], shape).astype(np.int32)
    inputs = [drawn(rng, kind, (5, 3, 4)), indices, drawn(rng, kind, shape)]
    found, wanted = both_ways("scatter_elements", inputs, axis=axis, combine=combine)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("combine", "kind"), PAIRS)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_slices(combine: str, kind: str, depth: int) -> None:
    rng, shape = np.random.default_rng(len(combine) + 10 * depth), (3, 4, 2)
    ends = np.array(shape[:depth])
    inputs = [
        drawn(rng, kind, shape),
        rng.integers(-ends, ends, (11, depth)),
        drawn(rng, kind, (11, *shape[depth:])),
    ]
    found, wanted = both_ways("scatter_nd", inputs, combine=combine)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("wrong", "from_end"), [(5, True), (-6, True), (-1, False)])
def test_a_place_that_there_is_not(wrong: int, from_end: bool) -> None:  # noqa: FBT001
    inputs = [np.zeros(5), np.array([0, wrong, 2]), np.ones(3)]
    builder = GraphBuilder("known")
    names = [builder.input(f"x{n}", TensorType.of_array(one)) for n, one in enumerate(inputs)]
    graph = builder.graph([builder.add("scatter_elements", names, "y", from_end=from_end)])
    (made,) = graph.nodes
    with pytest.raises(OutOfRangeError) as wanted:
        evaluate(made.dag(graph.types), inputs, None)
    with pytest.raises(OutOfRangeError) as found:
        node_values(made, graph.types, inputs)
    assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_many_known_updates_take_no_time(reduction: str) -> None:
    rng, count = np.random.default_rng(0), 200_000
    known: dict[str, Array] = {
        "data": rng.integers(0, 9, count).astype(np.float32),
        "places": rng.integers(0, count, count),
        "updates": rng.integers(0, 9, count).astype(np.float32),
    }
    made = node("ScatterElements", list(known), ["z"], reduction=reduction)
    nodes = [made, node("Add", ["x", "z"], ["y"])]
    begin = time.process_time()
    graph = ac.from_onnx(model_of(nodes, {"x": (count,)}, ["y"], known, opset=18))
    assert time.process_time() - begin < 5
    wanted = known["data"].copy()
    if reduction == "add":
        np.add.at(wanted, known["places"], known["updates"])
    else:
        wanted[known["places"]] = known["updates"]
    (found,) = graph.constants.values()
    np.testing.assert_array_equal(found, wanted)
