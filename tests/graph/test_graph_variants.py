"""One network for several shapes: a graph for each, and a module that picks by the arrays."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import ansorc as ac
from ansorc.codegen.call.library import load_kernel
from ansorc.errors import BuildError, CallError, GraphError
from ansorc.graph.graph_reference import run_reference
from ansorc.ir.aligned import Array
from tests.graph.onnx.onnx_models import model_of, node

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
        y[:] = 0
        module.bind(x, scale, y)()
        np.testing.assert_allclose(y, expected, 1e-4, 1e-4)
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


PROGRAM = r"""
#include <cstdio>
#include <cstring>
#include <vector>
#include "net.h"
int main() {
  static_assert(NET_VARIANTS == 3, "three");
  std::vector<float> x(64 * 24, 0.5F), scale(24, 0.25F), y(64 * 8);
  alignas(64) static char workspace[NET_WORKSPACE_BYTES + 1];
  for (int64_t rows : {1, 3, 64}) {
    if (net(x.data(), scale.data(), y.data(), workspace, 0, rows) != ANSORC_OK) return 1;
    if (net(x.data(), scale.data(), y.data(), nullptr, 1, rows) != ANSORC_OK) return 2;
    std::printf("%.5f ", static_cast<double>(y[rows * 8 - 1]));
  }
  int32_t status = net(x.data(), scale.data(), y.data(), nullptr, 0, 2);
  if (status != ANSORC_NO_SUCH_SHAPE) return 3;
  if (net_3x24(x.data(), scale.data(), y.data(), nullptr, 0) != ANSORC_OK) return 4;
  if (std::strcmp(net_status_text(0), "it worked") != 0) return 5;
  if (std::strcmp(net_status_text(99), "an unknown status") != 0) return 6;
  std::printf("%s", net_status_text(status));
}
"""


@pytest.mark.parametrize("suffix", [".so", ".a"])
def test_one_library_in_a_cpp_program(
    module: ac.NetworkVariants, tmp_path: Path, suffix: str
) -> None:
    files = module.save(tmp_path / f"net{suffix}")
    plan = module.modules[0]._plan  # pyright: ignore[reportPrivateUsage]
    assert plan is not None
    assert files.library.read_bytes().count(plan.weights.array().tobytes()) == 1
    (tmp_path / "main.cpp").write_text(PROGRAM)
    command = f"c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror main.cpp net{suffix} -pthread"
    flags = ["-lm", "-Wl,-rpath,$ORIGIN", "-o", "main"]
    subprocess.run([*command.split(), *flags], cwd=tmp_path, check=True)
    out = subprocess.run(tmp_path / "main", check=True, capture_output=True, text=True).stdout
    *numbers, rest = out.split(" ", 3)
    ones = np.full((1, WIDTH), 0.5, np.float32), np.full((1, WIDTH), 0.25, np.float32)
    np.testing.assert_allclose([float(n) for n in numbers], module(*ones)[0, -1], rtol=1e-4)
    assert rest.startswith("there is no network for these extents; there are x: 1x24, scale: 1x24")
    (tmp_path / "twice.c").write_text('#include "net.h"\n' * 2)
    strict = "cc -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only twice.c"
    subprocess.run(strict.split(), cwd=tmp_path, check=True)


def test_one_library_is_loaded_again(module: ac.NetworkVariants, tmp_path: Path) -> None:
    module.save(tmp_path / "net.so")
    loaded = ac.load_library(tmp_path / "net.so")
    assert isinstance(loaded, ac.NetworkVariants)
    assert repr(loaded) == repr(module)
    for rows in (1, 3, 64):
        np.testing.assert_array_equal(loaded(*inputs(rows)), module(*inputs(rows)))
    with pytest.raises(BuildError, match="'net' was loaded from a library"):
        loaded.save(tmp_path / "copy.so")
    with pytest.raises(BuildError, match="is a network, not a kernel"):
        load_kernel(tmp_path / "net.so")


def test_shapes_of_different_ranks_have_no_function_that_picks(tmp_path: Path) -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": None}, ["y"])
    both = ac.build(ac.from_onnx(model, {"x": [(4,), (2, 3)]}))
    np.testing.assert_array_equal(both(np.ones((2, 3), np.float32)), np.ones((2, 3)))
    with pytest.raises(BuildError, match="'x' has different numbers of dimensions"):
        both.save(tmp_path / "net.so")


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
