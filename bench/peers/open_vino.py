"""OpenVINO's CPU plugin: one stream for latency, float32, weights prepared when it compiles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import openvino as ov
from openvino.preprocess import PrePostProcessor

from ansorc.compare.program import openvino_options
from bench.peers.onnx_graphs import Graph, graphs
from bench.peers.program import Make, Program, Request


def versions() -> dict[str, str]:
    """Return the version of OpenVINO."""
    return {"openvino": ov.__version__}


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    """Yield each model with channels first, and convolutions also with channels last."""
    for graph in graphs(request.problem):
        yield graph.name, lambda graph=graph: _compiled(graph, request.threads)
        if graph.is_convolution:
            name = f"{graph.name}, channels last"
            yield name, lambda graph=graph: _compiled(graph, request.threads, is_last=True)


def _compiled(graph: Graph, threads: int, *, is_last: bool = False) -> Program:
    core = ov.Core()
    model = core.read_model(graph.model.SerializeToString())
    if is_last:
        model = _channels_last(model)
    options = openvino_options(threads)
    request = core.compile_model(model, "CPU", options).create_infer_request()
    arrays = [
        np.ascontiguousarray(np.moveaxis(array, 1, -1)) if is_last else array
        for array in graph.inputs.values()
    ]
    tensors = [ov.Tensor(array, shared_memory=True) for array in arrays]
    for name, tensor in zip(graph.inputs, tensors, strict=True):
        request.set_tensor(name, tensor)
    start, wait = request.start_async, request.wait

    def run() -> None:
        start()
        wait()

    def output(_held: list[np.ndarray] = arrays) -> np.ndarray:  # a tensor does not hold its array
        found = request.get_output_tensor().data
        return graph.restore(np.moveaxis(found, -1, 1) if is_last else found)

    name = f"{graph.name}, channels last" if is_last else graph.name
    return Program(name, run, output)


def _channels_last(model: ov.Model) -> ov.Model:
    """Let input and output be [n, …, c]; the plugin computes in whatever order suits it."""
    steps = PrePostProcessor(model)
    spatial = "DHW"[5 - len(model.output().shape) :]
    for part in (steps.input(), steps.output()):
        part.tensor().set_layout(ov.Layout(f"N{spatial}C"))
        part.model().set_layout(ov.Layout(f"NC{spatial}"))
    return steps.build()
