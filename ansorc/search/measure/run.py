"""What the run worker does with a job: object code in, times or a failure out."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ansorc.errors import BuildError
from ansorc.search.measure.bench import Bench, load_bench
from ansorc.search.measure.jobs import Program, programs_of, run_options_of
from ansorc.search.measure.kernel import (
    MISSING_FEATURES_STATUS,
    OUT_OF_MEMORY_STATUS,
    Kernel,
    KernelError,
)
from ansorc.search.measure.options import RunOptions
from ansorc.search.measure.replies import failure_message, measurements_message
from ansorc.search.measure.result import Failure, FailureKind, Measurement
from ansorc.search.measure.timing import interleave, sample
from ansorc.search.measure.wire import Message

_STATUS_MEANING = {
    OUT_OF_MEMORY_STATUS: (FailureKind.OUT_OF_MEMORY, "the kernel could not allocate its buffers"),
    MISSING_FEATURES_STATUS: (
        FailureKind.COMPILE,
        "the kernel needs instructions that this CPU does not have",
    ),
}


class Runner:
    """Runs kernels of the task whose directory the message names; remembers the last task."""

    def __init__(self) -> None:
        self._directory = ""
        self._bench: Bench | None = None

    def handle(self, message: Message) -> Message:
        """Time one program, or several against each other; answer with times or a failure."""
        bench = self._load(message.text("directory"))
        options = run_options_of(message)
        try:
            with ExitStack() as stack:
                programs = programs_of(message)
                kernels = [stack.enter_context(_kernel(p, bench, options)) for p in programs]
                if len(kernels) > 1:
                    return _answer(_rank(kernels, bench, options))
                found = _measure(kernels[0], bench, options, message.number("best_s"))
                return _answer([found] if isinstance(found, Measurement) else found)
        except BuildError as error:
            failure = Failure.of(FailureKind.COMPILE, str(error), traceback.format_exc())
        except KernelError as error:
            kind, words = _STATUS_MEANING.get(error.status, (FailureKind.UNKNOWN, str(error)))
            failure = Failure.of(kind, words)
        return failure_message(failure)

    def _load(self, directory: str) -> Bench:
        if self._bench is None or directory != self._directory:
            self._bench, self._directory = None, ""
            self._bench = load_bench(Path(directory))
            self._directory = directory
        return self._bench


def _kernel(program: Program, bench: Bench, options: RunOptions) -> Kernel:
    return Kernel(program, bench.arrays(program.packings), options.threads)


def _answer(found: Sequence[Measurement] | Failure) -> Message:
    return failure_message(found) if isinstance(found, Failure) else measurements_message(found)


def _measure(
    kernel: Kernel, bench: Bench, options: RunOptions, best_s: float
) -> Measurement | Failure:
    """Warm up into poisoned outputs, check them if that is cheap, time, check a winner anyway."""
    is_cheap = bench.compare_s < options.check_share * options.min_total_s
    error = _run_once(kernel, bench, check=is_cheap)
    if isinstance(error, Failure):
        return error
    seconds, hopeless = sample(kernel.call, time.perf_counter, options, best_s)
    found = Measurement(tuple(seconds), is_cheap, hopeless, error)
    if is_cheap or (best_s and found.median_s >= best_s):
        return found
    error = _run_once(kernel, bench, check=True)
    if isinstance(error, Failure):
        return error
    return Measurement(tuple(seconds), checked=True, hopeless=hopeless, max_error=error)


def _rank(
    kernels: Sequence[Kernel], bench: Bench, options: RunOptions
) -> list[Measurement] | Failure:
    """Check all, then time them in turns, so that a change of the machine's speed hits all."""
    errors: list[float] = []
    for kernel in kernels:
        error = _run_once(kernel, bench, check=True)
        if isinstance(error, Failure):
            return error
        errors.append(error)
    calls = [kernel.call for kernel in kernels]
    rounds = interleave(calls, time.perf_counter, options)
    return [
        Measurement(tuple(seconds), checked=True, max_error=error)
        for seconds, error in zip(rounds, errors, strict=True)
    ]


def _run_once(kernel: Kernel, bench: Bench, *, check: bool) -> float | Failure:
    """Run into poisoned outputs; return the largest error (0 without `check`) or the failure."""
    bench.poison()
    kernel.call(1)
    if not check:
        return 0.0
    error, complaint = bench.check()
    if not complaint and not kernel.is_intact():
        complaint = "candidate rejected: it wrote outside its workspace"
    return Failure.of(FailureKind.WRONG_RESULT, complaint) if complaint else error
