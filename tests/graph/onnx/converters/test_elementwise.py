"""A Cast to floats of 16 bits rounds, though what comes behind it is computed in float32."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ansorc as ac

NUMBERS = np.array(
    [1 + 2**-12, 2049, 65519, 65520, -1e6, 3e38, 3.4e38, 1e-8, -1e-45, np.inf, np.nan], np.float32
)
KINDS: dict[int, Any] = {
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
}


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_conversion_there_and_back_rounds(kind: int, is_known: bool) -> None:  # noqa: FBT001
    one = helper.make_tensor_value_info("x", TensorProto.FLOAT, NUMBERS.shape)
    steps = [
        helper.make_node("Cast", ["x"], ["narrow"], to=kind),
        helper.make_node("Cast", ["narrow"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Neg", ["wide"], ["y"]),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, NUMBERS.shape)
    weights = [numpy_helper.from_array(NUMBERS, "x")] if is_known else []
    proto = helper.make_graph(steps, "net", [] if is_known else [one], [result], weights)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    given = {} if is_known else {"x": NUMBERS}
    with np.errstate(over="ignore"):
        expected = -NUMBERS.astype(KINDS[kind]).astype(np.float32)
    found = ac.build(ac.from_onnx(model)).run(given)["y"]
    np.testing.assert_array_equal(found, expected)
