"""Random networks whose outputs are anywhere: every pass keeps them, and so does a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest

import ansorc as ac
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.ir.aligned import Array
from tests.graph.onnx.onnx_peer import run_onnx_runtime, run_reference_evaluator
from tests.graph.onnx.random_onnx import random_network
from tests.support.nightly import sampled

Peer = Callable[[onnx.ModelProto, Mapping[str, Array]], list[Array]]


@pytest.mark.parametrize("first", sampled(range(0, 60, 10), (0, 20, 40)))
def test_random_networks_compute_what_onnx_says(first: int) -> None:
    for seed in range(first, first + 10):
        check_network(seed, run_reference_evaluator, is_built=seed % 20 == 0)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 4000, 250))
def test_many_random_networks_compute_what_onnx_runtime_does(first: int) -> None:
    for seed in range(first, first + 250):
        check_network(seed, run_onnx_runtime, is_built=True)


def check_network(seed: int, peer: Peer, *, is_built: bool) -> None:
    """Import, rewrite and maybe build a network, and hold each step against `peer`."""
    model, inputs = random_network(seed)
    wanted = dict(zip([one.name for one in model.graph.output], peer(model, inputs), strict=True))
    graph = ac.from_onnx(model)
    assert list(graph.outputs) == list(wanted), seed
    given = {name: array for name, array in inputs.items() if name in graph.inputs}
    _assert_close(run_reference(graph, given), wanted, seed, "imported")
    rewritten = run_reference(Network.of(graph).graph, given)
    _assert_close(dict(zip(wanted, rewritten.values(), strict=True)), wanted, seed, "rewritten")
    if is_built:
        _assert_close(ac.build(graph).run(given), wanted, seed, "built")


def _assert_close(
    found: Mapping[str, Array], wanted: Mapping[str, Array], seed: int, what: str
) -> None:
    assert list(found) == list(wanted), seed
    for name, expected in wanted.items():
        where = f"network {seed}, {what}: '{name}'"
        assert found[name].shape == expected.shape, where
        size = float(np.abs(expected).max(initial=1.0))
        np.testing.assert_allclose(
            found[name], expected, rtol=1e-4, atol=2e-5 * size, err_msg=where
        )
