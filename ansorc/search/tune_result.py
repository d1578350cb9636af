"""The report of a tuning run: each trial, where its time went, and its results."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansorc.codegen.call.module import Module
from ansorc.errors import MeasureError
from ansorc.ir import notebook
from ansorc.schedule import Schedule, replay
from ansorc.search.contest import Ranking
from ansorc.search.measure import BuildCost, RunCost, Stopwatch
from ansorc.search.programs import compile_program, program_of_record
from ansorc.search.record import Record
from ansorc.search.task import Task
from ansorc.target.units import seconds_text


@dataclass(frozen=True)
class RunProgress:
    """The state of a run of one task after one trial."""

    done: int
    """Trials of the task so far, those of earlier runs counted in."""
    total: int
    best_s: float | None
    """Seconds of the fastest checked program, or None before there is one."""
    is_new_best: bool
    failures: dict[str, int]
    """Failed trials of this run by class."""
    elapsed_s: float
    """Seconds since this run began."""
    measured_now: int
    """Trials of this run."""

    @property
    def rate(self) -> float:
        """Trials a second of this run."""
        return self.measured_now / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def eta_s(self) -> float:
        """Seconds that the rest will take at this rate."""
        return (self.total - self.done) / self.rate if self.rate else 0.0


@dataclass(frozen=True)
class TimeSpent:
    """Seconds of wall time by what the tuner was waiting for; a second counts once.

    Searching while programs are built counts as building.
    """

    start_s: float = 0.0
    """The workers' start, the inputs, the reference."""
    search_s: float = 0.0
    """Choosing programs: sketches, evolution, cost model."""
    build_s: float = 0.0
    run_s: float = 0.0
    contest_s: float = 0.0
    """Timing the fastest programs against each other at the end."""
    total_s: float = 0.0
    builds: BuildCost = field(default_factory=BuildCost)
    """All builds, each in one process of several."""
    runs: RunCost = field(default_factory=RunCost)
    """All runs of trials."""

    @staticmethod
    def of(watch: Stopwatch, total_s: float, builds: BuildCost, runs: RunCost) -> TimeSpent:
        """Return what `watch` counted in a run of `total_s` seconds."""
        return TimeSpent(
            watch.seconds("start"), watch.seconds("search"), watch.seconds("build"),
            watch.seconds("run"), watch.seconds("contest"), total_s, builds, runs,
        )  # fmt: skip

    @property
    def rest_s(self) -> float:
        """The rest of the time: writing records, showing progress."""
        known = self.start_s + self.search_s + self.build_s + self.run_s + self.contest_s
        return max(0.0, self.total_s - known)


@dataclass(frozen=True)
class TuneResult:
    """The best program of a task, and how the run went."""

    task: Task
    best: Record | None
    """The fastest program whose output was checked; None if there is none."""
    default: Record | None
    """The untuned default program, measured like the others."""
    curve: tuple[tuple[int, float], ...]
    """(trial, best seconds so far) at each improvement, the trials of earlier runs counted in.

    The times are those of the records: the last one may be faster than `best`, which was chosen by
    timing the fastest programs against each other."""
    trials: int
    """Programs of the task that the record file holds now."""
    measured_now: int
    """Programs measured in this run."""
    elapsed_s: float
    spent: TimeSpent = field(default_factory=TimeSpent)
    """Where the time of this run went."""
    threads: int = 0
    """The most that work on the best program, with which it was the fastest; 0: all."""
    ranking: Ranking | None = None
    """How the fastest programs did against each other; None if that was not held in this run."""
    failures: dict[str, int] = field(default_factory=dict[str, int])
    """Failed trials of this run by class."""
    first_failure: str = ""
    """The first of these failures."""
    exhausted: bool = False
    """Whether the space holds no program that was not measured."""
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    """Notes for the user: records of other machines, a missing library."""

    def build(self, name: str = "") -> Module:
        """Return the best program, compiled as the kernel `name` (default: the task's name).

        Raise MeasureError if there is none, BuildError as a build does.
        """
        if self.best is None:
            raise MeasureError(f"no program of '{self.task.name}' can be built: {self.hint}")
        program = program_of_record(self.task, self.best, self.threads)
        return compile_program(self.task, program, name)

    @property
    def schedule(self) -> Schedule:
        """The best program as a schedule, to print, to change by hand and to build.

        Built with `ac.build` it runs on as many threads as a call allows; `threads` says how many
        were the best. Raise MeasureError if there is none, or if it was given as loops.
        """
        if self.best is None:
            raise MeasureError(f"no program of '{self.task.name}' can be shown: {self.hint}")
        if self.best.function:
            raise MeasureError(
                f"the best program of '{self.task.name}' was given as loops, which have no steps; "
                "its record has them: result.best.function"
            )
        return replay(self.task.dag, program_of_record(self.task, self.best).steps)

    def __str__(self) -> str:
        lines = [
            f"{self.task.name} for {self.task.target.text}: {self.trials} programs measured, "
            f"{self.measured_now} of them in this run"
        ]
        flops = self.task.dag.flops
        for name, record in {"best": self.best, "untuned default": self.default}.items():
            if record is not None and record.median_s is not None:
                rate = f", {flops / record.median_s / 1e9:.4g} GFLOP/s" if flops else ""
                lines.append(f"{name}: {seconds_text(record.median_s)}{rate}")
        if self.best is None:
            lines.append(f"no result: {self.hint}")
        elif self.threads:
            lines.append(f"the best runs on {self.threads} threads")
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items()))
        lines += [f"failed: {counts}; the first: {self.first_failure}"] if counts else []
        lines += ["interrupted"] if self.interrupted else []
        return "\n".join((*lines, *(f"note: {note}" for note in self.notes)))

    def __repr__(self) -> str:
        best = seconds_text(self.best.median_s if self.best else None)
        return f"<TuneResult of {self.task.name}: {best}, {self.trials} programs>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the best and the default time, and the curve of the best."""
        times = {"best": self.best, "untuned default": self.default}
        rows = [
            (name, seconds_text(record.median_s))
            for name, record in times.items()
            if record is not None and record.median_s is not None
        ]
        rows += [("hint", self.hint)] if self.best is None else []
        rows += [("note", note) for note in self.notes]
        shown = [notebook.curve(self.curve, self.trials)] if self.curve else []
        title = f"{self.task.name}: {self.trials} trials, {self.measured_now} of them in this run"
        return notebook.frame(title, notebook.table(rows), *shown)

    @property
    def packed_before(self) -> tuple[str, ...]:
        """The constant inputs that the best program has packed before; its time is without that."""
        return program_of_record(self.task, self.best).packed_before if self.best else ()

    @property
    def hint(self) -> str:
        """Why nothing was found, and what to do."""
        if not self.failures:
            return "none was measured and checked; tune it with more trials"
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items()))
        return f"{counts} of {self.measured_now} trials; the first: {self.first_failure}"
