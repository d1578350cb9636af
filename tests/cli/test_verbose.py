"""The logger `ansorc`: what is built, chosen and measured; silent unless somebody listens."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from tests.search.small_tasks import product
from tests.support.command_line import CommandLine
from tests.support.faulty_passes import doubled


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    found = [one for one in caplog.records if one.levelno == level]
    assert all(one.name.startswith("ansorc.") for one in found)
    return [one.getMessage() for one in found]


def test_a_build(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ansorc")
    ac.build(doubled(), name="scaled")
    told = messages(caplog, logging.INFO)
    assert told[0].startswith("scaled: the untuned default has ")
    assert told[1].startswith("building scaled for ")
    passes = [one for one in messages(caplog, logging.DEBUG) if one.startswith("scaled: pass ")]
    assert any(one.startswith("scaled: pass vectorize_loops, ") for one in passes)
    assert all(one.removesuffix(", nothing to do").endswith("s") for one in passes)
    assert "bytes of code; passes " in messages(caplog, logging.DEBUG)[-1]


def test_a_network(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ansorc")
    builder = GraphBuilder("net")
    ac.build(builder.graph([builder.add("exp", [builder.input("x", TensorType(FLOAT32, (4,)))])]))
    assert any(
        one.startswith("net for ") and one.endswith(": 1 nodes, 1 after the rewrites, 1 kernels")
        for one in messages(caplog, logging.INFO)
    )
    told = messages(caplog, logging.DEBUG)
    assert any(one.startswith("net: pass fold_constants, ") for one in told)
    assert "building kernel0, exp: untuned default schedule" in told


def test_a_tuning_run(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO, "ansorc")
    result = ac.tune(product(), trials=2, records=tmp_path / "tune.db", threads=1)
    told = messages(caplog, logging.INFO)
    assert any(one.startswith("tuning product for ") for one in told)
    assert any("product: 2 programs chosen after 0 trials" in one for one in told)
    assert any(one.endswith(", the best so far") for one in told)
    assert result.best is not None
    assert any(f"product: {result.best.program_key} wins the contest" in one for one in told)
    assert not messages(caplog, logging.WARNING)


def test_what_is_done_instead_of_what_failed(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    class Failing:
        def predict(self, features: object) -> np.ndarray:
            raise ZeroDivisionError

        def update(self, samples: object) -> None:
            del samples

    caplog.set_level(logging.INFO, "ansorc")
    records = tmp_path / "tune.db"
    ac.tune(product(), trials=3, records=records, threads=1, cost_model=Failing())  # type: ignore[arg-type]
    told = messages(caplog, logging.INFO)
    assert any(one.startswith("the cost model fails in predict") for one in told)


def test_nothing_is_printed_and_nobody_listens_unasked() -> None:
    code = (
        "import logging, ansorc as ac\n"
        "a = ac.placeholder((8,), name='A')\n"
        "ac.build(ac.ComputeDAG([a, ac.compute((8,), lambda i: a[i] * 2.0)]))\n"
        "names = [n for n in logging.root.manager.loggerDict if n.partition('.')[0] == 'ansorc']\n"
        "assert names and not any(logging.getLogger(n).handlers for n in (*names, 'ansorc', ''))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_command_line_prints_what_is_asked_for(cli: CommandLine) -> None:
    build = ("build", "ops.py:single", "--default", "-o", "single.so")
    silent = cli.run(*build)
    assert silent.code == 0
    assert "ansorc.search.programs" not in silent.err
    told = cli.run("-v", *build).err
    assert " ms ansorc.search.programs: building single for " in told
    assert "pass vectorize_loops" not in told
    assert "ansorc.ir.passes.pipeline: single: pass vectorize_loops" in cli.run("-vv", *build).err
    assert not logging.getLogger("ansorc").handlers
    assert cli.run(*build).err == silent.err
