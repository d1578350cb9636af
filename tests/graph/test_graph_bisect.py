"""Of a network that is wrong the rewrite is named, or the kernel and its pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ansorc.graph import graph_bisect
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_bisect import bisect_rewrites
from ansorc.graph.passes.pipeline import NETWORK_PASSES, optimize_graph
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from ansorc.search.measure import Failure, FailureKind, Measurer, Outcome, ProgramText
from tests.cli.small_onnx import write_model
from tests.support.command_line import CommandLine
from tests.support.faulty_passes import doubles_stores, plant


def doubles_weights(graph: Graph) -> Graph:
    """Double all constants."""
    return replace(graph, constants={name: 2 * a for name, a in graph.constants.items()})


def network() -> Graph:
    builder = GraphBuilder("net")
    x = builder.input("x", TensorType(FLOAT32, (2, 8)))
    w = builder.constant(np.linspace(1, 2, 64, dtype=np.float32).reshape(8, 8), "w")
    return builder.graph([builder.add("matmul", [x, w], "y")])


def plant_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = [*NETWORK_PASSES]
    passes.insert(4, ("doubles_weights", doubles_weights))

    def faulty(graph: Graph, trace: Callable[[str, Graph], None] | None = None) -> Graph:
        return optimize_graph(graph, passes, trace)

    monkeypatch.setattr(graph_bisect, "optimize_graph", faulty)


def test_the_faulty_rewrite_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bisect_rewrites(network()) == (None, "")
    plant_rewrite(monkeypatch)
    stage, words = bisect_rewrites(network())
    assert stage is not None
    assert stage.name == "doubles_weights"
    assert words.startswith("16 of 16 elements of 'y' differ; at [0, 0] it is ")


SHOW = ("show", "net.onnx", "--input", "x=4x12", "--default", "--bisect")


def test_the_command(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(cli.directory / "net.onnx")
    ended = cli.run(*SHOW)
    assert ended.code == 0, ended
    assert "the network is right after all rewrites\nand so is each of its " in ended.out
    plant_rewrite(monkeypatch)
    ended = cli.run(*SHOW)
    assert ended.code == 1
    assert "\nthe rewrite doubles_weights is the first whose result differs:\n" in ended.out


def test_the_faulty_kernel_is_found(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers are processes without the planted pass, so their answer is given here."""

    def wrong(_: Measurer, candidates: Sequence[ProgramText]) -> list[Outcome]:
        failure = Failure.of(FailureKind.WRONG_RESULT, "candidate rejected: element [0, 0] is 1")
        return [failure] * len(candidates)

    write_model(cli.directory / "net.onnx")
    monkeypatch.setattr(Measurer, "measure", wrong)
    plant(monkeypatch, doubles_stores)
    ended = cli.run(*SHOW)
    assert ended.code == 1
    assert " is wrong: candidate rejected: element [0, 0] is 1\n" in ended.out
    assert "\nthe pass faulty is the first whose result differs:\n" in ended.out
