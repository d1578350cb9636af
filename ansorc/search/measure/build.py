"""What a build worker does with a job: steps or loop program in, object code out."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ansorc.codegen.build import CompileCache, compile_function
from ansorc.errors import BuildError, IRError, LanguageError, ParseError, ScheduleError
from ansorc.ir.packing import Packing
from ansorc.ir.parser import parse
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from ansorc.schedule import Names, lower, packings, replay, steps_from_json
from ansorc.search.measure.result import FailureKind
from ansorc.search.measure.wire import Message
from ansorc.search.task import Task

_TASKS = 32
"""Tasks that a builder remembers, for runs that take turns."""


class Builder:
    """Builds candidates of the task whose directory the message names.

    It remembers the last tasks, and code that equal programs share.
    """

    def __init__(self) -> None:
        self._load = lru_cache(maxsize=_TASKS)(_task_in)
        self._cache = CompileCache()

    def handle(self, message: Message) -> Message:
        """Answer a job with object code and the seconds of each phase, or with a failure."""
        task, names = self._load(message.text("directory"))
        clock = time.perf_counter
        try:
            begin = clock()
            function, layouts = _program(
                names, message.text("steps"), message.text("function"), task
            )
            _require_parameters(function, task, layouts)
            lowered = clock()
            built = compile_function(function, task.target, packings=layouts, cache=self._cache)
        except (ScheduleError, LanguageError, IRError, ParseError, BuildError) as error:
            return _failure(error)
        fields = {
            "signature": built.signature.to_json(),
            "lower_s": lowered - begin,
            "passes_s": built.passes_s,
            "emit_s": built.emit_s,
            "llvm_s": built.compile_s,
        }
        return Message(fields, built.code)


def _task_in(directory: str) -> tuple[Task, Names]:
    task = Task.from_json((Path(directory) / "task.json").read_text())
    return task, Names(task.dag)


def _program(
    names: Names, steps: str, function: str, task: Task
) -> tuple[Function, tuple[Packing, ...]]:
    """The loop program, and how its constants are packed before it runs."""
    if function:
        parsed = parse(function)
        verify(parsed)
        return parsed, ()
    state = replay(task.dag, names.own(steps_from_json(json.loads(steps))))
    return lower(state), packings(state)


def _require_parameters(function: Function, task: Task, layouts: Sequence[Packing]) -> None:
    packed = {packing.source.name: packing.packed for packing in layouts}
    params = [packed.get(buffer.name, buffer) for buffer in task.dag.params]
    found = [(buffer.shape, buffer.dtype) for buffer in function.params]
    wanted = [(buffer.shape, buffer.dtype) for buffer in params]
    if found != wanted:
        raise IRError("the program's parameters are not those of the task")


def _failure(error: Exception) -> Message:
    kind = FailureKind.LOWERING
    if isinstance(error, ScheduleError):
        kind = FailureKind.REFUSED
    elif isinstance(error, BuildError):
        kind = FailureKind.COMPILE
    text = error.reason if isinstance(error, ScheduleError) else str(error)
    message = f"{type(error).__name__}: {text}"
    detail = "".join(traceback.format_exception(error))
    return Message({"failure": kind.value, "message": message, "detail": detail})
