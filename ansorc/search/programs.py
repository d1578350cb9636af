"""Which program a build uses, the best record of the task or the untuned default, and the build."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.codegen.base import backend_of
from ansorc.codegen.build import require_sizes_allowed
from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.module import Module
from ansorc.codegen.package.signature import MeasuredProgram
from ansorc.errors import ArgumentError, BuildError, LanguageError, RecordError, TargetError
from ansorc.ir.dump import dump_folder
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import (
    Names,
    State,
    Step,
    lower,
    packings,
    replay,
)
from ansorc.schedule.dump import write_schedule
from ansorc.schedule.steps import RewriteLayout
from ansorc.search.default import default_steps
from ansorc.search.family import choose_family
from ansorc.search.measure import CachePolicy, ProgramText
from ansorc.search.record import (
    Environment,
    Record,
    RecordLocation,
    Records,
    current_environment,
    is_missing,
)
from ansorc.search.task import Task
from ansorc.search.thread_count_op import find_threads
from ansorc.target import Target
from ansorc.target.units import seconds_text

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChosenSchedule:
    """A program that is built: steps under the names of its definition, their origin, how it runs.

    A `ProgramText` knows no origin, and a `Record` is of a measured program: builds also take the
    untuned default and schedules by hand.
    """

    steps: tuple[Step, ...]
    origin: str
    """For people: "untuned default schedule", or the record's time."""
    threads: int = 0
    """The most that work on it, with which it was the fastest; 0: all."""
    records: tuple[MeasuredProgram, ...] = ()
    """The record that it is of, for the manifest of what is built; none of the default."""
    check_indices: bool = True
    """Whether places in tensors that come from data are checked when it runs."""

    @property
    def is_tuned(self) -> bool:
        """Whether it is of a record, not the untuned default."""
        return bool(self.records)

    @property
    def packed_before(self) -> tuple[str, ...]:
        """The constant inputs that are packed once before the calls: a time is without that."""
        return tuple(step.tensor for step in self.steps if isinstance(step, RewriteLayout))


UNTUNED = "untuned default schedule"
"""The origin of programs that are not measured."""
_BY_HAND = ChosenSchedule((), "schedule by hand")


def compile_operator(
    program: State | ComputeDAG | Task,
    target: Target | str | None = None,
    name: str = "",
    *,
    check_indices: bool = True,
) -> Module:
    """Return `program` compiled as the C function `name` (default: the task's, else "kernel").

    A ComputeDAG or Task alone gets the untuned default schedule. `target` is the task's, else
    "native", unless given. `check_indices`: whether places that come from data are checked. Raise
    TargetError or BuildError for what cannot be built.
    """
    default_target = program.target if isinstance(program, Task) else "native"
    title = program.name if isinstance(program, Task) else "kernel"
    dag = program if isinstance(program, ComputeDAG) else program.dag
    task = Task(dag, default_target if target is None else target, name or title)
    if dag.dims and not isinstance(program, State):
        return compile_sized(task, [], check_indices=check_indices)
    if isinstance(program, State):
        backend_of(task.target)
        by_hand = replace(_BY_HAND, check_indices=check_indices)
        return _compile(program, task, task.name, by_hand)
    return compile_program(task, replace(default_program(task), check_indices=check_indices))


def compile_program(task: Task, program: ChosenSchedule, name: str = "") -> Module:
    """Return `program` compiled for the task's target under `name` (default: the task's)."""
    backend_of(task.target)
    return _compile(replay(task.dag, program.steps), task, name or task.name, program)


