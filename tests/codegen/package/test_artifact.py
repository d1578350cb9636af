"""Kernels on disk: what they show, how C and C++ use them, that failures leave nothing half."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.library import load_kernel
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.runtime_library import runtime_sources
from ansorc.errors import BuildError, CallError
from ansorc.ir.parser import parse
from ansorc.target import Target, detect
from ansorc.target.presets import PRESETS
from tests.codegen import kernels
from tests.codegen.kernels import arguments, build

RUNTIME = Path(__file__).parents[3] / "runtime"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def symbols(library: Path) -> tuple[set[str], set[str]]:
    """(defined, undefined) dynamic symbols, the latter with their library version."""
    defined: set[str] = set()
    undefined: set[str] = set()
    for line in run("nm", "-D", library).splitlines():
        kind, name = line.split()[-2:]
        (undefined if kind in "Uw" else defined).add(name)
    return defined, undefined


def test_a_serial_library_shows_its_prefix_and_needs_only_libc(tmp_path: Path) -> None:
    build(kernels.TWICE).save(tmp_path / "twice.so")
    defined, undefined = symbols(tmp_path / "twice.so")
    assert defined == {"twice", "twice_workspace_bytes"}
    assert undefined == set()


def test_a_parallel_library_shows_its_prefix_and_the_runtime(tmp_path: Path) -> None:
    build(kernels.WORKSPACE_SQUARE).save(tmp_path / "square.so")
    defined, undefined = symbols(tmp_path / "square.so")
    assert {"square", "square_workspace_bytes", "ansorc_parallel_for"} <= defined
    assert all(re.match(r"square|ansorc_", name) for name in defined)
    assert all("@GLIBC_" in name for name in undefined)
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", tmp_path / "square.so"))
    assert all(re.match(r"lib(c|m|pthread)\.so|ld-", name) for name in needed)


def test_the_files_of_an_artifact(tmp_path: Path) -> None:
    artifact = build(kernels.MATMUL_RELU).save(tmp_path / "matmul.so")
    expected = [tmp_path / f"matmul{suffix}" for suffix in (".so", ".h", ".json")]
    assert artifact == Artifact(*expected)
    assert names(tmp_path) == ["matmul.h", "matmul.json", "matmul.so"]
    manifest = json.loads(artifact.manifest.read_text())
    assert manifest["name"] == "matmul_relu"
    assert manifest["parallel"] is True
    assert manifest["parameters"][1] == {
        "name": "B",
        "shape": [9, 20],
        "dtype": "float32",
        "layout": "row-major",
        "alignment": 4,
        "output": False,
        "constant": True,
        "packing": {
            "name": "B",
            "shape": [9, 20],
            "dtype": "float32",
            "parts": [[0, 1, 9], [1, 1, 20]],
            "offsets": [0, 0],
            "transforms": [],
        },
    }


def test_a_library_is_loaded_again(tmp_path: Path) -> None:
    a, b = arguments()
    module = build(kernels.WORKSPACE_SQUARE)
    module.save(tmp_path / "kernel.so")
    loaded = load_kernel(tmp_path / "kernel.so")
    loaded(a, b)
    np.testing.assert_array_equal(b, a * a)
    assert loaded.signature == module.signature
    assert loaded.target == module.target
    with pytest.raises(BuildError, match="was loaded from a library, so there is no object code"):
        loaded.save(tmp_path / "copy.so")


def test_a_library_that_was_saved_anew_is_the_new_one(tmp_path: Path) -> None:
    a, b = arguments()
    build(kernels.TWICE).save(tmp_path / "kernel.so")
    load_kernel(tmp_path / "kernel.so")(a, b)
    build(kernels.TWICE.replace("2.0", "3.0")).save(tmp_path / "kernel.so")
    load_kernel(tmp_path / "kernel.so")(a, b)
    np.testing.assert_array_equal(b, a * np.float32(3))


def test_all_kernels_of_a_process_share_one_pool(tmp_path: Path) -> None:
    a, b = arguments()
    for name in ("first", "second", "third"):
        build(kernels.PARALLEL_TWICE, name).save(tmp_path / f"{name}.so")
    modules = [load_kernel(tmp_path / f"{name}.so") for name in ("first", "second", "third")]
    modules[0](a, b, threads=4)
    before = threads_of_process()
    for module in modules:
        module(a, b, threads=4)
    build(kernels.PARALLEL_TWICE)(a, b, threads=4)
    assert threads_of_process() == before


def threads_of_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize(
    ("compiler", "language", "standard"), [("cc", "c", "c99"), ("c++", "c++", "c++17")]
)
@pytest.mark.parametrize("text", [kernels.TWICE, kernels.CONV2D_BN_RELU])
def test_the_header_is_clean(
    tmp_path: Path, text: str, compiler: str, language: str, standard: str
) -> None:
    header = build(text).save(tmp_path / "kernel.o").header
    twice = tmp_path / "twice.txt"
    twice.write_text(f'#include "{header.name}"\n#include "{header.name}"\n')
    command = (
        compiler,
        "-x",
        language,
        f"-std={standard}",
        *STRICT,
        "-I",
        tmp_path,
        "-fsyntax-only",
    )
    run(*command, twice)


C_PROGRAM = r"""
#include <stdio.h>
#include "first.h"
#include "second.h"
int main(void) {
  float a[FIRST_A_ELEMENTS], b[FIRST_B_DIM0 * FIRST_B_DIM1], c[SECOND_B_ELEMENTS];
  for (int i = 0; i < FIRST_A_ELEMENTS; ++i) a[i] = (float)i;
  if (first(a, b, NULL, 0) != ANSORC_OK || second(a, c, NULL, 2) != ANSORC_OK) return 2;
  for (int i = 0; i < FIRST_A_ELEMENTS; ++i) {
    if (b[i] != 2.0F * a[i] || c[i] != a[i] * a[i]) return 3;
  }
  printf("%s %d", FIRST_VERSION, (int)second_workspace_bytes());
  return 0;
}
"""


@pytest.mark.parametrize("suffix", [".so", ".a"])
def test_two_kernels_link_into_one_c_program(tmp_path: Path, suffix: str) -> None:
    build(kernels.PARALLEL_TWICE, "first").save(tmp_path / f"first{suffix}")
    build(kernels.WORKSPACE_SQUARE, "second").save(tmp_path / f"second{suffix}")
    (tmp_path / "main.c").write_text(C_PROGRAM)
    libraries = [tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"]
    flags = ("-std=c99", *STRICT, "-I", tmp_path, f"-Wl,-rpath,{tmp_path}")
    run("cc", *flags, tmp_path / "main.c", *libraries, "-pthread", "-lm", "-o", tmp_path / "main")
    version, size = run(tmp_path / "main").split()
    assert re.fullmatch(r"\d+\.\d+\.\d+\+[0-9a-f]{12}", version)
    assert int(size) == 24 * 40 * 4


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the two kernels that the example embeds, small, as .so, .a and .o."""
    directory = tmp_path_factory.mktemp("saved")
    for text in (kernels.MATMUL_RELU, kernels.CONV2D_BN_RELU):
        module = build(text)
        for suffix in (".so", ".a", ".o"):
            module.save(directory / f"{module.signature.name}{suffix}")
    return directory


