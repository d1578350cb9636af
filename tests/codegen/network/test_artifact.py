"""Networks on disk: what they hold and show, how C++ uses them, and weights in a shared file."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.build import compile_function
from ansorc.codegen.call.library import load_kernel
from ansorc.codegen.call.network_module import NetworkModule, link_network
from ansorc.codegen.llvm.network import driver, native_network
from ansorc.codegen.network import artifact as network_artifact
from ansorc.codegen.network.plan import KernelCall, NetworkPlan
from ansorc.codegen.network.weights import join_weights
from ansorc.codegen.package import manifest
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import BuildError
from ansorc.ir.parser import parse
from ansorc.target import Target
from tests.codegen.network import plans
from tests.codegen.network.plans import ROWS, WIDTH, Floats, draw, perceptron, perceptron_reference
from tests.support.arm.emulated import emulated, linked, needs_qemu

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def run(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def module(name: str = "perceptron", seed: int = 1) -> NetworkModule:
    return link_network(perceptron(name, seed), plans.NATIVE)


def loaded(path: Path) -> NetworkModule:
    found = ac.load_library(path)
    assert isinstance(found, NetworkModule)
    return found


def resident_parts() -> list[tuple[str, str]]:
    """Each line of what Linux tells of this process's memory, and the line of its part."""
    found: list[tuple[str, str]] = []
    part = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            part = line
        found.append((part, line))
    return found


def check(network: NetworkModule, seed: int = 1, threads: int = 0) -> None:
    x = draw(ROWS, WIDTH)
    y: Floats = network(x, threads=threads)
    np.testing.assert_allclose(y, perceptron_reference(x, seed), 1e-5, 1e-6)


@pytest.mark.parametrize("weights", [None, "net.weights"])
def test_a_library_is_loaded_again(tmp_path: Path, weights: str | None) -> None:
    saved = module()
    artifact = saved.save(tmp_path / "net.so", weights and tmp_path / weights)
    files = ["net.h", "net.json", "net.so"] + [weights] * (weights is not None)
    assert names(tmp_path) == files
    assert artifact.weights == (weights and tmp_path / weights)
    network = loaded(tmp_path / "net.so")
    check(network)
    check(network, threads=2)
    assert network.signature == saved.signature
    assert network.target == saved.target
    assert [call.name for call in network.profile(draw(ROWS, WIDTH))] == list(saved.call_names)
    size = sum(path.stat().st_size for path in (artifact.library, artifact.weights) if path)
    assert size <= perceptron().weights.nbytes + 3e6
    with pytest.raises(BuildError, match="'perceptron' was loaded from a library, so there is no"):
        network.save(tmp_path / "copy.so")


@pytest.mark.parametrize("weights", [None, "net.weights"])
def test_weights_are_derived_when_a_library_is_loaded(tmp_path: Path, weights: str | None) -> None:
    """In a file they are stored as the kernels read them: processes share it."""
    saved = link_network(plans.derived_perceptron(), plans.NATIVE)
    (tmp_path / "early").mkdir()
    early = saved.save(tmp_path / "early/net.so", weights and tmp_path / "early" / weights)
    check(saved)
    late = saved.save(tmp_path / "net.so", weights and tmp_path / weights)
    assert early.library.read_bytes() == late.library.read_bytes()
    check(loaded(late.library))
    stored = (late.weights or late.library).read_bytes()
    w1 = plans.weights()[0]
    assert (w1.tobytes() in stored) is (weights is not None)
    assert (w1.T.tobytes() in stored) is (weights is None)


