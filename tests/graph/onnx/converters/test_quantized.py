"""Quantised operators of ONNX mean what ONNX says."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ansorc.errors import GraphError
from ansorc.graph.graph import Graph
from ansorc.graph.network import Network
from ansorc.ir.aligned import Array
from ansorc.schedule.steps import Tensorize
from ansorc.search.default import default_steps
from tests.support.onnx_oracle import assert_as_onnx, node_model, random, run_node

RNG = np.random.default_rng(0)
SCALE, SCALES = np.float32(0.03125), (RNG.random(4) * 0.05 + 0.01).astype(np.float32)


def integers(kind: Any, *shape: int) -> Array:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max + 1, shape).astype(kind)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int16])
def test_one_scale_or_one_for_each_channel(kind: Any) -> None:
    data, zero = random(2, 4, 3) * 4, integers(kind, 4)
    for scale, start in ((np.array(SCALE), zero[0].reshape(())), (SCALES, zero)):
        assert_as_onnx("QuantizeLinear", [data, scale, start], opset=21)
        assert_as_onnx("DequantizeLinear", [integers(kind, 2, 4, 3), scale, start], opset=21)


def test_blocks_have_their_scales() -> None:
    scale = (RNG.random((2, 2, 3)) + 0.1).astype(np.float32)
    options: dict[str, Any] = {"axis": 1, "block_size": 2, "opset": 21}
    assert_as_onnx(
        "QuantizeLinear", [random(2, 4, 3), scale, integers(np.int8, 2, 2, 3)], **options
    )
    assert_as_onnx("DequantizeLinear", [integers(np.int8, 2, 4, 3), scale], **options)


def test_a_range_makes_scale_and_zero_point() -> None:
    assert len(assert_as_onnx("DynamicQuantizeLinear", [random(3, 5)], outputs=3).nodes) == 1


@pytest.mark.parametrize("known", [(), (1, 3)])
def test_products_of_integers(known: tuple[int, ...]) -> None:
    a, b = integers(np.uint8, 3, 4), integers(np.int8, 4, 5)
    zeros = [np.array(7, np.uint8), integers(np.int8, 5)]
    assert_as_onnx("MatMulInteger", [a, b, *zeros], known=known)


def test_convolutions_of_integers_are_padded_by_the_zero_point() -> None:
    data, weight = integers(np.uint8, 1, 2, 5, 5), integers(np.uint8, 4, 2, 3, 3)
    zeros = [np.array(7, np.uint8), np.array(3, np.uint8)]
    assert_as_onnx("ConvInteger", [data, weight, *zeros], pads=[1, 1, 1, 1])


def operators(graph: Graph) -> set[str]:
    return {node.operator.name for node in graph.nodes}


def byte_products(graph: Graph) -> set[str]:
    """Return the operators that multiply bytes by bytes."""
    return {
        node.operator.name
        for node in graph.nodes
        if node.operator.name in ("conv2d", "matmul")
        and all(graph.types[name].dtype.bits == 8 for name in node.inputs)
    }


@pytest.mark.parametrize("shape", [(3, 8), (3, 7), (2, 3, 5), (1, 64), (4,)])
def test_known_weights_are_multiplied_by_dot_products(shape: tuple[int, ...]) -> None:
    a, b = integers(np.uint8, *shape), integers(np.int8, shape[-1], 5)
    for zeros in ([], [np.array(7, np.uint8)], [np.array([201], np.uint8), np.zeros(5, np.int8)]):
        known = (1, *range(2, 2 + len(zeros)))
        graph = assert_as_onnx("MatMulInteger", [a, b, *zeros], known=known)
        assert byte_products(graph) == {"matmul"}
    b[0, 0], others = -128, [np.array(7, np.uint8), np.array(1, np.int8)]  # -129 is no int8
    graph = assert_as_onnx("MatMulInteger", [a, b, *others], known=(1, 2, 3))
    assert not byte_products(graph)


@pytest.mark.parametrize(
    ("window", "options"),
    [
        ((1, 1), {}),
        ((1, 1), {"strides": [2, 1]}),
        ((3, 3), {"pads": [1, 1, 1, 1]}),
        ((3, 2), {"pads": [0, 1, 2, 0], "strides": [2, 3]}),
        ((2, 3), {"dilations": [2, 1], "auto_pad": "SAME_UPPER"}),
    ],
)
@pytest.mark.parametrize("channels", [3, 8])
def test_known_filters_are_multiplied_by_dot_products(
    window: tuple[int, int], options: dict[str, Any], channels: int
) -> None:
    data, weight = integers(np.uint8, 2, channels, 7, 6), integers(np.int8, 5, channels, *window)
    zero = np.array(131, np.uint8)
    graph = assert_as_onnx("ConvInteger", [data, weight, zero], known=(1, 2), **options)
    is_packed = channels == 8 and (window != (1, 1) or "strides" in options)
    assert byte_products(graph) == {"conv2d" if is_packed else "matmul"}
    graph = assert_as_onnx("ConvInteger", [data, weight, zero], known=(1,), **options)
    assert not byte_products(graph)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize(("groups", "step"), [(8, 1), (8, 2), (2, 1), (1, 2)])
def test_convolutions_of_groups_keep_their_bytes(kind: Any, groups: int, step: int) -> None:
    """Neither data nor weights become int32 before they are multiplied; margins are zero points."""
    data, weight = integers(kind, 2, 8, 7, 6), integers(np.int8, 8, 8 // groups, 3, 3)
    weight[weight == -128], zeros = 0, [np.array(101, kind), np.array(1, np.int8)]
    options: dict[str, Any] = {"group": groups, "pads": [1, 1, 0, 1], "strides": [step, 1]}
    graph = assert_as_onnx("ConvInteger", [data, weight, *zeros], known=(1, 2, 3), **options)
    assert "shift" not in operators(graph)
    narrow = [a.dtype for name, a in graph.constants.items() if a.ndim > 2 and name]
    assert narrow == [np.dtype(np.int8)]


def dequantized(name: str, array: Array, scale: Any, zero: Any) -> tuple[Any, dict[str, Any]]:
    """The node that makes floats of `array`, along its first axis, and its initializers."""
    given = {f"{name}_scale": np.asarray(scale, np.float32), f"{name}_zero": np.asarray(zero)}
    node = helper.make_node("DequantizeLinear", [name, *given], [f"{name}_float"], axis=0)
    return node, {name: array, **given}


@pytest.mark.parametrize(("operator", "opset"), [("Conv", 17), ("Conv", 21), ("Gemm", 21)])
@pytest.mark.parametrize("is_activated", [False, True])
def test_products_between_dequantised_and_quantised_are_of_integers(
    operator: str, opset: int, *, is_activated: bool
) -> None:
    is_conv, low = operator == "Conv", np.uint8(0 if is_activated else 90)
    data = integers(np.uint8, 2, 4, 5, 5) if is_conv else integers(np.uint8, 3, 4)
    weight = integers(np.int8, 4, 4, 3, 3) if is_conv else integers(np.int8, 4, 4)
    bias, zeros = RNG.integers(-999, 999, 4).astype(np.int32), np.zeros(4, np.int8)
    parts = [
        dequantized("x", data, SCALE, np.uint8(120)),
        dequantized("w", weight, SCALES, zeros),
        dequantized("b", bias, SCALE * SCALES, zeros.astype(np.int32)),
    ]
    options: dict[str, Any] = {"pads": [1] * 4} if is_conv else {"transB": 1}
    nodes = [node for node, _ in parts]
    nodes += [helper.make_node(operator, ["x_float", "w_float", "b_float"], ["sum"], **options)]
    nodes += [helper.make_node("Relu", ["sum"], ["positive"])] if is_activated else []
    last = "positive" if is_activated else "sum"
    nodes += [helper.make_node("QuantizeLinear", [last, "y_scale", "y_zero"], ["y"])]
    known = {n: a for _, given in parts for n, a in given.items() if n != "x"}
    known |= {"y_scale": np.float32(0.9), "y_zero": low}
    shape = helper.make_tensor_value_info("x", TensorProto.UINT8, data.shape)
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(nodes, "net", [shape], [result], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    found, (mine,) = run_node(model, {"x": data})
    rewritten = operators(Network.of(found).graph)
    assert "requantize" in rewritten
    assert not {"dequantize", "dequantize_constant"} & rewritten
    later = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    evaluator: Any = ReferenceEvaluator(later)
    (theirs,) = evaluator.run(None, {"x": data})
    np.testing.assert_allclose(mine, theirs.astype(np.float64), atol=1)


def test_scales_along_another_axis_are_those_of_no_product() -> None:
    """Four scales of rows, where there are four channels, too."""
    data, weight = integers(np.uint8, 1, 4, 4, 4), integers(np.int8, 4, 4, 1, 1)
    parts = [dequantized(*each) for each in (("x", data, SCALE, np.uint8(120)),
                                             ("w", weight, SCALE, np.int8(0)))]  # fmt: skip
    nodes = [node for node, _ in parts]
    nodes += [helper.make_node("Conv", ["x_float", "w_float"], ["sum"])]
    nodes += [helper.make_node("QuantizeLinear", ["sum", "y_scale", "y_zero"], ["y"], axis=2)]
    known = {n: a for _, given in parts for n, a in given.items() if n != "x"}
    known |= {
        "y_scale": np.array([0.1, 0.4, 0.2, 0.9], np.float32),
        "y_zero": integers(np.uint8, 4),
    }
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    shape = helper.make_tensor_value_info("x", TensorProto.UINT8, data.shape)
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(nodes, "net", [shape], [result], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)
    _, (mine,) = run_node(model, {"x": data})
    evaluator: Any = ReferenceEvaluator(model)
    np.testing.assert_allclose(mine, evaluator.run(None, {"x": data})[0].astype(float), atol=1)


def test_an_instruction_computes_them_where_there_is_one() -> None:
    data, weight = integers(np.uint8, 1, 8, 6, 6), integers(np.int8, 32, 8, 3, 3)
    graph, _ = run_node(*node_model("ConvInteger", [data, weight], known=(1,)))
    x86, arm = "x86_64-linux-gnu -mcpu=", "aarch64-linux-gnu -mcpu="
    targets = {f"{x86}znver4": True, f"{x86}znver2": True, f"{arm}cortex-a72": False}
    for target, is_there in targets.items():
        network = Network.of(graph, f"{target} -cores=2")
        steps = [s for t in network.tasks.values() for s in default_steps(t.dag, t.target)]
        assert any(isinstance(step, Tensorize) for step in steps) is is_there


def quantised(total: Array, factor: Any, zero: int, kind: Any) -> Array:
    info = np.iinfo(kind)
    return np.clip(np.rint(total * np.asarray(factor, np.float64)) + zero, info.min, info.max)


def test_a_quantised_convolution() -> None:
    data, weight = integers(np.uint8, 1, 2, 5, 5), integers(np.int8, 4, 2, 3, 3)
    zero, target = np.array(9, np.uint8), np.array(100, np.uint8)
    output, bias = np.array(5.3, np.float32), RNG.integers(-999, 999, 4).astype(np.int32)
    first = [data, np.array(SCALE), zero, weight, SCALES, np.zeros(4, np.int8)]
    model = node_model("QLinearConv", [*first, output, target, bias], known=(3, 4, 5))
    total = run_node(*node_model("ConvInteger", [data, weight, zero]))[1][0] + bias[:, None, None]
    factor = (SCALE.astype(np.float64) * SCALES / 5.3)[:, None, None]
    np.testing.assert_allclose(
        run_node(*model)[1][0], quantised(total, factor, 100, np.uint8), atol=1
    )


def test_a_quantised_product() -> None:
    a, b = integers(np.int8, 3, 4), integers(np.int8, 4, 5)
    zeros = [np.array(n, np.int8) for n in (3, -5, 11)]
    scales = [np.array(n, np.float32) for n in (0.1, 0.2, 7.3)]
    rest = [scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
    assert_as_onnx("QLinearMatMul", [a, *rest])
    layer = [a, scales[0], zeros[0], b.T, scales[1], zeros[1], np.full(5, 40, np.int32)]
    total = (a.astype(np.int64) - 3) @ (b.astype(np.int64) + 5) + 40
    options: dict[str, Any] = {"domain": "com.microsoft", "transB": 1}
    _, (found,) = run_node(*node_model("QGemm", layer, **options))
    np.testing.assert_allclose(found, total * (0.1 * 0.2), rtol=1e-6)
    _, (found,) = run_node(*node_model("QGemm", [*layer, scales[2], zeros[2]], **options))
    np.testing.assert_array_equal(found, quantised(total, 0.1 * 0.2 / 7.3, 11, np.int8))


def test_a_quantised_sum() -> None:
    a, b = integers(np.uint8, 2, 3), integers(np.uint8, 3)
    scales = [np.array(n, np.float32) for n in (0.1, 0.2, 0.3)]
    zeros = [np.array(n, np.uint8) for n in (3, 5, 11)]
    given = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
    _, (found,) = run_node(*node_model("QLinearAdd", given, domain="com.microsoft"))
    total = (a.astype(np.int64) - 3) * 0.1 + (b.astype(np.int64) - 5) * 0.2
    np.testing.assert_allclose(found, quantised(total, 1 / 0.3, 11, np.uint8), atol=1)


@pytest.mark.parametrize("is_last", [0, 1])
def test_a_quantised_mean_of_an_image(is_last: int) -> None:
    data, axes = integers(np.uint8, 2, 3, 4, 5), (1, 2) if is_last else (2, 3)
    low, high = np.array(3, np.uint8), np.array(7, np.uint8)
    given = [data, np.array(SCALE), low, np.array(0.02, np.float32), high]
    options: dict[str, Any] = {"domain": "com.microsoft", "channels_last": is_last}
    _, (found,) = run_node(*node_model("QLinearGlobalAveragePool", given, **options))
    mean = (data.astype(np.int64) - 3).mean(axes, keepdims=True)
    np.testing.assert_allclose(found, quantised(mean, SCALE / 0.02, 7, np.uint8), atol=1)


def test_wide_integers_are_refused() -> None:
    model = node_model("QuantizeLinear", [random(2), np.array(SCALE)], output_dtype=6, opset=21)
    with pytest.raises(GraphError, match="it quantises to int32"):
        run_node(*model)
