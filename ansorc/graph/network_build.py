"""Which program each task of a network uses, and the network built of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace

from ansorc.codegen.call.network_module import NetworkModule, link_network
from ansorc.codegen.call.network_variants import NetworkVariants, link_variants
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.variants import VariantsPlan
from ansorc.codegen.program.compiled import Compiled
from ansorc.errors import RecordError
from ansorc.graph.network import Network
from ansorc.graph.network_plan import compile_kernel, plan_networks
from ansorc.graph.shaped_networks import ShapedNetworks
from ansorc.search.default_programs import default_programs
from ansorc.search.programs import (
    ChosenSchedule,
    ProgramChoice,
    find_environment,
    program_key,
    program_of_record,
)
from ansorc.search.record import KernelThreads, Records, is_missing
from ansorc.search.task import Task


def choose_programs(network: Network, choice: ProgramChoice) -> Mapping[str, ChosenSchedule]:
    """Return the program of each task, by its key: the best record, else the untuned default.

    Raise RecordError if the file is missing, or holds no checked program of any of the tasks for
    this machine, threads and caches: a network is never wholly untuned unasked.
    """
    programs = (
        _make_default(network, choice) if choice.use_default else _read_recorded(network, choice)
    )
    if choice.check_indices:
        return programs
    return {key: replace(program, check_indices=False) for key, program in programs.items()}


def choose_programs_of_all(
    networks: Iterable[Network], choice: ProgramChoice
) -> Mapping[str, ChosenSchedule]:
    """Return the programs of the tasks of all networks, by their keys; see `choose_programs`."""
    return {
        key: program
        for network in networks
        for key, program in choose_programs(network, choice).items()
    }


def describe_tuned_share(programs: Mapping[str, ChosenSchedule]) -> str:
    """Return how many of the programs are tuned, for people."""
    tuned = sum(program.is_tuned for program in programs.values())
    return f"{tuned} of {len(programs)} tasks tuned"


def compile_network(
    network: Network,
    programs: Mapping[str, ChosenSchedule],
    name: str = "",
    on_task: Callable[[Task], None] = lambda _: None,
) -> NetworkModule:
    """Return `network` compiled as the C function `name` (default: from the graph's name).

    `on_task` is told of each task before it is compiled. Raise BuildError.
    """
    return link_network(compile_network_plan(network, programs, name, on_task), network.target)


def compile_network_plan(
    network: Network,
    programs: Mapping[str, ChosenSchedule],
    name: str = "",
    on_task: Callable[[Task], None] = lambda _: None,
) -> NetworkPlan:
    """Return the plan that `compile_network` loads, its kernels in the order of the tasks."""
    return _plan({name or c_name(network.source.name): network}, programs, on_task)[0]


def compile_variants(
    shaped: ShapedNetworks,
    programs: Mapping[str, ChosenSchedule],
    name: str = "",
    on_task: Callable[[Task], None] = lambda _: None,
) -> NetworkVariants:
    """Return all networks of `shaped` compiled, with weights and kernels that are equal held once.

    `programs` are those of the tasks of all. Raise BuildError.
    """
    title = name or c_name(shaped.variants.name)
    plans = _plan(shaped.by_name(title), programs, on_task)
    return link_variants(VariantsPlan(title, plans), shaped.target)


def _plan(
    networks: Mapping[str, Network],
    programs: Mapping[str, ChosenSchedule],
    on_task: Callable[[Task], None],
) -> tuple[NetworkPlan, ...]:
    """Return the plans of networks by their names in C, which share weights and kernels."""
    kernels = _compile_tasks(networks.values(), programs, on_task)
    pairs = zip(networks.values(), plan_networks(networks, kernels), strict=True)
    return tuple(with_threads(plan, network, programs) for network, plan in pairs)


def with_threads(
    plan: NetworkPlan, network: Network, programs: Mapping[str, ChosenSchedule]
) -> NetworkPlan:
    """Return the plan whose kernels have the threads of their programs."""
    pairs = zip(plan.calls, network.task_of, strict=True)
    calls = [replace(call, threads=programs[task.key].threads) for call, (_, task) in pairs]
    return replace(plan, calls=tuple(calls))


def _compile_tasks(
    networks: Iterable[Network],
    programs: Mapping[str, ChosenSchedule],
    on_task: Callable[[Task], None],
) -> dict[str, Compiled]:
    """Return the kernels of all tasks, by their keys."""
    kernels: dict[str, Compiled] = {}
    for network in networks:
        for key, task in network.tasks.items():
            if key not in kernels:
                on_task(task)
                title = f"kernel{len(kernels)}"
                kernels[key] = compile_kernel(task, programs[key], title, network.dump)
    return kernels


def c_name(name: str) -> str:
    """Return `name` as an identifier of C."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
    return word if word and not word[0].isdigit() else f"net_{word}".rstrip("_")


def _read_recorded(network: Network, choice: ProgramChoice) -> Mapping[str, ChosenSchedule]:
    """Return the best recorded program of each task, or the default of one that has none."""
    advice = "run `ansorc tune` first, or use --default for untuned schedules"
    if is_missing(choice.records):
        raise RecordError(f"there is no record file {choice.records}; {advice}")
    recorded: dict[str, ChosenSchedule] = {}
    with Records.open(choice.records, create=False) as records:
        environment = find_environment(list(network.tasks.values()), choice, records)
        threads = records.threads(environment)
        for key, task in network.tasks.items():
            best = records.best(key, environment)
            if best is not None:
                recorded[key] = program_of_record(task, best)
    if not recorded:
        raise RecordError(
            f"{choice.records} holds no measured program of '{network.source.name}' for "
            f"{network.target.text} on this machine; {advice}"
        )
    every = {**_make_default(network, choice, recorded), **recorded}
    return {
        key: _limit_threads(network.tasks[key], program, threads) for key, program in every.items()
    }


def _make_default(
    network: Network, choice: ProgramChoice, known: Container[str] = ()
) -> dict[str, ChosenSchedule]:
    """Return the untuned programs of those tasks that are not in `known`."""
    missing = {key: task for key, task in network.tasks.items() if key not in known}
    programs = default_programs([task.with_threads(choice.threads) for task in missing.values()])
    return dict(zip(missing, programs, strict=True))


def _limit_threads(
    task: Task, program: ChosenSchedule, known: Mapping[str, KernelThreads]
) -> ChosenSchedule:
    """Return the program with the threads that were measured for it; all if none were."""
    measured = known.get(task.key)
    if measured is None or measured.program_key != program_key(task, program):
        return program
    return replace(program, threads=measured.threads)
