"""ansorc: tuned, the records kept beside the results, its weights packed before."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

import numpy as np

import ansorc as ac
from ansorc.codegen.call.module import Module
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from bench.paper_cases import case
from bench.peers.problem import Array
from bench.peers.program import Make, Program, Request, Unsupported

RECORDS = "ansorc.db"


def versions() -> dict[str, str]:
    """Return the version of ansorc."""
    return {"ansorc": metadata.version("ansorc")}


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    """Yield the best of `request.trials` programs; those in the record file count."""
    if not request.case:
        raise Unsupported("its calls are repeated by machine code")
    yield "tuned", lambda: tuned(request)


def tuned(request: Request) -> Program:
    """Tune the case as far as it is not, build the best program and pack its weights."""
    dag = case(request.case).dag(constant=True)
    task = ac.Task(dag, "native", request.case.replace("-", "_"))
    records = request.directory / RECORDS
    result = tune_task(task, TuneOptions(request.trials, records, threads=request.threads))
    module = result.build()
    output = ac.aligned_empty(dag.outputs[0].shape)
    output.fill(np.nan)
    inputs = map(_aligned, request.inputs)
    given = dict(zip((buffer.name for buffer in dag.inputs), inputs, strict=True))
    arrays, packed = arguments(module, [given.get(b.name, output) for b in dag.params])

    def time(seconds: float) -> list[float]:
        found = module.time(*arrays, threads=request.threads, min_time_s=seconds, max_repeats=30)
        return [found.median_s]

    return Program(
        ", ".join(["tuned", *(f"{name} packed before" for name in packed)]),
        lambda: module(*arrays, threads=request.threads),
        lambda: output,
        time,
        result.elapsed_s if result.measured_now else 0.0,
        result.trials,
    )


def arguments(module: Module, arrays: list[Array]) -> tuple[list[object], list[str]]:
    """Return the arguments, weights in the order that the kernel reads, and the packed ones."""
    held: list[object] = list(arrays)
    packed: list[str] = []
    for index, param in enumerate(module.signature.params):
        if param.is_rewritten:
            held[index] = module.pack(param.name, arrays[index])
            packed.append(param.name)
    return held, packed


def _aligned(array: Array) -> Array:
    """Return a copy of `array` that begins on a cache line: a side may place its arrays."""
    copy = ac.aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
