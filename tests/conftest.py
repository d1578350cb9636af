"""`ANSORC_TEST_AS=znver5-96 pytest …`: all decisions are made as on that machine.

What is executed is still made for the machine that runs the tests, so most results are checked,
too. `assumed.py` lists the machines. Every pass over a graph is followed by a check of the graph.

In the folders of tests that check results of kernels, memory that nobody wrote holds NaN and the
largest integers, so that reading it shows (`ansorc/ir/passes/fill_memory.py`).
"""

from __future__ import annotations

import os

import pytest
from assumed import MACHINES, VARIABLE
from hypothesis import settings

from ansorc.ir.passes.fill_memory import VARIABLE as FILL_VARIABLE
from ansorc.target import Target, detect, machine

FILLED = (
    "codegen_cuda", "dtypes", "graph", "graph_torch", "lang", "network_codegen", "network_cuda",
    "schedule",
)  # fmt: skip
"""The folders in which memory is filled."""


@pytest.fixture(autouse=True)
def filled_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill what kernels allocate, and their outputs, in the folders FILLED."""
    if request.path.parent.name in FILLED:
        monkeypatch.setenv(FILL_VARIABLE, "1")


def pytest_configure(config: pytest.Config) -> None:
    """Let "native" mean the assumed machine; `detect` still says what this one is.

    Nothing fails for the time that an example takes: the machine may be busy.
    """
    settings.register_profile("ansorc", deadline=None)
    settings.load_profile("ansorc")
    os.environ.setdefault("ANSORC_VERIFY_EACH", "1")
    name = os.environ.get(VARIABLE)
    if not name:
        return
    if name not in MACHINES:
        raise pytest.UsageError(f"{VARIABLE} is '{name}', but must be one of {', '.join(MACHINES)}")
    assumed = detect().assuming(Target.parse(MACHINES[name]))
    patch = pytest.MonkeyPatch()
    patch.setattr(machine, "detect", lambda: assumed)
    config.add_cleanup(patch.undo)


def pytest_report_header() -> str:
    return f"decisions are made for {Target.parse('native').text}"
