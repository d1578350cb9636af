"""Tensors between kernels in 16 bits: which they are, and what that does to the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import GraphError, ParseError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.precision import with_precision
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT16, FLOAT32
from tests.graph.onnx.random_onnx import random_network
from tests.graph.small_networks import attention_network, residual_network
from tests.support.narrow_kernels import SPR, ZEN3
from tests.support.nightly import sampled

EPSILON = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""The largest relative error of one rounding, times 2."""


def draw_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.uniform(-1, 1, kind.shape).astype(kind.dtype.numpy)
        for name, kind in graph.inputs.items()
    }


def keep_all(graph: Graph, storage: str) -> Graph:
    """Every float32 tensor between two kernels in 16 bits, whatever it is."""
    floats = [any(graph.types[n].dtype == FLOAT32 for n in node.outputs) for node in graph.nodes]
    pairs = zip(graph.nodes, floats, strict=True)
    return graph.with_nodes(
        tuple(replace(node, storage=storage if is_float else "") for node, is_float in pairs)
    )


def edge_types(network: Network) -> dict[str, str]:
    groups = network.partition.groups
    return {n: str(network.graph.types[n].dtype) for group in groups for n in group.outputs}


def errors_of(
    graph: Graph, stored: Graph, inputs: dict[str, Array], *, is_built: bool
) -> Iterator[tuple[float, float]]:
    """Yield the error of each float output, and how far machine code is from its emulation."""
    exact = run_reference(graph, inputs)
    rewritten = Network.of(stored).graph
    rounded = list(run_reference(rewritten, inputs, None).values())
    found = ac.build(stored).run(inputs) if is_built else dict(zip(exact, rounded, strict=True))
    for (name, reference), emulated in zip(exact.items(), rounded, strict=True):
        if np.issubdtype(reference.dtype, np.floating):
            size = np.abs(reference).max(initial=1.0)
            values = [array.astype(np.float64) for array in (found[name], emulated)]
            yield (
                np.abs(values[0] - reference).max() / size,
                np.abs(values[0] - values[1]).max() / size,
            )


@pytest.mark.parametrize(("make", "wide"), [(residual_network, 2), (attention_network, 0)])
@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_layers_are_narrow_between_kernels_and_right(
    make: Callable[[], Graph], wide: int, precision: str
) -> None:
    graph = make()
    stored = with_precision(graph, precision)
    network = Network.of(stored)
    narrow = {"bf16": "bfloat16", "f16": "float16"}[precision]
    *inner, last = edge_types(network).values()
    assert inner == [narrow] * (len(inner) - wide) + ["float32"] * wide  # a sum with the input
    assert last == "float32"  # the network's output
    for error, apart in errors_of(graph, stored, draw_inputs(graph), is_built=True):
        assert error < 4 * EPSILON[narrow]
        assert apart < EPSILON[narrow] / 2


def test_a_network_in_float32_is_the_one_that_it_was() -> None:
    graph = residual_network()
    wide = with_precision(keep_all(graph, "float16"), "f32")
    assert Network.of(wide).tasks.keys() == Network.of(graph).tasks.keys()
    assert set(edge_types(Network.of(graph)).values()) == {"float32"}


def test_weights_are_narrow_and_vectors_are_not() -> None:
    graph = with_precision(residual_network(), "bf16")
    assert weight_types(graph, SPR) == {(4, "bfloat16"), (2, "bfloat16"), (1, "float32")}


def test_weights_of_three_taps_stay_wide_without_an_instruction() -> None:
    graph = with_precision(residual_network(), "bf16")
    assert weight_types(graph, ZEN3) == {(4, "float32"), (2, "bfloat16"), (1, "float32")}
    assert (4, "float16") in weight_types(with_precision(graph, "f16"), "cuda -arch=sm_80")


def weight_types(graph: Graph, target: str) -> set[tuple[int, str]]:
    constants = Network.of(graph, target).graph.constants.values()
    return {(len(array.shape), array.dtype.name) for array in constants}


def test_products_read_narrow_operands_as_they_are() -> None:
    network = Network.of(with_precision(residual_network(), "bf16"), SPR)
    products = [n for n in network.graph.nodes if n.builtin in ("conv2d", "matmul")]
    assert [dict(node.attributes)["sum_dtype"] for node in products] == ["float32"] * 3
    narrow = [[str(network.graph.types[n].dtype) for n in node.inputs] for node in products]
    assert narrow == [["float32", "bfloat16"], ["bfloat16"] * 2, ["bfloat16"] * 2]


def float32_stream(*, is_post_norm: bool) -> Graph:
    """A product, added to a float32 tensor and normalised; another product reads that in a view."""
    b = GraphBuilder("stream")
    x = b.input("x", TensorType(FLOAT32, (2, 4, 16)))
    w, scale = b.constant(np.eye(16, dtype=np.float32)), b.constant(np.ones(16, np.float32))
    stream = b.add("add", [x, b.add("matmul", [x, w])], "stream")
    norm = b.add("rms_norm", [stream, scale], "norm")
    rows = b.add("matmul", [b.add("reshape", [norm], shape=[8, 16]), w], "rows")
    branch = b.add("reshape", [b.add("relu", [rows])], shape=[2, 4, 16])
    return b.graph([b.add("add", [norm if is_post_norm else stream, branch], "y")])


