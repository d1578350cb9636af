"""`ANSORC_TEST_AS=znver5-96 pytest …`: all decisions are made as on that machine.

What is executed is still made for the machine that runs the tests, so most results are checked,
too. `support/assumed.py` lists the machines. Every pass over a graph is followed by a check of the
graph.

In the folders of tests that check results of kernels, memory that nobody wrote holds NaN and the
largest integers, so that reading it shows (`ansorc/ir/passes/fill_memory.py`).
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings

from ansorc.ir.passes.fill_memory import VARIABLE as FILL_VARIABLE
from ansorc.search.measure import workers
from ansorc.target import Target, detect, machine
from tests.support.assumed import MACHINES, VARIABLE
from tests.support.command_line import CommandLine
from tests.support.nightly import PROFILE
from tests.support.shared_zygote import SharedZygotes

FILLED = (
    "codegen/call", "codegen/cuda", "codegen/network", "e2e/cuda", "e2e/dtypes", "graph",
    "ir/passes/gpu", "lang", "schedule",
)  # fmt: skip
"""The folders in which, and below which, memory is filled."""
TESTS = Path(__file__).parent
NIGHTLY_MODULE = re.compile(r"^pytestmark = .*\bpytest\.mark\.nightly\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the texts that passes are held against be written anew."""
    parser.addoption("--update-golden", action="store_true", help="rewrite what passes give")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules none of whose tests will run: importing PyTorch's samples takes long."""
    if config.option.markexpr != "not nightly" or collection_path.suffix != ".py":
        return None
    return True if NIGHTLY_MODULE.search(collection_path.read_text()) else None


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Leave out nightly functions before each of their parameters, thousands, becomes a test."""
    if collector.config.option.markexpr != "not nightly":
        return None
    marks: list[pytest.Mark] = getattr(obj, "pytestmark", [])
    return [] if any(mark.name == "nightly" for mark in marks) else None


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out what lasts: modules and ten thousand tests.

    It would look at all of them each time that a test makes many objects.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(autouse=True)
def filled_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill what kernels allocate, and their outputs, in the folders FILLED."""
    if any(request.path.is_relative_to(TESTS / folder) for folder in FILLED):
        monkeypatch.setenv(FILL_VARIABLE, "1")


@pytest.fixture(autouse=True, scope="session")
def shared_zygote() -> Iterator[None]:
    """Let the tuning runs of this process fork their workers from one zygote."""
    with closing(SharedZygotes()) as zygotes, pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "ZygoteProcess", zygotes)
        yield


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Return the command line under test, in a directory of its own; its peak is soon measured."""
    monkeypatch.setattr("ansorc.codegen.llvm.limits._PROBE_S", 0.01)
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys)


def pytest_configure(config: pytest.Config) -> None:
    """Let "native" mean the assumed machine; `detect` still says what this one is.

    Nothing fails for the time that an example takes: the machine may be busy. Properties are tested
    on the same examples each time, unless ANSORC_TEST_RANDOM is set; at night on new ones.
    """
    is_random = bool(os.environ.get("ANSORC_TEST_RANDOM"))
    settings.register_profile("ansorc", deadline=None, derandomize=not is_random)
    settings.register_profile(PROFILE, deadline=None)
    settings.load_profile(PROFILE if config.option.markexpr == "nightly" else "ansorc")
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
