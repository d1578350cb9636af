"""A worker process, which builds programs or runs them; see `zygote` for its start.

It says that it is ready, then answers each message with one message until its input ends.
"""

from __future__ import annotations

import math
import os
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from ansorc.codegen.base import DeviceBackend, DeviceKernel, backend_of, team_of
from ansorc.codegen.build import CompileCache, compile_function
from ansorc.codegen.call.call_times import OtherWork
from ansorc.codegen.call.device_caller import DeviceClock
from ansorc.codegen.package.signature import FAULT_STATUS, LACKS_FEATURES, OUT_OF_MEMORY
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import (
    BuildError,
    DeviceError,
    InternalError,
    IRError,
    LanguageError,
    ParseError,
    ScheduleError,
)
from ansorc.ir.fault import FAULT_WORDS
from ansorc.ir.packing import Packing
from ansorc.ir.parser import parse
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from ansorc.schedule import Names, lower, packings, replay
from ansorc.search.measure.device_kernel import DeviceRun, device_failure
from ansorc.search.measure.kernel import (
    Bench,
    Benches,
    GuardedArray,
    GuardedKernel,
    KernelError,
    evict_each,
)
from ansorc.search.measure.messages import (
    CompiledKernel,
    Decoder,
    Message,
    failure_message,
    kernels_of,
    outcomes_message,
    probe_time_of,
    program_of,
    read_message,
    run_options_of,
    write_message,
)
from ansorc.search.measure.options import RunOptions
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.measure.result import (
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    ProbeTime,
    RunCost,
    Stopwatch,
)
from ansorc.search.measure.timing import (
    Clock,
    NoiseProbe,
    RetryBudget,
    Sampled,
    Subject,
    interleave,
    sample,
)
from ansorc.search.measure.zygote import resident_bytes, set_alarm
from ansorc.search.task import Task
from ansorc.target import Target, detect

_TASKS = 32
"""Tasks that a builder remembers, for runs that take turns."""
_STATUS_MEANING = {
    OUT_OF_MEMORY: (FailureKind.OUT_OF_MEMORY, "the kernel could not allocate its buffers"),
    LACKS_FEATURES: (
        FailureKind.COMPILE,
        "the kernel needs instructions that this CPU does not have",
    ),
    **{
        status: (FailureKind.WRONG_RESULT, f"candidate rejected: it {FAULT_WORDS[kind]}")
        for kind, status in FAULT_STATUS.items()
    },
}

SLOW_NOTE = "stopped early: far slower than the best"
"""The note of a program that was stopped early."""
BUILD_REFUSALS = (
    ScheduleError, LanguageError, IRError, InternalError, ParseError, BuildError
)  # fmt: skip
Handler = Callable[[Message], Message]
ROLES: dict[str, Callable[[], Handler]] = {
    "build": lambda: Builder().handle,
    "run": lambda: Runner().handle,
}

backend_of(detect())  # imported once, before the workers are forked; others when they are needed


def main(role: str) -> None:
    """Serve `role` until the input ends."""
    serve(ROLES[role])


def serve(make_handler: Callable[[], Handler]) -> None:
    """Answer each message by what `make_handler` returns until the input ends."""
    requests, answers = _private_pipes()
    handler = make_handler()
    write_message(answers, Message({"ready": True}))
    decoder = Decoder()
    while (message := read_message(requests, decoder)) is not None:
        set_alarm(message.number("alarm_s"))
        answer = _answer(handler, message)
        set_alarm(0)
        fields = {**answer.fields, "rss_bytes": resident_bytes()}
        write_message(answers, Message(fields, answer.blob))


def _private_pipes() -> tuple[int, int]:
    """Move the pipes away from descriptors 0 and 1, where a library might read or print."""
    requests, answers = os.dup(0), os.dup(1)
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return requests, answers


