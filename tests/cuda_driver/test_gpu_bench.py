"""`python -m bench gpu` on the emulated driver: tiny cases, and peers that see no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli.small_onnx import write_model
from cuda_driver.driver_backend import TARGET
from cuda_driver.emulated_driver import environment, obstacle

import ansorc as ac
from ansorc.graph.graph_reference import run_reference

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle())
ROOT = Path(__file__).parents[2]


def write_small_network(folder: Path) -> None:
    """The files that PyTorch makes of the paper's networks, of one that needs none."""
    folder.mkdir()
    write_model(folder / "small-b2.onnx")
    inputs = {"x": np.ones((2, 12), np.float32), "positions": np.arange(12, dtype=np.float32)}
    np.savez(folder / "small-b2-inputs.npz", x=inputs["x"], positions=inputs["positions"])
    graph = ac.from_onnx(folder / "small-b2.onnx", inputs={"x": (2, 12)})
    np.save(folder / "small-b2-reference.npy", run_reference(graph, inputs)["y"])


def test_the_comparison_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "bench", "gpu", "--tiny", "--trials", "2"]
    command += ["--cases", "nrm", "--target", TARGET, "--results", str(tmp_path)]
    command += ["--networks", "small-b2", "--network-trials", "2"]
    write_small_network(tmp_path / "networks")
    with environment():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["device"]["name"] == "Emulated GPU 0"
    assert set(found["cases"]) == {"NRM-tiny", "small-b2"}
    for case in found["cases"].values():
        own = case["sides"]["ansorc"]
        assert len(own["seconds"]) == 15
        assert own["error"] <= 1
        assert "PyTorch" in case["sides"]["pytorch"]["missing"]
