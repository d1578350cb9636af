"""ONNX Runtime: all graph optimisations, weights as constants, inputs and output bound before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime as ort

from bench.peers.onnx_graphs import OUTPUT, Graph, graphs
from bench.peers.program import Make, Program, Request

_FATAL = 4


def versions() -> dict[str, str]:
    """Return the versions of ONNX Runtime and of what builds its models."""
    return {"onnxruntime": ort.__version__, "onnx": onnx.__version__}


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    """Yield a session of each model."""
    for graph in graphs(request.problem):
        yield graph.name, lambda graph=graph: _session(graph, request.threads)


def _session(graph: Graph, threads: int) -> Program:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = _FATAL
    session = ort.InferenceSession(
        graph.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    held = [ort.OrtValue.ortvalue_from_numpy(array) for array in graph.inputs.values()]
    for name, value in zip(graph.inputs, held, strict=True):
        binding.bind_ortvalue_input(name, value)
    output = ort.OrtValue.ortvalue_from_shape_and_type(list(graph.out_shape), np.float32)
    binding.bind_ortvalue_output(OUTPUT, output)
    run = session.run_with_iobinding
    return Program(graph.name, lambda: run(binding), lambda: graph.restore(output.numpy()))
