"""The errors of a network's outputs: what is right, what is told, and where it grows."""

from __future__ import annotations

import numpy as np

import ansorc as ac
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.network import Network
from ansorc.graph.output_errors import OutputErrors
from ansorc.graph.precision import with_precision
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32
from tests.graph.small_networks import residual_network


def results_of(graph: Graph) -> tuple[OutputErrors, dict[str, Array]]:
    """The results of machine code for random inputs, and what they are held against."""
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {
        name: rng.uniform(-1, 1, kind.shape).astype(kind.dtype.numpy)
        for name, kind in graph.inputs.items()
    }
    return OutputErrors(Network.of(graph), inputs), dict(ac.build(graph).run(inputs))


def test_a_network_in_float32_has_one_error() -> None:
    errors, results = results_of(residual_network())
    (found,) = errors.of(results).values()
    assert not errors.is_narrow
    assert found.is_right
    assert found.in_float32 is None
    assert found.allowed == 1e-4


def test_a_narrow_one_has_that_of_float32_beside_it() -> None:
    errors, results = results_of(with_precision(residual_network(), "bf16"))
    (found,) = errors.of(results).values()
    assert errors.is_narrow
    assert found.is_right
    assert found.in_float32 is not None
    assert 1e-4 < found.error < found.allowed < 2.0**-5
    assert found.in_float32 < 1e-6


def test_what_roundings_do_not_explain_is_wrong() -> None:
    errors, results = results_of(with_precision(residual_network(), "bf16"))
    for wrong in (1.1, np.nan):
        (found,) = errors.of({name: array * wrong for name, array in results.items()}).values()
        assert not found.is_right


def test_integers_that_numbers_of_16_bits_decide_about_may_differ() -> None:
    b = GraphBuilder("net")
    x = b.input("x", TensorType(FLOAT32, (64, 8)))
    y = b.add("matmul", [x, b.constant(np.eye(8, dtype=np.float32) + 0.999)])
    graph = with_precision(b.graph([b.add("argmax", [b.add("softmax", [y])], axis=1)]), "bf16")
    errors, results = results_of(graph)
    (found,) = errors.of(results).values()
    assert 0 < found.error < 1
    assert found.is_right
    assert found.in_float32 == 0


def test_the_error_grows_where_a_difference_loses_digits() -> None:
    b = GraphBuilder("net")
    x = b.input("x", TensorType(FLOAT32, (16, 16)))
    b.source = "Gemm 'around_100' (opset 17)"
    y = b.add("matmul", [x, b.constant(np.eye(16, dtype=np.float32))])
    y = b.add("add", [y, b.constant(np.full(16, 100, np.float32))])
    b.source = "LayerNormalization 'norm' (opset 17)"
    one, zero = (b.constant(np.full(16, value, np.float32)) for value in (1, 0))
    z = b.add("layer_norm", [y, one, zero], epsilon=1e-5)
    b.source = "MatMul 'last' (opset 17)"
    last = b.add("matmul", [z, b.constant(np.eye(16, dtype=np.float32))])
    errors, _ = results_of(with_precision(b.graph([last]), "bf16"))
    worst = errors.growth()[0]
    assert worst.nodes == ("norm",)
    assert worst.after > 50 * worst.before > 0
