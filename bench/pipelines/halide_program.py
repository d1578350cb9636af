"""An application as one of Halide's autoschedulers schedules it."""

# Halide's Python package has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import halide as hl
import numpy as np
from numpy.typing import NDArray

import ansorc as ac
from bench.peers.halide_schedulers import load_autoscheduler, set_bounds
from bench.peers.program import Program
from bench.pipelines.halide_applications import HALIDE

Array = NDArray[Any]
Scheduler = tuple[str, dict[str, str]]
"""The name of an autoscheduler, and its options."""


def halide_program(
    name: str, dag: ac.ComputeDAG, arrays: Sequence[Array], scheduler: Scheduler
) -> Program:
    """Return the application `name`, scheduled and compiled for this machine."""
    begin = time.perf_counter()
    params = [_param(b.name, array) for b, array in zip(dag.inputs, arrays, strict=True)]
    function, shape = HALIDE[name](params), dag.outputs[0].shape
    set_bounds(function.output_buffer(), shape)
    function.set_estimates([(0, extent) for extent in shape[::-1]])
    load_autoscheduler(scheduler[0])
    pipeline, target = hl.Pipeline(function), hl.get_host_target()
    pipeline.apply_autoscheduler(target, hl.AutoschedulerParams(*scheduler))
    call = pipeline.compile_to_callable([hl.Argument(param) for param in params], target)
    output = np.zeros(shape, dag.outputs[0].dtype.numpy)
    buffers = [hl.Buffer(array) for array in (*arrays, output)]
    spent = time.perf_counter() - begin
    return Program(scheduler[0], lambda: call(*buffers), lambda: output, tuned_s=spent)


def _param(name: str, array: Array) -> Any:
    kinds = {"float32": hl.Float(32), "uint16": hl.UInt(16), "uint8": hl.UInt(8)}
    param = hl.ImageParam(kinds[str(array.dtype)], array.ndim, name)
    set_bounds(param, array.shape)
    param.set_estimates([(0, extent) for extent in array.shape[::-1]])
    return param
