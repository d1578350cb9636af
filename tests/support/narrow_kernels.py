"""Build, run and read small kernels of any dtype."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.llvm.binding import assembly
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import DType
from ansorc.ir.stmt import Function
from ansorc.schedule import lower
from ansorc.schedule.state import State
from ansorc.target import Target

Array = NDArray[Any]
ZEN3 = "x86_64-linux-gnu -mcpu=znver3"
AMX = "x86_64-linux-gnu -mcpu=sapphirerapids"
SPR = f"{AMX} -mattr=-amx-bf16,-amx-int8,-amx-tile"
"""The same processor without its matrix unit, as under a hypervisor that hides it."""


def values(buffer: Buffer, rng: np.random.Generator) -> Array:
    """Return elements from the whole range of an integer dtype, the extremes often; or floats."""
    if buffer.dtype.is_float:
        return rng.standard_normal(buffer.shape).astype(buffer.dtype.numpy)
    if buffer.dtype.is_bool:
        return rng.integers(0, 2, buffer.shape).astype(np.bool_)
    info = np.iinfo(buffer.dtype.name)
    drawn = rng.integers(info.min, info.max, buffer.shape, info.dtype.type, endpoint=True)
    edge = rng.choice(np.array([info.min, info.max], info.dtype), buffer.shape)
    return np.where(rng.random(buffer.shape) < 0.3, edge, drawn)


def poison(shape: tuple[int, ...], dtype: DType) -> Array:
    return np.full(shape, np.nan if dtype.is_float else 77, dtype.numpy)


def run(
    program: State | ac.ComputeDAG, inputs: list[Array], target: Target | str = "native"
) -> list[Array]:
    """Build, run on `inputs`, and return the outputs."""
    dag = program if isinstance(program, ac.ComputeDAG) else program.dag
    given = dict(zip((buffer.name for buffer in dag.inputs), inputs, strict=True))
    arrays = [given.get(b.name, poison(b.shape, b.dtype)) for b in dag.params]
    ac.build(program, target)(*arrays)
    return [a for a, b in zip(arrays, dag.params, strict=True) if b.name not in given]


def assembly_of(program: State | Function, target: str) -> str:
    chosen = Target.parse(target)
    function = program if isinstance(program, Function) else lower(program)
    return assembly(emit_llvm(prepare(function, chosen), chosen), chosen)


def body_of(text: str) -> str:
    """Return the kernel's loops, without its entry and the check of the processor."""
    return text.partition("\nkernel.body:")[2].partition("-kernel.body")[0]


def mnemonics(text: str) -> set[str]:
    return set(re.findall(r"^\t(?:\{vex\}\s)?([a-z][a-z0-9.]*)", text, re.MULTILINE))
