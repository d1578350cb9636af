"""Networks that share kernels and weights compute the same, and hold each weight once."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc.graph.shared_networks as shared
from ansorc.codegen.call.library import load_library
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.weights import Weight
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.packed_weights import Contents, PackedWeights
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.dtype import FLOAT32
from ansorc.search.programs import ProgramChoice
from ansorc.search.record import parse_record_uri

WIDTH = 192
CHOICE = ProgramChoice(parse_record_uri("none.db"), use_default=True)


def weights(seed: int) -> list[Array]:
    """Two weights that begin where vectors do."""
    rng, found = np.random.default_rng(seed), [aligned_empty((WIDTH, WIDTH)) for _ in range(2)]
    for one in found:
        one[...] = rng.standard_normal(one.shape)
    return found


def perceptron(batch: int, held: list[Array], name: str = "net") -> Graph:
    builder = GraphBuilder(name)
    data = builder.input("x", TensorType(FLOAT32, (batch, WIDTH)))
    hidden = builder.add("matmul", [data, builder.constant(held[0], "first")])
    other = builder.add(
        "matmul", [builder.add("relu", [hidden]), builder.constant(held[1], "next")]
    )
    output = builder.add("add", [other, builder.constant(held[1][0], "bias")], "y")
    return builder.graph([output])


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[NetworkPlan]:
    """The plans that are built."""
    found: list[NetworkPlan] = []
    build = shared.link_network

    def noted(plan: NetworkPlan, target: Any) -> Any:
        found.append(plan)
        return build(plan, target)

    monkeypatch.setattr(shared, "link_network", noted)
    return found


def assert_right(graph: Graph, network: Any, batch: int) -> None:
    given = np.random.default_rng(batch).standard_normal((batch, WIDTH)).astype("f")
    wanted = run_reference(graph, {"x": given})["y"]
    np.testing.assert_allclose(network(given), wanted, rtol=1e-4, atol=1e-3)


def test_other_batches_and_other_weights(plans: list[NetworkPlan], tmp_path: Path) -> None:
    networks, first, other = shared.SharedNetworks(), weights(0), weights(1)
    made: list[tuple[Graph, Any, int]] = []
    for held in (first, other):
        contents = Contents(held)
        for batch in (1, 4, 7, 16, 33):
            graph = perceptron(batch, held)
            made.append((graph, networks.build(Network.of(graph), CHOICE, contents), batch))
    for graph, network, batch in made:
        assert_right(graph, network, batch)
    for mine, others in ((plans[:5], first), (plans[5:], other)):
        large = {one.array.ctypes.data for plan in mine for one in plan.bound}
        large = {a for a in large if all(a != held.ctypes.data for held in others)}
        sizes = {one.array.ctypes.data: one.array.nbytes for plan in mine for one in plan.bound}
        assert sum(sizes[address] for address in large) <= 2.2 * 2 * 4 * WIDTH * WIDTH
    kernels = {id(one) for plan in plans for one in plan.kernels}
    assert len(kernels) == len({id(one) for plan in plans[:5] for one in plan.kernels})

    graph, network, batch = made[2]
    saved = network.save(tmp_path / "net.so")
    assert_right(graph, load_library(saved.library), batch)


def test_a_weight_is_held_as_long_as_a_network_reads_it() -> None:
    known, held = PackedWeights(), weights(0)
    contents = Contents(held)
    copied = Weight(held[0].T)
    one, same = known.bind([Weight(held[0]), copied], contents), known.bind([copied], contents)
    assert one[0].array.ctypes.data == held[0].ctypes.data
    assert one[1] is same[0]
    np.testing.assert_array_equal(one[1].array.view("f").reshape(WIDTH, WIDTH), held[0].T)
    equal = known.bind([Weight(held[0].T.copy())], Contents([]))
    assert equal[0] is one[1], "two arrays of one content"
    del one, same, equal
    gc.collect()
    assert not len(known._known)  # pyright: ignore[reportPrivateUsage]


def test_what_is_not_held_is_hashed_anew() -> None:
    contents, array = Contents([]), np.zeros(64, np.float32)
    before = contents.of(array)
    contents.forget_others()
    array[5] = 1
    assert contents.of(array) != before
    assert contents.of(array) == Contents([]).of(array.copy())
    assert contents.of(array) != contents.of(array.view(np.int32))
