"""Watching processes from tests."""

import os
import time
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether `pid` runs (a zombie does not)."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rsplit(")", 1)[1].split()[0] not in "ZX"


def wait_until_dead(pids: list[int], timeout_s: float) -> list[int]:
    """Wait for `pids` to end; return those that have not after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and any(is_alive(pid) for pid in pids):
        time.sleep(0.02)
    return [pid for pid in pids if is_alive(pid)]


def processes_of(group: int) -> list[int]:
    """Return the running processes of the process group `group`."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found: list[int] = []
    for pid in pids:
        try:
            same = os.getpgid(pid) == group
        except ProcessLookupError:
            continue
        if same and is_alive(pid):
            found.append(pid)
    return found
