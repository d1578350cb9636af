"""What weights take: in a library, at load, and in memory while a network is built."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.build import compile_function
from ansorc.codegen.call.network_module import NetworkModule, link_network
from ansorc.codegen.network.own_weights import with_all_packed, with_own_weights
from ansorc.codegen.network.plan import BufferSlot, KernelCall, NetworkPlan, PlaceKind
from ansorc.codegen.network.weights import Weight
from ansorc.codegen.package.signature import Param
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.tensor_type import TensorType
from ansorc.graph.weight_placement import MOST_GROWTH_BYTES, merge_equal, place_weights
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.dump import DumpFolder
from ansorc.ir.packing import PackedPart, Packing
from ansorc.ir.parser import parse
from ansorc.schedule import packings
from ansorc.target import Target
from tests.graph.onnx.onnx_models import model_of, node
from tests.graph.small_networks import Weights
from tests.support.nightly import sampled

NATIVE = Target.parse("native")
CHANNELS = 256


def winograd(channels: int = CHANNELS) -> Packing:
    """How a convolution by Winograd's way reads its weight."""
    x = ac.placeholder((1, 6, 6, channels), "x")
    w = ac.placeholder((3, 3, channels, channels), "w", constant=True)
    state = ac.schedule(ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, name="y")]))
    state = state.redefine("y", "winograd").split("y.product", "c", [24])
    (packing,) = packings(state.rewrite_layout("y.product", "w"))
    return packing


def copying(places: list[BufferSlot], packing: Packing, **parts: object) -> NetworkPlan:
    """A network whose outputs are weights, as its kernels read them."""
    size = packing.packed.elements
    text = f"kernel f(W: float32[{size}] constant, Y: float32[{size}]):\n"
    kernel = compile_function(
        parse(f"{text}    for i in 0..{size}:\n        Y[i] = W[i]\n"), NATIVE
    )
    outputs = [Param(f"y{n}", (size,), FLOAT32, is_output=True) for n in range(len(places))]
    calls = [
        KernelCall(0, (place, BufferSlot(PlaceKind.OUTPUT, n)), "copy")
        for n, place in enumerate(places)
    ]
    return NetworkPlan("copying", (), tuple(outputs), (kernel,), tuple(calls), 0, **parts)  # pyright: ignore[reportArgumentType]


def test_what_grows_is_packed_when_it_is_loaded() -> None:
    packing, draw = winograd(), Weights()
    sources = [draw(3, 3, CHANNELS, CHANNELS) for _ in range(3)]
    small, plain = Weight(draw(7, 5)), Weight(sources[0])
    weights = [*(Weight(source, packing) for source in sources), small, plain]
    found = place_weights(weights, NATIVE)
    total = sum(source.nbytes for source in sources) + small.nbytes
    assert found.stored.nbytes <= total + MOST_GROWTH_BYTES
    assert found.derived.nbytes == 3 * packing.packed.bytes
    places = [found.place(one) for one in weights]
    kinds = [place.kind for place in places]
    assert kinds == [PlaceKind.DERIVED] * 3 + [PlaceKind.WEIGHTS] * 2
    assert len(found.derived.packers) == 1

    expected = [packing.apply(source).reshape(-1) for source in sources]
    plan = copying(places[:3], packing, weights=found.stored, derived=found.derived)
    own = with_own_weights(copying(places[1:2], packing, weights=found.stored,
                                   derived=found.derived))  # fmt: skip
    assert own.weights.nbytes == sources[1].nbytes
    assert own.derived.nbytes == packing.packed.bytes
    packed = with_all_packed(plan)
    assert packed.weights.nbytes == 3 * packing.packed.bytes
    for each, wanted in ((plan, expected), (own, expected[1:2]), (packed, expected)):
        result = link_network(each, NATIVE)()
        for one, values in zip(result if len(wanted) > 1 else [result], wanted, strict=True):
            np.testing.assert_allclose(one, values, 1e-5, 1e-7)
    again = link_network(with_all_packed(plan), NATIVE)()  # what was stored is in memory by now
    np.testing.assert_allclose(again, expected, 1e-5, 1e-7)


def test_what_packs_when_it_is_loaded_is_in_the_dump(tmp_path: Path) -> None:
    draw = Weights()
    weights = [Weight(draw(3, 3, CHANNELS, CHANNELS), winograd()) for _ in range(3)]
    place_weights(weights, NATIVE, DumpFolder(tmp_path))
    (folder,) = tmp_path.iterdir()
    assert folder.name == "pack"
    assert (folder / "00_lowered.ir").read_text().startswith("kernel pack(")


