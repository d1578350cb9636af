"""The C++ side: the thread pool's own checks, its symbols, and how the compiled runtime is kept."""

from __future__ import annotations

import re
import subprocess
import threading
from pathlib import Path

import pytest

from ansorc.codegen.package import runtime_library as library
from ansorc.codegen.package import toolchain
from ansorc.codegen.package.runtime_library import runtime_symbols
from ansorc.errors import BuildError
from ansorc.target import detect

RUNTIME = Path(__file__).parents[2] / "runtime"
LIBC = re.compile(
    r"pthread_\w+|__errno_location|__tls_get_addr|__stack_chk_fail|clock_gettime|getenv|"
    r"sched_\w+|sigfillset|(__isoc23_)?strtol|syscall|sysconf|_GLOBAL_OFFSET_TABLE_|"
    r"open|close|read|mem\w+|str(n?cmp|len|chr|str|cspn)"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ansorc"


def output(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def compiled(program: str, directory: Path, *more: str) -> Path:
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", *more]
    sources = [RUNTIME / "tests" / f"{program}.cc", RUNTIME / "src/thread_pool.cc"]
    output("c++", *flags, f"-I{RUNTIME}/include", *sources, "-o", directory / program)
    return directory / program


def sanitized(program: str, directory: Path) -> Path:
    """Compile `program` with the thread sanitizer; skip the test if there is none."""
    empty = directory / "empty.cc"
    empty.write_text("int main() { return 0; }")
    tried = ["c++", "-fsanitize=thread", empty, "-o", directory / "empty"]
    if subprocess.run(tried, capture_output=True, check=False).returncode != 0:
        pytest.skip("the compiler has no thread sanitizer")
    return compiled(program, directory, "-g", "-fsanitize=thread")


def test_the_thread_pool_passes_its_checks(tmp_path: Path) -> None:
    lines = output(compiled("thread_pool_test", tmp_path)).splitlines()
    assert len(lines) == (26 if detect().cores > 1 else 25)  # one check needs a second CPU
    assert all(line.startswith("ok: ") for line in lines)


def test_the_thread_pool_has_no_races(tmp_path: Path) -> None:
    lines = output(sanitized("thread_pool_test", tmp_path)).splitlines()
    assert len(lines) >= 15
    assert all(line.startswith("ok: ") for line in lines)


def test_teams_pass_their_checks(tmp_path: Path) -> None:
    lines = output(compiled("team_test", tmp_path)).splitlines()
    assert len(lines) == 18
    assert all(line.startswith("ok: ") for line in lines)


def test_teams_have_no_races(tmp_path: Path) -> None:
    lines = output(sanitized("team_test", tmp_path)).splitlines()
    assert len(lines) == 15  # the sanitizer does not go with fork
    assert all(line.startswith("ok: ") for line in lines)


def test_the_wake_up_cost_is_measured(tmp_path: Path) -> None:
    lines = output(compiled("wake_up", tmp_path), "2", "10").splitlines()
    assert [line.split(",")[0] for line in lines] == ["warm-up", "warm", "asleep"]


def test_the_object_needs_only_libc_and_shows_only_its_prefix() -> None:
    found = output("nm", library.runtime_object(detect()))
    undefined = set(re.findall(r" U (\S+)", found))
    assert not {name for name in undefined if not LIBC.fullmatch(name)}
    exported = output("nm", "-D", "--defined-only", library.runtime_library())
    assert all(line.split()[-1].startswith("ansorc_") for line in exported.splitlines())


def test_the_functions_are_weak_and_the_pool_is_unique() -> None:
    found = output("nm", "-D", "--defined-only", library.runtime_library()).splitlines()
    kinds = {line.split()[-1]: line.split()[-2] for line in found}
    assert kinds["ansorc_parallel_for"] == "W"
    assert kinds["ansorc_pool_5"] == "u"


def test_the_addresses_of_the_functions_are_known() -> None:
    symbols = runtime_symbols()
    assert set(symbols) == {
        "ansorc_parallel_for", "ansorc_parallel_for_dynamic", "ansorc_num_threads",
        "ansorc_set_num_threads", "ansorc_team_begin", "ansorc_team_end",
    }  # fmt: skip
    assert all(symbols.values())


def test_the_runtime_is_compiled_once(cache: Path) -> None:
    path = library.runtime_library()
    written = path.stat().st_mtime_ns
    assert library.runtime_library() == path
    assert library.runtime_object(detect()).parent == path.parent
    assert path.stat().st_mtime_ns == written
    assert [entry.name for entry in cache.iterdir()] == [path.parent.name]


def test_several_may_compile_the_runtime_at_once(cache: Path) -> None:
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(library.runtime_library())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert len(set(found)) == 1
    assert [entry.name for entry in cache.iterdir()] == [found[0].parent.name]


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the directory should be")
    with pytest.raises(
        BuildError, match=r"cannot be kept in .*; set XDG_CACHE_HOME to a directory"
    ):
        library.runtime_library()


def test_a_compiler_that_fails_tells_why(tmp_path: Path) -> None:
    source = tmp_path / "broken.cc"
    source.write_text("int broken( { }\n")
    tools = toolchain.find_toolchain(detect())
    with pytest.raises(BuildError, match=r"failed with status 1:\n(.|\n)*broken\.cc:1"):
        toolchain.compile_cxx(tools, source, tmp_path, tmp_path / "broken.o")
