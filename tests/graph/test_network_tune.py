"""Networks are tuned, resumed and built from their records."""

from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import OptionError, RecordError
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.search.record import Records
from tests.graph.small_networks import NETWORKS, inputs_of


def test_a_tuned_network_is_right_and_a_second_tuning_and_a_build_go_on(tmp_path: Path) -> None:
    graph, records = NETWORKS["residual"](), tmp_path / "tune.db"
    result = ac.tune(graph, trials=12, records=records, seed=1)
    assert 0 < result.latency_s < 1
    network = Network.of(graph)
    with Records.open(records) as held:
        assert sum(len(held.all(key)) for key in network.tasks) >= 12
    inputs = inputs_of(graph)
    expected = run_reference(graph, inputs)["logits"]
    for module in (result.build(), ac.build(graph, records=records)):
        found = module(*inputs.values())
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    again = ac.tune([graph], trials=12, records=records, seed=1)
    assert sum(one.measured_now for one in again[0].tuning.results) == 0


def test_a_build_is_never_wholly_untuned_unasked(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="there is no record file"):
        ac.build(NETWORKS["residual"](), records=tmp_path / "none.db")


def test_tasks_and_networks_are_not_mixed() -> None:
    graph = NETWORKS["residual"]()
    task = next(iter(Network.of(graph).tasks.values()))
    with pytest.raises(OptionError, match="not both"):
        ac.tune([task, graph])  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_settings_that_mean_nothing_are_refused() -> None:
    graph = NETWORKS["residual"]()
    task = next(iter(Network.of(graph).tasks.values()))
    with pytest.raises(OptionError, match="'objective' is for networks alone; use cache, "):
        ac.tune(task, objective="f2")  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(OptionError, match="'trails' is no setting of tune; use cache, "):
        ac.tune(graph, trails=5)  # pyright: ignore[reportArgumentType, reportCallIssue]
