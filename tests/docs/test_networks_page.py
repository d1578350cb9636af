"""The Python of docs/networks.md, run as it stands there but for the trials, on a small network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from tests.graph.onnx.onnx_models import model_of, node

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [node("GlobalAveragePool", ["x"], ["pooled"]), node("Flatten", ["pooled"], ["y"])]
    model = model_of(nodes, {"x": ["n", 3, 224, 224]}, ["y"])
    Path("network.onnx").write_bytes(model.SerializeToString())
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    x = np.ones((1, 3, 224, 224), np.float32)
    names: dict[str, Any] = {"x": x, "y": np.empty((1, 3), np.float32)}
    exec("".join(blocks[:2]).replace("trials=3000", "trials=2"), names)
    np.testing.assert_allclose(names["y"], 1, 1e-5)
    assert {path.name for path in tmp_path.iterdir()} >= {"net.so", "net.h", "net.weights"}
    exec(blocks[2].replace('records="tune.db"', ""), names)
    assert isinstance(names["net"], ac.NetworkVariants)
    for batch in (1, 16):
        images = np.ones((batch, 3, 224, 224), np.float32)
        np.testing.assert_allclose(names["net"](images), np.ones((batch, 3)), 1e-5)
    exec(blocks[3].partition("graph = ")[0], names)
    ac.unregister_onnx_op("com.example::ScaledSum")
