"""Where programs are measured: on this machine, or on others that do the same work."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from ansorc.search.measure import (
    CachePolicy,
    MeasureOptions,
    Measurer,
    Outcome,
    ProgramText,
    Stopwatch,
    Workers,
    nothing,
)
from ansorc.search.programs import require_this_machine
from ansorc.search.record import Environment, current_environment
from ansorc.search.task import Task
from ansorc.target import Target


class TaskMeasurer(Protocol):
    """Measures programs of one task; `measure.Measurer` does in processes of this machine."""

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        """Measure `candidates`, doing `meanwhile` beside it; yield the outcomes in this order."""
        ...

    def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
        """Time a few good programs in turns on one machine; return the outcomes in this order.

        None stands for a program that was not timed, though it did not fail.
        """
        ...

    def close(self) -> None:
        """Free what the task needs."""
        ...


MeasurerProgram: TypeAlias = tuple[TaskMeasurer, ProgramText]
"""A program, and the measurer of its task, which the same `Machines` opened."""
Arrivals: TypeAlias = Generator[tuple[TaskMeasurer, ProgramText, Outcome]]
"""Programs with their outcomes; closing it gives up those that are under way."""
AnyChoice = TypeVar("AnyChoice")


class Machines(Protocol):
    """Where programs are measured, by default round by round, as `ThisMachine` does."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the machines."""
        ...

    def require(self, target: Target, cache: CachePolicy = "warm") -> None:
        """Raise TargetError where code for `target` cannot be measured, or with such caches."""
        ...

    def environment(self, threads: int, cache: CachePolicy, target: Target) -> Environment:
        """Return what the times are recorded under: the machine that runs the programs."""
        ...

    def open(
        self, task: Task, options: MeasureOptions, best_s: float, watch: Stopwatch
    ) -> TaskMeasurer:
        """Make ready to measure programs of `task`; raise MeasureError where that fails."""
        ...


@runtime_checkable
class MachinesAhead(Machines, Protocol):
    """Machines that measure several programs at once while others are chosen, as `ac.Fleet`."""

    @property
    def ahead(self) -> int:
        """How many programs they want in flight, 1 or more."""
        ...

    def stream(self, programs: Iterator[MeasurerProgram | None]) -> Arrivals:
        """Keep `ahead` of `programs` in flight; yield each with its outcome, as they come.

        The next program is asked for when there is room for it, so that it may be chosen by what
        has come until then; None says that it is not chosen yet, and it is asked for again soon.
        Each comes once. Raise MeasureError where nothing can be measured.
        """
        ...


def choose_in_thread(
    begin: Callable[[], Callable[[], AnyChoice] | None],
    plan: Callable[[AnyChoice], Sequence[MeasurerProgram]],
) -> Generator[MeasurerProgram | None]:
    """Yield programs that are chosen in another thread, while devices work; None: not chosen yet.

    `begin` returns what chooses the next ones, or None at the end, and `plan` the programs of
    a choice. Both are called in this thread: choosing begins when those before begin to be handed
    out. What it raises is raised here.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ansorc-search") as pool:
        programs: Sequence[MeasurerProgram] = ()
        while (choose := begin()) is not None:
            choosing = pool.submit(choose)
            yield from programs
            while not choosing.done():
                yield None
            programs = plan(choosing.result())
        yield from programs


@runtime_checkable
class OtherMachines(Machines, Protocol):
    """Machines of which this one is none, as `ac.Fleet` and `ac.Board`."""

    @property
    def target(self) -> Target:
        """The target of code for them; raise MeasureError where they do not answer."""
        ...


class ThisMachine(Workers):
    """Measures in processes of this machine, all programs of a round before the next."""

    @property
    def notes(self) -> tuple[str, ...]:
        """There are none."""
        return ()

    def require(self, target: Target, cache: CachePolicy = "warm") -> None:
        """Raise TargetError unless this machine can run code for `target`, with such caches."""
        require_this_machine(target, cache)

    def environment(self, threads: int, cache: CachePolicy, target: Target) -> Environment:
        """Return the environment of this process; raise BuildError for a GPU that is not here."""
        return current_environment(threads, cache, target)

    def open(
        self, task: Task, options: MeasureOptions, best_s: float, watch: Stopwatch
    ) -> TaskMeasurer:
        """Start the workers where they are not; raise MeasureError if they do not start."""
        return Measurer(task, options, best_s, watch, self)


@contextmanager
def machines_for(given: Machines | None, options: MeasureOptions) -> Generator[Machines]:
    """Have `given`, which stays open, or this machine with workers of its own."""
    if given is not None:
        yield given
        return
    with ThisMachine(options) as here:
        yield here
