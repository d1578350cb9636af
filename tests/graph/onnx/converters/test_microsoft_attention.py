"""Operators of com.microsoft mean what they mean in NumPy, and what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.ir.aligned import Array
from tests.graph.onnx.converters.contrib_cases import FLOAT_CASES, ContribCase, numbers
from tests.graph.onnx.converters.contrib_quantized_cases import QUANTIZED_CASES
from tests.support.onnx_oracle import node_model, run_node

RNG = np.random.default_rng(0)


def model_of(case: ContribCase) -> Any:
    known = [n for n in case.known if case.inputs[n] is not None]
    options: dict[str, Any] = {
        "known": known,
        "outputs": len(case.expected),
        "domain": "com.microsoft",
    }
    model, given = node_model(case.operator, case.inputs, opset=17, **options)
    attributes = [helper.make_attribute(name, value) for name, value in case.attributes.items()]
    model.graph.node[0].attribute.extend(attributes)
    return model, given


def assert_close(case: ContribCase, found: Any, expected: Any) -> None:
    words = (
        f"{case.operator} {case.attributes} {[None if x is None else x.shape for x in case.inputs]}"
    )
    for mine, wanted in zip(found, expected, strict=True):
        exact = np.asarray(mine, np.float64), np.asarray(wanted, np.float64)
        np.testing.assert_allclose(*exact, case.tolerance, case.tolerance, err_msg=words)


def drawn(seed: int, count: int) -> list[ContribCase]:
    rng, makers = np.random.default_rng(seed), (*FLOAT_CASES, *QUANTIZED_CASES)
    return [makers[n % len(makers)](rng) for n in range(count)]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [44, pytest.param(1500, marks=pytest.mark.nightly)])
def test_random_nodes_are_as_in_numpy(count: int) -> None:
    for case in drawn(1, count):
        assert_close(case, run_node(*model_of(case))[1], case.expected)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_random_nodes_are_as_in_onnx_runtime() -> None:
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    cases = [one for one in drawn(2, 1500) if one.runs_elsewhere]
    for case in cases:
        model, given = model_of(case)
        model.ir_version = 10
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        wanted = session.run(None, given)
        assert_close(case, run_node(model, given)[1], wanted)


@pytest.mark.nightly
def test_compiled_nodes_are_as_in_numpy() -> None:
    for case in drawn(3, 44):
        model, given = model_of(case)
        graph = ac.from_onnx(model)
        feeds = {name: np.ascontiguousarray(given[name]) for name in graph.inputs}
        found = ac.build(graph).run(feeds)
        assert_close(case, found.values(), case.expected)


QUERY, STATE = numbers(RNG, 2, 3, 8), numbers(RNG, 2, 2, 4, 4)
WEIGHT, BIAS = numbers(RNG, 8, 24), numbers(RNG, 24)
LENGTH, BYTES = np.array([3], np.int32), np.zeros((2, 3), np.uint8)
NUMBER = [np.array(1, np.float32), np.array(0, np.uint8)]


@pytest.mark.parametrize(
    ("operator", "inputs", "options", "words"),
    [
        ("MultiHeadAttention", [QUERY, QUERY, QUERY, None, np.zeros(8, np.int32)], {"num_heads": 2},
         r"its mask is \[8\] for 2 sequences"),
        ("MultiHeadAttention", [QUERY, QUERY, QUERY, None, None, None, STATE], {"num_heads": 2},
         "it has one of past_key and past_value"),
        ("MultiHeadAttention", [QUERY, QUERY, QUERY, None, None, None, STATE, STATE, LENGTH],
         {"num_heads": 2}, "its state is a buffer that is written in place"),
        ("MultiHeadAttention", [QUERY], {"num_heads": 2}, "it has no keys"),
        ("MultiHeadAttention", [QUERY, QUERY, QUERY], {"num_heads": 3}, "which are no 3 heads"),
        ("MultiHeadAttention", [QUERY, QUERY, QUERY, BIAS[:5]], {"num_heads": 2},
         r"its bias is \[5\]; it needs \[24\]"),
        ("Attention", [QUERY, WEIGHT, BIAS], {"num_heads": 2, "do_rotary": 1}, "rotary positions"),
        ("Attention", [QUERY, WEIGHT, BIAS], {"num_heads": 2, "past_present_share_buffer": 1},
         "its state is a buffer that is written in place"),
        ("Attention", [QUERY, WEIGHT, BIAS], {"num_heads": 2, "colour": 1},
         "ansorc does not know its attribute 'colour', and would ignore it"),
        ("Attention", [QUERY, WEIGHT, BIAS], {"num_heads": 5}, "have 24 columns"),
        ("RotaryEmbedding", [QUERY, np.array([0]), STATE[0, 0, :, :2], STATE[0, 0, :, :2]],
         {"scale": 2.0}, "a scale other than 1"),
        ("FusedGemm", [WEIGHT, WEIGHT], {"transB": 1, "activation": "Mystery"},
         "ansorc does not know its activation 'Mystery'"),
        ("GroupQueryAttention", [QUERY, QUERY, QUERY], {"num_heads": 2},
         "its keys and values are buffers that are written in place"),
        ("MatMulNBits", [QUERY], {}, "weights below 8 bits"),
        ("QLinearSigmoid", [BYTES, np.ones(3, np.float32), BYTES[0], *NUMBER], {},
         "a scale or zero point for each channel"),
    ],
)  # fmt: skip
def test_what_is_not_done_is_refused(
    operator: str, inputs: list[Array | None], options: dict[str, Any], words: str
) -> None:
    model = node_model(operator, inputs, domain="com.microsoft", **options)
    with pytest.raises(GraphError, match=words):
        run_node(*model)


def test_packed_queries_keys_and_values() -> None:
    packed = numbers(RNG, 2, 3, 2, 3, 4)
    whole = node_model("MultiHeadAttention", [packed], domain="com.microsoft", num_heads=2)
    parts = [np.ascontiguousarray(packed[:, :, :, n]).reshape(2, 3, 8) for n in range(3)]
    apart = node_model("MultiHeadAttention", parts, domain="com.microsoft", num_heads=2)
    np.testing.assert_allclose(run_node(*whole)[1][0], run_node(*apart)[1][0], 1e-6)
    pairs = np.ascontiguousarray(packed[:, :, :, 1:])
    both = node_model("MultiHeadAttention", [parts[0], pairs], domain="com.microsoft", num_heads=2)
    np.testing.assert_allclose(run_node(*both)[1][0], run_node(*apart)[1][0], 1e-6)


def test_a_layout_of_one_machine_is_refused() -> None:
    model = node_model("Conv", [numbers(RNG, 1, 8, 4, 4)], domain="com.microsoft.nchwc")
    with pytest.raises(GraphError, match="ORT_ENABLE_EXTENDED"):
        run_node(*model)