EXPECTED = (
    r"matmul_relu: max error \d\.\d\de-\d\d OK\nconv2d_bn_relu: max error \d\.\d\de-\d\d OK\n"
)


def test_the_cpp_example_embeds_two_kernels(saved: Path, tmp_path: Path) -> None:
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command += [f"-I{RUNTIME}/include", f"-I{saved}", f"{RUNTIME}/examples/embed.cpp", f"-L{saved}"]
    command += ["-l:matmul_relu.so", "-l:conv2d_bn_relu.so", "-pthread", f"-Wl,-rpath,{saved}"]
    run(*command, "-o", tmp_path / "embed")
    assert re.fullmatch(EXPECTED, run(tmp_path / "embed"))


@pytest.mark.nightly  # against the package that is installed it is built in the default suite
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_the_cpp_example_builds_with_cmake(saved: Path, tmp_path: Path) -> None:
    settings = (f"-DKERNEL_DIR={saved}", "-DKERNEL_SUFFIX=.a", "-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "-S", RUNTIME / "examples", "-B", tmp_path, *settings)
    run("cmake", "--build", tmp_path)
    assert re.fullmatch(EXPECTED, run(tmp_path / "embed"))


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_the_cmake_package_is_found_where_it_was_installed(saved: Path, tmp_path: Path) -> None:
    build_dir, prefix, user = tmp_path / "build", tmp_path / "prefix", tmp_path / "user"
    run("cmake", "-S", RUNTIME, "-B", build_dir, f"-DCMAKE_INSTALL_PREFIX={prefix}")
    run("cmake", "--build", build_dir, "--target", "install")
    shutil.copytree(RUNTIME / "examples", user)  # away from the sources: only the package is left
    settings = (f"-DKERNEL_DIR={saved}", "-DKERNEL_SUFFIX=.o", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "-S", user, "-B", tmp_path / "out", *settings)
    run("cmake", "--build", tmp_path / "out")
    assert re.fullmatch(EXPECTED, run(tmp_path / "out" / "embed"))


def test_refuses_a_file_name_that_does_not_say_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"does not say what to write; end it in \.so"):
        build(kernels.TWICE).save(tmp_path / "kernel")
    assert names(tmp_path) == []


