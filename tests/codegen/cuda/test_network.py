"""Networks by the real pycuda on the emulated driver, and in C++ by their headers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.call.library import load_library
from ansorc.codegen.call.network_module import NetworkModule, link_network
from ansorc.errors import BuildError, CallError
from ansorc.graph.cache_policy import choose_recorded_policy
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs
from ansorc.graph.network_tune import tune_networks
from ansorc.ir.aligned import Array
from ansorc.search.options import Scheduling
from ansorc.search.programs import ProgramChoice
from ansorc.search.tune_options import TuneOptions
from ansorc.target import Target
from tests.e2e.cuda.arrays import OnDevice, pycuda
from tests.e2e.cuda.driver_backend import TARGET
from tests.e2e.cuda.emulated_driver import driver_folder, obstacle, process
from tests.e2e.cuda.networks import NETWORKS, assert_right, feeds, plan_of, row_sums

EXAMPLE = Path(__file__).parents[3] / "runtime" / "examples" / "cuda"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
needs_pycuda = pytest.mark.skipif(bool(obstacle()), reason=obstacle())
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture(scope="module")
def device() -> Generator[ProcessPoolExecutor]:
    with process() as pool:
        yield pool


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the image, its header, its manifest, its weights; and some images."""
    directory = tmp_path_factory.mktemp("saved")
    artifact = on_driver("digits").save(directory / "digits.cubin")
    assert artifact.weights == directory / "digits.weights"
    graph = NETWORKS["digits"]()
    with (directory / "digits.bin").open("wb") as file:
        for seed in range(20):
            inputs = feeds(graph, seed)
            digit = np.argmax(run_reference(graph, inputs)["probabilities"])
            file.write(inputs["image"].tobytes() + np.float32(digit).tobytes())
    return directory


def on_driver(name: str) -> NetworkModule:
    return link_network(plan_of(name), Target.parse(TARGET))


def arrays_of_numpy() -> None:
    for name in ("several", "quantised"):
        graph, module = NETWORKS[name](), on_driver(name)
        for seed in (2, 3):
            inputs = feeds(graph, seed)
            assert_right(graph, inputs, module.run(inputs))
        times = module.profile(*inputs.values(), repeats=2)
        assert [time.name for time in times] == list(module.call_names)
        assert 0 < module.time(*inputs.values(), min_time_s=0.002).median_s < 1
        with pytest.raises(CallError, match=r"takes .* arrays"):
            module()


def several_shapes() -> None:
    variants = row_sums()
    module = ac.build(variants, TARGET)
    for graph in variants:
        inputs = feeds(graph)
        assert_right(graph, inputs, {"y": module(inputs["x"])})
    cuda: Any = pycuda()
    cuda.Device(0).retain_primary_context().push()
    graph = variants.graphs[-1]
    inputs = feeds(graph)
    x, y = OnDevice(inputs["x"]), OnDevice(np.zeros_like(inputs["x"]))
    module(x, y)
    assert_right(graph, inputs, {"y": y.get()})
    cuda.Context.pop()


@needs_pycuda
def test_several_shapes_of_arrays_anywhere(device: ProcessPoolExecutor) -> None:
    device.submit(several_shapes).result()


@needs_pycuda
def test_arrays_of_numpy_are_copied(device: ProcessPoolExecutor) -> None:
    device.submit(arrays_of_numpy).result()


def the_callers_stream(library: Path) -> None:
    cuda: Any = pycuda()
    context = cuda.Device(0).retain_primary_context()
    context.push()
    module = load_library(library)
    assert isinstance(module, NetworkModule)
    graph = NETWORKS["digits"]()
    stream = cuda.Stream(1)
    image = OnDevice(np.zeros((1, 1, 8, 8), np.float32))
    result = OnDevice(np.zeros((1, 10), np.float32))
    module(image, result, stream=stream)  # copies the weights, takes the arena
    stream.synchronize()
    free = cuda.mem_get_info()
    for seed in range(3):
        inputs = feeds(graph, seed)
        cuda.memcpy_htod_async(image.address, inputs["image"], stream)
        module(image, result, stream=stream)
        assert not stream.is_done()  # nothing has waited
        found = np.empty((1, 10), np.float32)
        cuda.memcpy_dtoh_async(found, result.address, stream)
        stream.synchronize()
        assert_right(graph, inputs, {"probabilities": found})
    assert cuda.mem_get_info() == free
    inputs = feeds(graph, 7)
    cuda.memcpy_htod(image.address, inputs["image"])
    assert_right(graph, inputs, {"probabilities": module(image)})
    cuda.Context.pop()


@needs_pycuda
def test_the_callers_stream_runs_it_without_waiting(
    device: ProcessPoolExecutor, saved: Path
) -> None:
    device.submit(the_callers_stream, saved / "digits.cubin").result()


def refused(library: Path, words: str) -> None:
    module = load_library(library)
    assert isinstance(module, NetworkModule)
    with pytest.raises(BuildError, match=words):
        module(np.zeros((1, 1, 8, 8), np.float32))


