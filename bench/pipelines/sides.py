"""The sides: each makes the programs of an application, which are called from Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ansorc as ac
from bench.peers.program import Make, Program, Unsupported
from bench.pipelines.applications import APPLICATIONS, CHAINS

Array = NDArray[Any]


@dataclass(frozen=True)
class PipelineRequest:
    """What a side is to make ready."""

    name: str
    threads: int
    records: Path | None
    """Where ansorc keeps what it tuned; None: the untuned default."""
    trials: int

    def dag(self) -> ac.ComputeDAG:
        """Return the application as ansorc defines it."""
        return ac.ComputeDAG(APPLICATIONS[self.name]())

    def arrays(self) -> list[Array]:
        """Return the inputs, the same at each call."""
        return draw_inputs(self.dag())


def draw_inputs(dag: ac.ComputeDAG) -> list[Array]:
    """Return random inputs: floats in [0, 1), integers below 1,000 that their dtype can hold."""
    rng = np.random.default_rng(0)
    return [
        rng.random(buffer.shape, np.float32)
        if buffer.dtype.is_float
        else rng.integers(0, min(1000, 1 << buffer.dtype.bits), buffer.shape).astype(
            buffer.dtype.numpy
        )
        for buffer in dag.inputs
    ]


Ways = Callable[[PipelineRequest], Iterator[tuple[str, Make]]]


def ansorc(request: PipelineRequest) -> Iterator[tuple[str, Make]]:
    """Yield the tuned program, or the untuned default if no trials are asked for."""
    yield "kernel", lambda: _own(request)


def _own(request: PipelineRequest) -> Program:
    task, begin = ac.Task(request.dag(), "native", request.name), time.perf_counter()
    if request.records is not None:
        ac.tune(task, trials=request.trials, records=str(request.records),
                threads=request.threads)  # fmt: skip
    module = ac.build(task, records=request.records)
    spent = time.perf_counter() - begin
    result = task.dag.outputs[0]
    output = ac.aligned_empty(result.shape, result.dtype.name)
    call = module.bind(*request.arrays(), output, threads=request.threads)
    name = "tuned" if request.records else "untuned"
    return Program(name, call, lambda: output, tuned_s=spent, trials=request.trials)


def adams2019(request: PipelineRequest) -> Iterator[tuple[str, Make]]:
    """Yield what the beam search by a learned cost model makes; greedy for the convolution."""
    beam = "1" if request.name == "conv_layer" else "32"
    options = {"parallelism": str(request.threads), "beam_size": beam}
    yield "Adams2019", lambda: _halide(request, "Adams2019", options)


def mullapudi2016(request: PipelineRequest) -> Iterator[tuple[str, Make]]:
    """Yield what the greedy grouping into tiles makes, for 16 MiB of cache."""
    options = {"parallelism": str(request.threads), "last_level_cache_size": str(16 << 20)}
    yield "Mullapudi2016", lambda: _halide(request, "Mullapudi2016", options)


def numba(request: PipelineRequest) -> Iterator[tuple[str, Make]]:
    """Yield loops that Numba compiles, for the chains of solvers."""
    if request.name not in CHAINS:
        raise Unsupported("not written for Numba: it is beside chains alone")
    yield "Numba", lambda: _numba(request)


def _numba(request: PipelineRequest) -> Program:
    from bench.pipelines.numba_chains import numba_program  # noqa: PLC0415 - needs Numba

    chain, steps = CHAINS[request.name]
    return numba_program(chain.__name__, steps, request.arrays(), request.threads)


def _halide(request: PipelineRequest, scheduler: str, options: dict[str, str]) -> Program:
    if request.name in CHAINS:
        raise Unsupported("not written for Halide: chains are beside Numba")
    from bench.pipelines.halide_program import halide_program  # noqa: PLC0415 - needs Halide

    return halide_program(request.name, request.dag(), request.arrays(), (scheduler, options))


SIDES: Mapping[str, Ways] = {
    "ansorc": ansorc, "adams2019": adams2019, "mullapudi2016": mullapudi2016,
    "numba": numba,
}  # fmt: skip
