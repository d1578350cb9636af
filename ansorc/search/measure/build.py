"""What a build worker does with a job: steps or loop program in, object code out."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ansorc.codegen.llvm.build import cpu_options
from ansorc.codegen.llvm.compile_cache import CompileCache
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.errors import BuildError, IRError, LanguageError, ParseError, ScheduleError
from ansorc.ir.node import walk
from ansorc.ir.packing import Packing
from ansorc.ir.parser import parse
from ansorc.ir.passes.pipeline import prepare_for_cpu
from ansorc.ir.stmt import For, Function, LoopKind
from ansorc.ir.verify import verify
from ansorc.schedule import lower, packings, replay, steps_from_json
from ansorc.search.measure.result import FailureKind
from ansorc.search.measure.wire import Message
from ansorc.search.task import Task
from ansorc.target import Target, detect

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
        task = self._load(message.text("directory"))
        clock = time.perf_counter
        try:
            begin = clock()
            function, layouts = _program(task, message.text("steps"), message.text("function"))
            _require_parameters(function, task, layouts)
            lowered = clock()
            target = task.target
            prepared = prepare_for_cpu(function, cpu_options(target))
            passed = clock()
            text = emit_llvm(prepared, target, is_guarded=not _runs_here(target))
            emitted = clock()
            code = self._cache.compile(text, target)
            done = clock()
        except (ScheduleError, LanguageError, IRError, ParseError, BuildError) as error:
            return _failure(error)
        fields = {
            "name": prepared.name,
            "is_parallel": _is_parallel(prepared),
            "packings": [packing.to_json() for packing in layouts],
            "lower_s": lowered - begin,
            "passes_s": passed - lowered,
            "emit_s": emitted - passed,
            "llvm_s": done - emitted,
        }
        return Message(fields, code)


def _task_in(directory: str) -> Task:
    return Task.from_json((Path(directory) / "task.json").read_text())


def _program(task: Task, steps: str, function: str) -> tuple[Function, tuple[Packing, ...]]:
    """The loop program, and how its constants are packed before it runs."""
    if function:
        parsed = parse(function)
        verify(parsed)
        return parsed, ()
    state = replay(task.dag, steps_from_json(json.loads(steps)))
    return lower(state), packings(state)


def _require_parameters(function: Function, task: Task, layouts: Sequence[Packing]) -> None:
    packed = {packing.source.name: packing.packed for packing in layouts}
    params = [packed.get(buffer.name, buffer) for buffer in task.dag.params]
    found = [(buffer.shape, buffer.dtype) for buffer in function.params]
    wanted = [(buffer.shape, buffer.dtype) for buffer in params]
    if found != wanted:
        raise IRError("the program's parameters are not those of the task")


@lru_cache(maxsize=4)
def _runs_here(target: Target) -> bool:
    """Whether this processor has the target's features: then nobody has to ask it again."""
    here, real = detect(), target.real
    return real.triple == here.triple and set(real.features) <= set(here.features)


def _is_parallel(function: Function) -> bool:
    return any(
        isinstance(part, For) and part.kind is LoopKind.PARALLEL for part in walk(function.body)
    )


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