def _answer(handler: Handler, message: Message) -> Message:
    try:
        return handler(message)
    except DeviceError as error:
        message = failure_message(device_failure(error, traceback.format_exc()))
        return Message({**message.fields, "is_unusable": int(error.is_fatal)})
    except MemoryError:
        kind, words = FailureKind.OUT_OF_MEMORY, "the worker's memory limit was reached"
    except Exception as error:  # noqa: BLE001 - the one place: any fault is one failed record
        kind, words = FailureKind.UNKNOWN, f"{type(error).__name__}: {error}"
    return failure_message(Failure.of(kind, words, traceback.format_exc()))


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
            function, layouts = _loop_program(program_of(message), names, task)
            _require_parameters(function, task, layouts)
            lowered = clock()
            built = compile_function(function, task.target, packings=layouts, cache=self._cache)
        except BUILD_REFUSALS as error:
            return _build_failure(error)
        fields = {
            "signature": built.signature.to_json(),
            "lower_s": lowered - begin,
            "passes_s": built.passes_s,
            "emit_s": built.emit_s,
            "llvm_s": built.compile_s,
        }
        return Message(fields, built.code.to_bytes())


def _task_in(directory: str) -> tuple[Task, Names]:
    task = Task.from_json((Path(directory) / "task.json").read_text())
    return task, Names(task.dag)


def _loop_program(
    program: ProgramText, names: Names, task: Task
) -> tuple[Function, tuple[Packing, ...]]:
    """Return the loops of `program`, and how its constants are packed before it runs."""
    if program.function:
        parsed = parse(program.function)
        verify(parsed)
        return parsed, ()
    state = replay(task.dag, program.decode(names))
    return lower(state), packings(state)


def _require_parameters(function: Function, task: Task, layouts: Sequence[Packing]) -> None:
    packed = {packing.source.name: packing.packed for packing in layouts}
    params = [packed.get(buffer.name, buffer) for buffer in task.dag.arguments]
    given = [(buffer.shape, buffer.dtype) for buffer in function.params]
    wanted = [(buffer.shape, buffer.dtype) for buffer in params]
    if given != wanted:
        raise IRError("the program's parameters are not those of the task")


def _build_failure(error: Exception) -> Message:
    kind = FailureKind.LOWERING
    if isinstance(error, ScheduleError):
        kind = FailureKind.REFUSED
    elif isinstance(error, BuildError):
        kind = FailureKind.COMPILE
    text = str(error)
    if isinstance(error, ScheduleError):
        text = error.reason
    elif isinstance(error, InternalError):
        text = error.what  # the loops are in the details
    message = f"{type(error).__name__}: {text}"
    detail = "".join(traceback.format_exception(error))
    return Message({"failure": kind.value, "message": message, "detail": detail})


@dataclass(frozen=True)
class _Checked:
    """A kernel whose outputs agreed with the reference."""

    kernel: GuardedKernel | DeviceRun
    weights: tuple[GuardedArray, ...]
    """The constants as it reads them."""
    is_parallel: bool
    max_error: float
    target: Target
    first_s: float
    """Seconds of its first call."""
    restore: Callable[[], None] | None = None
    """Gives inputs that it updates their old values."""


