"""Pretrained networks from wheels of the package index, on made-up but real input.

Outputs are held against the graph in float64, and the answer must be the one that ONNX Runtime's
outputs give.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.graph_reference import run_reference
from ansorc.ir.aligned import Array
from bench.networks.pretrained import PRETRAINED

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("name", PRETRAINED)
def test_a_pretrained_network_gives_its_answer(name: str, tmp_path: Path) -> None:
    network = PRETRAINED[name]
    try:
        path = network.fetched(tmp_path)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    value, axis = network.make_input(), network.answer_axis
    onnx: Any = import_module("onnx")
    input_name = onnx.load(str(path)).graph.input[0].name
    graph = ac.from_onnx(path, inputs={input_name: value.shape})
    expected = run_reference(graph, {input_name: value})
    found = ac.build(graph).run({input_name: value})
    session: Any = pytest.importorskip("onnxruntime").InferenceSession(str(path))
    for output, theirs in zip(found, session.run(None, {input_name: value}), strict=True):
        reference = expected[output]
        allowed = 1e-4 * max(float(np.abs(reference).max()), 1.0)
        rounding = float(np.abs(theirs - reference).max())  # of float32, where logarithms need more
        assert np.abs(found[output] - reference).max() <= max(allowed, 2 * rounding)
        np.testing.assert_array_equal(answer(found[output], axis), answer(theirs, axis))


def answer(values: Array, axis: int | None) -> Array:
    return values > 0.3 if axis is None else np.argmax(values, axis)
