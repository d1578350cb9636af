"""The sides: each makes programs of a case, which are called from Python."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ansorc as ac
from ansorc.codegen.call.module import Module
from ansorc.compare.program import openvino_options
from bench.operators.case import Array, OperatorCase
from bench.peers.program import Make, Program, Unsupported


@dataclass(frozen=True)
class OperatorRequest:
    """What a side is to make ready."""

    case: OperatorCase
    threads: int
    records: Path | None
    """Where ansorc keeps what it tuned; None: the untuned default."""
    trials: int


Ways = Callable[[OperatorRequest], Iterator[tuple[str, Make]]]


def ansorc(request: OperatorRequest) -> Iterator[tuple[str, Make]]:
    """Yield the module called on its data; its weights are bound, its outputs new at each call."""
    yield "as called", lambda: _own(request, is_called=True)


def machine_code(request: OperatorRequest) -> Iterator[tuple[str, Make]]:
    """Yield the same kernel, its calls repeated by machine code."""
    yield "machine code", lambda: _own(request, is_called=False)


def _own(request: OperatorRequest, *, is_called: bool) -> Program:
    case = request.case
    task = ac.Task(case.dag(), "native", "kernel")
    if request.records is None:
        module = ac.build(task)
    else:
        if is_called and request.trials:
            ac.tune(task, trials=request.trials, records=str(request.records),
                    threads=request.threads)  # fmt: skip
        module = ac.build(task, records=request.records)
    arrays = case.arrays()
    weights: dict[str, Any] = {name: arrays[name] for name in case.weights}
    bound: Module = module.bind(**weights) if weights else module
    data: list[object] = [arrays[name] for name in case.data]
    threads = request.threads

    def run() -> Array:
        return bound(*data, threads=threads)

    if is_called:
        return Program("as called", run, run)
    output = ac.aligned_empty(task.dag.outputs[0].shape, task.dag.outputs[0].dtype.name)

    def time(seconds: float) -> list[float]:
        found = bound.time(*data, output, threads=threads, min_time_s=seconds, max_repeats=30)
        return [found.median_s]

    return Program("machine code", run, run, time)


def torch(request: OperatorRequest) -> Iterator[tuple[str, Make]]:
    """Yield PyTorch's function, of images with channels first and last."""
    found = importlib.import_module("torch")
    found.set_num_threads(request.threads)
    case = request.case
    tensors = [found.from_numpy(array) for array in case.peer_arrays().values()]
    yield "eager", lambda: _eager(found, case, tensors)
    if case.is_image:
        kept = [
            one.contiguous(memory_format=found.channels_last) if one.dim() == 4 else one
            for one in tensors
        ]
        yield "channels last", lambda: _eager(found, case, kept)


def _eager(found: Any, case: OperatorCase, tensors: list[Any]) -> Program:
    mode = found.inference_mode(mode=True)
    mode.__enter__()  # for the life of this process: entering it at every call would cost its time

    def run() -> Any:
        return case.torch(found, *tensors)

    return Program("eager", run, lambda: case.restored(run().numpy()))


def onnxruntime(request: OperatorRequest) -> Iterator[tuple[str, Make]]:
    """Yield a session of ONNX Runtime, its inputs and output bound before."""
    yield "session", lambda: _session(request.case, request.threads)


def openvino(request: OperatorRequest) -> Iterator[tuple[str, Make]]:
    """Yield a request of OpenVINO's CPU plugin for latency in float32, its inputs set before."""
    yield "request", lambda: _inference_request(request.case, request.threads)


def _onnx_model(case: OperatorCase, arrays: Mapping[str, Array]) -> Any:
    """Return the case as an ONNX model whose weights are constants."""
    if not case.onnx:
        raise Unsupported("it has no such operator")
    onnx, parser = importlib.import_module("onnx"), importlib.import_module("onnx.parser")
    given = ", ".join(
        f"{'int64' if name.startswith('i') else 'float'}[{','.join(map(str, arrays[name].shape))}] "
        f"{name}"
        for name in case.data
    )
    kind = "int64" if case.kind == "argmax" else "float"
    text = (
        f'<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> '
        f"graph ({given}) => ({kind} Y) {{ {case.onnx} }}"
    )
    model = parser.parse_model(text)
    for name in case.weights:
        model.graph.initializer.append(onnx.numpy_helper.from_array(arrays[name], name))
    return model


def _inference_request(case: OperatorCase, threads: int) -> Program:
    ov, arrays = importlib.import_module("openvino"), case.peer_arrays()
    options = openvino_options(threads)
    core, text = ov.Core(), _onnx_model(case, arrays).SerializeToString()
    call = core.compile_model(core.read_model(text), "CPU", options).create_infer_request()
    tensors = {name: ov.Tensor(arrays[name], shared_memory=True) for name in case.data}
    for name, tensor in tensors.items():
        call.set_tensor(name, tensor)

    def output(_held: object = (tensors, arrays)) -> Array:  # a request does not hold them
        return case.restored(call.get_output_tensor(0).data)

    return Program("request", call.infer, output)


def _session(case: OperatorCase, threads: int) -> Program:
    ort, arrays = importlib.import_module("onnxruntime"), case.peer_arrays()
    model = _onnx_model(case, arrays)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    held = [ort.OrtValue.ortvalue_from_numpy(arrays[name]) for name in case.data]
    for name, value in zip(case.data, held, strict=True):
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("Y", "cpu")

    def output(_held: object = held) -> Array:
        return case.restored(binding.copy_outputs_to_cpu()[0])

    return Program("session", lambda: session.run_with_iobinding(binding), output)


def reference(case: OperatorCase) -> Array:
    """Return what PyTorch computes of the case in float64."""
    found = importlib.import_module("torch")
    tensors = [found.from_numpy(array) for array in case.peer_arrays().values()]
    wide = [one.double() if one.is_floating_point() else one for one in tensors]
    with found.no_grad():
        return np.ascontiguousarray(case.restored(case.torch(found, *wide).numpy()))


SIDES: Mapping[str, Ways] = {
    "ansorc": ansorc,
    "machine code": machine_code,
    "torch": torch,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}
"""The sides by name; the first two are the same kernel."""
