"""A saved kernel for a GPU in a C++ program, on the emulated driver; and loaded again by Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.library import load_kernel
from ansorc.codegen.call.module import Module
from ansorc.errors import BuildError
from ansorc.lang import ComputeDAG
from ansorc.schedule import lower, replay
from ansorc.target import Target
from tests.e2e.cuda.driver_backend import TARGET
from tests.e2e.cuda.emulated_driver import driver_folder, obstacle, process

EXAMPLE = Path(__file__).parents[3] / "runtime" / "examples" / "cuda"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
CMAKE = shutil.which("cmake")
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


def matmul_relu() -> Module:
    a, b = ac.placeholder((16, 24), name="A"), ac.placeholder((24, 32), name="B")
    r = ac.reduce_axis(24, name="k")
    c = ac.compute((16, 32), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = ac.compute((16, 32), lambda i, j: ac.maximum(c[i, j], 0.0), name="D")
    function = lower(replay(ComputeDAG([a, b, d]), []), "matmul_relu")
    return compile_module(function, Target.parse(TARGET))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the image, its header, its manifest."""
    directory = tmp_path_factory.mktemp("saved")
    artifact = matmul_relu().save(directory / "matmul_relu.cubin")
    assert artifact.header.exists()
    return directory


@pytest.fixture(scope="module")
def program(saved: Path) -> Path:
    """The example, compiled as its CMakeLists says, or by g++ where there is no cmake."""
    made = saved / "embed"
    command = ["g++", "-std=c++17", *WARNINGS, f"-I{saved}", str(EXAMPLE / "embed.cpp")]
    subprocess.run([*command, "-o", str(made), "-ldl"], check=True)
    return made


def ran(program: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver_folder()), **settings}
    return subprocess.run(
        [str(program), *words], env=environment, capture_output=True, text=True, check=False
    )


def test_a_program_calls_it(program: Path, saved: Path) -> None:
    done = ran(program, str(saved / "matmul_relu.cubin"))
    assert done.returncode == 0, done.stderr
    assert "right" in done.stdout


def test_what_goes_wrong_is_said(program: Path, saved: Path, tmp_path: Path) -> None:
    image = str(saved / "matmul_relu.cubin")
    assert "the file of the image cannot be read" in ran(program, "nowhere.cubin").stderr
    assert "no current CUDA context" in ran(program, image, "without").stderr
    assert "there is no CUDA driver" in ran(program, image, LD_LIBRARY_PATH="").stderr
    other = tmp_path / "other.ptx"
    other.write_text("//\n.version 8.0\n")
    assert "the image is not for this GPU or not for this driver" in ran(program, str(other)).stderr
    no_device = ran(program, image, EMULATED_CUDA_DEVICES="0")
    assert "no CUDA-capable device is detected" in no_device.stderr


def test_the_header_is_clean_c(saved: Path, tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text(
        '#include "matmul_relu.h"\n#include "matmul_relu.h"\n'
        "int main(void) { matmul_relu_module it; it.loaded.module = NULL;\n"
        "  return matmul_relu(&it, NULL, NULL, NULL, NULL, NULL) != ANSORC_CUDA_NOT_OPEN; }\n"
    )
    made = tmp_path / "user"
    command = ["gcc", "-std=c99", "-D_POSIX_C_SOURCE=200809L", *WARNINGS, f"-I{saved}", str(source)]
    subprocess.run([*command, "-o", str(made), "-ldl"], check=True)
    assert subprocess.run([str(made)], check=False).returncode == 0


@pytest.mark.skipif(CMAKE is None, reason="there is no cmake")
def test_cmake_builds_it(saved: Path, tmp_path: Path) -> None:
    assert CMAKE is not None
    build = ["-S", str(EXAMPLE), "-B", str(tmp_path), f"-DKERNEL_DIR={saved}"]
    subprocess.run([CMAKE, *build], check=True, capture_output=True)
    subprocess.run([CMAKE, "--build", str(tmp_path)], check=True, capture_output=True)
    assert ran(tmp_path / "embed", str(saved / "matmul_relu.cubin")).returncode == 0


def loaded_again(path: Path) -> float:
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (16, 24)).astype(np.float32)
    b = rng.uniform(-1, 1, (24, 32)).astype(np.float32)
    found = np.zeros((16, 32), np.float32)
    load_kernel(path)(a, b, found)
    return float(np.abs(found - np.maximum(a.astype(np.float64) @ b, 0)).max())


@pytest.mark.skipif(bool(obstacle()), reason=obstacle())
def test_python_loads_it_again(saved: Path) -> None:
    with process() as pool:
        assert pool.submit(loaded_again, saved / "matmul_relu.cubin").result() < 1e-5


def test_without_a_driver_it_is_said(saved: Path) -> None:
    with pytest.raises(BuildError, match="has no NVIDIA driver; save it and run it there"):
        load_kernel(saved / "matmul_relu.cubin")
