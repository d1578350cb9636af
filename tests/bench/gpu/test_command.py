"""`python -m bench gpu` on the emulated driver: tiny cases, and peers that see no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.graph_reference import run_reference
from bench.paper_cases import SHAPES
from tests.cli.small_onnx import write_model
from tests.e2e.cuda.driver_backend import TARGET
from tests.e2e.cuda.emulated_driver import environment, obstacle

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle())
ROOT = Path(__file__).parents[3]


def write_small_network(folder: Path) -> None:
    """The files that PyTorch makes of the paper's networks, of one that needs none."""
    folder.mkdir()
    write_model(folder / "small-b2.onnx")
    inputs = {"x": np.ones((2, 12), np.float32), "positions": np.arange(12, dtype=np.float32)}
    np.savez(folder / "small-b2-inputs.npz", x=inputs["x"], positions=inputs["positions"])
    graph = ac.from_onnx(folder / "small-b2.onnx", inputs={"x": (2, 12)})
    np.save(folder / "small-b2-reference.npy", run_reference(graph, inputs)["y"])


def results_of(folder: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "bench", "gpu", "--tiny", "--trials", "2"]
    command += ["--target", TARGET, "--results", str(folder), *options]
    with environment():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    assert found["device"]["name"] == "Emulated GPU 0"
    for case in found["cases"].values():
        own = case["sides"]["ansorc"]
        assert len(own["seconds"]) == 15
        assert own["error"] <= 1
        assert "PyTorch" in case["sides"]["pytorch"]["missing"]
    return found


def test_the_comparison_runs(tmp_path: Path) -> None:
    found = results_of(tmp_path, "--cases", "nrm", "--networks", "none")
    assert set(found["cases"]) == {"NRM-tiny"}


@pytest.mark.nightly
def test_all_operators_and_a_network_are_compared(tmp_path: Path) -> None:
    write_small_network(tmp_path / "networks")
    found = results_of(tmp_path, "--networks", "small-b2", "--network-trials", "2")
    assert set(found["cases"]) == {*(f"{operator}-tiny" for operator in SHAPES), "small-b2"}
