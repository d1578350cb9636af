"""The sides of `ansorc bench`: each makes programs of a user's operator or network.

A library computes an operator by what stands beside the workload `f` in the user's file:
`f_numpy(A, B)` and `f_torch(A, B)` are functions of the inputs in their order, arrays or tensors,
and `f_onnx` is the text of ONNX nodes that compute Y (or Y0, Y1 …) of inputs by their names.
"""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from ansorc.compare.program import SideProgram, Unsupported
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate


@dataclass(frozen=True)
class WorkloadRequest:
    """What a side is to make ready."""

    path: Path
    """The Python file of an operator, or the ONNX file of a network."""
    name: str
    """Of the operator; empty for a network."""
    task: str
    """The operator as `Task.to_json` wrote it; empty for a network."""
    inputs: Mapping[str, Array]
    """By name, in call order; of a network without those that are constants."""
    constants: Mapping[str, Array]
    """Inputs of a network that always have the same values."""
    threads: int
    records: Path | None
    """What ansorc was tuned to; None: the untuned default."""
    cache: str = "auto"

    @property
    def dag(self) -> ComputeDAG:
        """The definition of the operator."""
        return importlib.import_module("ansorc.search.task").Task.from_json(self.task).dag

    def beside(self, suffix: str, wanted: str) -> Any:
        """Return what stands beside the operator in its file; raise Unsupported if nothing does."""
        if not self.name:
            raise Unsupported(f"it reads no {self.path.suffix} files")
        held = runpy.run_path(str(self.path), run_name="ansorc_workload")
        found = held.get(f"{self.name}_{suffix}")
        if found is None:
            raise Unsupported(
                f"{self.path.name} has no '{self.name}_{suffix}'; write {wanted} there"
            )
        return found


@dataclass(frozen=True)
class WorkloadProgram:
    """A program, and all of its results in their order."""

    program: SideProgram
    outputs: Callable[[], Sequence[Array]]


Make: TypeAlias = Callable[[], WorkloadProgram]
Ways: TypeAlias = Callable[[WorkloadRequest], Iterator[Make]]


def own(request: WorkloadRequest) -> Iterator[Make]:
    """Yield ansorc's module with its weights bound; its calls can be repeated by machine code."""
    yield partial(_own_operator if request.name else _own_network, request)


def numpy(request: WorkloadRequest) -> Iterator[Make]:
    """Yield what the user wrote, else what ansorc's reference runs, in the operator's precision."""
    arrays = list(request.inputs.values())
    try:
        function = request.beside("numpy", "a function of its arrays")
    except Unsupported:
        if not request.name:
            raise
        dag = request.dag
        yield lambda: _called("the definition", lambda: evaluate(dag, arrays, np.float32))
        return
    yield lambda: _called(f"{request.name}_numpy", lambda: function(*arrays))


def torch(request: WorkloadRequest) -> Iterator[Make]:
    """Yield what the user wrote, called eagerly."""
    found = importlib.import_module("torch")
    function = request.beside("torch", "a function of its tensors that returns the result")
    found.set_num_threads(request.threads)
    found.set_grad_enabled(False)
    tensors = [found.from_numpy(array) for array in request.inputs.values()]
    yield lambda: _called("eager", lambda: function(*tensors))


def onnxruntime(request: WorkloadRequest) -> Iterator[Make]:
    """Yield a session with all optimisations; inputs are bound before."""
    ort = importlib.import_module("onnxruntime")
    model, names = _model(request)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = request.threads, 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    held = {name: ort.OrtValue.ortvalue_from_numpy(a) for name, a in names.items()}
    for one in session.get_inputs():
        binding.bind_ortvalue_input(one.name, held[one.name])
    for one in session.get_outputs():
        binding.bind_output(one.name, "cpu")

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
    read.reshape({one.any_name: list(arrays[one.any_name].shape) for one in read.inputs})
    options = {
        "INFERENCE_NUM_THREADS": request.threads, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY",
    }  # fmt: skip
    call = core.compile_model(read, "CPU", options).create_infer_request()
    tensors = {one.any_name: ov.Tensor(arrays[one.any_name]) for one in read.inputs}
    for name, tensor in tensors.items():
        call.set_tensor(name, tensor)

    def outputs() -> list[Array]:
        return [np.array(call.get_output_tensor(n).data) for n in range(len(read.outputs))]

    program = SideProgram("infer request", call.infer, lambda: outputs()[0])
    yield lambda: WorkloadProgram(program, outputs)


