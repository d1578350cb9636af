"""Programs for a GPU that is not here: ranked by its model, the best compiled, none measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ansorc.codegen.base import KernelResources, ResourceBackend, backend_of
from ansorc.codegen.build import prepare
from ansorc.errors import BuildError
from ansorc.schedule import State, Step, lower, replay
from ansorc.search.gpu.default import best_on_gpu
from ansorc.search.gpu.description import descriptions
from ansorc.search.task import Task
from ansorc.target import Target
from ansorc.target.gpu_kernel import KernelDescription
from ansorc.target.gpu_model import limits, seconds
from ansorc.target.gpu_occupancy import occupancy

WORD_BYTES = 4


@dataclass(frozen=True)
class RankedKernel:
    """One launch of a program, as it was estimated last."""

    blocks: int
    threads: int
    registers: int
    shared_bytes: int
    spilled_bytes: int
    occupancy: float
    """Resident warps of a multiprocessor, of as many as there may be."""
    limit: str
    """The part that takes most of its time, as in `gpu_model.PARTS`."""


@dataclass(frozen=True)
class RankedProgram:
    """A program and its estimated time. It is never a measured one, and makes no record."""

    steps: tuple[Step, ...]
    estimated_s: float
    """The estimated time of all kernels, from their loops."""
    compiled_s: float | None
    """The same with registers and spills as compiled; None if it was not."""
    kernels: tuple[RankedKernel, ...]

    @property
    def seconds(self) -> float:
        """The best estimate that there is."""
        return self.estimated_s if self.compiled_s is None else self.compiled_s


@dataclass(frozen=True)
class DeviceRanking:
    """Programs for a task, the best first, and why they were not compiled; empty if they were."""

    programs: tuple[RankedProgram, ...]
    note: str


def rank_without_device(task: Task, count: int) -> DeviceRanking:
    """Return the `count` best programs of `task` by the model of its GPU, corrected by compiling.

    Nothing runs and nothing is recorded. Raise TargetError if the target is no GPU.
    """
    gpu = task.target.gpu
    note = ""
    programs: list[RankedProgram] = []
    for steps in best_on_gpu(task.dag, task.target, count):
        state = replay(task.dag, steps)
        kernels = descriptions(state, 1)
        estimated = _total(kernels, task.target)
        compiled: tuple[KernelDescription, ...] | None = None
        try:
            if not note:
                compiled = _correct(kernels, _resources(state, task))
        except BuildError as error:
            note = f"not compiled: {error}"
        known = kernels if compiled is None else compiled
        time = None if compiled is None else _total(compiled, task.target)
        shown = tuple(_summarize(kernel, task.target) for kernel in known)
        programs.append(RankedProgram(steps, estimated, time, shown))
    if not any(np.isfinite(program.seconds) for program in programs):
        raise BuildError(f"no program of '{task.name}' fits a {gpu.name}")
    return DeviceRanking(tuple(sorted(programs, key=lambda program: program.seconds)), note)


def _resources(state: State, task: Task) -> tuple[KernelResources, ...]:
    """Return what the compiler says each kernel of `state` needs."""
    backend = backend_of(task.target)
    if not isinstance(backend, ResourceBackend):
        raise BuildError(f"'{task.target.backend}' does not tell what kernels need")
    function = prepare(lower(state, task.name), task.target)
    return backend.resources(backend.emit(function, task.target), task.target)


def _correct(
    kernels: Sequence[KernelDescription], resources: Sequence[KernelResources]
) -> tuple[KernelDescription, ...] | None:
    """Return the kernels with registers and spills as compiled.

    Return None if the kernels are not the same ones. A spill is assumed to happen in each iteration
    of the loops that are not unrolled.
    """
    if len(kernels) != len(resources):
        return None
    return tuple(
        replace(
            kernel,
            registers=np.array([resource.registers]),
            shared_bytes=np.maximum(kernel.shared_bytes, resource.shared_bytes),
            spilled_bytes=np.array([float(resource.spilled_bytes)]),
            spill_requests=resource.spilled_bytes / WORD_BYTES * np.asarray(kernel.waits),
        )
        for kernel, resource in zip(kernels, resources, strict=True)
    )


def _total(kernels: Sequence[KernelDescription], target: Target) -> float:
    """Return the estimated seconds of all kernels."""
    return sum(_number(seconds(kernel, target.gpu)) for kernel in kernels)


def _summarize(kernel: KernelDescription, target: Target) -> RankedKernel:
    """Return the kernel as numbers for a reader."""
    parts = limits(kernel, target.gpu)
    taken = (kernel.threads, kernel.registers, kernel.shared_bytes)
    return RankedKernel(
        blocks=int(np.prod([_number(extent) for extent in kernel.grid])),
        threads=int(_number(kernel.threads)),
        registers=int(_number(kernel.registers)),
        shared_bytes=int(_number(kernel.shared_bytes)),
        spilled_bytes=int(_number(kernel.spilled_bytes)),
        occupancy=_number(occupancy(target.gpu.architecture, *taken)),
        limit=max(parts, key=lambda part: _number(parts[part])),
    )


def _number(value: object) -> float:
    """Return the only element of an array, or the number itself."""
    return float(np.asarray(value, float).reshape(-1)[0])
