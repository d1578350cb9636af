"""The image pipelines that are compared with Halide, on small images, against float64."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.compare.figures import largest_error
from bench.pipelines import definitions
from tests.support.nightly import sampled


@pytest.mark.parametrize("name", sampled(definitions.APPLICATIONS, {"blur", "harris"}))
def test_an_application_computes_its_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for constant, value in {"ROWS": 48, "COLUMNS": 80, "STENCILS": 3, "LEVELS": 4}.items():
        monkeypatch.setattr(definitions, constant, value)
    dag, rng = ac.ComputeDAG(definitions.APPLICATIONS[name]()), np.random.default_rng(0)
    inputs = [
        rng.random(b.shape, np.float32)
        if b.dtype.is_float
        else rng.integers(0, 1000, b.shape).astype(b.dtype.numpy)
        for b in dag.inputs
    ]
    wanted = dag.evaluate(*inputs)
    assert isinstance(wanted, np.ndarray)
    assert largest_error(ac.build(dag, name=name)(*inputs), wanted) < 1e-3
