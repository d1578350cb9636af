"""The untuned programs of many tasks, chosen by several processes at a time.

Each process is one as of measuring (`ansorc.search.measure.zygote`), so it neither runs the
caller's main module again nor copies its threads, and ends with the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing

from ansorc.errors import MeasureError
from ansorc.schedule import Names
from ansorc.search.measure.messages import Message, Request, failure_of
from ansorc.search.measure.pool import WorkerPool, WorkerPoolOptions, ZygoteProcess
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.measure.result import FailureKind
from ansorc.search.programs import UNTUNED, ChosenSchedule, default_program
from ansorc.search.task import Task
from ansorc.target import usable_cores

LEAST_TASKS = 12
"""Fewer tasks take less time than starting processes for them."""
_LIMIT_S = 3600.0
WORKER = "ansorc.search.default_worker"
_LOG = logging.getLogger(__name__)


def default_programs(tasks: Sequence[Task]) -> list[ChosenSchedule]:
    """Return the untuned program of each task; they are those of `default_program`.

    One process for each core chooses them where there are many. A task for which that fails is
    tried again in this process, so what it raises is what `default_program` does.
    """
    processes = min(usable_cores(), len(tasks))
    is_worth_it = len(tasks) >= LEAST_TASKS and processes > 1
    chosen = _choose(tasks, processes) if is_worth_it else {}
    return [
        ChosenSchedule(chosen[number].decode(Names(task.dag)), UNTUNED)
        if number in chosen
        else default_program(task)
        for number, task in enumerate(tasks)
    ]


def _choose(tasks: Sequence[Task], processes: int) -> dict[int, ProgramText]:
    """Return the programs that worker processes choose, by the number of the task."""
    chosen: dict[int, ProgramText] = {}
    try:
        with closing(ZygoteProcess(WORKER)) as zygote:
            options = WorkerPoolOptions(zygote, "default", processes, FailureKind.BUILD_TIMEOUT)
            with closing(WorkerPool(options)) as pool:
                for number, reply in pool.run([_request(task) for task in tasks]):
                    failure = failure_of(reply) if isinstance(reply, Message) else reply
                    if isinstance(reply, Message) and failure is None:
                        chosen[number] = ProgramText(reply.text("steps"))
                    else:
                        _LOG.info("%s: a worker cannot choose: %s", tasks[number].name, failure)
    except MeasureError as error:
        _LOG.warning("the untuned programs are chosen by one process: %s", error)
    return chosen


def _request(task: Task) -> Request:
    return Request(Message({"task": task.to_json()}), _LIMIT_S)
