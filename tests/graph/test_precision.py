"""The precision of a network as its user chooses it."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import OptionError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.network import Network
from ansorc.graph.operators import OPERATORS
from ansorc.graph.precision import LOOKUPS, STARTS, STATES, choose_precision, with_precision
from ansorc.graph.tensor_type import TensorType
from ansorc.graph.torch.compile_backend import TorchCompileOptions
from ansorc.ir.dtype import FLOAT32, INT32
from tests.graph.onnx.onnx_models import model_of, node
from tests.graph.small_networks import attention_network, residual_network


def masked_network() -> Graph:
    """A product whose scores are masked by numbers that no product makes."""
    b = GraphBuilder("masked")
    x = b.input("x", TensorType(FLOAT32, (4, 4)))
    seen = b.input("seen", TensorType(FLOAT32, (1, 4)))
    mask = b.add("multiply", [b.add("negative", [seen]), b.constant(np.float32(1e30))], "mask")
    scores = b.add("matmul", [x, b.constant(np.eye(4, dtype=np.float32))], "scores")
    return b.graph([b.add("softmax", [b.add("add", [scores, mask], "both")], "y")])


def storage_of(graph: Graph) -> dict[str, str]:
    return {node.name: node.storage for node in graph.nodes}


def test_products_and_what_follows_them_are_narrow() -> None:
    stored = storage_of(with_precision(masked_network(), "f16"))
    assert stored.pop("mask") == ""
    assert stored.pop("negative_2") == ""
    assert set(stored.values()) == {"float16"}


def test_a_sum_with_a_float32_tensor_of_its_size_stays_float32() -> None:
    b = GraphBuilder("stream")
    x = b.input("x", TensorType(FLOAT32, (4, 4)))
    bias = b.constant(np.ones((4, 4), np.float32))
    weight, scale = b.constant(np.eye(4, dtype=np.float32)), b.constant(np.ones(4, np.float32))
    branch = b.add("add", [b.add("matmul", [x, weight], "product"), bias], "branch")
    stream = b.add("add", [x, branch], "stream")
    norm = b.add("rms_norm", [stream, scale], "norm")
    hidden = b.add("relu", [b.add("matmul", [norm, weight], "second")], "hidden")
    stored = storage_of(with_precision(b.graph([b.add("add", [norm, hidden], "y")]), "bf16"))
    assert {name for name, kind in stored.items() if not kind} == {"stream", "norm", "y"}


def test_what_is_looked_up_is_as_narrow_as_the_weights() -> None:
    b = GraphBuilder("words")
    words, x = b.input("words", TensorType(INT32, (3,))), b.input("x", TensorType(FLOAT32, (9, 4)))
    table = b.constant(np.ones((9, 4), np.float32), "table")
    found = b.add("add", [b.add("take", [table, words], "found"), b.add("take", [x, words], "row")])
    graph = with_precision(b.graph([b.add("tanh", [found], "y")]), "bf16")
    assert {name for name, kind in storage_of(graph).items() if kind} == {"found"}
    assert Network.of(graph).graph.constants["table"].dtype.name == "bfloat16"


def test_the_rules_name_operators_that_there_are() -> None:
    assert {*STARTS, *LOOKUPS, *STATES} <= {*OPERATORS}


def test_states_of_recurrent_layers_stay_float32() -> None:
    rng = np.random.default_rng(0)
    weights = {
        name: rng.uniform(-1, 1, shape).astype(np.float32)
        for name, shape in (("w", (1, 16, 6)), ("r", (1, 16, 4)))
    }
    lstm = node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)
    graph = ac.from_onnx(model_of([lstm], {"x": [3, 2, 6]}, ["y"], weights))
    stored = {each.builtin: each.storage for each in with_precision(graph, "bf16").nodes}
    assert stored["lstm_cell"] == ""
    assert stored["dense"] == "bfloat16"


def test_none_leaves_a_network_as_its_file_has_it() -> None:
    graph = with_precision(residual_network(), "bf16")
    assert choose_precision(graph, None) is graph
    assert Network.of(graph).precision == "bf16"
    assert Network.of(with_precision(graph, "f32")).precision == "f32"


def test_kept_nodes_stay_float32_with_their_weights() -> None:
    graph = attention_network()
    kept = with_precision(graph, "bf16", [graph.nodes[0].name])
    assert kept.nodes[0].storage == ""
    *others, last = kept.nodes[1:]
    assert all(node.storage for node in others)
    assert last.storage == ""  # a sum with the input
    weights = Network.of(kept).graph.constants
    assert weights[graph.nodes[0].inputs[1]].dtype == np.float32
    again = choose_precision(with_precision(graph, "bf16"), None, [graph.nodes[0].name])
    assert storage_of(again) == storage_of(kept)


def test_nodes_are_kept_by_their_names_in_the_file() -> None:
    b = GraphBuilder("net")
    x = b.input("x", TensorType(FLOAT32, (4, 4)))
    b.source = "MatMul '/layer/MatMul' (opset 17)"
    y = b.add("matmul", [x, b.constant(np.eye(4, dtype=np.float32))])
    b.source = ""
    graph = b.graph([b.add("softmax", [y])])
    assert storage_of(with_precision(graph, "bf16", ["/layer/MatMul"]))[y] == ""


def test_unknown_names_and_precisions_are_refused() -> None:
    graph = residual_network()
    with pytest.raises(OptionError, match="keep names 'nothing', which no node or tensor"):
        ac.build(graph, precision="bf16", keep=["nothing"])
    with pytest.raises(OptionError, match="no precision 'f8'; use f32, bf16, f16"):
        with_precision(graph, "f8")
    with pytest.raises(OptionError, match=r"no precision 'int8'.*ac.quantize"):
        TorchCompileOptions.of({"precision": "int8"})


def test_an_operator_has_the_dtypes_of_its_tensors() -> None:
    a = ac.placeholder((4, 4), name="a")
    dag = ac.ComputeDAG([a, ac.ops.relu(a)])
    with pytest.raises(OptionError, match="precision and keep are of networks"):
        ac.build(dag, precision="bf16")  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_build_takes_a_precision() -> None:
    graph = residual_network()
    x = np.random.default_rng(0).uniform(-1, 1, (1, 8, 10, 10)).astype(np.float32)
    wide, narrow = ac.build(graph)(x), ac.build(graph, precision="bf16")(x)
    assert narrow.dtype == np.float32
    assert 0 < np.abs(wide - narrow).max() < 2.0**-6 * np.abs(wide).max()


def test_torch_takes_a_precision() -> None:
    assert TorchCompileOptions.of({"precision": "bf16"}).precision == "bf16"
    assert TorchCompileOptions.of({}).precision is None
