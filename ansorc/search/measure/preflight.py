"""Before anything is tuned: can this machine build and run a kernel of one line at all?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ansorc.errors import MeasureError
from ansorc.ir.expr import Expr, Load, Var
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import For, Function, LoopKind, Store
from ansorc.lang import ComputeDAG, compute, placeholder
from ansorc.search.measure.crew import Crew, Reply, Request
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.jobs import Program, build_request, run_request
from ansorc.search.measure.options import RunOptions
from ansorc.search.measure.replies import failure_of, outcomes_of
from ansorc.search.measure.result import Candidate, Failure
from ansorc.search.measure.wire import Message
from ansorc.search.measure.workplace import Workplace
from ansorc.search.task import Task
from ansorc.target import Target

_LIMIT_S = 30.0


def preflight(place: Workplace, target: Target, options: RunOptions) -> None:
    """Build, run and check a trivial kernel; raise MeasureError with the first error in full.

    How long the kernel takes does not matter, so it does not wait until the machine is calm.
    """
    task, candidate = trivial(target)
    data = TaskData.create(task, np.random.default_rng(0))
    try:
        built = _first(place.builders, build_request(data.directory, candidate, _LIMIT_S))
        _require(built, "built")
        assert isinstance(built, Message)
        hasty = replace(options, patience=0.0)
        job = run_request(data, [Program.of(built)], hasty, _LIMIT_S, best_s=0.0)
        _require(_first(place.runner, job), "run")
    finally:
        data.remove()


def trivial(target: Target) -> tuple[Task, Candidate]:
    """Return a task of one addition for each element, and a parallel program for it."""
    source = placeholder((64,), name="A")

    def add_one(i: Var) -> Expr:
        return source[i] + 1.0

    result = compute((64,), add_one, name="B")
    dag = ComputeDAG([source, result])
    index = Var("i")
    value = Load(source.buffer, (index,)) + 1.0
    loop = For(index, 64, LoopKind.PARALLEL, Store(result.buffer, (index,), value))
    program = Function("kernel", dag.params, loop)
    return Task(dag, target, "preflight"), Candidate.of_function(to_text(program))


def _first(crew: Crew, request: Request) -> Reply:
    ((_, reply),) = crew.run([request])
    return reply


def _require(reply: Reply, verb: str) -> None:
    failure = _failure(reply)
    if failure is not None:
        raise MeasureError(
            f"a kernel of one line cannot be {verb} on this machine, so nothing can be measured "
            f"({failure.kind.value}; `ansorc doctor` may tell more):\n{failure.detail}"
        )


def _failure(reply: Reply) -> Failure | None:
    """What went wrong with the job, or with the program that it ran."""
    if isinstance(reply, Failure):
        return reply
    if (failure := failure_of(reply)) is not None or "outcomes" not in reply.fields:
        return failure
    ((outcome, _),) = outcomes_of(reply)
    return outcome if isinstance(outcome, Failure) else None
