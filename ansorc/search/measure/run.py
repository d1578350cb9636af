"""What the run worker does with a job: object code in, times or failures out."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial

from ansorc.codegen.base import backend_of
from ansorc.codegen.package.signature import LACKS_FEATURES, OUT_OF_MEMORY
from ansorc.errors import BuildError
from ansorc.search.measure.cost import RunCost, Stopwatch
from ansorc.search.measure.kernel import Bench, Benches, Kernel, KernelError
from ansorc.search.measure.messages import (
    Program,
    calm_of,
    failure_message,
    outcomes_message,
    programs_of,
    run_options_of,
)
from ansorc.search.measure.options import RunOptions
from ansorc.search.measure.result import Failure, FailureKind, Look, Measurement
from ansorc.search.measure.timing import Patience, Sampled, Subject, Witness, interleave, sample
from ansorc.search.measure.wire import Message
from ansorc.target import Target

_STATUS_MEANING = {
    OUT_OF_MEMORY: (FailureKind.OUT_OF_MEMORY, "the kernel could not allocate its buffers"),
    LACKS_FEATURES: (
        FailureKind.COMPILE,
        "the kernel needs instructions that this CPU does not have",
    ),
}


@dataclass(frozen=True)
class _Right:
    """A kernel whose outputs agreed with the reference."""

    kernel: Kernel
    max_error: float


class Runner:
    """Runs kernels of the task whose directory the message names; remembers the last few tasks."""

    def __init__(self) -> None:
        self._benches = Benches()
        self._patience: dict[tuple[str, int], Patience] = {}

    def handle(self, message: Message) -> Message:
        """Check all programs, time those that are right; answer with an outcome for each."""
        bench = self._benches.get(message.text("directory"))
        options = run_options_of(message)
        programs = programs_of(message)
        watches = [Stopwatch() for _ in programs]
        with ExitStack() as stack:
            found = [
                _checked(program, bench, options, watch, stack)
                for program, watch in zip(programs, watches, strict=True)
            ]
            right = [one for one in found if isinstance(one, _Right)]
            begin = time.perf_counter()
            try:
                times = iter(self._times(right, bench.target, options, message))
            except KernelError as error:
                return failure_message(_meaning(error))
            each_s = (time.perf_counter() - begin) / max(1, len(right))
            outcomes = [next(times) if isinstance(one, _Right) else one for one in found]
        costs = [
            _cost(watch, each_s if isinstance(one, Measurement) else 0.0)
            for one, watch in zip(outcomes, watches, strict=True)
        ]
        patience = self._patience.get((bench.target.real.backend, options.threads))
        return outcomes_message(outcomes, costs, patience and patience.witness.shortest())

    def _times(
        self, right: Sequence[_Right], target: Target, options: RunOptions, message: Message
    ) -> list[Measurement]:
        """Time kernels, several in turns if the message asks for a ranking."""
        evict = _eviction(target) if options.cache == "cold" else None
        subjects = [
            Subject(one.kernel.call, partial(one.kernel.evict, evict) if evict else None)
            for one in right
        ]
        if message.number("rank"):
            rounds = interleave(subjects, time.perf_counter, options)
            return [
                Measurement(tuple(seconds), checked=True, max_error=one.max_error)
                for seconds, one in zip(rounds, right, strict=True)
            ]
        patience = self._prepared(target, options, calm_of(message)) if options.patience else None
        return [
            _time(one, subject, options, message.number("best_s"), patience)
            for one, subject in zip(right, subjects, strict=True)
        ]

    def _prepared(self, target: Target, options: RunOptions, calm: Look | None) -> Patience:
        """The patience of this process, which remembers what is known of the calm machine."""
        key = target.real.backend, options.threads
        patience = self._patience.get(key)
        if patience is None:
            witness = Witness.of(target, options.threads)
            patience = self._patience[key] = Patience(
                witness, options.patience, options.patience_s, options.longest_wait_s
            )
        if calm is not None:
            patience.witness.remember(calm)
        return patience


def _time(
    one: _Right, subject: Subject, options: RunOptions, best_s: float, patience: Patience | None
) -> Measurement:
    """Time one kernel, when the machine is calm if there is patience."""

    def sampled() -> Sampled:
        return sample(subject, time.perf_counter, options, best_s)

    if patience is not None:
        far_s = options.near_factor * best_s if best_s else math.inf
        seconds, hopeless = patience.timed(sampled, far_s)
    else:
        seconds, hopeless = sampled()
    return Measurement(tuple(seconds), checked=True, hopeless=hopeless, max_error=one.max_error)


def _checked(
    program: Program, bench: Bench, options: RunOptions, watch: Stopwatch, stack: ExitStack
) -> _Right | Failure:
    """Link `program`, call it into poisoned outputs, hold them against the reference.

    This first call also warms up what the timed ones find in the caches.
    """
    try:
        with watch.phase("prepare"):
            arrays = bench.arrays(program.packings)
            kernel = stack.enter_context(Kernel(program, bench.target, arrays, options.threads))
        with watch.phase("check"):
            bench.poison()
        with watch.phase("warm up"):
            kernel.call(1)
    except BuildError as error:
        return Failure.of(FailureKind.COMPILE, str(error), traceback.format_exc())
    except KernelError as error:
        return _meaning(error)
    with watch.phase("check"):
        kernel.fetch()
        max_error, complaint = bench.check()
        if not complaint and not kernel.is_intact():
            complaint = "candidate rejected: it wrote outside its workspace"
    if complaint:
        return Failure.of(FailureKind.WRONG_RESULT, complaint)
    return _Right(kernel, max_error)


@lru_cache(maxsize=1)
def _eviction(target: Target) -> Callable[[int, int], None]:
    return backend_of(target).probes.eviction(target)


def _meaning(error: KernelError) -> Failure:
    kind, words = _STATUS_MEANING.get(error.status, (FailureKind.UNKNOWN, str(error)))
    return Failure.of(kind, words)


def _cost(watch: Stopwatch, repeats_s: float) -> RunCost:
    prepare_s, warm_up_s, check_s = map(watch.seconds, ("prepare", "warm up", "check"))
    return RunCost(prepare_s, warm_up_s, check_s, repeats_s)