def compile_sized(
    task: Task, known: Sequence[ChosenSchedule], *, check_indices: bool = True
) -> Module:
    """Return the family of a task with dimensions as the one C function of its name.

    Its programs are those of `known` that fit; without any, untuned ones. Raise BuildError for a
    target that is no CPU.
    """
    require_sizes_allowed(task.dag.dims, task.target)
    begin = time.perf_counter()
    family = choose_family(task.dag, task.target, [program.steps for program in known])
    _LOG.info(
        "%s: %d programs for %s, chosen in %s", task.name, len(family.programs),
        ", ".join(map(str, task.dag.dims)), seconds_text(time.perf_counter() - begin, 3),
    )  # fmt: skip
    branches = family.branches()
    parts = tuple(replace(f, checks_indices=check_indices) for f in branches.functions)
    used = [each for each in known if each.steps in family.programs]
    return compile_module(
        replace(branches, functions=parts), task.target, task.name, packings=family.packings,
        records=tuple(record for each in used for record in each.records),
        dump=dump_folder(task.name),
    )  # fmt: skip


def sized_programs(task: Task, choice: ProgramChoice) -> list[ChosenSchedule]:
    """Return the best recorded programs of a task with dimensions at the sizes that were tuned.

    Raise RecordError if there is none.
    """
    path, advice = choice.records, "tune it at sizes that matter: ac.tune(Task(dag.at({…})))"
    if is_missing(path):
        raise RecordError(f"there is no record file {path}; {advice}")
    found: list[ChosenSchedule] = []
    with Records.open(path, create=False) as records:
        environment = find_environment([task], choice, records)
        for stored in records.tasks():
            known = _at_sizes_of(task, stored)
            best = None if known is None else records.best(stored.key, environment)
            if best is not None and known is not None:
                found.append(program_of_record(known, best))
    if not found:
        raise RecordError(
            f"{path} holds no measured program of '{task.name}' at any size for "
            f"{task.target.text}; {advice}"
        )
    return found


def _at_sizes_of(task: Task, stored: Task) -> Task | None:
    """Return `task` at the sizes of a `stored` one; None if that is another computation."""
    shapes = [buffer.shape for buffer in stored.dag.inputs]
    if stored.target.text != task.target.text or len(shapes) != len(task.dag.inputs):
        return None
    try:
        known = task.dag.at(task.dag.sizes_of_shapes(shapes))
    except (ArgumentError, LanguageError):
        return None
    return Task(known, task.target, task.name) if known.key == stored.dag.key else None


def default_program(
    task: Task,
    *,
    rewrite_layout: bool = True,
    redefine: bool = True,
    like: Sequence[tuple[Step, ...]] = (),
) -> ChosenSchedule:
    """Return the program that is used without any tuning.

    `rewrite_layout`: whether constants may be laid out in the order of their tile; `redefine`:
    whether stages may be computed by other definitions; `like`: programs, for other extents, in
    whose layouts the constants are there already.
    """
    begin = time.perf_counter()
    chosen = default_steps(
        task.dag, task.target, rewrite_layout=rewrite_layout, redefine=redefine, like=like
    )
    _LOG.info(
        "%s: the untuned default has %d steps, chosen in %s",
        task.name, len(chosen), seconds_text(time.perf_counter() - begin, 3),
    )  # fmt: skip
    return ChosenSchedule(chosen, UNTUNED)


def program_key(task: Task, program: ChosenSchedule) -> str:
    """Return the key that a record of `program`, which is of `task`, has or would have."""
    return ProgramText.encode(program.steps, Names(task.dag)).key


def program_of_record(task: Task, record: Record, threads: int = 0) -> ChosenSchedule:
    """Return the program of `record`, in the names of `task`, on so many threads (0: all)."""
    assert record.median_s is not None
    steps = record.program.decode(Names(task.dag))
    measured = MeasuredProgram(
        record.task_key, record.program_key, record.median_s, record.environment.cpu, record.seed,
        record.version,
    )  # fmt: skip
    origin = f"tuned, {seconds_text(record.median_s)} when measured"
    program = ChosenSchedule(steps, origin, threads, (measured,))
    if not program.packed_before:
        return program
    words = f"without the packing of {', '.join(program.packed_before)}, done once before"
    return replace(program, origin=f"{program.origin} ({words})")