def test_what_grows_a_little_is_stored_packed() -> None:
    packing, draw = winograd(16), Weights()
    weights = [Weight(draw(3, 3, 16, 16), packing) for _ in range(3)]
    found = place_weights(weights, NATIVE)
    assert not found.derived.weights
    assert found.stored.nbytes == 3 * packing.packed.bytes


def test_equal_weights_of_several_networks_lie_once() -> None:
    packing, draw = winograd(16), Weights()
    source = draw(3, 3, 16, 16)
    weights = [Weight(source, packing), Weight(source.copy(), packing), Weight(source.copy())]
    found = place_weights(merge_equal(weights), NATIVE)
    assert found.stored.nbytes == packing.packed.bytes + source.nbytes


def test_layouts_that_write_the_same_bytes_lie_once() -> None:
    source = Weights()(24, 40)
    buffer = Buffer("w", (24, 40), FLOAT32, constant=True)
    rows, columns = PackedPart(0, 1, 24), PackedPart(1, 1, 40)
    tiled = PackedPart(0, 8, 3), PackedPart(1, 40, 1), PackedPart(0, 1, 8)
    layouts = [(rows, columns), (*tiled, columns), (columns, rows), (columns, *tiled)]
    packings = [Packing(buffer, parts, (0, 0)) for parts in layouts]
    weights = [Weight(source), *(Weight(source, packing) for packing in packings)]
    found = place_weights(weights, NATIVE)
    offsets = [found.place(one).offset for one in weights]
    assert offsets == [0, 0, 0, source.nbytes, source.nbytes]
    assert found.stored.nbytes == 2 * source.nbytes
    for packing in packings:
        merged = packing.merged.apply(source)
        np.testing.assert_array_equal(merged.reshape(-1), packing.apply(source).reshape(-1))


def convolutions() -> Graph:
    """Three convolutions, which are fastest by Winograd's way."""
    draw, b = Weights(), GraphBuilder("convolutions")
    y = b.input("x", TensorType(FLOAT32, (1, CHANNELS, 14, 14)))
    for _ in range(3):
        w = b.constant(draw(CHANNELS, CHANNELS, 3, 3))
        y = b.add("relu", [b.add("conv2d", [y, w], padding=1, layout="NCHW")])
    return b.graph([y])


def test_a_library_is_as_large_as_the_weights_of_its_network(tmp_path: Path) -> None:
    graph = convolutions()
    library = ac.build(graph).save(tmp_path / "net.so").library
    size = sum(array.nbytes for array in graph.constants.values())
    assert size <= library.stat().st_size <= size + 3e6
    x = np.random.default_rng(0).standard_normal((1, CHANNELS, 14, 14)).astype(np.float32)
    module = ac.load_library(library)
    assert isinstance(module, NetworkModule)
    (expected,) = run_reference(graph, {"x": x}).values()
    np.testing.assert_allclose(module(x), expected, 1e-4, 1e-4 * float(np.abs(expected).max()))


BUILD = """
import re, sys
from pathlib import Path
from ansorc.cli.main import main
try:
    main(["build", sys.argv[1], "--default", "-o", sys.argv[2], *sys.argv[3:]])
except SystemExit as end:
    assert not end.code
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def built_peak(width: int, directory: Path, *options: str) -> tuple[int, int]:
    """The bytes of the weights of a perceptron, and of memory at the peak of its build."""
    draw, layers = Weights(), 4
    weights = {f"w{n}": draw(width, width) for n in range(layers)}
    nodes = [node("MatMul", [f"y{n}", f"w{n}"], [f"y{n + 1}"]) for n in range(layers)]
    model = model_of(nodes, {"y0": (2, width)}, [f"y{layers}"], weights)
    (directory / f"{width}.onnx").write_bytes(model.SerializeToString())
    files = [str(directory / f"{width}.onnx"), str(directory / f"{width}.so")]
    command = [sys.executable, "-c", BUILD, *files, *options]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peak = re.search(r"(\d+)\s*$", out)
    assert peak
    return sum(array.nbytes for array in weights.values()), int(peak[1]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the peak")
@pytest.mark.parametrize("has_file", sampled([False, True], [False]))
def test_a_build_takes_at_most_three_times_the_weights(tmp_path: Path, *, has_file: bool) -> None:
    options = ["--weights", str(tmp_path / "net.weights")] if has_file else []
    _, least = built_peak(64, tmp_path, *options)
    size, peak = built_peak(2048, tmp_path, *options)
    assert size == 64 << 20
    assert peak - least <= 2.5 * size
