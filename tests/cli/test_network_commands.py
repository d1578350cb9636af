"""The commands with an ONNX file: what they print and write, and each mistake in one sentence."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import ansorc as ac
from ansorc.codegen.call.network_module import NetworkModule
from ansorc.codegen.call.network_variants import NetworkVariants
from ansorc.graph.graph_reference import run_reference
from tests.cli.small_onnx import CLASSES, WIDTH, write_model
from tests.support.command_line import CommandLine

NET = ("net.onnx", "--input", f"x=2x{WIDTH}", "--default")
RIGHT = r"  'y' is right: largest error [\d.e-]+ of its largest element \(float64 reference\)\n"


@pytest.fixture(autouse=True)
def model(cli: CommandLine) -> None:
    write_model(cli.directory / "net.onnx")


def test_build_writes_a_library_that_python_loads(cli: CommandLine) -> None:
    built = cli.run("build", *NET)
    assert built.code == 0, built
    assert re.match(r"net: 0 of \d tasks tuned, for ", built.out)
    for name in ("net.so", "net.h", "net.json"):
        assert f"  {name} ({Path(name).stat().st_size} bytes)" in built.out
    module = ac.load_library("net.so")
    assert isinstance(module, NetworkModule)
    x, positions = np.ones((2, WIDTH), np.float32), np.zeros(WIDTH, np.float32)
    graph = ac.from_onnx("net.onnx", {"x": (2, WIDTH)})
    inputs = {"x": x, "positions": positions}
    np.testing.assert_allclose(module(x, positions), run_reference(graph, inputs)["y"], 1e-5)


def test_run_builds_or_loads_and_checks(cli: CommandLine) -> None:
    assert cli.run("build", *NET, "-o", "lib.so", "--name", "classify").code == 0
    for choice, origin in (
        ((), r"0 of \d tasks tuned"),
        (("-l", "lib.so"), "built library lib.so"),
    ):
        ran = cli.run("run", *NET, *choice, "--threads", "1")
        assert ran.code == 0, ran
        assert re.match(rf"net: {origin}\n{RIGHT}  [\d.]+ .s ± .* GFLOP/s, \d+% of", ran.out), (
            ran.out
        )
        _, _, table = ran.out.partition("kernels, the slowest first")
        assert re.search(r"kernel +time +share +GFLOP/s +of peak +result", table)
        assert re.search(rf"softmax +[\d.]+ \ws +[\d.]+% .* float32\[2, {CLASSES}\]", table)


def test_a_precision_is_told_with_its_errors(cli: CommandLine) -> None:
    ran = cli.run("run", *NET, "--precision", "bf16", "--threads", "1")
    assert ran.code == 0, ran
    error = r"largest error ([\d.e-]+) of its largest element in bf16, ([\d.e-]+) in f32"
    told = re.search(rf"  'y' is right: {error} \(float64 reference\)\n", ran.out)
    assert told, ran.out
    assert float(told[1]) > 10 * float(told[2])
    assert re.search(r"  the error grows from 0 to [\d.e-]+ \(root mean square\) in \w", ran.out)
    assert "bfloat16[2, " in ran.out


def test_a_library_of_another_precision_is_refused(cli: CommandLine) -> None:
    narrow = (*NET, "--precision", "bf16")
    assert cli.run("build", *narrow).code == 0
    error = cli.run("run", *NET, "-l", "net.so").refused(2)
    assert "net.so keeps tensors in bf16, and this command asks for f32: give the --pre" in error
    assert cli.run("run", *narrow, "-l", "net.so", "--threads", "1").code == 0


def test_nodes_are_kept_by_name(cli: CommandLine) -> None:
    error = cli.run("build", *NET, "--precision", "f16", "--keep", "nothing").refused()
    assert "keep names 'nothing', which no node or tensor of 'net' is called" in error


def test_tune_then_build(cli: CommandLine) -> None:
    tuned = cli.run("tune", *NET[:-1], "--trials", "4")
    assert tuned.code == 0, tuned
    again = f"net.onnx --input x=2x{WIDTH} --records tune.db"
    assert f"build with: ansorc build {again}\n" in tuned.out
    built = cli.run("build", *again.split())
    assert re.match(r"net: [1-9] of \d tasks tuned, for ", built.out), built


def test_a_tuning_that_ends_before_its_trials_says_so(cli: CommandLine) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (cli.directory / "one.onnx").write_bytes(model.SerializeToString())
    tuned = cli.run("tune", "one.onnx", "--trials", "500")
    assert tuned.code == 0, tuned
    found = re.search(
        r"measured (\d+) programs in .*\n(\d+) programs fewer than were asked for: no kernel",
        tuned.err,
    )
    assert found, tuned.err
    assert int(found[1]) + int(found[2]) == 500, tuned.err


def test_run_picks_from_a_library_for_several_shapes(cli: CommandLine) -> None:
    shapes = {"x": [(2, WIDTH), (3, WIDTH)]}
    ac.build(ac.from_onnx("net.onnx", {**shapes, "positions": (WIDTH,)})).save("both.so")
    ran = cli.run("run", *NET, "-l", "both.so")
    assert ran.code == 0, ran
    assert re.match(rf"net: built library both.so\n{RIGHT}", ran.out), ran.out
    error = cli.run("run", "net.onnx", "--input", f"x=5x{WIDTH}", "-l", "both.so").refused()
    assert "net has no program for x: 5x12, positions: 12; it has x: 2x12, positions: 12 |" in error


def test_several_shapes_of_an_input_are_programs_behind_one_function(cli: CommandLine) -> None:
    both = ("net.onnx", "--input", f"x=2x{WIDTH}", "--input", f"x=3x{WIDTH}")
    tuned = cli.run("tune", *both, "--trials", "6")
    assert tuned.code == 0, tuned
    again = f"{' '.join(both)} --records tune.db"
    assert tuned.out.count(f"build with: ansorc build {again}\n") == 1
    built = cli.run("build", *again.split())
    assert re.match(r"net: [1-9] of \d tasks tuned, for ", built.out), built
    assert "net_3x12" in Path("net.h").read_text()
    module = ac.load_library("net.so")
    assert isinstance(module, NetworkVariants)
    assert module(np.ones((3, WIDTH), np.float32), np.zeros(WIDTH, np.float32)).shape == (3, 5)
    ran = cli.run("run", *both, "-l", "net.so")
    assert len(re.findall(RIGHT, ran.out)) == 2, ran
    shown = cli.run("show", *both)
    assert shown.out.count("# the kernels, equal ones together") == 2
    error = cli.run("build", *both, "--default", "--weights", "net.weights").refused(2)
    assert "--weights is for one shape: a library for several has their weights in it" in error
    error = cli.run("build", *both, "--input", "positions=12", "--input", "positions=12",
                    "--input", "positions=12").refused()  # fmt: skip
    assert "as many shapes are needed of each input that has a list: 2 for 'x', 3 for" in error


def test_programs_that_were_measured_in_other_caches_are_used_with_a_note(
    cli: CommandLine,
) -> None:
    assert cli.run("tune", *NET[:-1], "--trials", "4", "--cache", "cold-weights").code == 0
    built = cli.run("build", *NET[:-1])
    assert re.search(
        r"note: tune.db has no program of 'net' measured with caches as 'warm', which fits it best;"
        r" those of [1-9] of its \d tasks that were measured with 'cold-weights' are used\n",
        built.err,
    ), built
    assert "note:" not in cli.run("build", *NET[:-1], "--cache", "cold-weights").err
    with pytest.warns(UserWarning, match="measured with caches as 'warm'"):
        ac.build(ac.from_onnx("net.onnx", {"x": (2, WIDTH)}), records="tune.db")


PROGRAM = r"""
#include <cstdio>
#include "net.h"
int main() {
  float x[NET_X_ELEMENTS], y[NET_Y_ELEMENTS];
  for (int i = 0; i < NET_X_ELEMENTS; ++i) x[i] = 0.25F * static_cast<float>(i % 7 - 3);
#ifdef ANSORC_NOT_OPEN
  if (net_open("net.weights") != ANSORC_OK) return 1;
#endif
  if (net(x, y, nullptr, 0) != ANSORC_OK) return 2;
  for (float value : y) std::printf("%.6f ", static_cast<double>(value));
}
"""


@pytest.mark.parametrize("weights", [(), ("--weights", "net.weights")])
def test_a_built_library_in_a_cpp_program(cli: CommandLine, weights: tuple[str, ...]) -> None:
    np.save("positions.npy", np.linspace(0, 1, WIDTH, dtype=np.float32))
    more = (*weights, "--constant", "positions=positions.npy")
    built = cli.run("build", *NET, *more)
    assert built.code == 0, built
    for name in weights[1:]:
        assert f"  {name} ({Path(name).stat().st_size} bytes)" in built.out
    assert "positions" not in Path("net.h").read_text()
    Path("main.cpp").write_text(PROGRAM)
    command = "c++ -std=c++17 -Wall -Wextra -Werror main.cpp -L. -l:net.so -pthread -o main"
    subprocess.run([*command.split(), "-Wl,-rpath,$ORIGIN"], check=True)
    out = subprocess.run("./main", check=True, capture_output=True, text=True).stdout
    x = 0.25 * (np.arange(2 * WIDTH) % 7 - 3).astype(np.float32).reshape(2, WIDTH)
    graph = ac.from_onnx("net.onnx", {"x": (2, WIDTH)}, {"positions": np.load("positions.npy")})
    expected = run_reference(graph, {"x": x})["y"]
    np.testing.assert_allclose([float(word) for word in out.split()], expected.ravel(), atol=2e-6)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("graph", "softmax"),
        ("optimized-graph", "softmax"),
        ("tasks", " tasks, "),
        ("memory", "weights 0.00 MB, arena 0.00 MB (no less than "),
    ],
)
def test_every_view(cli: CommandLine, view: str, words: str) -> None:
    shown = cli.run("show", *NET, "--view", view)
    assert shown.code == 0, shown
    assert shown.out.startswith("# ")
    assert shown.out.count("\n# ") == 0
    assert words in shown.out
    if view == "tasks":
        assert cli.run("show", *NET).out == shown.out
    both = cli.run("show", *NET, "--view", "tasks", "--view", view).out
    assert both.endswith(shown.out)


def test_the_help_names_the_views(cli: CommandLine) -> None:
    shown = " ".join(cli.run("show", "--help").out.split())
    for view in ("graph", "optimized-graph", "tasks", "memory"):
        assert f" {view}, " in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("build net.onnx --default", r"extents 'batch' of the input 'x' are not fixed in the file"),
        ("build nothing.onnx --default", r"nothing\.onnx"),
        ("show net.onnx --input z=2", r"'net' has no input 'z'; it has 'x', 'positions'"),
        ("show net.onnx --input x=2x3", r"the input 'x' is \['batch', 12\], not \[2, 3\]"),
        (f"build net.onnx --input x=2x{WIDTH}", r"there is no record file tune\.db; run `ansorc"),
        (f"run net.onnx --input x=2x{WIDTH}", r"there is no record file tune\.db; run `ansorc"),
        (f"build net.onnx --input x=2x{WIDTH} --default -o a.txt", r"end it in \.so"),
        (f"build net.onnx --input x=2x{WIDTH} --default --name 9x", "cannot be called '9x'"),
        (f"build net.onnx --input x=2x{WIDTH} --default --weights net.json",
         r"the weights cannot be in 'net\.json' too"),
        (f"run net.onnx --input x=2x{WIDTH} -l missing.so", r"missing\.so cannot be loaded"),
        ("show odd.onnx --input x=2x12", r"does not know this operator; define it in the DSL"),
    ],
)  # fmt: skip
def test_bad_input(cli: CommandLine, arguments: str, words: str) -> None:
    write_model(cli.directory / "odd.onnx", operator="NoSuchOperator")
    error = cli.run(*arguments.split()).refused()
    assert re.search(words, error), error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("show net.onnx --set n=3", "--set is for workloads in Python; 'net.onnx' has none"),
        ("show net.onnx --input x", "--input x: write NAME=SHAPE, e.g. --input x=1x3x224x224"),
        ("show net.onnx --input x=axb", "--input x=axb: write NAME=SHAPE"),
        ("show net.onnx --constant x", "--constant x: write NAME=FILE.npy"),
        ("show net.onnx --constant x=no.npy", "--constant x=no.npy: no.npy is not a .npy file: "),
        ("show net.onnx --input x=2x12 --view ir", "'ir' is not one of 'graph', 'optimized-graph'"),
        ("run net.onnx --input x=2x12 -l kernel.so", "kernel.so is a kernel, no network"),
        ("show ops.py:product --input x=2", "--input and --constant are for networks; 'ops.py:pro"),
        ("show ops.py:product --keep x", "--precision, --keep and --calibrate are for n"),
        ("bench net.onnx --input x=2x12 --default --keep y", "other libraries read a network as"),
        ("build ops.py:product --default --weights w", "--weights is for networks; 'product' i"),
    ],
)  # fmt: skip
def test_a_wrong_command_line(cli: CommandLine, arguments: str, words: str) -> None:
    if "kernel.so" in arguments:
        assert cli.run("build", "ops.py:single", "--default", "-o", "kernel.so").code == 0
    error = cli.run(*arguments.split()).refused(2)
    assert words in error
    assert "--help)" in error


def test_a_library_of_another_shape_is_refused(cli: CommandLine) -> None:
    assert cli.run("build", *NET).code == 0
    other = ("net.onnx", "--input", f"x=3x{WIDTH}")
    error = cli.run("run", *other, "-l", "net.so").refused()
    assert f"(2, {WIDTH})" in error


def test_the_builds_that_a_tuning_names_work(cli: CommandLine) -> None:
    shutil.copy("net.onnx", "other.onnx")
    tuned = cli.run("tune", "net.onnx", "other.onnx", *NET[1:-1], "--trials", "4")
    assert tuned.code == 0, tuned
    named = re.findall(r"^build with: ansorc (build .*)$", tuned.out, re.MULTILINE)
    assert [line.split()[1] for line in named] == ["net.onnx", "other.onnx"]
    for line in named:
        assert cli.run(*line.split()).code == 0


@pytest.fixture
def calibration(cli: CommandLine) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 2, WIDTH)).astype(np.float32)
    np.savez(cli.directory / "data.npz", x=x, positions=np.zeros((8, WIDTH), np.float32))
    return "--precision", "int8", "--calibrate", "data.npz"


def test_a_network_is_quantised_with_its_users_data(
    cli: CommandLine, calibration: tuple[str, ...]
) -> None:
    assert cli.run("build", *NET, *calibration, "-o", "bytes.so").code == 0
    ran = cli.run("run", *NET, *calibration, "-l", "bytes.so", "--threads", "1")
    assert ran.code == 0, ran
    assert re.search(
        r"'y' is right: largest error [\d.e-]+ of its largest element for the integers, "
        r"[\d.e-]+ for the network that was quantised \(float64 references\)", ran.out,
    )  # fmt: skip
    shown = cli.run("show", *NET[:-1], *calibration, "--view", "optimized-graph")
    assert "int8[" in shown.out, shown
    tuned = cli.run("tune", *NET[:-1], *calibration, "--trials", "3")
    assert tuned.code == 0, tuned
    assert "--precision int8 --calibrate data.npz" in tuned.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--precision", "int8"), "--precision int8 needs data for the ranges of tensors: "),
        (("--calibrate", "data.npz"), "--calibrate is for --precision int8; "),
        (("--precision", "int8", "--calibrate", "data.npz:best"), "there is no method 'best'; use"),
        (("--precision", "int8", "--calibrate", "none.npz"), "--calibrate: none.npz is not a file"),
        (("--precision", "int8", "--calibrate", "data.npz", "--input", f"x=4x{WIDTH}"),
         "--precision int8 is for one shape of each input"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("calibration")
def test_what_is_wrong_with_a_calibration_is_told(
    cli: CommandLine, options: tuple[str, ...], words: str
) -> None:
    assert words in cli.run("build", *NET, *options).refused(2)
