"""The sides of a comparison on a GPU: ways to compute a problem, timed by events of the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.search.task import Task
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from ansorc.target import Target
from bench.peers.layouts import channels_last, library_weight
from bench.peers.problem import Array, Convolution, Norm, Problem, Product, Scores

RECORDS = "ansorc.db"
_CONVOLUTIONS = {1: "conv1d", 2: "conv2d", 3: "conv3d"}


class Missing(Exception):  # noqa: N818 - it is a result, not an error
    """A side is not there, or has no way to compute a problem; the text says why."""


@dataclass(frozen=True)
class GpuProgram:
    """One way in which a side computes a problem, its arrays on the GPU."""

    name: str
    seconds: Callable[[float], float]
    """The time of one call, of repeated calls for about so many seconds together."""
    output: Callable[[], Array]
    """Compute once; the result with the elements in the order of the channels-last one."""
    prepared_s: float = 0.0
    """What tuning or compiling took, in this run."""


@dataclass(frozen=True)
class GpuRequest:
    """A problem, and how much may be tuned for it."""

    name: str
    dag: ComputeDAG
    problem: Problem
    inputs: list[Array]
    target: Target
    trials: int
    directory: Path


def own(request: GpuRequest) -> Iterator[Callable[[], GpuProgram]]:
    """ansorc, tuned; its records are kept beside the results."""
    yield lambda: _tuned(request)


def _tuned(request: GpuRequest) -> GpuProgram:
    task = Task(request.dag, request.target, request.name.replace("-", "_"))
    result = tune_task(task, TuneOptions(request.trials, request.directory / RECORDS))
    module = result.build()
    output = ac.aligned_empty(request.dag.outputs[0].shape)
    given = dict(zip((b.name for b in request.dag.inputs), request.inputs, strict=True))
    arrays = [given.get(buffer.name, output) for buffer in request.dag.params]

    def compute() -> Array:
        output.fill(np.nan)
        module(*arrays)
        return output

    def seconds(enough: float) -> float:
        return module.time(*arrays, min_time_s=enough, max_repeats=30).median_s

    return GpuProgram(f"{result.trials} trials", seconds, compute, result.elapsed_s)


def pytorch(request: GpuRequest) -> Iterator[Callable[[], GpuProgram]]:
    """PyTorch called eagerly: cuBLAS and cuDNN in float32, both layouts."""
    torch = torch_on_gpu()
    for name, compute, restore in ways(torch, request.problem):
        yield partial(torch_program, torch, name, compute, restore)


def compiled(request: GpuRequest) -> Iterator[Callable[[], GpuProgram]]:
    """torch.compile, autotuned as far as it goes: Triton's kernels or the libraries'."""
    torch = torch_on_gpu()
    for name, compute, restore in ways(torch, request.problem):

        def make(
            name: str = name,
            compute: Callable[[], Any] = compute,
            restore: Callable[[Array], Array] = restore,
        ) -> GpuProgram:
            begin = time.perf_counter()
            fast = torch.compile(compute, mode="max-autotune-no-cudagraphs", fullgraph=True)
            fast()
            torch.cuda.synchronize()
            taken = time.perf_counter() - begin
            return torch_program(torch, name, fast, restore, taken)

        yield make


def triton(request: GpuRequest) -> Iterator[Callable[[], GpuProgram]]:
    """A product written in Triton, autotuned; other problems are what torch.compile writes."""
    torch = torch_on_gpu()
    if not isinstance(request.problem, Product):
        raise Missing("the Triton side has products alone; see torch.compile for what it generates")
    try:
        product = import_module("bench.gpu.triton_product").product
    except ImportError as error:
        raise Missing(f"Triton is not installed ({error})") from error
    a, b = _on_gpu(torch, request.problem.a), _on_gpu(torch, request.problem.b)
    yield lambda: torch_program(torch, "autotuned", lambda: product(a, b), lambda found: found)


SIDES = {"ansorc": own, "pytorch": pytorch, "torch.compile": compiled, "triton": triton}


def torch_on_gpu() -> Any:
    """PyTorch, set to full float32 precision; raise Missing without it or a GPU that it sees."""
    try:
        torch: Any = import_module("torch")
    except ImportError as error:
        raise Missing(f"PyTorch is not installed ({error})") from error
    if not torch.cuda.is_available():
        raise Missing("PyTorch sees no GPU")
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def _on_gpu(torch: Any, array: Array) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array)).cuda()


def torch_program(
    torch: Any,
    name: str,
    compute: Callable[[], Any],
    restore: Callable[[Array], Array],
    prepared_s: float = 0.0,
) -> GpuProgram:
    """What PyTorch computes by `compute`, whose result `restore` puts in our order."""

    def timed(calls: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            compute()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / calls

    def seconds(enough: float) -> float:
        timed(3)  # cuDNN chooses, caches are warm
        return timed(max(1, min(10_000, int(enough / max(timed(3), 1e-7)))))

    return GpuProgram(name, seconds, lambda: restore(compute().cpu().numpy()), prepared_s)


def ways(
    torch: Any, problem: Problem
) -> Iterator[tuple[str, Callable[[], Any], Callable[[Array], Array]]]:
    """Yield PyTorch's ways to compute a problem: a name, a call, what orders its result as ours."""

    def same(found: Array) -> Array:
        return found

    match problem:
        case Product(a, b):
            x, y = _on_gpu(torch, a), _on_gpu(torch, b)
            yield "bmm", lambda: torch.bmm(x, y), same
        case Norm(array):
            flat = _on_gpu(torch, array.reshape(len(array), -1))
            yield "vector_norm", lambda: torch.linalg.vector_norm(flat, dim=1), same
            yield "sum of squares", lambda: flat.square().sum(1).sqrt(), same
        case Scores(query, key):
            q, k = _on_gpu(torch, query), _on_gpu(torch, key)

            def scores() -> Any:
                return torch.softmax(q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1), -1)

            yield "matmul, softmax", scores, same
        case Convolution() as conv:
            yield from _convolutions(torch, conv)


def _convolutions(
    torch: Any, conv: Convolution
) -> Iterator[tuple[str, Callable[[], Any], Callable[[Array], Array]]]:
    folded, shift = conv.folded()
    bias = None if shift is None else _on_gpu(torch, shift)
    x = _on_gpu(torch, conv.x).movedim(-1, 1)
    weight = _on_gpu(torch, library_weight(conv, folded))
    layouts = [("channels first", torch.contiguous_format)]
    if conv.rank > 1:
        last = torch.channels_last if conv.rank == 2 else torch.channels_last_3d
        layouts.append(("channels last", last))
    functional = torch.nn.functional
    for name, layout in layouts:
        held, laid = x.contiguous(memory_format=layout), weight.contiguous(memory_format=layout)

        def compute(held: Any = held, laid: Any = laid) -> Any:
            if conv.is_transposed:
                return functional.conv_transpose2d(held, laid, bias, conv.stride, conv.padding)
            function = getattr(functional, _CONVOLUTIONS[conv.rank])
            options = (conv.stride, conv.padding, conv.dilation, conv.groups)
            found = function(held, laid, bias, *options)
            return found if bias is None else functional.relu(found)

        yield name, compute, channels_last
