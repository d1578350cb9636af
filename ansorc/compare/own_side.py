"""ansorc as a side of `ansorc bench`: a module with its weights bound, repeated by machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ansorc.codegen.call.timing import Timing
from ansorc.compare.program import SideProgram
from ansorc.compare.workload_request import Make, WorkloadProgram, WorkloadRequest, wrap_call
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs, compile_network, describe_tuned_share
from ansorc.graph.onnx.importer import from_onnx
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.search.programs import choose_program, compile_program
from ansorc.search.task import Task


def own_program(request: WorkloadRequest) -> Iterator[Make]:
    """Yield the best recorded program, or the untuned default."""
    yield partial(_operator if request.name else _network, request)


def _operator(request: WorkloadRequest) -> WorkloadProgram:
    task = Task.from_json(request.task)
    program = choose_program(task, request.choice)
    module = compile_program(task, program)
    weights = {buffer.name for buffer in task.dag.inputs if buffer.constant}
    held: dict[str, Any] = {name: request.inputs[name] for name in weights}
    bound = module.bind(**held) if held else module
    outs = {
        buffer.name: aligned_empty(buffer.shape, buffer.dtype.numpy) for buffer in task.dag.outputs
    }
    given = {name: _copy_to_cache_line(array) for name, array in request.inputs.items()} | outs
    arrays = [given[buffer.name] for buffer in task.dag.params if buffer.name not in weights]

    run = partial(bound, *arrays, threads=request.choice.threads)
    repeated = _repeat_calls(bound.time, arrays, request)
    first = next(iter(outs.values()))
    return WorkloadProgram(
        SideProgram(program.origin, run, lambda: first, repeated), lambda: list(outs.values())
    )


def _network(request: WorkloadRequest) -> WorkloadProgram:
    shapes = {name: array.shape for name, array in request.inputs.items()}
    graph = from_onnx(request.path, inputs=shapes, constants=dict(request.constants))
    network = Network.of(graph, "native")
    chosen = choose_programs(network, request.choice)
    module = compile_network(network, chosen)
    arrays = [request.inputs[name] for name in graph.inputs]

    made = wrap_call(
        "untuned default schedules" if request.choice.use_default else describe_tuned_share(chosen),
        partial(module, *arrays, threads=request.choice.threads),
    )
    repeated = _repeat_calls(module.time, arrays, request)
    program = SideProgram(made.program.name, made.program.run, made.program.output, repeated)
    return WorkloadProgram(program, made.outputs)


def _repeat_calls(
    timed: Callable[..., Timing], arrays: Sequence[Array], request: WorkloadRequest
) -> Callable[[float], list[float]]:
    """Calls of a module, repeated by machine code for so many seconds: those of one."""
    threads = request.choice.threads
    return lambda seconds: [
        timed(*arrays, threads=threads, min_time_s=seconds, max_repeats=30).median_s
    ]


def _copy_to_cache_line(array: Array) -> Array:
    """A copy that begins on a cache line: a side may place its arrays."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
