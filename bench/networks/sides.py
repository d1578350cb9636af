"""The sides of the comparison of networks: each makes a function of the inputs, run by `serve`."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ansorc.compare.program import openvino_options

Array = np.ndarray[Any, Any]
Run = Callable[[], Array]


@dataclass(frozen=True)
class NetworkRequest:
    """What a side is to make ready."""

    name: str
    path: Path
    """The ONNX file."""
    inputs: Mapping[str, Array]
    threads: int
    records: Path | None
    """What ansorc was tuned to; None: the untuned default."""


def ansorc(request: NetworkRequest) -> Run:
    """Call ansorc's module from Python; its outputs are new at each call."""
    ac = importlib.import_module("ansorc")
    shapes = {name: array.shape for name, array in request.inputs.items()}
    graph = ac.from_onnx(request.path, inputs=shapes)
    module = ac.build(graph, records=request.records)
    arrays = [request.inputs[name] for name in graph.inputs]
    several = len(module.outputs) > 1

    def run() -> Array:
        found = module(*arrays, threads=request.threads)
        return found[0] if several else found

    return run


def onnxruntime(request: NetworkRequest) -> Run:
    """Call a session of ONNX Runtime, all optimisations on."""
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = request.threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(str(request.path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(request.inputs))[0]


def openvino(request: NetworkRequest) -> Run:
    """Call OpenVINO's CPU plugin: one stream for latency, float32."""
    ov = importlib.import_module("openvino")
    options = openvino_options(request.threads)
    core = ov.Core()
    compiled = core.compile_model(core.read_model(str(request.path)), "CPU", options)
    call = compiled.create_infer_request()
    tensors = {name: ov.Tensor(array, shared_memory=True) for name, array in request.inputs.items()}
    for name, tensor in tensors.items():
        call.set_tensor(name, tensor)

    def run(_held: object = (tensors, request.inputs)) -> Array:  # a request does not hold them
        call.infer()
        return call.get_output_tensor(0).data

    return run


def torch(request: NetworkRequest) -> Run:
    """Call the PyTorch module, images with channels last, as is usual for speed on CPUs."""
    return _pytorch(request, lambda module: module)


def torch_compile(request: NetworkRequest) -> Run:
    """Call what Inductor makes of the module: autotuned, weights frozen."""
    found = importlib.import_module("torch")
    inductor: Any = importlib.import_module("torch._inductor.config")
    inductor.freezing = True

    def compiled(module: Any) -> Any:
        return found.compile(module, mode="max-autotune", fullgraph=True)

    return _pytorch(request, compiled)


def torch_ansorc(request: NetworkRequest) -> Run:
    """Call what ansorc makes of the module by `torch.compile`, as one graph."""
    found = importlib.import_module("torch")
    backend = importlib.import_module("ansorc.graph.torch.compile_backend").torch_backend
    options: dict[str, object] = {"threads": request.threads}
    if request.records:
        options["records"] = str(request.records)
    warnings.filterwarnings("error", message="ansorc leaves a graph to PyTorch")

    def compiled(module: Any) -> Any:
        return found.compile(module, backend=backend, options=options, fullgraph=True)

    return _pytorch(request, compiled, channels_last=False)


def _pytorch(
    request: NetworkRequest, change: Callable[[Any], Any], *, channels_last: bool = True
) -> Run:
    found = importlib.import_module("torch")
    found.set_num_threads(request.threads)
    module = importlib.import_module("bench.networks.torch_networks").module_of(request.name)
    tensors = [found.from_numpy(array) for array in request.inputs.values()]
    formats = {4: found.channels_last, 5: found.channels_last_3d}
    if channels_last and (kind := formats.get(tensors[0].dim())) is not None:
        module, tensors = (
            module.to(memory_format=kind),
            [one.contiguous(memory_format=kind) for one in tensors],
        )
    call = change(module)

    def run() -> Array:
        with found.inference_mode():
            return call(*tensors).numpy()

    return run


SIDES: Mapping[str, Callable[[NetworkRequest], Run]] = {
    "ansorc": ansorc,
    "torch": torch,
    "torch-compile": torch_compile,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "torch-ansorc": torch_ansorc,
}
PEERS = ("ansorc", "torch", "torch-compile", "onnxruntime", "openvino")
"""Of `python -m bench networks --peers`, ansorc first."""