@pytest.mark.parametrize("make", [perceptron, plans.derived_perceptron])
def test_large_weights_are_moved_when_a_library_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], NetworkPlan]
) -> None:
    """To memory behind the derived ones, which a file of weights does not need."""
    monkeypatch.setattr(native_network, "_LEAST_MOVED_BYTES", 1)
    plan = make()
    saved = link_network(plan, plans.NATIVE)
    saved.save(tmp_path / "net.o")
    held = plan.weights.nbytes + plan.derived.nbytes
    parts = map(str.split, run("readelf", "-Ws", tmp_path / "net.o").splitlines())
    objects = [part for part in parts if part[3:4] == ["OBJECT"]]
    assert [int(part[2]) for part in objects if part[-1].endswith(".derived")] == [held]
    saved.save(tmp_path / "net.so")
    check(loaded(tmp_path / "net.so"))
    check(loaded(tmp_path / "net.so"), threads=2)
    saved.save(tmp_path / "apart.o", tmp_path / "apart.weights")
    assert b"perceptron.derived" not in (tmp_path / "apart.o").read_bytes()


@pytest.mark.parametrize("limit", [0, 1 << 60])
def test_weights_that_are_moved_leave_their_pages_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """12 MiB of them, however long huge pages take: kernels read other memory than the file's."""
    text = re.sub(r"(icmp ugt i64 %taken,) \d+", rf"\1 {limit}", driver.POPULATE)
    monkeypatch.setattr(driver, "POPULATE", text)
    size = 3 << 20
    weights = np.arange(size, dtype=np.float32)
    plan = plans.added(weights)
    link_network(plan, plans.NATIVE).save(tmp_path / "net.so")
    network = loaded(tmp_path / "net.so")
    x = np.ones(size, np.float32)
    np.testing.assert_array_equal(network(x), weights + 1)
    kinds = [
        int(line.split()[1])
        for kind, line in resident_parts()
        if "net.so" in kind and line.startswith("Rss:")
    ]
    assert max(kinds) < 4 << 10, f"KiB that are there of the file's parts: {kinds}"


@pytest.mark.parametrize("make", [perceptron, plans.derived_perceptron])
def test_what_a_library_shows_and_needs(tmp_path: Path, make: Callable[[], NetworkPlan]) -> None:
    link_network(make(), plans.NATIVE).save(tmp_path / "net.so")
    lines = run("nm", "-D", tmp_path / "net.so").splitlines()
    shown = {line.split()[-1] for line in lines if line.split()[-2] not in "Uw"}
    own = {f"perceptron{end}" for end in ("", "_profile", "_calls", "_call_name")}
    assert {name for name in shown if "ansorc" not in name} == {*own, "perceptron_workspace_bytes"}
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", tmp_path / "net.so"))
    assert all(re.match(r"lib(c|m|pthread)\.so|ld-", name) for name in needed)


def test_a_parallel_network_keeps_a_team(tmp_path: Path) -> None:
    """Its driver refers to the team, and a serial one does not."""
    module().save(tmp_path / "net.o")
    link_network(perceptron(threads=1), plans.NATIVE).save(tmp_path / "alone.o")
    for name, has_team in (("net", True), ("alone", False)):
        undefined = run("nm", "-u", tmp_path / f"{name}.o").split()
        assert ("ansorc_team_begin" in undefined) is ("ansorc_team_end" in undefined) is has_team


def test_a_serial_network_does_not_have_the_pool(tmp_path: Path) -> None:
    link_network(plans.doubled(), plans.NATIVE).save(tmp_path / "net.so")
    assert "ansorc" not in run("nm", "-D", tmp_path / "net.so")
    x = draw(ROWS, WIDTH)
    np.testing.assert_array_equal(loaded(tmp_path / "net.so")(x), 2 * x)


def test_weights_lie_in_the_library_at_a_multiple_of_64_bytes(tmp_path: Path) -> None:
    module().save(tmp_path / "net.o")
    (line,) = (
        line
        for line in run("readelf", "-Ws", tmp_path / "net.o").splitlines()
        if line.endswith(" perceptron.weights")
    )
    size, kind, binding, visibility = line.split()[2:6]
    assert (int(size), kind) == (perceptron().weights.nbytes, "OBJECT")
    assert (binding, visibility) == ("GLOBAL", "HIDDEN")
    shown = [
        line.split()[-1]
        for line in run("readelf", "-Ws", tmp_path / "net.o").splitlines()
        if re.search(r"GLOBAL DEFAULT +\d", line)
    ]
    assert all(re.fullmatch(r"perceptron(_\w+)?", name) for name in shown)
    assert perceptron().weights.array().tobytes() in (tmp_path / "net.o").read_bytes()


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_a_rebuild_is_identical(tmp_path: Path, suffix: str) -> None:
    for directory in ("first", "second"):
        (tmp_path / directory).mkdir()
        weights = tmp_path / directory / "net.weights" if suffix == ".a" else None
        module().save(tmp_path / directory / f"net{suffix}", weights)
    for name in names(tmp_path / "first"):
        first, second = (tmp_path / directory / name for directory in ("first", "second"))
        assert first.read_bytes() == second.read_bytes(), name