def _called(name: str, call: Callable[[], Any]) -> WorkloadProgram:
    """A function of Python whose result is an array or a tensor, or several of them."""
    held: list[Any] = []

    def run() -> None:
        held[:] = [call()]

    def outputs() -> list[Array]:
        found: Any = held[0]
        several = cast("Sequence[Any]", found if isinstance(found, (tuple, list)) else (found,))
        return [np.asarray(one) for one in several]

    return WorkloadProgram(SideProgram(name, run, lambda: outputs()[0]), outputs)


def _own_operator(request: WorkloadRequest) -> WorkloadProgram:
    programs = importlib.import_module("ansorc.search.programs")
    task = importlib.import_module("ansorc.search.task").Task.from_json(request.task)
    choice = _choice(request, programs, "warm" if request.cache == "auto" else request.cache)
    program = programs.chosen_program(task, choice)
    module = programs.build_program(task, program)
    weights = {one.name for one in task.dag.inputs if one.constant}
    bound = module.bind(**{name: request.inputs[name] for name in weights}) if weights else module
    outs = {one.name: aligned_empty(one.shape, one.dtype.numpy) for one in task.dag.outputs}
    given = {name: _aligned(array) for name, array in request.inputs.items()} | outs
    arrays = [given[one.name] for one in task.dag.params if one.name not in weights]

    def repeated(seconds: float) -> list[float]:
        found = bound.time(*arrays, threads=request.threads, min_time_s=seconds, max_repeats=30)
        return [found.median_s]

    run = partial(bound, *arrays, threads=request.threads)
    first = next(iter(outs.values()))
    return WorkloadProgram(
        SideProgram(program.origin, run, lambda: first, repeated), lambda: list(outs.values())
    )


def _own_network(request: WorkloadRequest) -> WorkloadProgram:
    ac, build = (importlib.import_module(f"ansorc{one}") for one in ("", ".graph.network_build"))
    shapes = {name: array.shape for name, array in request.inputs.items()}
    graph = ac.from_onnx(request.path, inputs=shapes, constants=dict(request.constants))
    network = importlib.import_module("ansorc.graph.network").Network.of(graph, "native")
    programs = importlib.import_module("ansorc.search.programs")
    policy = importlib.import_module("ansorc.graph.cache_policy")
    choice = policy.recorded_choice([network], _choice(request, programs, "warm"))
    chosen = build.chosen_programs(network, choice)
    module = build.built_network(network, chosen)
    arrays = [request.inputs[name] for name in graph.inputs]

    def repeated(seconds: float) -> list[float]:
        found = module.time(*arrays, threads=request.threads, min_time_s=seconds, max_repeats=30)
        return [found.median_s]

    made = _called(
        build.tuned_share(chosen) if request.records else "untuned default schedules",
        partial(module, *arrays, threads=request.threads),
    )
    program = SideProgram(made.program.name, made.program.run, made.program.output, repeated)
    return WorkloadProgram(program, made.outputs)


def _choice(request: WorkloadRequest, programs: Any, cache: str) -> Any:
    records = request.records or Path("tune.db")
    return programs.ProgramChoice(records, request.threads, cache, request.records is None)


def _aligned(array: Array) -> Array:
    """A copy that begins on a cache line: a side may place its arrays."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _model(request: WorkloadRequest) -> tuple[bytes | str, Mapping[str, Array]]:
    """The ONNX model that computes the workload, its path or its bytes, and its inputs by name."""
    if not request.name:
        return str(request.path), {**request.inputs, **request.constants}
    nodes = request.beside("onnx", "the ONNX nodes that compute Y of its inputs, as text")
    onnx = importlib.import_module("onnx")
    dag = request.dag
    data = [one for one in dag.inputs if not one.constant]
    names = ["Y"] if len(dag.outputs) == 1 else [f"Y{n}" for n in range(len(dag.outputs))]
    given = ", ".join(_declared(one.name, one.dtype.name, one.shape) for one in data)
    made = ", ".join(
        _declared(name, one.dtype.name, one.shape)
        for name, one in zip(names, dag.outputs, strict=True)
    )
    text = (f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> '
            f"{request.name} ({given}) => ({made}) {{ {nodes} }}")  # fmt: skip
    model = importlib.import_module("onnx.parser").parse_model(text)
    for one in dag.inputs:
        if one.constant:
            array = request.inputs[one.name]
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, one.name))
    return model.SerializeToString(), {one.name: request.inputs[one.name] for one in data}


def _declared(name: str, kind: str, shape: Sequence[int]) -> str:
    word = {"float32": "float", "float64": "double"}.get(kind, kind)
    return f"{word}[{','.join(map(str, shape))}] {name}"


SIDES: Mapping[str, tuple[Ways, tuple[str, ...]]] = {
    "ansorc": (own, ("ansorc",)),
    "numpy": (numpy, ("numpy",)),
    "torch": (torch, ("torch",)),
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