@needs_pycuda
@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [(0, -4, "of another build"), (4, None, "of another build"), (0, 0, "cannot be read")],
)
def test_other_weights_are_refused(
    device: ProcessPoolExecutor, saved: Path, tmp_path: Path, begin: int, end: int, words: str
) -> None:
    for path in saved.glob("digits.*"):
        shutil.copy(path, tmp_path)
    weights = tmp_path / "digits.weights"
    content = weights.read_bytes()[begin:end]
    weights.unlink()
    if content:
        weights.write_bytes(content)
    device.submit(refused, tmp_path / "digits.cubin", words).result()


def test_without_a_driver_it_is_said(saved: Path) -> None:
    with pytest.raises(BuildError, match="has no NVIDIA driver; save it and run it there"):
        load_library(saved / "digits.cubin")


@pytest.fixture(scope="module")
def program(saved: Path) -> Path:
    """The example, compiled as its CMakeLists says."""
    made = saved / "classify"
    command = ["g++", "-std=c++17", *WARNINGS, f"-I{saved}", str(EXAMPLE / "classify.cpp")]
    subprocess.run([*command, "-o", str(made), "-ldl"], check=True)
    return made


def ran(program: Path, *files: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver_folder()), **settings}
    return subprocess.run(
        [str(program), *map(str, files)], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@needs_compiler
def test_a_program_in_cpp_runs_it(program: Path, saved: Path) -> None:
    files = [saved / f"digits.{ending}" for ending in ("cubin", "weights", "bin")]
    done = ran(program, *files)
    assert done.returncode == 0, done.stderr
    assert "20 of 20 right" in done.stdout


@needs_compiler
def test_a_program_in_cpp_says_what_goes_wrong(program: Path, saved: Path, tmp_path: Path) -> None:
    image, weights, examples = (saved / f"digits.{e}" for e in ("cubin", "weights", "bin"))
    assert "image cannot be read" in ran(program, tmp_path / "no", weights, examples).stderr
    assert "file of the weights cannot be" in ran(program, image, tmp_path / "no", examples).stderr
    assert "of another build than the header" in ran(program, image, image, examples).stderr
    short = tmp_path / "short"
    short.write_bytes(weights.read_bytes()[:-1])
    assert "or they are cut off" in ran(program, image, short, examples).stderr
    nowhere = ran(program, image, weights, examples, LD_LIBRARY_PATH="")
    assert "there is no CUDA driver" in nowhere.stderr
    full = ran(program, image, weights, examples, EMULATED_CUDA_MEMORY="512")
    assert "there is no memory left" in full.stderr


@needs_compiler
def test_the_header_is_clean_c(saved: Path, tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text(
        '#include "digits.h"\n#include "digits.h"\n'
        "int main(void) { digits_module it; it.loaded.module = NULL;\n"
        "  if (digits(&it, NULL, NULL, NULL, NULL) != ANSORC_CUDA_NOT_OPEN) return 1;\n"
        '  if (digits_open(&it, "no", "no") != ANSORC_CUDA_NO_FILE) return 2;\n'
        "  digits_close(&it);\n  return DIGITS_WEIGHTS_BYTES == 0; }\n"
    )
    made = tmp_path / "user"
    command = ["gcc", "-std=c99", "-D_POSIX_C_SOURCE=200809L", *WARNINGS, f"-I{saved}", str(source)]
    subprocess.run([*command, "-o", str(made), "-ldl"], check=True)
    assert subprocess.run([str(made)], check=False).returncode == 0


def run_of(path: Path, feeds_: dict[str, Array]) -> dict[str, Array]:
    module = load_library(path)
    assert isinstance(module, NetworkModule)
    return module.run(feeds_)


@needs_pycuda
def test_weights_may_have_a_file_elsewhere(device: ProcessPoolExecutor, tmp_path: Path) -> None:
    (tmp_path / "apart").mkdir()
    weights = tmp_path / "apart" / "w.bin"
    artifact = on_driver("several").save(tmp_path / "several.cubin", weights)
    assert artifact.weights == weights
    graph = NETWORKS["several"]()
    inputs = feeds(graph)
    assert_right(graph, inputs, device.submit(run_of, artifact.library, inputs).result())
    with pytest.raises(BuildError, match="cannot be in"):
        on_driver("several").save(tmp_path / "a.cubin", tmp_path / "a.json")


def tuned(records: Path) -> None:
    graph = NETWORKS["several"]()
    network = Network.of(graph, TARGET)
    options = TuneOptions(records=records, seed=1)
    (result,) = tune_networks([network], options, Scheduling(trials=3))
    assert result.tuning.results[0].best is not None
    inputs = feeds(graph)
    assert_right(graph, inputs, result.build().run(inputs))


@needs_pycuda
def test_a_network_is_tuned_and_built_of_its_records(tmp_path: Path) -> None:
    with process(counters=tmp_path / "counters") as pool:
        pool.submit(tuned, tmp_path / "r.db").result()
    network = Network.of(NETWORKS["several"](), TARGET)
    choice = choose_recorded_policy([network], ProgramChoice(tmp_path / "r.db"))
    assert choice.cache == "warm"
    programs = choose_programs(network, choice)  # also where there is no device
    assert any(program.is_tuned for program in programs.values())