@dataclass(frozen=True)
class ProgramChoice:
    """Which of the programs of a task is meant: the best one of a record file, or the default."""

    records: RecordLocation
    threads: int = 0
    """That were measured with so many threads; 0 means all cores."""
    cache: CachePolicy = "warm"
    """That were measured in such caches."""
    use_default: bool = False
    check_indices: bool = True
    """Whether it checks the places that come from data."""


def choose_program(task: Task, choice: ProgramChoice) -> ChosenSchedule:
    """Return the program of `task` that `choice` means.

    Raise RecordError if the file is missing or holds no checked program of the task for this
    machine, threads and caches: a build never falls back to the default unasked.
    """
    chosen = _default_or_best(task, choice)
    return chosen if choice.check_indices else replace(chosen, check_indices=False)


def _default_or_best(task: Task, choice: ProgramChoice) -> ChosenSchedule:
    path = choice.records
    if choice.use_default:
        return default_program(task.with_threads(choice.threads))
    advice = "run `ansorc tune` first, or use --default for the untuned schedule"
    if is_missing(path):
        raise RecordError(f"there is no record file {path}; {advice}")
    with Records.open(path, create=False) as records:
        environment = find_environment([task], choice, records)
        best = records.best(task.key, environment)
        if best is not None:
            _LOG.info("%s: the record %s of %s is chosen", task.name, best.program_key, path)
            return program_of_record(task, best, find_threads(records, best))
        elsewhere = records.elsewhere(task.key, environment)
    held = "no measured program"
    if elsewhere.count:
        held = "only programs measured on another machine, thread count or cache policy "
        policies = dict.fromkeys(other.cache for other in elsewhere.environments)
        held += f"({elsewhere.count}, {', '.join(policies)})"
    raise RecordError(f"{path} holds {held} of '{task.name}' for {task.target.text}; {advice}")


def find_environment(tasks: Sequence[Task], choice: ProgramChoice, records: Records) -> Environment:
    """Return the environment of this process; of a machine that is not here, one of the file.

    Such a one is a GPU, or a device of a fleet. `tasks` are all for one target.
    """
    target, here = tasks[0].target, current_environment(choice.threads, choice.cache)
    is_here = target.may_be_here
    try:
        here = current_environment(choice.threads, choice.cache, target)
    except BuildError:
        is_here = False
    if is_here or any(records.best(task.key, here) for task in tasks):
        return here
    known = (
        (t.key, environment)
        for t in tasks
        for environment in records.elsewhere(t.key, here).environments
    )
    fitting = (
        environment
        for key, environment in known
        if environment.cache == choice.cache and records.best(key, environment)
    )
    return next(fitting, here)


def require_this_machine(target: Target, cache: CachePolicy = "warm") -> None:
    """Raise TargetError unless this machine can run code for `target`, and with such caches."""
    can = backend_of(target).capabilities(target)
    if can.obstacle:
        raise TargetError(
            f"'{target.text}' cannot be measured {can.obstacle}; tune and run on such a machine, "
            "or build here with --default for the untuned schedule"
        )
    if cache == "other-work" and can.device:
        raise TargetError(
            f"'{target.text}' is timed by its device's clock, which work of this machine does not "
            'touch; tune with measure="kernel"'
        )
    if cache.startswith("cold") and not can.cold_caches:
        what = "caches" if cache == "cold" else "weights"
        raise TargetError(
            f"'{target.text}' cannot be measured with cold {what}: its back end evicts nothing "
            'from the caches of this machine; tune with cache="warm"'
        )


def _compile(state: State, task: Task, name: str, program: ChosenSchedule = _BY_HAND) -> Module:
    dump = dump_folder(name)
    if dump is not None:
        write_schedule(dump, state)
    _LOG.info("building %s for %s: %s", name, task.target.text, program.origin)
    function = replace(lower(state, name), checks_indices=program.check_indices)
    return compile_module(
        function, task.target, flops=task.dag.flops, packings=packings(state),
        records=program.records, threads=program.threads, dump=dump,
    )  # fmt: skip
