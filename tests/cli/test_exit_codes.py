"""Every mistake is one clear sentence and an exit code, without a traceback."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from ansorc.cli import show_command
from ansorc.codegen.cuda.backend import has_driver
from ansorc.lang import load_workload
from ansorc.search.measure import Measurement, ProgramText
from ansorc.search.record import Record, Records
from ansorc.search.record.record import current_environment
from ansorc.search.task import Task
from ansorc.target import Target, detect
from tests.support.command_line import CommandLine


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("tune ops.py:product --target foo", "'foo' is not a target; use 'native'"),
        ("tune missing.py:x", "there is no file 'missing.py'"),
        ("tune ops.py:nothing", "no workload 'nothing'; it has product, single, broken"),
        ("tune ops.py", "several workloads; choose one"),
        ("tune ops.py:product --set z=3", "no setting 'z'; it has n=64, m=64"),
        ("tune ops.py:broken", "'broken' failed: ZeroDivisionError: .* \\(line 17 of ops.py\\)"),
        ("build ops.py:product", "no record file tune.db; run `ansorc tune` first, or use --defa"),
        ("run ops.py:product", "no record file tune.db; run `ansorc tune` first"),
        ("show ops.py:product", "no record file tune.db; run `ansorc tune` first"),
        ("build ops.py:product --default -o no/a.so", "no/a.so cannot be written: No such file"),
        ("build ops.py:product --default -o a.txt", "end it in .so"),
        ("build ops.py:product --default --name 9x", "cannot be called '9x'"),
        ("run ops.py:product -l missing.so", "missing.so cannot be loaded"),
    ],
)
def test_bad_input(cli: CommandLine, arguments: str, words: str) -> None:
    error = cli.run(*arguments.split()).refused()
    assert re.search(words, error), error


def test_a_file_of_one_array(cli: CommandLine) -> None:
    np.save(cli.directory / "one.npy", np.arange(3))
    error = cli.run(*["run", "ops.py:product", "--default", "--inputs", "one.npy"]).refused(2)
    assert (
        "one.npy is not a file of arrays (it holds one array without a name); write one by" in error
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("tune ops.py:product --set n=a", "--set n=a: write NAME=INTEGER, e.g. --set n=1024"),
        ("tune ops.py:product --set n", "there is no '='"),
        ("tune ops.py:product --trials 0", "0 is not in the range"),
        ("tune", "Missing argument 'FILE:WORKLOAD|NETWORK.onnx...'"),
        ("show ops.py:product --view foo", "'foo' is not one of 'dag', 'schedule'"),
        ("tuna", "No such command 'tuna'"),
    ],
)
def test_a_wrong_command_line(cli: CommandLine, arguments: str, words: str) -> None:
    error = cli.run(*arguments.split()).refused(2)
    assert words in error
    assert "--help)" in error


@pytest.mark.skipif(has_driver(), reason="there is a driver for GPUs")
@pytest.mark.parametrize("command", ["tune", "run"])
def test_a_gpu(cli: CommandLine, command: str) -> None:
    more = [] if command == "tune" else ["--default"]
    ended = cli.run(command, "ops.py:product", "--target", "cuda -arch=sm_90", *more)
    assert "cannot be measured on this machine, which has no NVIDIA driver" in ended.refused()


@pytest.mark.parametrize("command", ["tune", "run"])
def test_another_machine(cli: CommandLine, command: str) -> None:
    is_x86 = detect().is_x86
    target = "aarch64-linux-gnu -mcpu=cortex-a53" if is_x86 else "x86_64-linux-gnu -mcpu=znver3"
    error = cli.run(command, "ops.py:product", "--target", target).refused()
    assert f"'{target}' cannot be measured on this" in error
    assert "build here with --default" in error


def test_a_cpu_with_more_instructions(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Target.parse("x86_64-linux-gnu -mcpu=x86-64-v2")
    monkeypatch.setattr("ansorc.codegen.llvm.opener.detect", lambda: plain)
    target = "x86_64-linux-gnu -mcpu=haswell"
    error = cli.run("tune", "ops.py:product", "--target", target).refused()
    assert "because this CPU lacks avx, avx2, bmi, bmi2, f16c, fma, lzcnt, movbe" in error


def test_a_corrupt_record_file(cli: CommandLine) -> None:
    path = Path("tune.db")
    path.write_bytes(b"\x17" * 5000)
    for command in ("tune", "build", "show"):
        error = cli.run(command, "ops.py:product").refused()
        assert "tune.db is not a record file; give another path" in error
    assert path.read_bytes() == b"\x17" * 5000


def test_a_record_file_of_another_program(cli: CommandLine) -> None:
    connection = sqlite3.connect("tune.db")
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    error = cli.run("build", "ops.py:product").refused()
    assert "tune.db is a database of another program" in error


def test_a_record_file_in_no_directory(cli: CommandLine) -> None:
    error = cli.run("tune", "ops.py:product", "--records", "no/tune.db").refused()
    assert "no/tune.db cannot be written" in error


def test_a_program_that_no_longer_fits(cli: CommandLine) -> None:
    task = Task(load_workload("ops.py", "product"), "native", "product")
    steps = ProgramText.of_json([["Parallelize", {"stage": "t2", "iterator": "a2"}]])
    outcome = Measurement((1e-3,), checked=True)
    with Records.open("tune.db") as records:
        records.add_task(task)
        records.add(Record.of(task.key, steps, outcome, current_environment(0)))
    ended = cli.run("show", "ops.py:product")
    assert ended.code == 1
    assert ended.err == (
        "error: Parallelize(stage='C', iterator='k') does not fit this program:\n"
        "  'k' is a reduction and its steps depend on each other, so it cannot be parallel; "
        "rfactor it first\n\n"
        "  for i in 0..64\n"
        "    for j in 0..64\n"
        ">     for k in 0..32  <-- here\n"
        "        C sum= ...\n"
    )


def test_a_fault_of_our_own(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise KeyError("nobody's key")

    monkeypatch.setattr(show_command, "lower", fail)
    monkeypatch.delenv("ANSORC_DEBUG", raising=False)
    ended = cli.run("show", "ops.py:product", "--default", "--view", "ir")
    assert ended.code == 70
    assert ended.err.startswith('internal error: KeyError: "nobody\'s key"')
    assert "Set ANSORC_DEBUG=1" in ended.err
    assert "Traceback" not in ended.err
    monkeypatch.setenv("ANSORC_DEBUG", "1")
    assert "Traceback" in cli.run("show", "ops.py:product", "--default", "--view", "ir").err


def test_a_full_disk_under_the_output(cli: CommandLine) -> None:
    with Path("/dev/full").open("w") as full:
        process = cli.start("show", "ops.py:product", "--default", out=full)
        _, err = process.communicate()
    assert (process.returncode, err) == (1, "error: No space left on device\n")


def test_a_full_disk_under_the_records(cli: CommandLine) -> None:
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (200_000, 200_000))"
    process = cli.start("tune", "ops.py:product", "--trials", "40", before=limit)
    _, err = process.communicate()
    assert process.returncode == 1
    assert "tune.db cannot be written" in err.splitlines()[-1]
    assert "Traceback" not in err
    with Records.open("tune.db") as records:
        (key,) = records.task_keys()
        assert len(records.all(key)) >= 1


@pytest.mark.parametrize("target", ["native", "x86_64-linux-gnu"])
def test_only_gpus_are_ranked_without_a_device(cli: CommandLine, target: str) -> None:
    ended = cli.run("tune", "ops.py:product", "--target", target, "--no-device")
    assert "--no-device ranks programs for GPUs" in ended.refused(2)