class Runner:
    """Runs kernels of the task whose directory the message names; remembers the last few tasks."""

    def __init__(self) -> None:
        self._benches = Benches()
        self._budgets: dict[tuple[str, int], RetryBudget] = {}

    def handle(self, message: Message) -> Message:
        """Check all kernels, time those that are right; answer with an outcome for each."""
        bench = self._benches.get(message.text("directory"))
        options = run_options_of(message)
        kernels, first_limit = kernels_of(message), FirstCallLimit.of(message)
        _require_device(bench.target)
        watches = [Stopwatch() for _ in kernels]
        with ExitStack() as stack:
            checks = [
                _check(compiled, bench, options, watch, stack, first_limit)
                for compiled, watch in zip(kernels, watches, strict=True)
            ]
            checked = [outcome for outcome in checks if isinstance(outcome, _Checked)]
            begin = time.perf_counter()
            try:
                times = iter(self._times(checked, bench.target, options, message))
            except KernelError as error:
                return failure_message(_kernel_failure(error))
            each_s = (time.perf_counter() - begin) / max(1, len(checked))
            outcomes = [
                next(times) if isinstance(outcome, _Checked) else outcome for outcome in checks
            ]
        with_costs: list[Outcome] = [
            replace(outcome, run=_cost(watch, each_s if isinstance(outcome, Measurement) else 0.0))
            for outcome, watch in zip(outcomes, watches, strict=True)
        ]
        budget = self._budgets.get((bench.target.real.backend, options.threads))
        return outcomes_message(with_costs, budget and budget.probe.shortest())

    def _times(
        self, checked: Sequence[_Checked], target: Target, options: RunOptions, message: Message
    ) -> list[Measurement]:
        """Time kernels, several in turns if the message asks for a ranking."""
        is_on_device = backend_of(target).capabilities(target).device
        clock = DeviceClock() if is_on_device else time.perf_counter
        subjects = [_subject(kernel, target, options, clock) for kernel in checked]
        if message.number("rank"):
            rounds = interleave(subjects, clock, options)
            return [
                Measurement(
                    tuple(seconds), checked=True, max_error=kernel.max_error, note=_state(target)
                )
                for seconds, kernel in zip(rounds, checked, strict=True)
            ]
        budget = None  # a device is not shared, and its clock does not wait for this machine
        if not is_on_device:
            budget = self._budget(target, options, probe_time_of(message))
        trial = partial(sample, clock=clock, options=options, best_s=message.number("best_s"))
        return [
            _time(kernel, partial(trial, subject), options, message, budget)
            for kernel, subject in zip(checked, subjects, strict=True)
        ]

    def _budget(
        self, target: Target, options: RunOptions, fastest: ProbeTime | None
    ) -> RetryBudget | None:
        """The budget of this process, whose probe remembers its shortest time, if it may retry."""
        if not options.retry_share:
            return None
        key = target.real.backend, options.threads
        budget = self._budgets.get(key)
        if budget is None:
            probe = NoiseProbe.of(target, options.threads)
            budget = self._budgets[key] = RetryBudget(
                probe, options.retry_share, options.retry_credit_s, options.longest_wait_s
            )
        if fastest is not None:
            budget.probe.remember(fastest)
        return budget


def _state(target: Target) -> str:
    backend = backend_of(target)
    return backend.state(target) if isinstance(backend, DeviceBackend) else ""


def _time(
    kernel: _Checked,
    sampled: Callable[[], Sampled],
    options: RunOptions,
    message: Message,
    budget: RetryBudget | None,
) -> Measurement:
    """Time one kernel, when the machine is quiet if there is a budget.

    If its first call was far slower than the best known program, that is its time.
    """
    best_s = message.number("best_s")
    if kernel.first_s > message.number("slow_s", math.inf):
        seconds, is_slow = [kernel.first_s], True
    elif budget is not None:
        far_s = options.near_factor * best_s if best_s else math.inf
        seconds, is_slow = budget.sample_quietly(sampled, far_s)
    else:
        seconds, is_slow = sampled()
    notes = filter(None, (SLOW_NOTE if is_slow else "", _state(kernel.target)))
    return Measurement(
        tuple(seconds), checked=True, stopped_early=is_slow, max_error=kernel.max_error,
        note="; ".join(notes),
    )  # fmt: skip


@dataclass(frozen=True)
class FirstCallLimit:
    """Ends this process during a first call that lasts longer than a program of interest may."""

    killed_s: float
    """0: no limit of its own."""
    alarm_s: float
    """That of the whole job, counted from `begin`."""
    begin: float

    @staticmethod
    def of(message: Message) -> FirstCallLimit:
        """Return the limit that a job which has just begun names."""
        killed_s, alarm_s = message.number("killed_s"), message.number("alarm_s")
        return FirstCallLimit(killed_s, alarm_s, time.perf_counter())

    def __enter__(self) -> None:
        if self.killed_s:
            set_alarm(min(self.killed_s, self._left_s()))

    def __exit__(self, *_: object) -> None:
        if self.killed_s:
            set_alarm(self._left_s())

    def _left_s(self) -> float:
        return max(1e-3, self.begin + self.alarm_s - time.perf_counter())