PROGRAM = r"""
#include <cstdio>
#include <cstring>
#include <vector>
#include "one.h"
#include "two.h"

using Call = decltype(&one);

static int check(Call call, const std::vector<float> &x, const char *path, void *workspace) {
  std::vector<float> expected(ONE_Y_ELEMENTS), y(ONE_Y_ELEMENTS, -1.0F);
  std::FILE *file = std::fopen(path, "rb");
  if (file == nullptr || std::fread(expected.data(), 4, expected.size(), file) != expected.size())
    return 10;
  std::fclose(file);
  for (int32_t threads = 0; threads < 3; ++threads) {
    if (call(x.data(), y.data(), workspace, threads) != ANSORC_OK) return 11;
    for (size_t i = 0; i < y.size(); ++i)
      if (!(y[i] - expected[i] < 1e-5F && expected[i] - y[i] < 1e-5F)) return 12;
  }
  return 0;
}

int main(int, char **arguments) {
  std::vector<float> x(ONE_X_DIM0 * ONE_X_DIM1), y(ONE_Y_ELEMENTS);
  std::FILE *file = std::fopen(arguments[1], "rb");
  if (file == nullptr || std::fread(x.data(), 4, x.size(), file) != x.size()) return 1;
  std::fclose(file);
#ifdef ANSORC_NOT_OPEN
  if (one(x.data(), y.data(), nullptr, 1) != ANSORC_NOT_OPEN) return 2;
  if (one_open("nowhere") != ANSORC_CANNOT_READ) return 3;
  if (one_open(arguments[1]) != ANSORC_OTHER_WEIGHTS) return 4;
  if (one_open(arguments[5]) != ANSORC_OTHER_WEIGHTS) return 5;
  if (one_open(arguments[4]) != ANSORC_OK || one_open(arguments[4]) != ANSORC_OK) return 6;
#endif
  alignas(64) static char workspace[ONE_WORKSPACE_BYTES];
  std::memset(workspace, 0xFF, sizeof workspace);
  if (int wrong = check(one, x, arguments[2], workspace)) return wrong;
  if (int wrong = check(two, x, arguments[3], nullptr)) return 10 + wrong;
  double seconds[ONE_CALLS];
  if (one_profile(x.data(), y.data(), nullptr, 1, seconds) != ANSORC_OK) return 7;
  if (one_calls() != ONE_CALLS || one_call_name(ONE_CALLS) || one_call_name(-1)) return 8;
  for (int32_t n = 0; n < one_calls(); ++n) {
    if (!(seconds[n] > 0 && seconds[n] < 1)) return 9;
    std::printf("%s;", one_call_name(n));
  }
#ifdef ANSORC_NOT_OPEN
  one_close();
  if (one(x.data(), y.data(), nullptr, 1) != ANSORC_NOT_OPEN) return 30;
#endif
  return one_workspace_bytes() == ONE_WORKSPACE_BYTES ? 0 : 31;
}
"""


