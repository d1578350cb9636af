"""`ansorc tune` as a process that is killed or interrupted at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansorc.search.record import Record, Records
from ansorc.target.units import seconds_text
from tests.cli.small_onnx import WIDTH, write_model
from tests.search.measure.processes import is_alive, wait_until_dead
from tests.support.nightly import also_nightly, amount

OPS = """
import ansorc as ac

@ac.workload
def product(n: int = 48):
    a = ac.placeholder((n, n), name="A")
    b = ac.placeholder((n, n), name="B")
    return [a, b, ac.ops.matmul(a, b, name="C")]
"""
MAIN = "from ansorc.cli.main import main; main()"
PATIENCE_S = 120.0
"""So long a busy machine may take for what takes a second or two."""
TRIALS = 500
"""More than are measured before a signal comes."""
OPERATOR = ("ops.py:product",)
NETWORK = ("net.onnx", "--input", f"x=64x{WIDTH}")


def children_of(parent: int) -> list[int]:
    """The running processes that `parent` started."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text() if entry.name.isdigit() else ""
        except (FileNotFoundError, ProcessLookupError):
            continue
        if stat and int(stat.rsplit(")", 1)[1].split()[1]) == parent and is_alive(int(entry.name)):
            found.append(int(entry.name))
    return found


@contextmanager
def tuning(
    directory: Path, trials: int, workload: Sequence[str] = OPERATOR
) -> Generator[subprocess.Popen[str]]:
    """A tuner at work; its temporary files go to `directory`, too."""
    (directory / "ops.py").write_text(OPS)
    write_model(directory / "net.onnx")
    (directory / "tmp").mkdir(exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "tune", *workload, "--trials", str(trials)],
        cwd=directory, env={**os.environ, "TMPDIR": str(directory / "tmp")}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def records_in(directory: Path) -> list[Record]:
    if not (directory / "tune.db").exists():
        return []
    with Records.open(directory / "tune.db") as records:
        return [record for key in records.task_keys() for record in records.all(key)]


def wait_for_records(directory: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(records_in(directory)) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(records_in(directory)) >= count


@also_nightly
def test_kill_9_at_any_moment_leaves_no_process_and_loses_nothing(tmp_path: Path) -> None:
    known: dict[str, float] = {}
    for wanted, delay_s in ((0, 1.1), (1, 0.0), (6, 0.07))[amount(1, 0) :]:
        with tuning(tmp_path, TRIALS) as process:
            wait_for_records(tmp_path, len(known) + wanted)
            time.sleep(delay_s)
            workers = children_of(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert workers or not wanted
        assert wait_until_dead(workers, PATIENCE_S) == []
        found = {record.program_key: record.created for record in records_in(tmp_path)}
        assert known.items() <= found.items(), "a program was measured again"
        known = found
    assert len(known) >= 7

    with tuning(tmp_path, len(known) + 2) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "measured 2 programs" in err
    assert "untuned default" in out
    assert len(records_in(tmp_path)) == len(known) + 2
    assert list((tmp_path / "tmp").iterdir()) == [], "the killed runs' files are swept"


@pytest.mark.nightly  # an operator's tuning is killed in the default suite
@pytest.mark.timeout(600)
def test_kill_9_of_a_network_s_tuning_loses_no_trial_and_the_same_command_goes_on(
    tmp_path: Path,
) -> None:
    """Killed in the first round of a task, between rounds, and in a later one."""
    known, trials = dict[str, float](), 44
    for wanted, delay_s in ((3, 0.0), (9, 0.05), (12, 0.1)):
        with tuning(tmp_path, trials, NETWORK) as process:
            wait_for_records(tmp_path, len(known) + wanted)
            time.sleep(delay_s)
            workers = children_of(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert workers
        assert wait_until_dead(workers, PATIENCE_S) == []
        found = {f"{r.task_key} {r.program_key}": r.created for r in records_in(tmp_path)}
        assert known.items() <= found.items(), "a program was measured again"
        known = found

    with tuning(tmp_path, trials, NETWORK) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert f"measured {trials - len(known)} programs" in err
    assert "in its kernels" in out
    assert len(records_in(tmp_path)) == trials
    assert list((tmp_path / "tmp").iterdir()) == [], "the killed runs' files are swept"


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_ctrl_c_saves_the_best_and_ends_cleanly(tmp_path: Path, count: int) -> None:
    """Once, or twice in a row by an impatient user."""
    with tuning(tmp_path, TRIALS) as process:
        wait_for_records(tmp_path, 3)
        workers = children_of(process.pid)
        assert workers
        for _ in range(count):
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert len(records_in(tmp_path)) < TRIALS, "it did not go on to the end"
    assert "Traceback" not in err
    assert wait_until_dead(workers, PATIENCE_S) == []
    if count == 1:
        assert "interrupted; go on with: ansorc tune ops.py:product --records tune.db" in out
        assert "build it with: ansorc build ops.py:product --records tune.db" in out
        (tuned,) = [line for line in out.splitlines() if line.strip().startswith("tuned ")]
        fastest = min(r.median_s for r in records_in(tmp_path) if r.median_s and r.checked)
        assert seconds_text(fastest) in tuned


def test_ctrl_c_before_the_first_result(tmp_path: Path) -> None:
    with tuning(tmp_path, TRIALS) as process:
        while not (tmp_path / "tune.db").exists():
            time.sleep(0.01)
        workers = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert wait_until_dead(workers, PATIENCE_S) == []
