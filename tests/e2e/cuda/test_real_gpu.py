"""What only a real GPU can tell: run by `make gpu`, skipped where there is none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.call.library import load_kernel
from ansorc.codegen.call.module import Module
from ansorc.codegen.call.network_module import link_network
from ansorc.codegen.cuda.binding import FIRST_DEVICE, device_count, facts_of
from ansorc.errors import CallError
from ansorc.graph.api import build
from ansorc.ir.aligned import Array
from ansorc.lang import ComputeDAG
from ansorc.search.measure.check import expectations
from ansorc.search.measure.data import draw_with_rounding
from ansorc.search.task import Task
from ansorc.target import Target
from bench.gpu.command import TINY
from bench.paper_cases import CASES, Case, dag_of
from tests.e2e.cuda.networks import NETWORKS, assert_right, feeds, plan_of

EXAMPLE = Path(__file__).parents[3] / "runtime" / "examples" / "cuda" / "embed.cpp"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device, or no pycuda"),
]


def target() -> Target:
    return Target.parse(f"cuda -arch={facts_of(FIRST_DEVICE).arch}")


def checked(task: Task, module: Module) -> None:
    """Hold what `module` computes against the float64 reference."""
    inputs, references, roundings = draw_with_rounding(task, np.random.default_rng(0))
    out = np.zeros(task.dag.outputs[0].shape, task.dag.outputs[0].dtype.numpy)
    given = dict(zip((buffer.name for buffer in task.dag.inputs), inputs, strict=True))
    module(*(given.get(buffer.name, out) for buffer in task.dag.params))
    assert not expectations(task.dag, references, roundings)[0].compare(out).complaint


@pytest.mark.parametrize("operator", sorted(TINY))
def test_tiny_cases_by_default(operator: str) -> None:
    task = Task(dag_of(operator, 1, TINY[operator]), target(), "tiny")
    checked(task, build(task))


@pytest.mark.parametrize("case", [case for case in CASES if case.batch == 1], ids=lambda c: c.name)
def test_cases_of_the_paper_by_default(case: Case) -> None:
    task = Task(case.dag(), target(), case.name.replace("-", "_"))
    checked(task, build(task))


def product(n: int = 512) -> Task:
    a, b = ac.placeholder((n, n), name="A"), ac.placeholder((n, n), name="B")
    r = ac.reduce_axis(n, name="k")
    c = ac.compute((n, n), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    return Task(ComputeDAG([a, b, c]), target(), "product")


def test_tuning_finds_more_than_the_default(tmp_path: Path) -> None:
    task = product()
    result = ac.tune(task, trials=32, records=tmp_path / "r.db", seed=1)
    assert result.best is not None
    assert result.default is not None
    assert result.best.median_s is not None
    assert result.best.median_s <= (result.default.median_s or np.inf)
    checked(task, result.build())


@pytest.mark.parametrize("suffix", [".cubin", ".ptx", ".fatbin"])
def test_saved_images_are_loaded(suffix: str, tmp_path: Path) -> None:
    task = product(64)
    path = tmp_path / f"product{suffix}"
    build(task).save(path)
    checked(task, load_kernel(path))


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.parametrize("suffix", [".cubin", ".ptx", ".fatbin"])
def test_a_program_in_cpp_calls_an_image(suffix: str, tmp_path: Path) -> None:
    a, b = ac.placeholder((16, 24), name="A"), ac.placeholder((24, 32), name="B")
    r = ac.reduce_axis(24, name="k")
    c = ac.compute((16, 32), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = ac.compute((16, 32), lambda i, j: ac.maximum(c[i, j], 0.0), name="D")
    image = tmp_path / f"matmul_relu{suffix}"
    build(Task(ComputeDAG([a, b, d]), target(), "matmul_relu")).save(image)
    program = tmp_path / "embed"
    command = ["g++", "-std=c++17", f"-I{tmp_path}", str(EXAMPLE), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True)
    done = subprocess.run([program, image], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "right" in done.stdout


def torch_with_gpu() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return torch


def test_tensors_of_pytorch() -> None:
    torch = torch_with_gpu()
    task = product(128)
    module = build(task)
    a, b = (torch.randn(128, 128, device="cuda") for _ in range(2))
    expected: Array = (a.double() @ b.double()).cpu().numpy()
    c = torch.zeros(128, 128, device="cuda")
    module(a, b, c)
    assert np.abs(c.cpu().numpy() - expected).max() < 1e-3
    side = torch.cuda.Stream()
    late = torch.empty_like(a)
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        late.copy_(a)
        c.zero_()
        module(late, b, c, stream=side)
    side.synchronize()
    assert np.abs(c.cpu().numpy() - expected).max() < 1e-3
    with pytest.raises(CallError, match="need a multiple of 16"):
        module(torch.empty(128 * 128 + 1, device="cuda")[1:].view(128, 128), b, c)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_by_default(name: str) -> None:
    graph, module = NETWORKS[name](), link_network(plan_of(name), target())
    inputs = feeds(graph)
    assert_right(graph, inputs, module.run(inputs))


def test_a_network_is_called_again_and_again() -> None:
    """From the third call on it is a graph of launches."""
    torch = torch_with_gpu()
    graph, module = NETWORKS["digits"](), link_network(plan_of("digits"), target())
    image = torch.zeros(1, 1, 8, 8, device="cuda")
    result = torch.zeros(1, 10, device="cuda")
    for seed in range(6):
        inputs = feeds(graph, seed)
        image.copy_(torch.from_numpy(inputs["image"]))
        result.fill_(float("nan"))
        module(image, result, **({"stream": torch.cuda.current_stream()} if seed % 2 else {}))
        assert_right(graph, inputs, {"probabilities": result.cpu().numpy()})


def test_a_network_is_captured_into_a_graph() -> None:
    torch = torch_with_gpu()
    graph, module = NETWORKS["digits"](), link_network(plan_of("digits"), target())
    image = torch.zeros(1, 1, 8, 8, device="cuda")
    result = torch.zeros(1, 10, device="cuda")
    side, captured = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    module(image, result, stream=side)
    side.synchronize()
    with torch.cuda.graph(captured, stream=side):
        module(image, result, stream=side)
    for seed in range(3):
        inputs = feeds(graph, seed)
        image.copy_(torch.from_numpy(inputs["image"]))
        captured.replay()
        torch.cuda.synchronize()
        assert_right(graph, inputs, {"probabilities": result.cpu().numpy()})


def test_times_are_those_of_the_device() -> None:
    module = build(product(1024))
    arrays = [np.ones((1024, 1024), np.float32) for _ in range(3)]
    timing = module.time(*arrays, min_time_s=0.05)
    assert 1e-5 < timing.median_s < 1e-1
    assert timing.spread_s < timing.median_s
