"""A real network for a GPU, its images smaller: emulated, and compiled by NVIDIA's compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

import ansorc as ac
from ansorc.codegen.base import NetworkSourceBackend, backend_of
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs, compile_network_plan
from ansorc.search.programs import ProgramChoice
from tests.codegen.cuda.wheels import needs_wheels
from tests.e2e.cuda.mobilenet import mobilenet_v2
from tests.e2e.cuda.networks import EMULATED, assert_right, feeds

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]


def test_mobilenet_is_right() -> None:
    graph = ac.from_onnx(mobilenet_v2(64))
    inputs = feeds(graph)
    assert_right(graph, inputs, ac.build(graph, EMULATED).run(inputs))


@needs_wheels
def test_mobilenet_is_compiled_without_spills() -> None:
    network = Network.of(ac.from_onnx(mobilenet_v2()), EMULATED)
    programs = choose_programs(network, ProgramChoice(Path("none.db"), use_default=True))
    backend = backend_of(EMULATED)
    assert isinstance(backend, NetworkSourceBackend)
    text = cuda_text(backend.network_source(compile_network_plan(network, programs)))
    for arch in ("sm_80", "sm_90"):
        compiled = compile_cubin(text, arch)
        assert sum(one.spill_store_bytes for one in compiled.resources) == 0