def test_refuses_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        BuildError, match=r"kernel\.so cannot be written: No such file or directory"
    ):
        build(kernels.TWICE).save(tmp_path / "missing" / "kernel.so")


def test_a_full_disk_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(kernels.TWICE).save(tmp_path / "kernel.so")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    module = build(kernels.PARALLEL_TWICE)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        BuildError, match=r"kernel\.so cannot be written: No space left on device; nothing"
    ):
        module.save(tmp_path / "kernel.so")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_failing_linker_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = tmp_path / "failing-cc"
    failing.write_text("#!/bin/sh\necho 'ld: cannot find anything' >&2\nexit 7\n")
    failing.chmod(0o755)
    monkeypatch.setenv("CC", str(failing))
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(
        BuildError, match=r"'failing-cc' failed with status 7:\nld: cannot find anything"
    ):
        build(kernels.TWICE).save(out / "kernel.so")
    assert names(out) == []


@pytest.mark.parametrize(
    ("suffix", "content", "words"),
    [
        (".json", "{", "is not the manifest of a kernel"),
        (".json", '{"sha256": 1}', "is not the manifest of a kernel"),
        (".so", "junk", "describes another build"),
    ],
)
def test_refuses_a_damaged_library(tmp_path: Path, suffix: str, content: str, words: str) -> None:
    build(kernels.TWICE).save(tmp_path / "kernel.so")
    (tmp_path / f"kernel{suffix}").write_text(content)
    with pytest.raises(BuildError, match=words):
        load_kernel(tmp_path / "kernel.so")


def test_what_an_older_release_saved_is_compared_as_a_whole(tmp_path: Path) -> None:
    artifact = build(kernels.TWICE).save(tmp_path / "kernel.so")
    manifest = json.loads(artifact.manifest.read_text())
    del manifest["sample"]
    artifact.manifest.write_text(json.dumps(manifest))
    load_kernel(artifact.library)
    artifact.library.write_bytes(artifact.library.read_bytes()[:-1] + b"?")
    with pytest.raises(BuildError, match="describes another build"):
        load_kernel(artifact.library)


def test_refuses_a_library_without_its_manifest(tmp_path: Path) -> None:
    build(kernels.TWICE).save(tmp_path / "kernel.so").manifest.unlink()
    with pytest.raises(BuildError, match="must lie side by side"):
        load_kernel(tmp_path / "kernel.so")


def test_a_kernel_for_another_machine_is_saved_as_an_object_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target.parse("aarch64-linux-gnu -mcpu=cortex-a53")
    module = compile_module(parse(kernels.PARALLEL_TWICE), target)
    module.save(tmp_path / "kernel.o")
    assert (tmp_path / "kernel.o").read_bytes()[18:20] == b"\xb7\x00"  # e_machine of AArch64
    assert names(tmp_path) == ["kernel.h", "kernel.json", "kernel.o"]
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BuildError, match="no C compiler for aarch64-linux-gnu was found"):
        module.save(tmp_path / "kernel.so")


@pytest.mark.parametrize("name", sorted(n for n, p in PRESETS.items() if p.architecture != "cuda"))
def test_object_files_for_every_processor(tmp_path: Path, name: str) -> None:
    triple = "x86_64" if PRESETS[name].architecture == "x86" else "aarch64"
    target = Target.parse(f"{triple}-linux-gnu -mcpu={name}")
    compile_module(parse(kernels.PARALLEL_TWICE), target).save(tmp_path / "kernel.o")
    machine = {"x86_64": b"\x3e\x00", "aarch64": b"\xb7\x00"}[triple]
    assert (tmp_path / "kernel.o").read_bytes()[18:20] == machine


def test_a_library_for_a_newer_processor_of_this_architecture(tmp_path: Path) -> None:
    """This machine's tools link it; whether it may run here is asked when it is called."""
    target = Target.parse(f"{detect().triple} -mcpu={'znver5' if detect().is_x86 else 'apple-m1'}")
    artifact = compile_module(parse(kernels.PARALLEL_TWICE), target).save(tmp_path / "kernel.so")
    module = load_kernel(artifact.library)
    x = np.arange(960, dtype=np.float32).reshape(24, 40)
    y = np.zeros_like(x)
    if set(target.features) <= set(detect().features):
        module(x, y)
        np.testing.assert_array_equal(y, 2 * x)
    else:
        with pytest.raises(CallError, match="which has instructions that this CPU lacks"):
            module(x, y)


def test_the_package_holds_the_runtime_sources() -> None:
    assert (runtime_sources() / "include/ansorc/runtime.h").is_file()
