"""Networks as compiled modules, their numbers held against the graph in float64."""

import numpy as np
import pytest

from ansorc.codegen.call.network_module import NetworkModule, link_network
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network, weights_of
from ansorc.graph.network_plan import compile_kernel, plan_networks
from ansorc.search.programs import default_program
from tests.graph.small_networks import NETWORKS, inputs_of


def built(network: Network) -> NetworkModule:
    kernels = {
        key: compile_kernel(task, default_program(task), f"kernel{number}")
        for number, (key, task) in enumerate(network.tasks.items())
    }
    return link_network(plan_networks({"net": network}, kernels)[0], network.target)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_built_network_computes_what_the_graph_says(name: str) -> None:
    graph = NETWORKS[name]()
    module, inputs = built(Network.of(graph)), inputs_of(graph)
    expected = run_reference(graph, inputs)
    found = module.run(inputs)
    assert list(found) == list(graph.outputs)
    for output, values in expected.items():
        scale = float(np.abs(values).max())
        np.testing.assert_allclose(found[output], values, rtol=1e-4, atol=1e-5 * scale)


def test_equal_layers_are_one_task() -> None:
    network = Network.of(NETWORKS["attention"]())
    assert sum(network.weights.values()) == len(network.partition.groups)
    assert max(network.weights.values()) >= 3  # the projections of queries, keys and values


def test_calls_of_several_networks_are_added_up() -> None:
    network = Network.of(NETWORKS["attention"]())
    assert weights_of([network]) == network.weights
    assert weights_of([network, network]) == {key: 2 * n for key, n in network.weights.items()}
    assert weights_of([]) == {}
