"""Attention and rotations of ONNX mean what ONNX says."""

from typing import Any

import numpy as np
import pytest

from ansorc.errors import GraphError
from tests.support.onnx_oracle import assert_as_onnx, node_model, random, run_node

QUERY, KEY, VALUE = random(2, 4, 3, 6), random(2, 2, 5, 6, seed=1), random(2, 2, 5, 4, seed=2)
PAST = [random(2, 2, 3, 6, seed=3), random(2, 2, 3, 4, seed=4)]
MASK = np.random.default_rng(5).random((3, 5)) < 0.6


def flat(tensor: Any) -> Any:
    return tensor.transpose(0, 2, 1, 3).reshape(tensor.shape[0], tensor.shape[2], -1)


@pytest.mark.parametrize(
    ("rest", "options"),
    [
        ([], {"scale": 0.3}),
        ([], {"is_causal": 1, "softcap": 2.0, "outputs": 4, "qk_matmul_output_mode": 2}),
        ([MASK], {"outputs": 4, "qk_matmul_output_mode": 3}),
        ([random(2, 1, 3, 5, seed=6), *PAST], {"outputs": 3}),
        ([None, *PAST], {"is_causal": 1}),
        ([None, None, None, np.array([4, 2])], {"is_causal": 1, "opset": 24}),
    ],
)
def test_attention(rest: list[Any], options: dict[str, Any]) -> None:
    options = {"opset": 23, **options}
    assert_as_onnx("Attention", [QUERY, KEY, VALUE, *rest], **options)
    tensors = [flat(QUERY), flat(KEY), flat(VALUE), *rest]
    assert_as_onnx("Attention", tensors, q_num_heads=4, kv_num_heads=2, **options)


def test_flat_heads_are_read_where_they_lie() -> None:
    tensors = [flat(QUERY), flat(QUERY), flat(QUERY)]
    options: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 4, "opset": 23}
    graph = assert_as_onnx("Attention", tensors, **options)
    assert "transpose" not in {str(node.operator) for node in graph.nodes}


def test_heads_that_do_not_fit_are_refused() -> None:
    model = node_model("Attention", [QUERY[:, :3], KEY, VALUE], opset=23)
    with pytest.raises(GraphError, match="3 heads of queries do not fit 2 of keys and values"):
        run_node(*model)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    tables = [random(10, 2, seed=7), random(10, 2, seed=8)]
    positions = np.array([[3, 1, 9], [0, 2, 4]])
    options: dict[str, Any] = {"interleaved": interleaved, "rotary_embedding_dim": 4, "opset": 23}
    assert_as_onnx("RotaryEmbedding", [QUERY, *tables, positions], **options)
    angles = [table[positions] for table in tables]
    assert_as_onnx("RotaryEmbedding", [flat(QUERY), *angles], num_heads=4, **options)
