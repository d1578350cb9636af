"""The paper's networks on a GPU: tuned by ansorc, called by PyTorch, compiled by torch.compile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

import ansorc as ac
from ansorc.graph.cache_policy import cache_policy_of
from ansorc.graph.network import Network
from ansorc.graph.network_tune import tune_networks
from ansorc.search.measure.check import Expectation, Tolerance
from ansorc.search.options import Scheduling
from ansorc.search.tune_options import TuneOptions
from ansorc.target import Target
from bench.gpu.sides import RECORDS, GpuProgram, Missing, torch_on_gpu, torch_program
from bench.networks.compare import NETWORKS, network_files
from bench.peers.checked_sides import TOLERANCE
from bench.peers.problem import Array

NAMES = tuple(f"{name}-b{batch}" for batch in (1, 16) for name in NETWORKS)


@dataclass(frozen=True)
class NetworkRequest:
    """A network, and how much may be tuned for it."""

    name: str
    """Such as resnet50-b16."""
    path: Path
    """The ONNX file."""
    inputs: Mapping[str, Array]
    reference: Array
    """In float64, by PyTorch."""
    target: Target
    trials: int | None
    """For all of its tasks; None: as many as `ac.tune` takes."""
    directory: Path

    @staticmethod
    def of(name: str, target: Target, trials: int | None, directory: Path) -> NetworkRequest:
        """Read a network's files in `directory`, which PyTorch writes if they are not there.

        Raise Missing where it cannot.
        """
        folder = directory / "networks"
        folder.mkdir(exist_ok=True)
        try:
            stem = network_files(name, folder)
        except click.ClickException as error:
            raise Missing(error.message) from error
        with np.load(f"{stem}-inputs.npz") as found:
            inputs = {each: found[each] for each in found.files}
        reference = np.load(f"{stem}-reference.npy")
        return NetworkRequest(
            name, Path(f"{stem}.onnx"), inputs, reference, target, trials, directory
        )

    @property
    def expectation(self) -> Expectation:
        """What the first output must hold."""
        largest = float(np.abs(self.reference).max())
        return Expectation(self.reference, Tolerance(TOLERANCE, largest))


def own(request: NetworkRequest) -> Iterator[Callable[[], GpuProgram]]:
    """ansorc, tuned; its records are kept beside the results."""
    yield lambda: _tuned(request)


def _tuned(request: NetworkRequest) -> GpuProgram:
    graph = ac.from_onnx(request.path, inputs={n: x.shape for n, x in request.inputs.items()})
    network = Network.of(graph, request.target)
    options = TuneOptions(records=request.directory / RECORDS, cache=cache_policy_of(network))
    (result,) = tune_networks([network], options, Scheduling(trials=request.trials))
    module = result.build()
    arrays = [request.inputs[name] for name in graph.inputs]

    def seconds(enough: float) -> float:
        return module.time(*arrays, min_time_s=enough, max_repeats=30).median_s

    def output() -> Array:
        return module.run(request.inputs)[next(iter(graph.outputs))]

    return GpuProgram("tuned", seconds, output, result.tuning.elapsed_s)


def pytorch(request: NetworkRequest) -> Iterator[Callable[[], GpuProgram]]:
    """PyTorch called eagerly: cuBLAS and cuDNN in float32, both layouts."""
    torch = torch_on_gpu()
    for name, call, inputs in _layouts(torch, request):
        yield partial(torch_program, torch, name, partial(call, *inputs), np.asarray)


def compiled(request: NetworkRequest) -> Iterator[Callable[[], GpuProgram]]:
    """torch.compile, autotuned as far as it goes, replayed as a CUDA graph."""
    torch = torch_on_gpu()
    for name, call, inputs in _layouts(torch, request):

        def make(
            name: str = name, call: Callable[..., Any] = call, inputs: list[Any] = inputs
        ) -> GpuProgram:
            begin = time.perf_counter()
            fast = torch.compile(call, mode="max-autotune", fullgraph=True)
            fast(*inputs)
            torch.cuda.synchronize()
            taken = time.perf_counter() - begin
            return torch_program(torch, name, partial(fast, *inputs), np.asarray, taken)

        yield make


def _layouts(
    torch: Any, request: NetworkRequest
) -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    module = import_module("bench.networks.torch_networks").module_of(request.name).cuda()
    inputs = [torch.from_numpy(array).cuda() for array in request.inputs.values()]
    yield "channels first", module, inputs
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(inputs[0].dim())
    if last is not None:
        laid = [each.contiguous(memory_format=last) for each in inputs]
        yield "channels last", deepcopy(module).to(memory_format=last), laid


NETWORK_SIDES = {"ansorc": own, "pytorch": pytorch, "torch.compile": compiled}
