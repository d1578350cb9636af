"""One network for several shapes: a graph for each, and a module that picks by the arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from graph.onnx_models import model_of, node

import ansorc as ac
from ansorc.errors import BuildError, CallError, GraphError
from ansorc.graph.graph_reference import run_reference
from ansorc.ir.aligned import Array

WIDTH = 24


def model() -> onnx.ModelProto:
    """x [n, 24], scale [m, 24] -> y [n, 8]."""
    draw = np.random.default_rng(0)
    weights = {
        "w1": draw.standard_normal((WIDTH, 40)).astype(np.float32),
        "w2": draw.standard_normal((40, 8)).astype(np.float32),
    }
    nodes = [
        node("Mul", ["x", "scale"], ["scaled"]),
        node("MatMul", ["scaled", "w1"], ["hidden"]),
        node("Relu", ["hidden"], ["hidden_relu"]),
        node("MatMul", ["hidden_relu", "w2"], ["y"]),
    ]
    return model_of(nodes, {"x": ["n", WIDTH], "scale": ["m", WIDTH]}, ["y"], weights)


def variants() -> ac.GraphVariants:
    shapes = {"x": [(1, WIDTH), (3, WIDTH), (64, WIDTH)], "scale": (1, WIDTH)}
    found = ac.from_onnx(model(), shapes)
    assert isinstance(found, ac.GraphVariants)
    return found


def inputs(rows: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(rows)
    shapes = (rows, WIDTH), (1, WIDTH)
    one, other = (draw.standard_normal(shape).astype(np.float32) for shape in shapes)
    return one, other


@pytest.fixture(scope="module")
def module() -> ac.NetworkVariants:
    return ac.build(variants())


def test_each_shape_is_a_graph() -> None:
    found = variants()
    assert [graph.inputs["x"].shape for graph in found] == [(n, WIDTH) for n in (1, 3, 64)]
    assert {graph.inputs["scale"].shape for graph in found} == {(1, WIDTH)}
    assert found.suffixes() == ("1x24", "3x24", "64x24")
    lists = {"x": [(2, WIDTH), (3, WIDTH)], "scale": [(2, WIDTH), (1, WIDTH)]}
    assert ac.from_onnx(model(), lists).suffixes() == ("2x24_2x24", "3x24_1x24")


def test_a_call_runs_the_program_for_its_shapes(module: ac.NetworkVariants) -> None:
    for rows, graph in zip((1, 3, 64), variants(), strict=True):
        x, scale = inputs(rows)
        expected = run_reference(graph, {"x": x, "scale": scale})["y"]
        y = np.empty((rows, 8), np.float32)
        assert module(x, scale, y) is None
        for found in (y, module(x, scale), module.run({"scale": scale, "x": x})["y"]):
            np.testing.assert_allclose(found, expected, 1e-4, 1e-4)
        assert module.time(x, scale, min_time_s=0.001).median_s > 0
        profile = module.profile(x, scale, repeats=1)
        assert len(profile) == len(module.module_for(x, scale).call_names)


def test_weights_that_are_packed_alike_are_held_once(module: ac.NetworkVariants) -> None:
    plans = [each._plan for each in module.modules]  # pyright: ignore[reportPrivateUsage]
    blocks = {id(plan.weights) for plan in plans if plan is not None}
    assert len(blocks) == 1
    alone = [ac.build(graph) for graph in variants()]
    sizes = [each._plan.weights.nbytes for each in alone if each._plan]  # pyright: ignore[reportPrivateUsage]
    assert plans[0] is not None
    assert max(sizes) <= plans[0].weights.nbytes < sum(sizes)


def test_a_variant_is_saved_with_its_own_weights(
    module: ac.NetworkVariants, tmp_path: Path
) -> None:
    for each, alone in zip(module.modules, map(ac.build, variants()), strict=True):
        one, other = tmp_path / "one.so", tmp_path / "other.so"
        each.save(one, tmp_path / "one.weights")
        alone.save(other, tmp_path / "other.weights")
        sizes = [(tmp_path / f"{name}.weights").stat().st_size for name in ("one", "other")]
        assert sizes[0] == sizes[1]
        loaded = ac.load_library(one)
        arrays = inputs(each.inputs[0].shape[0])
        np.testing.assert_array_equal(loaded(*arrays), module(*arrays))
    names = [each.signature.name for each in module.modules]
    assert names == ["net_1x24", "net_3x24", "net_64x24"]


def test_refusals_of_calls(module: ac.NetworkVariants) -> None:
    x, scale = inputs(2)
    known = r"x: 1x24, scale: 1x24 \| x: 3x24, scale: 1x24 \| x: 64x24, scale: 1x24"
    with pytest.raises(
        CallError, match=rf"net has no program for x: 2x24, scale: 1x24; it has {known}"
    ):
        module(x, scale)
    with pytest.raises(CallError, match="takes 2 arrays"):
        module(x)
    with pytest.raises(CallError, match="is a str, but it must be a NumPy array"):
        module("x", scale)
    with pytest.raises(CallError, match="needs an input 'scale'"):
        module.run({"x": x})
    with pytest.raises(CallError, match="'x' has dtype float64"):
        module(inputs(3)[0].astype(np.float64), scale)
    with pytest.raises(BuildError, match=r"3 shapes, and a library has one; .* \(net_1x24, net_3x"):
        module.save("net.so")
    assert repr(module).startswith("<network net for x: 1x24, scale: 1x24 | ")


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"x": [(1, 24), (2, 24)], "scale": [(1, 24)]}, "of each .* 2 for 'x', 1 for 'scale'"),
        ({"x": [(1, 24), (1, 24)], "scale": (1, 24)}, "x: 1x24, scale: 1x24 of 'net' are given"),
        ({"x": [(1, 24), (1, 23)], "scale": (1, 24)}, r"input 'x' is \['n', 24\], not \[1, 23\]"),
        ({"z": [(1, 24)]}, "has no input 'z'"),
        ({"x": [(1, 24), 3], "scale": (1, 24)}, r"\[\(1, 24\), 3\], not integers"),
    ],
)
def test_refusals_of_shapes(shapes: dict[str, list[tuple[int, ...]]], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        ac.from_onnx(model(), shapes)
