"""What is computed at import, and by whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.onnx.folding import Folding
from ansorc.graph.onnx.model import load_onnx
from ansorc.ir.aligned import Array
from tests.graph.onnx.onnx_peer import run_onnx_runtime

node: Any = helper.make_node


def folded(
    nodes: Sequence[onnx.NodeProto], weights: Mapping[str, Any], opset: int = 21
) -> dict[str, Array]:
    """Return the outputs of the last node, all of which are known."""
    graph = ac.from_onnx(model_of(nodes, weights, opset))
    assert not graph.nodes
    return {name: graph.constants[name] for name in graph.outputs}


def model_of(
    nodes: Sequence[onnx.NodeProto], weights: Mapping[str, Any], opset: int = 21
) -> onnx.ModelProto:
    outputs = [helper.make_empty_tensor_value_info(name) for name in nodes[-1].output if name]
    arrays = [numpy_helper.from_array(np.asarray(one), name) for name, one in weights.items()]
    graph = helper.make_graph(list(nodes), "net", [], outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("opset", [7, 11, 12])
def test_softmax_of_all_dimensions_from_the_axis_on(opset: int) -> None:
    (found,) = folded([node("Softmax", ["x"], ["y"], axis=1)], {"x": X}, opset).values()
    flat = np.exp(X.astype(float).reshape(2, 12))
    wanted = (flat / flat.sum(1, keepdims=True)).reshape(X.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_conversions_out_of_range_give_the_nearest_integer() -> None:
    x = np.array([3e9, -3e9, np.nan, np.inf, 300.7, -0.9], np.float32)
    cast = node("Cast", ["x"], ["y"], to=TensorProto.INT32)
    (found,) = folded([cast], {"x": x}).values()
    high, low = 2**31 - 1, -(2**31)
    assert found.tolist() == [high, low, 0, high, 300, 0]


def test_floats_of_16_bits_are_computed_in_float32_also_when_known() -> None:
    nodes = [
        node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        node("Mul", ["h", "h"], ["m"]),
        node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
    ]
    x = np.array([1000.0, 0.1], np.float32)
    (found,) = folded(nodes, {"x": x}).values()
    narrow = x.astype(np.float16).astype(np.float32)  # the conversion rounds, the product does not
    np.testing.assert_array_equal(found, narrow * narrow)


@pytest.mark.parametrize(
    ("inputs", "words"), [(["x", "r", "t"], "it is in training mode")], ids=["dropout"]
)
def test_what_is_refused_of_inputs_is_refused_of_constants(inputs: list[str], words: str) -> None:
    weights = {"x": X, "r": np.float32(0.5), "t": np.array(True)}
    with pytest.raises(GraphError, match=words):
        folded([node("Dropout", inputs, ["y"])], weights)


def test_numbers_of_4_bits_are_still_unpacked() -> None:
    x = np.array([[-8, 7, 3], [1, 0, -1]]).astype(ml_dtypes.int4)
    weights = {"x": x, "s": np.float32(0.5), "z": np.array(1).astype(ml_dtypes.int4)}
    (found,) = folded([node("DequantizeLinear", ["x", "s", "z"], ["y"])], weights).values()
    np.testing.assert_array_equal(found, (x.astype(np.float32) - 1) * 0.5)


def test_text_is_still_compared_and_moved() -> None:
    words = np.array(["a", "b", "a"], object)
    nodes = [node("Equal", ["w", "v"], ["e"]), node("Cast", ["e"], ["y"], to=TensorProto.INT32)]
    (found,) = folded(nodes, {"w": words, "v": np.array(["a"], object)}).values()
    assert found.tolist() == [1, 0, 1]


EMPTY = np.zeros((0, 3), np.float32)
OF_NOTHING: dict[str, tuple[onnx.NodeProto, Mapping[str, Any]]] = {
    "a sum": (node("ReduceSum", ["x", "a"], ["y"], keepdims=0), {"x": EMPTY, "a": np.array([0])}),
    "a product": (
        node("ReduceProd", ["x", "a"], ["y"], keepdims=0), {"x": EMPTY, "a": np.array([0])},
    ),
    "a join": (node("Concat", ["x", "z"], ["y"], axis=0), {"x": EMPTY, "z": np.ones((2, 3), "f")}),
    "a shape": (node("Shape", ["x"], ["y"]), {"x": EMPTY}),
    "a size": (node("Size", ["x"], ["y"]), {"x": EMPTY}),
    "a scalar": (
        node("Reshape", ["x", "s"], ["y"]), {"x": np.ones((1, 1), "f"), "s": np.zeros(0, int)},
    ),
    "one of no places": (
        node("Expand", ["x", "s"], ["y"]), {"x": np.float32(2), "s": np.zeros(0, int)},
    ),
    "padded": (
        node("Pad", ["x", "p"], ["y"]), {"x": EMPTY, "p": np.array([1, 0, 0, 0])},
    ),
    "a product of matrices": (
        node("MatMul", ["x", "z"], ["y"]), {"x": np.ones((2, 0), "f"), "z": np.ones((0, 3), "f")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_NOTHING)
def test_tensors_without_elements(what: str) -> None:
    step, weights = OF_NOTHING[what]
    (found,) = folded([step], weights).values()
    (theirs,) = run_onnx_runtime(model_of([step], weights), {})
    assert found.shape == theirs.shape
    np.testing.assert_array_equal(found, theirs)


@pytest.mark.parametrize(
    ("start", "limit", "step", "kind"),
    [(0, 5, 2, np.int64), (5, 0, -2, np.int32), (0, 1, 0.1, np.float32), (3, 3, 1, np.int64)],
)
def test_ranges(start: float, limit: float, step: float, kind: Any) -> None:
    weights = {n: np.array(v, kind) for n, v in zip("abc", (start, limit, step), strict=True)}
    nodes = [node("Range", list("abc"), ["r"]), node("Concat", ["r", "a1"], ["y"], axis=0)]
    (found,) = folded(nodes, {**weights, "a1": np.array([7], kind)}).values()
    wanted = np.arange(start, limit, step).astype(kind)
    np.testing.assert_allclose(found[:-1], wanted, rtol=1e-6)
    assert found.dtype == kind


def test_a_range_needs_a_step() -> None:
    weights = {name: np.array(0) for name in "abc"}
    with pytest.raises(GraphError, match="a step that is not 0"):
        folded([node("Range", list("abc"), ["y"])], weights)


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_different_elements(is_sorted: int, axis: int | None) -> None:
    x = np.array([[2, 1, 2], [1, 0, 1], [2, 1, 2]])
    given = {} if axis is None else {"axis": axis}
    step = node("Unique", ["x"], list("yijk"), sorted=is_sorted, **given)
    found = folded([step], {"x": x}).values()
    theirs = run_onnx_runtime(model_of([step], {"x": x}), {})
    for one, other in zip(found, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


BY_REFERENCE: dict[str, tuple[onnx.NodeProto, Mapping[str, Any]]] = {
    "frequencies": (
        node("MelWeightMatrix", list("abcde"), ["y"]),
        {"a": 8, "b": 16, "c": 8192, "d": np.float32(10), "e": np.float32(4000)},
    ),
    "a window": (node("HannWindow", ["a"], ["y"]), {"a": 7}),
    "places that are not 0": (node("NonZero", ["a"], ["y"]), {"a": np.array([[0, 2], [3, 0]])}),
    "counts": (
        node(
            "TfIdfVectorizer", ["a"], ["y"], mode="TF", min_gram_length=1, max_gram_length=1,
            max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1], pool_int64s=[2, 3],
        ),
        {"a": np.array([2, 3, 3, 5])},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BY_REFERENCE)
def test_what_onnx_computes_is_what_onnx_runtime_does(what: str) -> None:
    step, weights = BY_REFERENCE[what]
    (found,) = folded([step], weights, 20).values()
    (theirs,) = run_onnx_runtime(model_of([step], weights, 20), {})
    assert found.dtype == theirs.dtype
    np.testing.assert_allclose(found, theirs, rtol=1e-5, atol=1e-6)


def test_a_large_weight_may_be_read_when_little_is_left() -> None:
    """What counts is what is computed, not what is read."""
    folding = Folding(0)
    vars(folding)["_left"] = 100
    weight = np.ones((64, 64), np.float32)
    model = load_onnx(model_of([node("ReduceSum", ["w"], ["y"], keepdims=0)], {"w": weight}))
    (total,) = folding.outputs(model.graph.nodes[0], [weight])
    assert total == 4096
    model = load_onnx(model_of([node("Neg", ["w"], ["y"])], {"w": weight}))
    with pytest.raises(GraphError, match="of which 96 are left"):
        folding.outputs(model.graph.nodes[0], [weight])


def test_a_batch_norm_of_its_own_batch() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 3, 5)).astype(np.float32)
    s, b, m, v = (rng.random(3).astype(np.float32) for _ in range(4))
    names = ["x", "s", "b", "m", "v"]
    step = node("BatchNormalization", names, list("yop"), training_mode=1, momentum=0.8)
    y, o, p = folded([step], dict(zip(names, (x, s, b, m, v), strict=True))).values()
    mean, variance = x.mean((0, 2), dtype=float), x.astype(float).var((0, 2))
    rows = [one[:, None] for one in (mean, variance, s, b)]
    np.testing.assert_allclose(
        y, (x - rows[0]) / np.sqrt(rows[1] + 1e-5) * rows[2] + rows[3], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(o, 0.8 * m + 0.2 * mean, rtol=1e-5)
    np.testing.assert_allclose(p, 0.8 * v + 0.2 * variance, rtol=1e-5)


def test_a_definition_of_microsoft_is_folded_too() -> None:
    step = node("Gelu", ["x"], ["y"], domain="com.microsoft")
    model = model_of([step], {"x": X})
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    graph = ac.from_onnx(model)
    assert not graph.nodes
