"""The sides of `ansorc bench`: each makes programs of a user's operator or network.

A library computes an operator by what stands beside the workload `f` in the user's file:
`f_numpy(A, B)`, `f_torch(A, B)` and `f_numba(A, B)` are functions of the inputs in their order,
arrays or tensors, and `f_onnx` is the text of ONNX nodes that compute Y (or Y0, Y1 …) of inputs by
their names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import TypeAlias

import numpy as np

from ansorc.compare.own_side import own_program
from ansorc.compare.program import SideProgram, Unsupported, openvino_options
from ansorc.compare.workload_request import Make, WorkloadProgram, WorkloadRequest, wrap_call
from ansorc.ir.aligned import Array
from ansorc.lang.reference import evaluate

Ways: TypeAlias = Callable[[WorkloadRequest], Iterator[Make]]


def numpy(request: WorkloadRequest) -> Iterator[Make]:
    """Yield what the user wrote, else what ansorc's reference runs, in the operator's precision."""
    arrays = list(request.inputs.values())
    try:
        function = request.beside("numpy", "a function of its arrays")
    except Unsupported:
        if not request.name:
            raise
        dag = request.dag
        yield lambda: wrap_call("the definition", lambda: evaluate(dag, arrays, np.float32))
        return
    yield lambda: wrap_call(f"{request.name}_numpy", lambda: function(*arrays))


def torch(request: WorkloadRequest) -> Iterator[Make]:
    """Yield what the user wrote, called eagerly."""
    library = importlib.import_module("torch")
    function = request.beside("torch", "a function of its tensors that returns the result")
    library.set_num_threads(request.choice.threads)
    library.set_grad_enabled(False)
    tensors = [library.from_numpy(array) for array in request.inputs.values()]
    yield lambda: wrap_call("eager", lambda: function(*tensors))


def numba(request: WorkloadRequest) -> Iterator[Make]:
    """Yield what the user wrote; its first call compiles it."""
    library = importlib.import_module("numba")
    function = request.beside("numba", "a function of its arrays that numba.njit compiles")
    library.set_num_threads(request.choice.threads)
    arrays = list(request.inputs.values())
    yield lambda: wrap_call("njit", lambda: function(*arrays))


def onnxruntime(request: WorkloadRequest) -> Iterator[Make]:
    """Yield a session with all optimisations; inputs are bound before."""
    ort = importlib.import_module("onnxruntime")
    model, names = _model(request)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = request.choice.threads, 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    held = {name: ort.OrtValue.ortvalue_from_numpy(a) for name, a in names.items()}
    for port in session.get_inputs():
        binding.bind_ortvalue_input(port.name, held[port.name])
    for port in session.get_outputs():
        binding.bind_output(port.name, "cpu")

    def run(_held: object = held) -> None:  # a binding does not hold its arrays
        session.run_with_iobinding(binding)

    program = SideProgram("session", run, lambda: binding.copy_outputs_to_cpu()[0])
    yield lambda: WorkloadProgram(program, binding.copy_outputs_to_cpu)


def openvino(request: WorkloadRequest) -> Iterator[Make]:
    """Yield a request of the CPU plugin: one stream for latency, float32 throughout."""
    ov = importlib.import_module("openvino")
    model, arrays = _model(request)
    core = ov.Core()
    read = core.read_model(model)
    read.reshape({port.any_name: list(arrays[port.any_name].shape) for port in read.inputs})
    options = openvino_options(request.choice.threads)
    call = core.compile_model(read, "CPU", options).create_infer_request()
    tensors = {port.any_name: ov.Tensor(arrays[port.any_name]) for port in read.inputs}
    for name, tensor in tensors.items():
        call.set_tensor(name, tensor)

    def outputs() -> list[Array]:
        return [np.array(call.get_output_tensor(n).data) for n in range(len(read.outputs))]

    program = SideProgram("infer request", call.infer, lambda: outputs()[0])
    yield lambda: WorkloadProgram(program, outputs)


def _model(request: WorkloadRequest) -> tuple[bytes | str, Mapping[str, Array]]:
    """The ONNX model that computes the workload, its path or its bytes, and its inputs by name."""
    if not request.name:
        return str(request.path), {**request.inputs, **request.constants}
    nodes = request.beside("onnx", "the ONNX nodes that compute Y of its inputs, as text")
    onnx = importlib.import_module("onnx")
    dag = request.dag
    data = [buffer for buffer in dag.inputs if not buffer.constant]
    names = ["Y"] if len(dag.outputs) == 1 else [f"Y{n}" for n in range(len(dag.outputs))]
    given = ", ".join(_declare(buffer.name, buffer.dtype.name, buffer.shape) for buffer in data)
    made = ", ".join(
        _declare(name, buffer.dtype.name, buffer.shape)
        for name, buffer in zip(names, dag.outputs, strict=True)
    )
    text = (f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> '
            f"{request.name} ({given}) => ({made}) {{ {nodes} }}")  # fmt: skip
    model = importlib.import_module("onnx.parser").parse_model(text)
    for buffer in dag.inputs:
        if buffer.constant:
            array = request.inputs[buffer.name]
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, buffer.name))
    return model.SerializeToString(), {buffer.name: request.inputs[buffer.name] for buffer in data}


def _declare(name: str, kind: str, shape: Sequence[int]) -> str:
    word = {"float32": "float", "float64": "double"}.get(kind, kind)
    return f"{word}[{','.join(map(str, shape))}] {name}"


SIDES: Mapping[str, tuple[Ways, tuple[str, ...]]] = {
    "ansorc": (own_program, ("ansorc",)),
    "numpy": (numpy, ("numpy",)),
    "torch": (torch, ("torch",)),
    "numba": (numba, ("numba",)),
    "onnxruntime": (onnxruntime, ("onnxruntime",)),
    "openvino": (openvino, ("openvino",)),
}
"""How each side makes its programs, and the packages whose versions are told."""


def versions(side: str) -> dict[str, str]:
    """Return the versions of a side's packages; raise ImportError if one is missing."""
    try:
        return {name: metadata.version(name) for name in SIDES[side][1]}
    except metadata.PackageNotFoundError as error:
        raise ImportError(f"{error.name} is not installed") from error