def _check(
    compiled: CompiledKernel,
    bench: Bench,
    options: RunOptions,
    watch: Stopwatch,
    stack: ExitStack,
    limit: FirstCallLimit,
) -> _Checked | Failure:
    """Link `compiled`, call it into poisoned outputs, hold them against the reference.

    This first call also warms up what the timed ones find in the caches. `limit` holds during it.
    """
    try:
        with watch.phase("check"):
            bench.poison()
        with watch.phase("prepare"):
            arrays = bench.arrays(compiled.packings)
            kernel = stack.enter_context(_bind(compiled, bench, arrays, options))
        with watch.phase("warm up"), limit:
            kernel.call(1)
    except BuildError as error:
        return Failure.of(FailureKind.COMPILE, str(error), traceback.format_exc())
    except KernelError as error:
        return _kernel_failure(error)
    except DeviceError as error:
        if error.is_fatal:
            raise
        return device_failure(error, traceback.format_exc())
    with watch.phase("check"):
        kernel.fetch()
        max_error, complaint = bench.check()
        if not complaint and not kernel.is_intact():
            complaint = "candidate rejected: it wrote outside its memory"
    if complaint:
        return Failure.of(FailureKind.WRONG_RESULT, complaint)
    weights, is_parallel = bench.weights(arrays), compiled.signature.parallel
    restore = bench.poison if bench.drifts else None
    first_s = watch.seconds("warm up")
    return _Checked(kernel, weights, is_parallel, max_error, bench.target, first_s, restore)


def _require_device(target: Target) -> None:
    """Raise DeviceError where there is no device that kernels for `target` run on."""
    backend = backend_of(target)
    if not isinstance(backend, DeviceBackend):
        return
    try:
        backend.machine(target)
    except BuildError as error:
        raise DeviceError(str(error), is_fatal=True, is_lost=True) from error


def _bind(
    compiled: CompiledKernel, bench: Bench, arrays: Sequence[GuardedArray], options: RunOptions
) -> GuardedKernel | DeviceRun:
    """The loaded kernel on the arrays of the task."""
    signature = compiled.signature
    code = CompiledProgram.from_bytes(compiled.code)
    kernel = backend_of(bench.target).load(code, signature, bench.target)
    if isinstance(kernel, DeviceKernel):
        return DeviceRun(kernel, arrays, bench.on_device)
    return GuardedKernel(kernel, signature.workspace_bytes, arrays, options.threads)


def _subject(
    kernel: _Checked, target: Target, options: RunOptions, clock: DeviceClock | Clock
) -> Subject:
    """The kernel as it is timed: in the caches that the options name, and with its workers."""
    if isinstance(kernel.kernel, DeviceRun):  # whose time does not depend on its numbers
        assert isinstance(clock, DeviceClock)
        bound = kernel.kernel.bound
        return Subject(clock.running(bound), None if options.cache == "warm" else bound.evict)
    return replace(_cpu_subject(kernel, kernel.kernel, target, options), restore=kernel.restore)


def _cpu_subject(
    kernel: _Checked, bound: GuardedKernel, target: Target, options: RunOptions
) -> Subject:
    call = bound.call
    if options.cache == "warm":
        return Subject(call)
    if options.cache == "other-work":
        return Subject(call, OtherWork(), evicts_all=False)
    if options.cache == "cold":
        return Subject(call, partial(evict_each, bound.memory, _eviction(target)))
    is_alone = options.threads == 1 or not kernel.is_parallel
    team = nullcontext() if is_alone else _team(target, options.threads)
    evict = partial(evict_each, kernel.weights, _eviction(target)) if kernel.weights else None
    return Subject(call, evict, evicts_all=False, team=team)


@lru_cache(maxsize=1)
def _eviction(target: Target) -> Callable[[int, int], None]:
    return backend_of(target).probes.eviction(target)


@lru_cache(maxsize=1)
def _team(target: Target, threads: int) -> AbstractContextManager[None]:
    return team_of(target, threads)


def _kernel_failure(error: KernelError) -> Failure:
    kind, words = _STATUS_MEANING.get(error.status, (FailureKind.UNKNOWN, str(error)))
    return Failure.of(kind, words)


def _cost(watch: Stopwatch, repeats_s: float) -> RunCost:
    prepare_s, warm_up_s, check_s = map(watch.seconds, ("prepare", "warm up", "check"))
    return RunCost(prepare_s, warm_up_s, check_s, repeats_s)
