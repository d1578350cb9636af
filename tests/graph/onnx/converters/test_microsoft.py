"""Operators that optimisers of ONNX files write mean what their parts mean."""

import math
from typing import Any

import numpy as np
import pytest

from ansorc.errors import GraphError
from ansorc.ir.aligned import Array
from tests.support.onnx_oracle import node_model, random, run_node

DATA, SKIP, VECTOR = random(2, 3, 4), random(2, 3, 4, seed=1), abs(random(4, seed=2))


def found(operator: str, *inputs: Array | None, **options: Any) -> list[Array]:
    return run_node(*node_model(operator, inputs, domain="com.microsoft", **options))[1]


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x.astype(np.float64) / math.sqrt(2)))


def test_gelus() -> None:
    np.testing.assert_allclose(found("Gelu", DATA)[0], gelu(DATA), rtol=1e-5)
    np.testing.assert_allclose(found("BiasGelu", DATA, VECTOR)[0], gelu(DATA + VECTOR), rtol=1e-5)
    np.testing.assert_allclose(found("FastGelu", DATA, VECTOR)[0], gelu(DATA + VECTOR), atol=1e-3)
    quick = DATA / (1 + np.exp(-1.5 * DATA))
    np.testing.assert_allclose(found("QuickGelu", DATA, alpha=1.5)[0], quick, rtol=1e-4)


def test_a_product_with_transposed_factors() -> None:
    options = {"transA": 1, "transB": 1, "alpha": 0.5}
    expected = 0.5 * DATA.swapaxes(1, 2) @ SKIP[:, :, :3].swapaxes(1, 2).swapaxes(1, 2)
    result = found("FusedMatMul", DATA, SKIP[:, :, :3].swapaxes(1, 2).copy(), **options)[0]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shift", [None, random(4, seed=3)])
def test_norms_of_sums(shift: Array | None) -> None:
    total = (DATA + SKIP + VECTOR).astype(np.float64)
    expected = (total - total.mean(-1, keepdims=True)) / np.sqrt(
        total.var(-1, keepdims=True) + 1e-6
    )
    expected = expected * VECTOR + (0 if shift is None else shift)
    given = [DATA, SKIP, VECTOR, shift, VECTOR]
    result = found("SkipLayerNormalization", *given, epsilon=1e-6)
    np.testing.assert_allclose(result[0], expected, rtol=1e-4, atol=1e-6)
    expected = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-6) * VECTOR
    given = [DATA, SKIP, VECTOR, VECTOR]
    result = found("SkipSimplifiedLayerNormalization", *given, epsilon=1e-6)
    np.testing.assert_allclose(result[0], expected, rtol=1e-4, atol=1e-6)


def test_statistics_for_training_are_refused() -> None:
    with pytest.raises(GraphError, match="outputs of mean and deviation are for training"):
        found("SkipLayerNormalization", DATA, SKIP, VECTOR, outputs=2)


def test_a_file_need_not_say_the_only_version() -> None:
    """A model that ONNX Runtime's optimiser for transformers has in memory does not."""
    model, given = node_model("Gelu", [DATA], domain="com.microsoft")
    del model.opset_import[1:]
    np.testing.assert_allclose(run_node(model, given)[1][0], gelu(DATA), rtol=1e-5)
    other, given = node_model("Gelu", [DATA], domain="com.example")
    del other.opset_import[1:]
    with pytest.raises(GraphError, match=r"of which version .* 'com\.example'"):
        run_node(other, given)
