"""The check of graphs sees each fault that a pass or the partition could make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ansorc.errors import InternalError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.network import Network
from ansorc.graph.partition import GraphPartition
from ansorc.graph.passes.pipeline import optimize_graph
from ansorc.graph.tensor_type import TensorType
from ansorc.graph.verify import partition_problems, verify_partition, verify_rewrite
from ansorc.ir.dtype import FLOAT32, INT32
from tests.graph.small_networks import NETWORKS

VECTOR = TensorType(FLOAT32, (4,))


def network() -> Graph:
    """y = exp(x) + c, with the exponentials returned, too."""
    builder = GraphBuilder("small")
    x = builder.input("x", VECTOR)
    e = builder.add("exp", [x], "e")
    c = builder.constant(np.arange(4, dtype=np.float32), "c")
    return builder.graph([builder.add("add", [e, c], "y"), e])


def altered(graph: Graph, **changes: Any) -> Graph:
    """The graph with other fields, though it would refuse them."""
    made = object.__new__(Graph)
    for name in ("name", "inputs", "outputs", "constants", "nodes", "types"):
        object.__setattr__(made, name, changes.get(name, getattr(graph, name)))
    return made


def with_node(graph: Graph, place: int, **changes: Any) -> tuple[GraphNode, ...]:
    nodes = list(graph.nodes)
    nodes[place] = replace(nodes[place], **changes)
    return tuple(nodes)


BROKEN: dict[str, Callable[[Graph], Graph]] = {
    "which nothing computes": lambda g: altered(g, nodes=g.nodes[:1]),
    "before it is computed": lambda g: altered(g, nodes=g.nodes[::-1]),
    "two tensors called 'e'": lambda g: altered(g, nodes=with_node(g, 1, outputs=("e",))),
    "two tensors called 'x'": lambda g: altered(g, constants={**g.constants, "x": np.ones(4)}),
    "while exp makes float32[4]": lambda g: altered(
        g, types={**g.types, "e": TensorType(FLOAT32, (2, 2))}
    ),
    "of 2": lambda g: altered(g, outputs=("y",)),
    "to one called 'e'": lambda g: altered(g, outputs=("e", "y")),
    "inputs x: int32[4] of x: float32[4]": lambda g: altered(
        g, inputs={"x": TensorType(INT32, (4,))}
    ),
    "no outputs": lambda g: altered(g, outputs=()),
    "do not lie in order": lambda g: altered(
        g, constants={"c": np.arange(8, dtype=np.float32)[::2]}
    ),
    "with 2 outputs, not 1": lambda g: altered(g, nodes=with_node(g, 0, outputs=("e", "f"))),
    "a type of 'ghost'": lambda g: altered(g, types={**g.types, "ghost": VECTOR}),
    "without a name": lambda g: altered(g, inputs={**g.inputs, "": VECTOR}),
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_broken_graph_is_a_fault_of_ansorc(words: str) -> None:
    graph = network()
    with pytest.raises(InternalError) as error:
        verify_rewrite(graph, BROKEN[words](graph), "some_pass")
    assert words in str(error.value)
    assert "the pass some_pass made" in str(error.value)
    assert "a fault of ansorc" in str(error.value)
    assert 'graph "small"' in str(error.value) or "graph small" in str(error.value)


def test_an_output_may_be_a_dtype_or_shape_of_no_other() -> None:
    graph = network()
    cast = GraphBuilder("small")
    x = cast.input("x", VECTOR)
    y = cast.add("cast", [x], "y", dtype="int32")
    other = cast.graph([y, cast.add("exp", [x], "e")])
    with pytest.raises(InternalError, match=r"the output 'y', float32\[4\], to int32\[4\]"):
        verify_rewrite(graph, other, "some_pass")


def test_a_graph_is_as_good_as_itself() -> None:
    for graph in (network(), *(make() for make in NETWORKS.values())):
        verify_rewrite(graph, graph, "none")


def test_every_pass_is_followed_by_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(graph: Graph) -> Graph:
        return replace(graph, outputs=graph.outputs[::-1])

    swap, restore = ("swap", swapped), ("restore", swapped)
    monkeypatch.setenv("ANSORC_VERIFY_EACH", "0")
    assert optimize_graph(network(), (swap, restore)).outputs == ("y", "e")
    with pytest.raises(InternalError, match="the pass swap made"):
        optimize_graph(network(), (swap,))
    monkeypatch.setenv("ANSORC_VERIFY_EACH", "1")
    with pytest.raises(InternalError, match="the pass swap made"):
        optimize_graph(network(), (swap, restore))


def test_a_pass_that_fails_is_a_fault_of_ansorc() -> None:
    def stumble(graph: Graph) -> Graph:
        raise TypeError(f"unsupported operand of {graph.name}")

    with pytest.raises(InternalError, match="the pass stumble failed: TypeError: unsupported"):
        optimize_graph(network(), (("stumble", stumble),))


def broken_partitions(graph: Graph, cut: GraphPartition) -> dict[str, GraphPartition]:
    first, *rest = cut.groups
    return {
        "none writes the output 'y'": replace(cut, groups=(first,)),
        "before it is computed": replace(cut, groups=(*rest, first)),
        "a second time": replace(cut, groups=(first, first, *rest)),
        "which it does not read": replace(
            cut, groups=(first, *(replace(one, inputs=()) for one in rest))
        ),
        "but does not compute it": replace(
            cut, groups=(first, *(replace(one, nodes=()) for one in rest))
        ),
        "shares its memory with another": replace(cut, aliases={"y": "e"}),
        "which is of another size": replace(cut, aliases={"scale": "e"}),
    }


def test_broken_kernels_are_a_fault_of_ansorc() -> None:
    builder = GraphBuilder("small")
    x = builder.input("x", VECTOR)
    e = builder.add("exp", [x], "e")
    scale = builder.constant(np.float32(2), "scale")
    y = builder.add("multiply", [builder.add("sum", [e], keepdims=True), scale], "y")
    graph = builder.graph([e, y])
    cut = Network.of(graph).partition
    assert len(cut.groups) == 2
    assert list(partition_problems(graph, cut)) == []
    for words, broken in broken_partitions(graph, cut).items():
        with pytest.raises(InternalError) as error:
            verify_partition(graph, broken)
        assert words in str(error.value)