@pytest.mark.parametrize("is_post_norm", [False, True])
def test_instructions_multiply_what_a_kernel_computes_in_float32(*, is_post_norm: bool) -> None:
    graph = float32_stream(is_post_norm=is_post_norm)
    stored = with_precision(graph, "bf16")
    network = Network.of(stored, SPR)
    types, edges = network.graph.types, edge_types(network)
    factors = [n.inputs for n in network.graph.nodes if n.builtin == "matmul"][1]
    assert [str(types[name].dtype) for name in factors] == ["bfloat16"] * 2
    assert edges["norm.bfloat16"] == "bfloat16"
    assert ("norm" in edges) == is_post_norm
    assert edges["stream"] == "float32"
    inputs = draw_inputs(graph)
    (wanted,), (found,) = (
        run_reference(each, inputs, None).values() for each in (graph, network.graph)
    )
    assert 0 < np.abs(found - wanted).max() < 3 * EPSILON["bfloat16"] * np.abs(wanted).max()
    without = Network.of(stored, ZEN3)
    assert edge_types(without)["norm"] == "float32"
    assert not any(name.startswith("norm.") for name in without.graph.types)


def test_elements_that_only_move_are_not_converted() -> None:
    b = GraphBuilder("moves")
    x = b.input("x", TensorType(FLOAT32, (4, 6)))
    w = b.constant(np.ones((6, 6), np.float32))
    y = b.add("matmul", [x, w])
    z = b.add("matmul", [b.add("relu", [y]), w])
    both = b.add("concat", [b.add("softmax", [y]), b.add("softmax", [z])], axis=0)
    graph = b.graph([b.add("max", [b.add("pad", [both], before=[1, 0], after=[0, 0])], "top")])
    network = Network.of(with_precision(graph, "bf16"))
    moved = [n for n in network.graph.nodes if n.builtin in ("concat", "pad")]
    assert {str(network.graph.types[node.name].dtype) for node in moved} == {"bfloat16"}


def test_a_tensor_that_is_also_an_output_stays_float32() -> None:
    b = GraphBuilder("net")
    x = b.input("x", TensorType(FLOAT32, (4, 4)))
    y = b.add("matmul", [x, b.constant(np.eye(4, dtype=np.float32))], "y")
    graph = b.graph([y, b.add("softmax", [y], "z")])
    assert set(edge_types(Network.of(with_precision(graph, "f16"))).values()) == {"float32"}


def test_inputs_of_16_bits_are_read_without_a_kernel_of_their_own() -> None:
    b = GraphBuilder("net")
    x = b.input("x", TensorType(FLOAT16, (4, 4)))
    wide = b.add("cast", [x], dtype="float32")
    b.keep_as(wide, "float16")
    product = b.add("matmul", [wide, b.constant(np.eye(4, dtype=np.float32))], "y")
    b.keep_as(product, "float16")
    network = Network.of(b.graph([product]))
    (group,) = network.partition.groups
    assert group.inputs[0] == "x"
    assert [node.builtin for node in group.nodes] == ["matmul"]


def test_weights_beyond_the_range_are_refused() -> None:
    b = GraphBuilder("net")
    x = b.input("x", TensorType(FLOAT32, (4, 4)))
    y = b.add("matmul", [x, b.constant(np.full((4, 4), 1e6, np.float32), "w")], "y")
    graph = with_precision(b.graph([b.add("relu", [y])]), "f16")
    with pytest.raises(GraphError, match=r"weight 'w' has elements of up to 1e\+06, and float16"):
        Network.of(graph)
    assert Network.of(with_precision(graph, "bf16"))


def test_the_text_of_a_graph_says_how_tensors_are_kept() -> None:
    graph = with_precision(attention_network(), "bf16")
    text = graph.to_text()
    assert " as bfloat16" in text
    read = Graph.from_text(text, graph.constants)
    assert [node.storage for node in read.nodes] == [node.storage for node in graph.nodes]
    with pytest.raises(ParseError, match="expected float16 or bfloat16"):
        Graph.from_text(text.replace("as bfloat16", "as int8"), graph.constants)


@pytest.mark.parametrize("first", sampled(range(0, 400, 20), (0, 40)))
def test_random_networks_err_by_roundings_alone(first: int) -> None:
    """No more than a few roundings of the largest element: the networks are not deep."""
    for seed in range(first, first + 20):
        model, inputs = random_network(seed)
        graph = ac.from_onnx(model)
        given = {name: array for name, array in inputs.items() if name in graph.inputs}
        for storage, epsilon in EPSILON.items():
            stored, is_built = keep_all(graph, storage), seed % 20 == 0
            for error, apart in errors_of(graph, stored, given, is_built=is_built):
                assert error <= 4 * epsilon, (seed, storage)
                assert apart <= epsilon, (seed, storage)
