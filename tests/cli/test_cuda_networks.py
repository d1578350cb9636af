"""The commands with a network for GPUs: built, shown, emulated and ranked without a device."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.codegen.cuda.wheels import needs_wheels
from tests.support.command_line import CommandLine

TARGET = ("--target", "cuda -arch=sm_80")
NET = ("net.onnx", "--input", "x=2x12", "--default")


@pytest.fixture(autouse=True)
def model(cli: CommandLine) -> None:
    """Write x [batch, 12] -> y, its sum with a row, and z, y transposed: cheap to schedule."""
    make, info = helper.make_node, helper.make_tensor_value_info
    shape = ["batch", 12]
    graph = helper.make_graph(
        [make("Add", ["x", "row"], ["y"]), make("Transpose", ["y"], ["z"], perm=[1, 0])],
        "net",
        [info("x", TensorProto.FLOAT, shape)],
        [info("y", TensorProto.FLOAT, shape), info("z", TensorProto.FLOAT, [12, "batch"])],
        [numpy_helper.from_array(np.arange(12, dtype=np.float32), "row")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (cli.directory / "net.onnx").write_bytes(proto.SerializeToString())


def test_build_writes_an_image_and_weights(cli: CommandLine) -> None:
    built = cli.run("build", *NET, *TARGET, "-o", "net.cu")
    assert built.code == 0, built
    for name in ("net.cu", "net.h", "net.json", "net.weights"):
        assert f"  {name} ({Path(name).stat().st_size} bytes)" in built.out
    text = Path("net.cu").read_text()
    assert text.startswith('extern "C" __global__ void')
    manifest = json.loads(Path("net.json").read_text())
    assert manifest["network"]["weights"]["file"] == "net.weights"
    assert len(manifest["cuda"]["calls"]) == len(manifest["network"]["calls"]) == 2


@needs_wheels
@pytest.mark.parametrize("ending", ["cubin", "ptx", "fatbin"])
def test_build_compiles(cli: CommandLine, ending: str) -> None:
    more = () if ending == "cubin" else ("-o", f"net.{ending}", "--weights", "w.bin")
    built = cli.run("build", *NET, *TARGET, *more)
    assert built.code == 0, built
    weights = Path("w.bin" if more else "net.weights")
    assert f"  {weights} ({weights.stat().st_size} bytes)" in built.out
    assert Path(f"net.{ending}").stat().st_size > 1000


def test_show_prints_the_text(cli: CommandLine) -> None:
    shown = cli.run("show", *NET, *TARGET, "--view", "memory", "--view", "cuda")
    assert shown.code == 0, shown
    assert "# the offsets and lifetimes of intermediate tensors" in shown.out
    assert re.search(r'extern "C" __global__ void __launch_bounds__\(\d+\) k0_0_\w+\(', shown.out)
    other = cli.run("show", *NET, "--view", "cuda")
    assert other.code == 2
    assert "'cuda' is not one of 'graph'" in other.err


def test_run_checks_it_in_the_emulation(cli: CommandLine) -> None:
    ran = cli.run("run", *NET, "--target", "cuda-emulated")
    assert ran.code == 0, ran
    assert len(re.findall(r"'[yz]' is right: largest error [\d.e-]+ of its largest", ran.out)) == 2
    assert "2 calls of kernels, emulated on this CPU: times say nothing about a GPU" in ran.out


def test_what_cannot_be_built_is_refused(cli: CommandLine) -> None:
    assert "end the name in .ptx" in cli.run("build", *NET, *TARGET, "-o", "net.so").refused()
    several = (*NET[:3], "--input", "x=3x12", "--default")
    words = cli.run("build", *several, *TARGET, "-o", "net.cu").refused()
    assert "not one image for a GPU; save each by itself" in words
    assert not list(cli.directory.glob("net.[cjh]*"))


def test_programs_are_ranked_and_nothing_is_kept(cli: CommandLine) -> None:
    ended = cli.run("tune", *NET[:3], *TARGET, "--no-device")
    assert ended.code == 0, ended
    assert re.search(r"net: 2 tasks, 2 kernels, target cuda -arch=sm_80 \(a100\)", ended.out)
    assert "nothing was measured: these are estimates of a model" in ended.out
    assert not list(cli.directory.glob("*.db"))
