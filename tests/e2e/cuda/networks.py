"""Networks for GPUs: small ones of several kinds, their plans, what they should compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import ansorc as ac
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.graph_variants import GraphVariants
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs, compile_network_plan
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32
from ansorc.search.programs import ProgramChoice
from ansorc.target import Target
from tests.graph.small_networks import Weights, attention_network, inputs_of, residual_network

EMULATED = Target.parse("cuda-emulated -arch=sm_80")


def digits_network() -> Graph:
    """A classifier of images of 8 x 8, its weights drawn."""
    draw, b = Weights(3), GraphBuilder("digits")
    x = b.input("image", TensorType(FLOAT32, (1, 1, 8, 8)))
    y = b.add("conv2d", [x, b.constant(draw(6, 1, 3, 3))], padding=1, layout="NCHW")
    y = b.add("global_avg_pool", [b.add("relu", [y])], layout="NCHW")
    y = b.add("matmul", [y, b.constant(9 * draw(6, 10))])
    return b.graph([b.add("softmax", [y], "probabilities", axis=-1)])


def quantised_network() -> Graph:
    """A convolution of uint8 by int8, quantised again, and its largest values of each channel."""
    rng = np.random.default_rng(4)
    weights: dict[str, Any] = {
        "scale": np.float32(0.03), "zero": np.uint8(9), "w_scale": np.float32(0.02),
        "w_zero": np.int8(0), "y_scale": np.float32(0.4), "y_zero": np.uint8(100),
        "w": rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8),
        "bias": rng.integers(-999, 999, 4).astype(np.int32),
    }  # fmt: skip
    order = ["x", "scale", "zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias"]
    make = helper.make_node
    graph = helper.make_graph(
        [
            make("QLinearConv", order, ["y"], pads=[1] * 4),
            make("MaxPool", ["y"], ["peak"], kernel_shape=[2, 2], strides=[2, 2]),
        ],
        "quantised",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, (1, 3, 6, 6))],
        [helper.make_empty_tensor_value_info("peak")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return ac.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def several_outputs() -> Graph:
    """Four outputs: a sum, what is made of it, an input as it is, and a constant."""
    b = GraphBuilder("several")
    x = b.input("x", TensorType(FLOAT32, (5, 7)))
    y = b.input("y", TensorType(FLOAT32, (7,)))
    total = b.add("add", [x, y], "total")
    fixed = b.constant(Weights(5)(2, 3))
    return b.graph([total, b.add("relu", [total], "positive"), x, fixed])


def row_sums() -> GraphVariants:
    """x [n, 4] plus a row, for two values of n."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "row"], ["y"])],
        "sums",
        [info("x", onnx.TensorProto.FLOAT, ("n", 4))],
        [info("y", onnx.TensorProto.FLOAT, ("n", 4))],
        [numpy_helper.from_array(np.arange(4, dtype=np.float32), "row")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return ac.from_onnx(model, inputs={"x": [(1, 4), (3, 4)]})


NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "residual": residual_network,
    "attention": attention_network,
    "quantised": quantised_network,
    "several": several_outputs,
    "digits": digits_network,
}


def feeds(graph: Graph, seed: int = 2) -> dict[str, Array]:
    """Return random inputs, integers over their whole range."""
    rng = np.random.default_rng(seed)
    made = inputs_of(graph, seed)
    for name, kind in graph.inputs.items():
        if kind.dtype.numpy.kind in "iu":
            info = np.iinfo(kind.dtype.name)
            made[name] = rng.integers(info.min, info.max + 1, kind.shape).astype(info.dtype)
    return made


@lru_cache(maxsize=len(NETWORKS))
def plan_of(name: str) -> NetworkPlan:
    """Return the plan of one of NETWORKS with the default programs; any CUDA target takes it."""
    network = Network.of(NETWORKS[name](), EMULATED)
    choice = ProgramChoice(Path("none.db"), use_default=True)
    return compile_network_plan(network, choose_programs(network, choice), name)


def assert_right(graph: Graph, inputs: Mapping[str, Array], found: Mapping[str, Array]) -> None:
    """Hold the outputs against the graph in float64."""
    expected = run_reference(graph, inputs)
    assert list(found) == list(graph.outputs)
    for name, values in expected.items():
        if values.dtype.kind == "f":
            scale = float(np.abs(values).max())
            np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5 * scale)
        else:
            np.testing.assert_array_equal(found[name], values)
