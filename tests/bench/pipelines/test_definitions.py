"""The image pipelines that are compared with Halide, on small images, against float64."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.compare.figures import largest_error
from bench.pipelines import chains, definitions
from bench.pipelines.applications import APPLICATIONS
from bench.pipelines.references import reference_of
from bench.pipelines.sides import draw_inputs
from tests.support.nightly import sampled

SHORT = {"blur", "harris", "hist", "iir_blur", "camera_pipe", "jacobi8", "heat1"}


@pytest.mark.parametrize("name", sampled(APPLICATIONS, SHORT))
def test_an_application_computes_its_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for constant, value in {"ROWS": 48, "COLUMNS": 80, "STENCILS": 3, "LEVELS": 4}.items():
        monkeypatch.setattr(definitions, constant, value)
    for constant, value in {"SIDE": 40, "DEPTH": 12}.items():
        monkeypatch.setattr(chains, constant, value)
    dag = ac.ComputeDAG(APPLICATIONS[name]())
    inputs = draw_inputs(dag)
    wanted = dag.evaluate(*inputs)
    assert isinstance(wanted, np.ndarray)
    assert largest_error(ac.build(dag, name=name)(*inputs), wanted) < 2e-3
    reference = reference_of(name, inputs)
    if reference is not None:
        assert largest_error(wanted, reference) < 1e-5
