"""`ac.build` and `ac.tune`: the same verbs for operators and networks.

`build` is the user's verb alone. What does its parts is named for what it makes: `lower`, `emit_…`,
`compile_…` (code, or a module that holds it), `plan_…` (a `NetworkPlan`), `link_…` (of a plan or of
objects).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, Unpack, cast, overload

from ansorc.codegen.call.module import Module
from ansorc.codegen.call.network_module import NetworkModule
from ansorc.codegen.call.network_variants import NetworkVariants
from ansorc.errors import OptionError
from ansorc.graph.cache_policy import choose_recorded_policy, common_cache_policy
from ansorc.graph.graph import Graph
from ansorc.graph.graph_variants import GraphVariants
from ansorc.graph.network import Network
from ansorc.graph.network_build import (
    choose_programs,
    choose_programs_of_all,
    compile_network,
    compile_variants,
)
from ansorc.graph.network_tune import NetworkTuneResult, round_line, tune_networks
from ansorc.graph.precision import Precision, choose_precision
from ansorc.graph.shaped_networks import ShapedNetworks
from ansorc.lang.arguments import check_arguments
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import State
from ansorc.search.live_line import NotebookLine
from ansorc.search.machines import OtherMachines
from ansorc.search.measure import MeasuredCall
from ansorc.search.options import ObjectiveName, SchedulerName, Scheduling
from ansorc.search.programs import (
    ProgramChoice,
    choose_program,
    compile_operator,
    compile_program,
    compile_sized,
    sized_programs,
)
from ansorc.search.record import parse_record_uri
from ansorc.search.task import Task
from ansorc.search.tune import tune as tune_operators
from ansorc.search.tune_options import TuneOptions, TuneSettings, cache_of
from ansorc.search.tune_result import TuneResult
from ansorc.target import Target

RecordFile = str | os.PathLike[str]


@overload
def build(
    program: State | ComputeDAG | Task,
    target: Target | str | None = None,
    name: str = "",
    *,
    records: RecordFile | None = None,
    measure: MeasuredCall = "kernel",
    check_indices: bool = True,
) -> Module: ...
@overload
def build(
    program: Graph,
    target: Target | str | None = None,
    name: str = "",
    *,
    records: RecordFile | None = None,
    measure: MeasuredCall = "kernel",
    check_indices: bool = True,
    precision: Precision | None = None,
    keep: Sequence[str] = (),
) -> NetworkModule: ...
@overload
def build(
    program: GraphVariants,
    target: Target | str | None = None,
    name: str = "",
    *,
    records: RecordFile | None = None,
    measure: MeasuredCall = "kernel",
    check_indices: bool = True,
    precision: Precision | None = None,
    keep: Sequence[str] = (),
) -> NetworkVariants: ...
@check_arguments
def build(
    program: State | ComputeDAG | Task | Graph | GraphVariants,
    target: Target | str | None = None,
    name: str = "",
    *,
    records: RecordFile | None = None,
    measure: MeasuredCall = "kernel",
    check_indices: bool = True,
    precision: Precision | None = None,
    keep: Sequence[str] = (),
) -> Module | NetworkModule | NetworkVariants:
    """Return `program` compiled as the C function `name`, an operator or a whole network.

    Variants of a network become one module that picks the program of a call by its shapes.

    Without `records` a ComputeDAG, a Task and the tasks of a network get the untuned default
    schedule, else the best program in that file; tasks of a network that have none there keep the
    default. Of a network they were measured in the caches that `choose_recorded_policy` names, of
    a task as `measure` says, which is what `tune` was told. `target` is
    the task's, else "native", unless given. Places in tensors that come from data are checked when
    the program runs, unless `check_indices` is false; then they may be read wherever they are.
    `precision` of a network is what its tensors are kept in between kernels, "f32", "bf16" or
    "f16"; None: what its file says. `keep` exempts nodes, by their names or those of their tensors.
    Raise TargetError or BuildError for what cannot be
    built, RecordError where the file has nothing for it, OptionError for a precision of an operator
    and for names that there are not.
    """
    program = _in_precision(program, precision, keep)
    cache = cache_of(measure, None)
    choice = ProgramChoice(
        parse_record_uri(records or "tune.db"), cache=cache, use_default=records is None,
        check_indices=check_indices,
    )  # fmt: skip
    if isinstance(program, GraphVariants):
        shaped = ShapedNetworks.of(program, "native" if target is None else target)
        choice = choose_recorded_policy(shaped.networks, choice)
        return compile_variants(shaped, choose_programs_of_all(shaped.networks, choice), name)
    if isinstance(program, Graph):
        network = Network.of(program, "native" if target is None else target)
        programs = choose_programs(network, choose_recorded_policy([network], choice))
        return compile_network(network, programs, name)
    if records is None or isinstance(program, State):
        return compile_operator(program, target, name, check_indices=check_indices)
    default_target = program.target if isinstance(program, Task) else "native"
    title = program.name if isinstance(program, Task) else "kernel"
    dag = program.dag if isinstance(program, Task) else program
    task = Task(dag, default_target if target is None else target, name or title)
    if dag.dims:
        return compile_sized(task, sized_programs(task, choice), check_indices=check_indices)
    return compile_program(task, choose_program(task, choice))


P = TypeVar("P")


def _in_precision(program: P, precision: Precision | None, keep: Sequence[str]) -> P:
    """Return a network as its tensors are to be kept; raise OptionError for an operator."""
    if precision is None and not keep:
        return program
    if isinstance(program, Graph | GraphVariants):
        return cast("P", choose_precision(program, precision, keep))
    raise OptionError(
        "precision and keep are of networks; the dtypes of an operator are those of its tensors: "
        'ac.placeholder(shape, dtype="bfloat16")'
    )


class NetworkSettings(TuneSettings, total=False):
    """The keyword arguments of `tune` for networks."""

    precision: Precision | None
    keep: Sequence[str]
    objective: ObjectiveName | Callable[[Sequence[float]], float]
    requirements: Sequence[float]
    references: Sequence[float]
    scheduler: SchedulerName


@overload
def tune(program: Task, **settings: Unpack[TuneSettings]) -> TuneResult: ...
@overload
def tune(program: Sequence[Task], **settings: Unpack[TuneSettings]) -> list[TuneResult]: ...
@overload
def tune(program: Graph, **settings: Unpack[NetworkSettings]) -> NetworkTuneResult: ...
@overload
def tune(
    program: Sequence[Graph] | GraphVariants, **settings: Unpack[NetworkSettings]
) -> list[NetworkTuneResult]: ...
@check_arguments
def tune(
    program: Task | Graph | Sequence[Task | Graph] | GraphVariants,
    **settings: Unpack[NetworkSettings],
) -> TuneResult | list[TuneResult] | NetworkTuneResult | list[NetworkTuneResult]:
    """Find fast programs for a task, a network, or several of one kind, on this machine.

    trials: programs to measure, for each task (200), or for all tasks of all networks together (64
    for each). records="tune.db": the file that keeps them; a later run goes on with it. seed=0: of
    all random choices. threads=0: of the kernels, 0 means all cores. time_budget=None: seconds for
    all together. cache="warm": what the caches hold when a call is timed, also "cold" and
    "cold-weights", which is the default for networks that the last cache does not hold.
    measure="kernel": what is timed; "call", of a task: a call with other work between it and the
    one before, as a user's.
    cost_model="trees": what scores programs, also "roofline", "random" or an object like
    `ansorc.search.cost_model.CostModel`. measurer=None: where programs are measured, such as an
    `ac.Fleet` or an `ac.Board`, whose machine networks are then tuned for. inputs={}: arrays by the
    names of a task's inputs, to measure with; others are drawn.

    For networks alone: objective="f1", "f2" (with `requirements` in seconds, one a network), "f3"
    (with `references` in seconds), "f4", or a function of the list of latencies;
    scheduler="gradient", "round-robin" or "equal" (paper, section 6); precision=None and keep=() as
    in `build`.

    After Ctrl-C the results are those of what was begun. Raise TargetError, RecordError,
    OptionError, MeasureError as `tune_task` does.
    """
    _refuse_unknown(settings, NetworkSettings)
    programs = [program] if isinstance(program, (Task, Graph)) else list(program)
    graphs = [item for item in programs if isinstance(item, Graph)]
    if not graphs:
        _refuse_unknown(settings, TuneSettings)
        tasks = [item for item in programs if isinstance(item, Task)]
        return tune_operators(tasks[0] if isinstance(program, Task) else tasks, **_plain(settings))
    _refuse_for_networks(settings, is_mixed=len(graphs) < len(programs))
    measurer = settings.get("measurer")
    target = measurer.target if isinstance(measurer, OtherMachines) else "native"
    chosen, kept = settings.get("precision"), settings.get("keep", ())
    networks = [Network.of(_in_precision(graph, chosen, kept), target) for graph in graphs]
    options = TuneOptions.of(_plain(settings))
    if "cache" not in settings and "measure" not in settings:
        options = replace(options, cache=common_cache_policy(networks))
    line = NotebookLine()
    results = tune_networks(
        networks, options, _scheduling(settings),
        lambda done: line.show(round_line(done), done.trials, done.total),
    )  # fmt: skip
    return results[0] if isinstance(program, Graph) else results


def _refuse_for_networks(settings: NetworkSettings, *, is_mixed: bool) -> None:
    """Raise OptionError for tasks beside networks, and for settings of tasks alone."""
    if is_mixed:
        raise OptionError(
            "tune tasks together, or networks, but not both: trials mean other things"
        )
    if settings.get("inputs"):
        raise OptionError(
            "inputs are of tasks; the kernels of a network are measured with data that is drawn "
            "for each: leave inputs out"
        )


def _refuse_unknown(given: NetworkSettings, known: type[TuneSettings]) -> None:
    """Raise OptionError for settings that mean nothing here."""
    names = known.__optional_keys__
    for name in given:
        if name not in names:
            is_of_networks = name in NetworkSettings.__optional_keys__
            words = "is for networks alone" if is_of_networks else "is no setting of tune"
            raise OptionError(f"'{name}' {words}; use {', '.join(sorted(names))}")


def _plain(settings: NetworkSettings) -> TuneSettings:
    """Return the settings that single tasks have, too."""
    known = TuneSettings.__optional_keys__
    return cast(TuneSettings, {name: v for name, v in settings.items() if name in known})


def _scheduling(settings: NetworkSettings) -> Scheduling:
    default = Scheduling()
    return Scheduling(
        strategy=settings.get("scheduler", default.strategy),
        objective=settings.get("objective", default.objective),
        requirements=tuple(settings.get("requirements", ())),
        references=tuple(settings.get("references", ())),
        trials=settings.get("trials"),
    )