@pytest.mark.parametrize(
    ("suffix", "has_file"), [(".so", False), (".a", False), (".o", False), (".so", True),
                             (".a", True)],
)  # fmt: skip
def test_two_networks_in_one_cpp_program(tmp_path: Path, suffix: str, *, has_file: bool) -> None:
    x = draw(ROWS, WIDTH)
    (tmp_path / "x").write_bytes(x.tobytes())
    for name, seed in (("one", 1), ("two", 11)):
        weights = tmp_path / f"{name}.weights" if has_file and name == "one" else None
        plan = plans.derived_perceptron(name, seed) if name == "two" else perceptron(name, seed)
        link_network(plan, plans.NATIVE).save(tmp_path / f"{name}{suffix}", weights)
        (tmp_path / name).write_bytes(perceptron_reference(x, seed).astype(np.float32).tobytes())
    if has_file:
        other = (tmp_path / "one.weights").read_bytes()
        (tmp_path / "other.weights").write_bytes(other[:20] + b"?" + other[21:])
    (tmp_path / "main.cpp").write_text(PROGRAM)
    files = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    if suffix == ".o":
        files.append(plans.runtime())
    flags = ("-std=c++17", *STRICT, "-I", tmp_path, f"-Wl,-rpath,{tmp_path}")
    main = tmp_path / "main"
    run("c++", *flags, tmp_path / "main.cpp", *files, "-pthread", "-lm", "-o", main)
    arguments = [tmp_path / name for name in ("x", "one", "two", "one.weights", "other.weights")]
    assert run(main, *arguments) == "first + relu;second;softmax;"


@pytest.mark.parametrize("weights", [None, "net.weights"])
@pytest.mark.parametrize(
    ("compiler", "language", "standard"), [("cc", "c", "c99"), ("c++", "c++", "c++17")]
)
def test_the_header_is_clean(
    tmp_path: Path, weights: str | None, compiler: str, language: str, standard: str
) -> None:
    plan = replace(perceptron(), inputs=(plans.array("seconds", ROWS, WIDTH),))
    network = link_network(plan, plans.NATIVE)
    header = network.save(tmp_path / "net.o", weights and tmp_path / weights).header
    (tmp_path / "twice.txt").write_text('#include "net.h"\n' * 2)
    options = ("-x", language, f"-std={standard}", *STRICT, "-I", tmp_path, "-fsyntax-only")
    run(compiler, *options, tmp_path / "twice.txt")
    text = header.read_text()
    assert ("perceptron_open" in text) is (weights is not None)
    assert "#define PERCEPTRON_CALLS 3" in text


def test_weights_in_another_directory(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    module().save(tmp_path / "net.so", tmp_path / "data" / "net.bin")
    found = json.loads((tmp_path / "net.json").read_text())
    assert found["network"]["weights"]["file"] == "data/net.bin"
    check(loaded(tmp_path / "net.so"))
    check(loaded(tmp_path / "net.so"))  # it is open already


def test_a_library_that_was_saved_anew_is_the_new_one(tmp_path: Path) -> None:
    for seed in (1, 11):
        module(seed=seed).save(tmp_path / "net.so", tmp_path / "net.weights")
        check(loaded(tmp_path / "net.so"), seed)


def with_large_weights(seed: float) -> NetworkModule:
    """y = x + 4 MiB of weights, of which one in the midst is the seed and the others are 0."""
    text = f"kernel f(X: float32[{ROWS}], W: float32[1048576] constant, Y: float32[{ROWS}]):\n"
    text += f"    for i in 0..{ROWS}:\n        Y[i] = X[i] + W[i]\n"
    weights = np.zeros(1 << 20, np.float32)
    weights[777777] = seed
    memory, (place,) = join_weights([weights])
    x, y = plans.array("x", ROWS), plans.array("y", ROWS, is_output=True)
    call = KernelCall(0, (plans.source(), plans.constant(place), plans.result()), "sum")
    kernel = compile_function(parse(text), plans.NATIVE)
    plan = NetworkPlan("large", (x,), (y,), (kernel,), (call,), 0, memory)
    return link_network(plan, plans.NATIVE)


def test_loading_reads_samples_and_tells_builds_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (with_large_weights(n).save(tmp_path / f"{n}.so") for n in (1, 2))
    assert one.library.stat().st_size > 4 << 20
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "_sha256", None)  # of the whole library, which is not called
        x = draw(ROWS)
        np.testing.assert_array_equal(loaded(one.library)(x), x)
        other = one.library.rename(tmp_path / "other.so")
        two.manifest.rename(tmp_path / "other.json")
        with pytest.raises(BuildError, match="describes another build"):
            ac.load_library(other)
        two.library.write_bytes(two.library.read_bytes()[:-1])
        one.manifest.rename(tmp_path / "2.json")
        with pytest.raises(BuildError, match="describes another build"):
            ac.load_library(two.library)


