"""Networks that `ac.quantize` computes in integers: near the float ones, and as their text says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import GraphError, OptionError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.calibration import CalibrationMethod
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.output_errors import OutputErrors
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32, INT8
from ansorc.lang.hints import FITS
from tests.support.assumed import executable
from tests.support.narrow_kernels import SPR
from tests.support.nightly import examples

SIZE = 10


class Maker:
    """A network in the making, with random weights."""

    def __init__(self, seed: int, channels: int = 8) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder("net")
        kind = TensorType(FLOAT32, (1, channels, SIZE, SIZE))
        self.last, self.channels = self.builder.input("x", kind), channels

    def weights(self, *shape: int) -> str:
        scale = 1 / np.sqrt(max(1, int(np.prod(shape[1:]))))
        return self.builder.constant((self.rng.normal(size=shape) * scale).astype(np.float32))

    def add(self, operator: str, *others: str, **given: Any) -> str:
        self.last = self.builder.add(operator, [self.last, *others], **given)
        return self.last

    def convolve(self, out: int, kernel: int = 3, groups: int = 1, *, cut: str = "relu") -> None:
        weights = self.weights(out, self.channels // groups, kernel, kernel)
        self.add("conv2d", weights, padding=kernel // 2, layout="NCHW", groups=groups)
        self.add("batch_norm", self.positive(out), self.weights(out), axis=1)
        self.channels = out
        if cut == "relu6":
            self.add("maximum", self.builder.constant(np.float32(0)))
            self.add("minimum", self.builder.constant(np.float32(6)))
        elif cut:
            self.add(cut)

    def positive(self, count: int) -> str:
        return self.builder.constant(self.rng.uniform(0.5, 2.0, count).astype(np.float32))

    def graph(self) -> ac.Graph:
        return self.builder.graph([self.last])


def residual(seed: int = 0) -> ac.Graph:
    """Two convolutions around a sum, a pool, a mean and a product."""
    made = Maker(seed)
    made.convolve(16)
    before = made.last
    made.convolve(16, cut="")
    made.add("add", before)
    made.add("relu")
    made.add("max_pool2d", kernel=2, stride=2, layout="NCHW")
    made.convolve(24, 1)
    made.add("global_avg_pool", layout="NCHW")
    made.add("reshape", shape=(1, 24))
    made.add("dense", made.weights(6, 24))
    made.add("add", made.weights(6))
    return made.graph()


def mobile(seed: int = 0) -> ac.Graph:
    """Pointwise, depthwise, pointwise."""
    made = Maker(seed)
    made.convolve(32, 1, cut="relu6")
    made.convolve(32, 3, 32, cut="relu6")
    made.convolve(12, 1, cut="")
    return made.graph()


def encoder(seed: int = 0) -> ac.Graph:
    """A product whose result stays float, as an activation reads it."""
    made = Maker(seed)
    made.add("reshape", shape=(SIZE, 8 * SIZE))
    made.add("matmul", made.weights(80, 24))
    made.add("add", made.weights(24))
    made.add("gelu")
    made.add("matmul", made.weights(24, 16))
    return made.graph()


NETWORKS = {"residual": residual, "mobile": mobile, "encoder": encoder}


def data(seed: int, calls: int = 16) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).normal(size=(calls, 8, SIZE, SIZE)).astype(np.float32)}


def error_of(found: Array, exact: Array) -> float:
    return float(np.abs(found - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize("name", NETWORKS)
@given(seed=st.integers(0, 2**20))
@examples(1, nightly=20)
def test_it_is_near_the_network_of_floats(name: str, seed: int) -> None:
    graph = NETWORKS[name](seed)
    quantized = ac.quantize(graph, data(seed))
    inputs = {"x": data(seed)["x"][:1]}
    (exact,), (found,) = (run_reference(each, inputs).values() for each in (graph, quantized))
    assert error_of(found, exact) < 0.06
    network = Network.of(quantized)
    module = ac.build(quantized)
    errors = OutputErrors(network, inputs).of(module.run(inputs))
    for error in errors.values():
        assert error.is_right
        assert error.of_quantizing is not None
        assert error.of_quantizing < 0.06


@pytest.mark.parametrize("name", NETWORKS)
def test_all_products_are_of_integers(name: str) -> None:
    graph = Network.of(ac.quantize(NETWORKS[name](), data(0))).graph
    products = [
        node for node in graph.nodes if node.builtin.startswith(("conv", "matmul", "dense"))
    ]
    assert products
    for node in products:
        assert all(graph.types[each].dtype.bits == 8 for each in node.inputs), node.builtin
        assert graph.types[node.name].dtype.name == "int32"


@pytest.mark.parametrize("name", NETWORKS)
def test_for_a_target_pairs_of_weights_fit(name: str) -> None:
    """The products say so, and their kernels are right; other targets get all of int8."""
    graph, avx2 = NETWORKS[name](1), "x86_64-linux-gnu -mcpu=znver3"
    quantized = ac.quantize(graph, data(1), target=avx2)
    marked = [
        any(FITS in dict(op.hints) for op in task.dag.ops)
        for _, task in Network.of(quantized, avx2).task_of
        if any(buffer.dtype == INT8 for buffer in task.dag.inputs) and "depthwise" not in task.name
    ]
    assert marked
    assert all(marked)
    inputs = {"x": data(2)["x"][:1]}
    (exact,), (found,) = (run_reference(each, inputs).values() for each in (graph, quantized))
    assert error_of(found, exact) < 0.06
    target = executable(avx2)
    network = Network.of(quantized, target)
    errors = OutputErrors(network, inputs).of(ac.build(quantized, target).run(inputs))
    assert all(error.is_right for error in errors.values())
    same = (ac.quantize(graph, data(1), target=each).to_text() for each in (None, SPR))
    assert len({ac.quantize(graph, data(1)).to_text(), *same}) == 1


def test_bytes_stay_bytes_between_products() -> None:
    graph = Network.of(ac.quantize(mobile(), data(0))).graph
    counts = Counter(node.builtin for node in graph.nodes)
    assert counts["quantize"] == 1, "the input alone becomes bytes; sums do it themselves"
    assert counts["requantize"] == 2
    assert not counts["minimum"] + counts["maximum"] + counts["relu"]


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_methods_of_calibration(method: CalibrationMethod) -> None:
    graph, inputs = residual(), {"x": data(0)["x"][:1]}
    (exact,) = run_reference(graph, inputs).values()
    (found,) = run_reference(ac.quantize(graph, data(0), method), inputs).values()
    assert error_of(found, exact) < 0.06


def test_what_is_kept_stays_float() -> None:
    graph = residual()
    products = [node.name for node in graph.nodes if node.builtin in ("conv2d", "dense")]
    made = ac.quantize(graph, data(0), keep=[products[0], products[-1]])
    weights = [node for node in made.nodes if node.builtin == "dequantize_constant"]
    assert len([node for node in weights if len(made.types[node.name].shape) > 1]) == 2
    assert made.unquantized is graph


def test_a_tensor_of_zeros_is_exact() -> None:
    made = Maker(0)
    made.add("multiply", made.builder.constant(np.float32(0)))
    made.convolve(4)
    graph = made.graph()
    inputs = {"x": data(0)["x"][:1]}
    (exact,) = run_reference(graph, inputs).values()
    (found,) = run_reference(ac.quantize(graph, data(0)), inputs).values()
    assert error_of(found, exact) < 0.02


def test_a_relu_stays_before_a_batch_norm() -> None:
    made = Maker(0)
    made.convolve(12)
    made.add("batch_norm", made.positive(12), made.positive(12), axis=1)
    made.convolve(6, cut="")
    graph = made.graph()
    inputs = {"x": data(0)["x"][:1]}
    (exact,) = run_reference(graph, inputs).values()
    (found,) = run_reference(ac.quantize(graph, data(0)), inputs).values()
    assert error_of(found, exact) < 0.03


@pytest.mark.parametrize("size", [1e-30, 2e-43, 1.4e-45])
def test_tiny_weights_do_not_wrap(size: float) -> None:
    """Scales of denormal numbers are rounded so much that quotients are beyond 127."""
    builder = GraphBuilder("tiny")
    x = builder.input("x", TensorType(FLOAT32, (4, 8)))
    weight = (np.random.default_rng(0).uniform(0.5, 1.0, (8, 3)) * size).astype(np.float32)
    graph = builder.graph([builder.add("matmul", [x, builder.constant(weight)])])
    values = np.random.default_rng(1).uniform(0.0, 1.0, (16, 4, 8)).astype(np.float32)
    quantized = ac.quantize(graph, {"x": values})
    integers = [a for a in quantized.constants.values() if a.dtype == np.int8 and a.ndim == 2]
    assert (integers[0] >= 0).all()


def test_a_number_between_two_integers_may_become_either() -> None:
    """In float64 it is just below the middle, in float32 the middle itself."""
    scales = np.random.default_rng(0).uniform(0.1, 1.0, 1000).astype(np.float32)
    values = np.float32(1.5) * scales
    wide = np.rint(values.astype(np.float64) / scales.astype(np.float64))
    (place, *_) = np.flatnonzero(np.rint(values / scales) != wide)
    builder = GraphBuilder("half")
    x = builder.input("x", TensorType(FLOAT32, (1,)))
    parameters = [builder.constant(scales[place]), builder.constant(np.uint8(0))]
    quantized = builder.add("quantize", [x, *parameters], dtype="uint8", axis=-1)
    graph = builder.graph([builder.add("dequantize", [quantized, *parameters], axis=-1)])
    inputs = {"x": values[place : place + 1]}
    (error,) = OutputErrors(Network.of(graph), inputs).of(ac.build(graph).run(inputs)).values()
    assert error.error > 0.4
    assert error.is_right


def test_a_wrong_result_of_integers_is_told() -> None:
    quantized, inputs = ac.quantize(residual(), data(3)), {"x": data(3)["x"][:1]}
    errors = OutputErrors(Network.of(quantized), inputs)
    results = ac.build(quantized).run(inputs)
    assert all(error.is_right for error in errors.of(results).values())
    ((name, values),) = results.items()
    wrong = values.copy()
    wrong.flat[2] += 0.02 * np.abs(values).max()
    assert not errors.of({name: wrong})[name].is_right


def test_nothing_to_quantise_is_refused() -> None:
    made = Maker(0)
    made.add("relu")
    with pytest.raises(GraphError, match="no product or convolution of known weights"):
        ac.quantize(made.graph(), data(0))


def test_names_that_there_are_not_are_refused() -> None:
    with pytest.raises(OptionError, match="keep names 'nothing', which no node"):
        ac.quantize(residual(), data(0), keep=["nothing"])


def test_a_precision_of_integers_says_what_it_needs() -> None:
    with pytest.raises(OptionError, match=r"int8 needs data: ac.quantize\(graph, data\)"):
        ac.build(residual(), precision="int8")  # pyright: ignore[reportCallIssue, reportArgumentType]
