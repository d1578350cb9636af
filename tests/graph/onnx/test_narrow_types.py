"""float16 and bfloat16 of ONNX files: what is kept in 16 bits, and what is not."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ansorc as ac
from ansorc.codegen.call.network_module import NetworkModule
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import dtype

HALF = TensorProto.FLOAT16


def half_model(
    nodes: Sequence[onnx.NodeProto], weights: dict[str, Array], output: str, kind: int = HALF
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes), "net",
        [helper.make_tensor_value_info("x", kind, [4, 8])],
        [helper.make_tensor_value_info(output, kind, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def storage_of(graph: Graph) -> dict[str, str]:
    return {node.name: node.storage for node in graph.nodes}


def weight(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float16)


def two_layers(kind: int = HALF) -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Softmax", ["y"], ["p"]),
        helper.make_node("MatMul", ["p", "v"], ["z"]),
    ]
    numpy_type = np.float16 if kind == HALF else ml_dtypes.bfloat16
    weights = {name: weight(8, 8).astype(numpy_type) for name in ("w", "v")}
    return half_model(nodes, weights, "z", kind)


@pytest.mark.parametrize(("kind", "name"), [(HALF, "float16"), (TensorProto.BFLOAT16, "bfloat16")])
def test_tensors_between_kernels_have_the_types_of_the_file(kind: int, name: str) -> None:
    graph = ac.from_onnx(two_layers(kind))
    network = Network.of(graph)
    for group in network.partition.groups:
        for tensor in (*group.inputs, *group.outputs):
            assert network.graph.types[tensor].dtype.name == name
    x = np.random.default_rng(0).uniform(-1, 1, (4, 8)).astype(dtype(name).numpy)
    exact = run_reference(graph, {"x": x})["z"]
    found = ac.build(graph).run({"x": x})["z"]
    assert found.dtype.name == name
    epsilon = 2.0**-11 if name == "float16" else 2.0**-8
    assert np.abs(found.astype(np.float64) - exact).max() < 3 * epsilon * np.abs(exact).max()


def test_a_library_says_its_precision_and_has_types_for_c(tmp_path: Path) -> None:
    ac.build(ac.from_onnx(two_layers()), name="net").save(tmp_path / "net.so")
    header = tmp_path / "net.h"
    assert json.loads((tmp_path / "net.json").read_text())["network"]["precision"] == "f16"
    assert " * Between its kernels tensors are kept in f16.\n" in header.read_text()
    assert "int32_t net(const ansorc_f16 *x,\n            ansorc_f16 *z,\n" in header.read_text()
    loaded = ac.load_library(tmp_path / "net.so")
    assert isinstance(loaded, NetworkModule)
    x = np.ones((4, 8), np.float16)
    assert loaded.run({"x": x})["z"].dtype == np.float16
    for compiler, language in (("gcc", "c99"), ("g++", "c++17")):
        if shutil.which(compiler):
            kind = "c" if language == "c99" else "c++"
            strict = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-function")
            command = [compiler, f"-std={language}", "-x", kind, "-fsyntax-only", *strict]
            subprocess.run([*command, str(header)], check=True)


def test_f32_computes_a_file_of_float16_in_float32() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (4, 8)).astype(np.float16)
    graph = ac.from_onnx(two_layers())
    exact = run_reference(graph, {"x": x})["z"]
    found = ac.build(graph, precision="f32")(x)
    np.testing.assert_array_equal(found, exact.astype(np.float16))


def test_casts_to_float32_make_an_island_that_is_not_rounded() -> None:
    """x² is beyond the range of float16 there."""
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["wide", "wide"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["mean"], axes=[1]),
        helper.make_node("Sqrt", ["mean"], ["root"]),
        helper.make_node("Cast", ["root"], ["y"], to=HALF),
        helper.make_node("MatMul", ["y", "w"], ["z"]),
    ]
    graph = ac.from_onnx(half_model(nodes, {"w": weight(1, 8)}, "z"))
    stored = storage_of(graph)
    assert not any(stored[name] for name in stored if name.startswith(("multiply", "mean", "sqrt")))
    assert stored[next(name for name in stored if name.startswith("matmul"))] == "float16"
    x = np.full((4, 8), 1000, np.float16)
    np.testing.assert_allclose(ac.build(graph)(x), 1000 * np.ones((4, 1)) * weight(1, 8), rtol=1e-3)


def test_an_explicit_cast_rounds_and_is_kept_so() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["wide"], ["coarse"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["coarse"], ["back"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["back"], ["z"], to=HALF),
    ]
    x = (1 + np.arange(32).reshape(4, 8) / 1024).astype(np.float16)
    graph = ac.from_onnx(half_model(nodes, {}, "z"))
    wanted = x.astype(ml_dtypes.bfloat16).astype(np.float16)
    np.testing.assert_array_equal(ac.build(graph)(x), wanted)
    np.testing.assert_array_equal(ac.build(graph, precision="f32")(x), wanted)


def test_statistics_of_norms_stay_float32() -> None:
    nodes = [
        helper.make_node("LayerNormalization", ["x", "w", "b"], ["n", "mean", "inverse"]),
        helper.make_node("Cast", ["inverse"], ["narrow"], to=HALF),
        helper.make_node("Mul", ["n", "narrow"], ["z"]),
    ]
    graph = ac.from_onnx(half_model(nodes, {"w": weight(8), "b": weight(8)}, "z"))
    by_operator = {node.builtin: node.storage for node in graph.nodes}
    assert by_operator["standardize"] == ""
    assert by_operator["multiply"] == "float16"


def test_values_that_are_known_have_the_type_of_the_file() -> None:
    table = weight(5, 8)
    nodes = [
        helper.make_node("Constant", [], ["t"], value=numpy_helper.from_array(table)),
        helper.make_node("ArgMax", ["x"], ["places"], axis=1, keepdims=0),
        helper.make_node("Gather", ["t", "places"], ["rows"]),
        helper.make_node("Softmax", ["rows"], ["z"]),
    ]
    stored = storage_of(ac.from_onnx(half_model(nodes, {}, "z")))
    assert "float16" in {
        kind for name, kind in stored.items() if name.startswith(("take", "gather"))
    }
