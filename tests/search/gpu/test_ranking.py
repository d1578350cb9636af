"""Programs for a GPU that is not here: ranked, compiled if that can be, never recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.base import KernelResources, backend_of
from ansorc.codegen.cuda.backend import Cuda
from ansorc.codegen.program.device_program import DeviceProgram, KernelText
from ansorc.codegen.program.launch_plan import LaunchPlan
from ansorc.errors import BuildError, TargetError
from ansorc.schedule import Step
from ansorc.search.default import default_steps
from ansorc.search.gpu import ranking
from ansorc.search.gpu.default import best_on_gpu
from ansorc.search.gpu.ranking import rank_without_device
from ansorc.search.task import Task
from ansorc.target import Target

TARGET = Target.parse("cuda -arch=sm_86 -gpu=a4000")


def product() -> ac.ComputeDAG:
    a, b = ac.placeholder((128, 64), name="A"), ac.placeholder((64, 128), name="B")
    return ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")])


def without_search(monkeypatch: pytest.MonkeyPatch, dag: ac.ComputeDAG) -> None:
    """Take the default for all programs, which is found once."""
    found = best_on_gpu(dag, TARGET, 3)
    assert found[0] == default_steps(dag, TARGET)
    assert len(set(found)) == len(found) == 3

    def same(*_: object) -> list[tuple[Step, ...]]:
        return found

    monkeypatch.setattr(ranking, "best_on_gpu", same)


def test_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    """What spills comes last; a compiler that is not there is said once."""
    dag = product()
    without_search(monkeypatch, dag)
    task = Task(dag, TARGET, "product")
    answers = iter((KernelResources(64, 4000, 0), KernelResources(64, 0, 0),
                    KernelResources(40, 0, 0)))  # fmt: skip

    def told(*_: object) -> tuple[KernelResources, ...]:
        return (next(answers),)

    monkeypatch.setattr(Cuda, "resources", told)
    ranked = rank_without_device(task, 3)
    assert ranked.note == ""
    assert ranked.programs[-1].kernels[0].spilled_bytes == 4000
    times = [program.seconds for program in ranked.programs]
    assert times == sorted(times)
    assert all(0 < kernel.occupancy <= 1 for one in ranked.programs for kernel in one.kernels)

    def none(*_: object) -> tuple[KernelResources, ...]:
        raise BuildError("no NVRTC; pip install it")

    monkeypatch.setattr(Cuda, "resources", none)
    ranked = rank_without_device(task, 3)
    assert ranked.note == "not compiled: no NVRTC; pip install it"
    assert [program.compiled_s for program in ranked.programs] == [None] * 3
    assert all(np.isfinite(program.estimated_s) for program in ranked.programs)


def test_a_cpu_is_not_ranked() -> None:
    with pytest.raises(TargetError, match="is a CPU, not a GPU"):
        rank_without_device(Task(product(), "native"), 1)


def test_the_back_end_tells_resources_in_the_order_of_kernels() -> None:
    pytest.importorskip("cuda")
    kernels = tuple(
        KernelText(f"k_{number}", ("float *a",), 32, (f"a[threadIdx.x] *= {number};",))
        for number in (0, 2, 1)
    )
    backend = cast(Any, backend_of(replace(TARGET)))
    found = backend.resources(DeviceProgram(kernels, LaunchPlan("k", ())), TARGET)
    assert len(found) == 3
    assert all(each.registers >= 1 and each.spilled_bytes == 0 for each in found)
