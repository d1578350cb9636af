"""The commands, each with what it promises to print and to write."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ansorc.cli.progress import Progress
from ansorc.search.tune_result import RunProgress
from tests.support.command_line import CommandLine
from tests.support.nightly import sampled


def test_help_names_all_commands(cli: CommandLine) -> None:
    ended = cli.run("--help")
    assert ended.code == 0
    for command in ("tune", "build", "run", "show", "train", "records", "doctor"):
        assert f"\n  {command} " in ended.out
        assert "--help" in cli.run(command, "-h").out


def test_help_loads_no_learning_library() -> None:
    code = "import ansorc.cli.main, sys; print({m.split('.')[0] for m in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "ansorc" in loaded.stdout
    assert not {"lightgbm", "sklearn", "scipy"} & set(re.findall(r"'(\w+)'", loaded.stdout))


def test_the_package_is_a_command_too() -> None:
    command = [sys.executable, "-m", "ansorc", "tune"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: Missing argument")
    assert "see: python -m ansorc tune --help" in ended.stderr


def test_the_version(cli: CommandLine) -> None:
    own, inside, linker, python = cli.run("--version").out.splitlines()
    assert re.fullmatch(r"ansorc \d+\.\d+\.\d+", own)
    assert re.fullmatch(r"compiler: LLVM \d+\.\d+\.\d+ \(llvmlite \d+\.\d+\.\d+.*\)", inside)
    assert linker.startswith("C++ compiler: ")
    assert re.fullmatch(r"Python 3\.\d+\.\d+.*", python)


def test_an_ablation_has_no_default_among_its_programs(cli: CommandLine) -> None:
    tuned = cli.run("tune", "ops.py:product", "--trials", "3", "--ablation", "no-fine-tuning")
    assert tuned.code == 0, tuned
    assert "measured 3 programs" in tuned.err
    assert "untuned default" not in tuned.out
    assert "'beam', 'no-fine-tuning'" in cli.run("tune", "ops.py:product", "--ablation", "all").err


def test_tune_then_build_run_and_show(cli: CommandLine) -> None:
    tuned = cli.run("tune", "ops.py:product", "--trials", "4", "--set", "n=48")
    assert tuned.code == 0, tuned
    rows = [line.split("  ")[0].strip() for line in tuned.out.splitlines()]
    assert [row for row in rows if row in ("tuned", "untuned default", "NumPy")] == rows[2:5]
    again = "ops.py:product --set n=48 --records tune.db"
    assert f"build it with: ansorc build {again}\n" in tuned.out
    assert "% of peak" in tuned.err
    assert "measured 4 programs" in tuned.err
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x1b]", tuned.out + tuned.err)

    built = cli.run("build", *again.split(), "-o", "lib.so")
    assert built.code == 0, built
    assert built.out.startswith("product: tuned, ")
    for name in ("lib.so", "lib.h", "lib.json"):
        assert f"  {name} ({Path(name).stat().st_size} bytes)" in built.out
    (record,) = json.loads(Path("lib.json").read_text())["records"]
    (best,) = json.loads(cli.run("records", "best", "tune.db", "--json").out)
    for name in ("median_s", "seed", "version"):
        assert record[name] == best[name]
    assert all(record[name] in map(str, best.values()) for name in ("task", "program"))
    assert "int32_t product(" in Path("lib.h").read_text()

    for arguments in ([], ["-l", "lib.so"], ["--default", "--threads", "1"]):
        ran = cli.run("run", *again.split(), *arguments)
        assert ran.code == 0, ran
        assert "right: the largest error is 0." in ran.out
        assert re.search(r"[\d.]+ µs ± .* GFLOP/s, \d+% of the FMA peak", ran.out)

    shown = cli.run("show", *again.split())
    assert "# product: tuned, " in shown.out
    assert "# the schedule as nested loops\n" in shown.out
    assert (
        "kernel product(A: float32[48, 32], B: float32[32, 64], C: float32[48, 64]):" in shown.out
    )

    elsewhere = cli.run("build", *again.split(), "--threads", "1").refused()
    assert "measured on another machine, thread count or cache policy (4, warm)" in elsewhere


def test_a_search_may_care_for_calls_with_other_work_between(cli: CommandLine) -> None:
    tuned = cli.run("tune", "ops.py:product", "--trials", "2", "--measure", "call")
    assert tuned.code == 0, tuned
    again = "ops.py:product --measure call --records tune.db"
    assert f"build it with: ansorc build {again}\n" in tuned.out
    ran = cli.run("run", *again.split())
    assert re.search(
        r"  from Python: [\d.]+ [µm]s back to back, [\d.]+ [µm]s with other work", ran.out
    )
    assert "cache policy (2, other-work)" in cli.run("run", "ops.py:product").refused()
    both = cli.run("build", *again.split(), "--cache", "cold").refused()
    assert 'measure="call" says what the caches hold' in both


def test_an_effort_is_a_number_of_trials(cli: CommandLine) -> None:
    words = cli.run("tune", "ops.py:product", "--trials", "2", "--effort", "max").refused(2)
    assert "--effort says how many trials" in words


@pytest.mark.parametrize("cache", sampled(["cold", "cold-weights"], ["cold-weights"]))
def test_cold_caches(cli: CommandLine, cache: str) -> None:
    tuned = cli.run("tune", "ops.py:product", "--trials", "2", "--cache", cache)
    assert tuned.code == 0, tuned
    again = f"ops.py:product --cache {cache} --records tune.db"
    assert f"build it with: ansorc build {again}\n" in tuned.out
    assert cli.run("show", *again.split()).out.startswith("# product: tuned, ")
    warm = cli.run("show", "ops.py:product").refused()
    assert "measured on another machine, thread count or cache policy (2, " in warm


def test_where_the_time_of_a_run_went_is_one_line(cli: CommandLine) -> None:
    tuned = cli.run("tune", "ops.py:product", "--trials", "4")
    (line,) = [line for line in tuned.err.splitlines() if line.startswith("time: ")]
    assert re.fullmatch(
        r"time: start \d+%, search \d+%, "
        r"build \(lower \d+%, passes \d+%, emit \d+%, LLVM \d+%\) \d+%, "
        r"run \(prepare \d+%, warm up \d+%, check \d+%, repeat \d+%\) \d+%, "
        r"contest \d+%, rest \d+%",
        line,
    )
    shares = [int(share) for share in re.findall(r"(\d+)%", re.sub(r"\(.*?\)", "", line))]
    assert sum(shares) == pytest.approx(100, abs=4)
    assert re.search(r"the winner was -?\d+\.\d% ± \d+\.\d% faster than the second", tuned.out)


def test_a_built_library_of_another_workload_is_refused(cli: CommandLine) -> None:
    assert cli.run("build", "ops.py:product", "--default", "-o", "lib.so").code == 0
    error = cli.run("run", "ops.py:product", "--set", "n=8", "-l", "lib.so").refused()
    assert "(64, 32)" in error


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("dag", "C"),
        ("schedule", "for "),
        ("ir", "kernel product("),
        ("passes", "# after vectorize_loops\nkernel product("),
        ("llvm", "define i32 @product("),
        ("optimized", "define "),
        ("asm", "\tret"),
        ("sketches", "tile C\n    MultiLevelTiling on C"),
    ],
)
def test_every_view(cli: CommandLine, view: str, words: str) -> None:
    shown = cli.run("show", "ops.py:product", "--default", "--view", view)
    assert shown.code == 0
    assert shown.out.count("\n# the ") == 1
    assert words in shown.out


def test_sketches_are_those_of_the_target(cli: CommandLine) -> None:
    given = ("show", "ops.py:product", "--default", "--view", "sketches")
    shown = cli.run(*given, "--target", "cuda -arch=sm_90").out
    assert "tile C.local in C by threads\n    TilingForThreads on C" in shown
    assert "MultiLevelTiling" not in shown


def test_asm_is_short_for_a_view(cli: CommandLine) -> None:
    alone = cli.run("show", "ops.py:product", "--default", "--asm").out
    assert alone == cli.run("show", "ops.py:product", "--default", "--view", "asm").out
    both = cli.run("show", "ops.py:product", "--default", "--view", "ir", "--asm").out
    assert both.index("# the loop program") < both.index("# the assembly")


@pytest.mark.parametrize(
    ("target", "fma"),
    [("x86_64-linux-gnu -mcpu=znver4", "vfmadd"), ("aarch64-linux-gnu -mcpu=cortex-a53", "fmla\t")],
)
def test_asm_marks_the_innermost_loops(cli: CommandLine, target: str, fma: str) -> None:
    shown = cli.run("show", "ops.py:product", "--default", "--asm", "--target", target).out
    loops = [line for line in shown.splitlines() if line.startswith("| == innermost loop product.")]
    assert loops
    assert any(" FMA, " in line and " FMA per load" in line for line in loops)
    assert all(" spills and reloads" in line for line in loops)
    assert any(line.startswith(f"|\t{fma}") for line in shown.splitlines())


def test_a_build_for_another_machine(cli: CommandLine) -> None:
    target = "aarch64-linux-gnu -mcpu=cortex-a53"
    built = cli.run("build", "ops.py:product", "--default", "--target", target, "-o", "arm.o")
    assert built.code == 0, built
    assert f"product: untuned default schedule, for {target}\n" in built.out
    assert Path("arm.o").read_bytes()[18] == 183  # EM_AARCH64 in the ELF header


def test_a_file_with_one_workload_needs_no_name(cli: CommandLine) -> None:
    Path("one.py").write_text(Path("ops.py").read_text().split("@ac.workload\ndef single")[0])
    assert "# product: untuned" in cli.run("show", "one.py", "--default").out


def test_a_space_of_one_program(cli: CommandLine) -> None:
    for _ in range(2):
        ended = cli.run("tune", "ops.py:single")
        assert ended.code == 0
        assert "space exhausted: all programs are measured (1)" in ended.err


def test_doctor(cli: CommandLine) -> None:
    ended = cli.run("doctor", "--no-limits")
    assert ended.code == 0
    for words in ("features", "caches", "cores to use", "C++: ", "ready"):
        assert words in ended.out


def test_doctor_without_a_compiler(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    ended = cli.run("doctor", "--no-limits")
    assert ended.code == 1
    assert "missing   CXX is 'no-such-compiler'" in ended.out
    assert ended.err == "error: 1 problem(s) found; see above\n"


TRIAL = RunProgress(4, 8, 2e-3, is_new_best=False, failures={}, elapsed_s=2.0, measured_now=4)


def test_a_line_of_progress() -> None:
    progress = Progress("matmul", 1e9, 1e12)
    line = progress.line(replace(TRIAL, failures={"crash": 2, "compile": 1}))
    assert line == (
        "matmul 4/8 | best 2 ms 500.0 GFLOP/s 50% of peak | 2.0 trials/s | ETA 0:02 | "
        "failed: 1 compile, 2 crash"
    )
    assert progress.line(replace(TRIAL, done=8, best_s=None)) == (
        "matmul 8/8 | no result yet | 2.0 trials/s | took 0:02"
    )


def test_piped_progress_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("matmul", 1e9, 0.0) as progress:
        progress(replace(TRIAL, done=1, is_new_best=True))
        progress(replace(TRIAL, done=2))  # neither new nor late
        progress(replace(TRIAL, done=3, is_new_best=True))
        progress(replace(TRIAL, done=4))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["1/8", "3/8", "4/8"]
    assert "\x1b" not in "".join(lines)


def test_progress_on_a_terminal_is_one_live_line() -> None:
    code = (
        "from ansorc.cli.progress import Progress\n"
        "from ansorc.search.tune_result import RunProgress\n"
        "with Progress('matmul', 1e9, 0.0) as show:\n"
        "    for n in range(1, 9): show(RunProgress(n, 8, 1e-3, True, {}, 1.0, n))\n"
    )
    ours, theirs = pty.openpty()
    process = subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True)
    os.close(theirs)
    with io.FileIO(ours) as terminal:
        text = terminal.read(1 << 16) or b""
    assert process.returncode == 0
    assert b"\x1b[2K" in text  # the live line is erased …
    assert text.count(b"took 0:01") <= 3
    assert text.rstrip().endswith(b"8.0 trials/s | took 0:01")  # … and the last one stays


def test_every_command_says_that_a_weight_is_packed(cli: CommandLine) -> None:
    wide = ("ops.py:layer", "--set", "n=1024")  # a tile never spans a whole row of B
    tuned = cli.run("tune", *wide, "--trials", "2")
    assert tuned.code == 0, tuned
    assert "\nB: packed once before the calls, which is not in the times\n" in tuned.out
    built = cli.run("build", *wide)
    assert "(without the packing of B, done once before), for " in built.out
    assert "int32_t layer_pack_B(" in Path("layer.h").read_text()
    for choice in ("--records=tune.db", "--library=layer.so"):
        ran = cli.run("run", *wide, choice)
        assert ran.code == 0, ran
        assert "  B: packed once before the calls, which is not timed\n" in ran.out
    shown = cli.run("show", *wide, "--default")
    assert "B laid out in the order of its reads\n" in shown.out
    assert re.search(r"B: float32\[[\d, ]+\] constant", shown.out)
