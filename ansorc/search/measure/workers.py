"""The worker processes: started when a first task needs them, then for any number of tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np

from ansorc.codegen.base import backend_of
from ansorc.errors import MeasureError
from ansorc.ir.expr import Load, Var
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import For, Function, LoopKind, Store
from ansorc.lang import ComputeDAG, Scalar, compute, placeholder
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.messages import (
    CompiledKernel,
    Message,
    Request,
    build_request,
    failure_of,
    outcomes_of,
    run_request,
)
from ansorc.search.measure.options import GIB, MeasureOptions
from ansorc.search.measure.pool import Reply, WorkerPool, WorkerPoolOptions, ZygoteProcess
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.measure.result import Failure, FailureKind, ProbeTime
from ansorc.search.task import Task
from ansorc.target import Target

_THREAD_BYTES = 16 << 20  # address space of a thread's stack, with room to spare
_CHECK_LIMIT_S = 30.0
_UNLIMITED = 1 << 62
_CLOSED = "the workers are closed; make new ones"


class Workers:
    """A process that runs programs and several that build them, for `Measurer`s in turns.

    None is started before `start`; all are gone after `close`. On Linux they die with the thread
    that started them: use them from one that lives as long.
    """

    def __init__(self, options: MeasureOptions | None = None) -> None:
        self.options = options or MeasureOptions()
        self.probe_times: dict[int, ProbeTime] = {}
        """The machine as run workers have seen it, by the threads of their programs: a new one
        may start while it is disturbed, and would take that for normal."""
        self._zygote: ZygoteProcess | None = None
        self._runner: WorkerPool | None = None
        self._builders: WorkerPool | None = None
        self._run_bytes = 0
        self._is_checked = False
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def runner(self) -> WorkerPool:
        """The process that runs programs; raises MeasureError once closed."""
        return _open(self._runner)

    @property
    def builders(self) -> WorkerPool:
        """Those that build them; raises MeasureError once closed."""
        return _open(self._builders)

    def start(self, task: Task) -> None:
        """Start what is not there, and give the run worker the address space that `task` needs.

        Raise MeasureError where a process cannot be started.
        """
        if self._is_closed:
            raise MeasureError(_CLOSED)
        memory, is_on_device = self.options.memory_bytes, _is_on_device(task.target)
        arrays = 4 * sum(b.elements * max(b.dtype.bytes, 8) for b in task.dag.params)
        threads = _THREAD_BYTES * max(self.options.run.threads, task.target.cores)
        wanted = -(-(memory + arrays + threads) // GIB) * GIB  # tasks of a like size share one
        if is_on_device:
            wanted = _UNLIMITED  # a device's memory has addresses, too, all of them at once
        try:
            if self._zygote is None:
                self._zygote = ZygoteProcess()
            if self._runner is not None and wanted > self._run_bytes:
                self._runner.close()
                self._runner = None
            if self._runner is None:
                limit = 0 if wanted == _UNLIMITED else wanted
                self._runner = self._pool("run", 1, limit, self._zygote)
                self._run_bytes = wanted
            if self._builders is None:
                self._builders = self._pool("build", self.options.builders, memory, self._zygote)
        except BaseException:
            self.close()
            raise

    def check(self, target: Target) -> None:
        """Build, run and check a trivial kernel, the first time; raise MeasureError if that fails.

        The message has the first error in full. How long the kernel takes does not matter, so it
        does not wait until the machine is quiet.
        """
        if self._is_checked:
            return
        task, source = trivial(target)
        data = TaskData.create(task, np.random.default_rng(0))
        try:
            request = build_request(data.directory, source, _CHECK_LIMIT_S)
            built = _first(self.builders, request)
            _require(built, "built")
            assert isinstance(built, Message)
            at_once = replace(self.options.run, retry_share=0.0)
            job = run_request(data, [CompiledKernel.of(built)], at_once, _CHECK_LIMIT_S, best_s=0.0)
            _require(_first(self.runner, job), "run")
        finally:
            data.remove()
        self._is_checked = True

    def settle(self) -> None:
        """Wait until no worker is starting or building: only then a time is worth something."""
        self.builders.settle()
        self.runner.settle()

    def pids(self) -> list[int]:
        """Return the process ids of all workers."""
        pools = (self._runner, self._builders)
        return [pid for pool in pools if pool is not None for pid in pool.pids()]

    def close(self) -> None:
        """Kill the workers; may be called twice."""
        for part in (self._runner, self._builders, self._zygote):
            if part is not None:
                part.close()
        self._runner = self._builders = self._zygote = None
        self._is_closed = True

    def _pool(self, role: str, size: int, memory_bytes: int, zygote: ZygoteProcess) -> WorkerPool:
        kind = FailureKind.RUN_TIMEOUT if role == "run" else FailureKind.BUILD_TIMEOUT
        return WorkerPool(
            WorkerPoolOptions(
                zygote,
                role,
                size,
                kind,
                memory_bytes,
                self.options.start_timeout_s,
                self.options.recycle_after,
                self.options.recycle_rss_bytes,
            )
        )


def trivial(target: Target) -> tuple[Task, ProgramText]:
    """Return a task of one addition for each element, and a parallel program for it."""
    source = placeholder((64,), name="A")

    def add_one(i: Scalar) -> Scalar:
        return source[i] + 1.0

    result = compute((64,), add_one, name="B")
    dag = ComputeDAG([source, result])
    index = Var("i")
    value = Load(source.buffer, (index,)) + 1.0
    loop = For(index, 64, LoopKind.PARALLEL, Store(result.buffer, (index,), value))
    program = Function("kernel", dag.params, loop)
    return Task(dag, target, "preflight"), ProgramText.of_function(to_text(program))


def _is_on_device(target: Target) -> bool:
    return backend_of(target).capabilities(target).device


def _open(pool: WorkerPool | None) -> WorkerPool:
    if pool is None:
        raise MeasureError(_CLOSED)
    return pool


def _first(pool: WorkerPool, request: Request) -> Reply:
    ((_, reply),) = pool.run([request])
    return reply


def _require(reply: Reply, verb: str) -> None:
    failure = _failure(reply)
    if failure is not None:
        raise MeasureError(
            f"a kernel of one line cannot be {verb} on this machine, so nothing can be measured "
            f"({failure.kind.value}; `ansorc doctor` may tell more):\n{failure.detail}"
        )


def _failure(reply: Reply) -> Failure | None:
    """Return the failure of the job, or of the program that it ran."""
    if isinstance(reply, Failure):
        return reply
    if (failure := failure_of(reply)) is not None or "outcomes" not in reply.fields:
        return failure
    (outcome,) = outcomes_of(reply)
    return outcome if isinstance(outcome, Failure) else None
