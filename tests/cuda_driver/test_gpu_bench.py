"""`python -m bench gpu` on the emulated driver: tiny cases, and peers that see no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_driver.driver_backend import TARGET
from cuda_driver.emulated_driver import environment, obstacle

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle())
ROOT = Path(__file__).parents[2]


def test_the_comparison_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "bench", "gpu", "--tiny", "--trials", "2"]
    command += ["--cases", "nrm", "--target", TARGET, "--results", str(tmp_path)]
    with environment():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["device"]["name"] == "Emulated GPU 0"
    assert set(found["cases"]) == {"NRM-tiny"}
    for case in found["cases"].values():
        own = case["sides"]["ansorc"]
        assert len(own["seconds"]) == 15
        assert own["error"] <= 1
        assert "PyTorch" in case["sides"]["pytorch"]["missing"]
    assert "networks are not compiled for GPUs yet" in done.stdout
