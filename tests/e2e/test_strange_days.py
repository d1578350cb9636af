"""`ansorc tune` on days when the disk, the clock or the terminal fail: a sentence, nothing lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.test_tuning_ends import (
    MAIN,
    OPS,
    PATIENCE_S,
    children_of,
    records_in,
    wait_for_records,
)
from tests.search.measure.processes import wait_until_dead
from tests.support.nightly import sampled

NO_LOCKS = """
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/fcntl.h>
int fcntl(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  long argument = va_arg(rest, long);
  va_end(rest);
  if (command == F_SETLK || command == F_SETLKW || command == F_GETLK) {
    errno = ENOLCK;
    return -1;
  }
  return syscall(SYS_fcntl, file, command, argument);
}
int fcntl64(int, int, ...) __attribute__((alias("fcntl")));
"""
JUMPS = """
import itertools, time
true, turns = time.time, itertools.count()
time.time = lambda: true() + (0, 86400, -86400, 3e8)[next(turns) % 4]
"""


def started(
    directory: Path, trials: int, before: str = "", *, variables: Mapping[str, str] | None = None,
    out: int = subprocess.PIPE, errors: int = subprocess.PIPE,
    file_bytes: int = 0,
) -> subprocess.Popen[str]:  # fmt: skip
    """A tuner in a session of its own, which runs the code `before` first."""
    (directory / "ops.py").write_text(OPS)
    if file_bytes:
        limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({file_bytes}, {file_bytes}))"
        before = f"import resource; {limit}"
    words = ["tune", "ops.py:product", "--trials", str(trials)]
    return subprocess.Popen(
        [sys.executable, "-c", f"{before}\n{MAIN}", *words], cwd=directory, text=True,
        env={**os.environ, **(variables or {})}, stdout=out, stderr=errors,
        start_new_session=True,
    )  # fmt: skip


@pytest.mark.nightly  # a full disk under the records of a command is in the default suite
def test_a_disk_that_fills_up_loses_nothing_and_the_same_command_goes_on(tmp_path: Path) -> None:
    with started(tmp_path, 500, file_bytes=200_000) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert re.search(r"error: .*tune\.db .*(space|full).* (safe|nothing is lost)\n$", err), err
    assert "Traceback" not in err
    kept = len(records_in(tmp_path))
    assert kept >= 2
    with started(tmp_path, kept + 2) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "measured 2 programs" in err


@pytest.mark.nightly  # SQLite tries for ten seconds
@pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler makes the disk without locks")
def test_a_disk_without_locks_is_refused(tmp_path: Path) -> None:
    source, library = tmp_path / "no_locks.c", tmp_path / "no_locks.so"
    source.write_text(NO_LOCKS)
    subprocess.run(["cc", "-w", "-shared", "-fPIC", source, "-o", library], check=True)
    with started(tmp_path, 4, variables={"LD_PRELOAD": str(library)}) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "the file system of tune.db has no locks" in err
    assert "give a path on a local disk" in err
    assert "Traceback" not in err


@pytest.mark.nightly
def test_a_clock_that_jumps_changes_no_time(tmp_path: Path) -> None:
    with started(tmp_path, 8, JUMPS) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    found = records_in(tmp_path)
    assert len(found) == 8
    created = [record.created for record in found]
    assert max(created) - min(created) > 86400  # it did jump
    assert all(r.failure is None and r.median_s and r.median_s < 0.01 for r in found)
    assert all(r.run_s < 30 and r.build_s < 30 for r in found)
    assert re.search(r"measured 8 programs in 0:\d\d\n", err)


@pytest.mark.nightly
def test_sleep_is_not_measured(tmp_path: Path) -> None:
    """Stopped and woken, all processes at once, as a suspended machine is."""
    with started(tmp_path, 16) as process:
        wait_for_records(tmp_path, 3)
        for _ in range(2):
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(1.0)
            os.killpg(process.pid, signal.SIGCONT)
            time.sleep(0.15)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    found = records_in(tmp_path)
    assert len(found) == 16
    assert all(record.failure is None for record in found)
    assert max(record.median_s or 1.0 for record in found) < 1e-3  # a call takes microseconds


@pytest.mark.nightly  # Ctrl-C is in the default suite
def test_a_terminal_that_goes_away_ends_the_run_as_ctrl_c_does(tmp_path: Path) -> None:
    with started(tmp_path, 500) as process:
        wait_for_records(tmp_path, 3)
        workers = children_of(process.pid)
        os.killpg(process.pid, signal.SIGHUP)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "interrupted; go on with: ansorc tune ops.py:product --records tune.db" in out
    assert "Traceback" not in err
    assert workers
    assert wait_until_dead(workers, PATIENCE_S) == []
    assert all(record.failure is None for record in records_in(tmp_path))


@pytest.mark.nightly
def test_nohup_goes_on(tmp_path: Path) -> None:
    ignored = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    with started(tmp_path, 12, ignored) as process:
        wait_for_records(tmp_path, 3)
        os.killpg(process.pid, signal.SIGHUP)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert len(records_in(tmp_path)) == 12


@pytest.mark.parametrize("closed", sampled(["out", "errors"], ["errors"]))
def test_output_that_nobody_reads_ends_in_a_sentence(tmp_path: Path, closed: str) -> None:
    reader, writer = os.pipe()
    out_to, errors_to = (writer, subprocess.PIPE) if closed == "out" else (subprocess.PIPE, writer)
    trials = 4 if closed == "out" else 40  # the table comes at the end, the progress earlier
    with started(tmp_path, trials, out=out_to, errors=errors_to) as process:
        os.close(writer)
        if closed == "errors":
            wait_for_records(tmp_path, 3)
        os.close(reader)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    said = err if closed == "out" else out
    assert "error: nobody reads the output any more, so tuning ended; what was measured" in said
    assert "Traceback" not in said
    assert len(records_in(tmp_path)) >= 3