def test_a_library_is_verified_on_demand(tmp_path: Path) -> None:
    library = with_large_weights(1.25).save(tmp_path / "net.so").library
    ac.load_library(library, verify=True)
    code, seed = library.read_bytes(), np.float32(1.25).tobytes()
    assert code.count(seed) == 1
    library.unlink()  # it is mapped
    library.write_bytes(code.replace(seed, np.float32(1.5).tobytes()))
    loaded(library)
    with pytest.raises(BuildError, match="describes another build"):
        ac.load_library(library, verify=True)


def test_refuses_other_weights(tmp_path: Path) -> None:
    module(seed=11).save(tmp_path / "other.so", tmp_path / "other.weights")
    module().save(tmp_path / "net.so", tmp_path / "net.weights")
    (tmp_path / "other.weights").rename(tmp_path / "net.weights")
    with pytest.raises(BuildError, match=r"net\.weights, the weights of .*net\.so, is no file of"):
        ac.load_library(tmp_path / "net.so")
    (tmp_path / "net.weights").unlink()
    with pytest.raises(BuildError, match="cannot be read; it must lie where it was saved"):
        ac.load_library(tmp_path / "net.so")


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = module()
    with pytest.raises(BuildError, match=r"does not say what to write; end it in \.so"):
        network.save(tmp_path / "net.dll")
    with pytest.raises(BuildError, match=r"the weights cannot be in '.*net.json' too"):
        network.save(tmp_path / "net.so", tmp_path / "net.json")
    with pytest.raises(BuildError, match=r"net\.so cannot be written: No such file or directory"):
        network.save(tmp_path / "net.so", tmp_path / "nowhere" / "net.weights")
    monkeypatch.setattr(network_artifact, "MOST_EMBEDDED_BYTES", 100)
    with pytest.raises(BuildError, match=r"are more than fit into a library .*; save them apart"):
        network.save(tmp_path / "net.so")
    assert names(tmp_path) == []
    network.save(tmp_path / "net.so", tmp_path / "net.weights")
    with pytest.raises(BuildError, match="is a network, not a kernel"):
        load_kernel(tmp_path / "net.so")


def test_a_failing_linker_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing, out = tmp_path / "failing-cc", tmp_path / "out"
    failing.write_text("#!/bin/sh\necho 'no room' >&2\nexit 7\n")
    failing.chmod(0o755)
    out.mkdir()
    monkeypatch.setenv("CC", str(failing))
    with pytest.raises(BuildError, match="'failing-cc' failed with status 7:\nno room"):
        module().save(out / "net.so")
    assert names(out) == []


def test_code_that_is_no_elf_file_is_refused() -> None:
    plan = perceptron()
    code = replace(plan.kernels[0], code=CompiledProgram(b"\xcf\xfa\xed\xfe"))
    network = link_network(replace(plan, kernels=(code, plan.kernels[1])), plans.NATIVE)
    with pytest.raises(BuildError, match="networks are made of ELF object files of 64 bits"):
        network(draw(ROWS, WIDTH))


@needs_qemu
@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_a_network_for_aarch64(tmp_path: Path, suffix: str) -> None:
    target = Target.parse("aarch64-linux-gnu -mcpu=cortex-a53")
    program = linked(link_network(perceptron(target=target), target), tmp_path, suffix)
    x = draw(ROWS, WIDTH)
    for threads in (1, 3):
        status, y = emulated(program, [x], (ROWS, WIDTH), threads=threads, cpu="cortex-a53")
        assert status == 0
        np.testing.assert_allclose(y, perceptron_reference(x), 1e-5, 1e-6)
