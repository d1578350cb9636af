"""Untuned programs that several processes choose are those that one chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

import ansorc as ac
from ansorc.errors import TargetError
from ansorc.lang.dag import ComputeDAG
from ansorc.search import default_programs as module
from ansorc.search.default_programs import default_programs
from ansorc.search.measure.pool import WorkerPool
from ansorc.search.programs import ChosenSchedule, default_program
from ansorc.search.task import Task

CPU, GPU = "x86_64-linux-gnu -mcpu=znver4", "cuda -arch=sm_90"


def product(rows: int, target: str) -> Task:
    a, b = ac.placeholder((rows, 32), name="a"), ac.placeholder((32, 48), name="b", constant=True)
    return Task(ComputeDAG([a, b, ac.ops.relu(ac.ops.matmul(a, b))]), target, f"product{rows}")


def scaled(target: str) -> Task:
    x = ac.placeholder((64, 64), name="x")
    return Task(ComputeDAG([x, ac.ops.softmax(x)]), target, "scaled")


@pytest.fixture(autouse=True)
def _two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_TASKS", 2)
    monkeypatch.setattr(module, "usable_cores", lambda: 2)


def chosen_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the names of the tasks whose program this process chooses."""
    names: list[str] = []

    def noted(task: Task) -> ChosenSchedule:
        names.append(task.name)
        return default_program(task)

    monkeypatch.setattr(module, "default_program", noted)
    return names


def test_they_are_those_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = chosen_here(monkeypatch)
    tasks = [product(64, CPU), scaled(GPU), scaled(CPU).with_threads(3), product(7, GPU)]
    programs = default_programs(tasks)
    assert here == []
    assert programs == [default_program(task) for task in tasks]


def test_few_tasks_or_one_core_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = chosen_here(monkeypatch)
    default_programs([product(64, CPU)])
    monkeypatch.setattr(module, "usable_cores", lambda: 1)
    default_programs([product(64, CPU), product(7, CPU)])
    assert here == ["product64", "product64", "product7"]
    assert default_programs([]) == []


def test_what_a_task_raises_comes_through() -> None:
    with pytest.raises(TargetError, match=r"there is no module 'nowhere\.to_be_found' on its path"):
        default_programs([product(64, CPU), product(64, "native -backend=nowhere.to_be_found")])


def test_one_process_chooses_where_no_other_can_be_started(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = chosen_here(monkeypatch)
    monkeypatch.setattr(module, "WORKER", "no_such_module")
    default_programs([product(64, CPU), product(7, CPU)])
    assert here == ["product64", "product7"]
    assert "are chosen by one process: the worker process does not start" in caplog.text


def test_an_interrupt_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    class NotedPool(WorkerPool):
        def close(self) -> None:
            pids.extend(self.pids())
            super().close()

    def interrupted(_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "WorkerPool", NotedPool)
    monkeypatch.setattr(module, "ProgramText", interrupted)
    with pytest.raises(KeyboardInterrupt):
        default_programs([product(64, CPU), product(7, CPU)])
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
