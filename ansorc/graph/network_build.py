"""Which program each task of a network uses, and the network built of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ansorc.codegen.call.network_module import NetworkModule, build_network
from ansorc.codegen.call.network_variants import NetworkVariants
from ansorc.codegen.compiled import Compiled
from ansorc.errors import RecordError
from ansorc.graph.graph_variants import GraphVariants
from ansorc.graph.network import Network
from ansorc.graph.network_plan import compiled_program, network_plan, network_plans
from ansorc.search.programs import Program, ProgramChoice, default_program, recorded_program
from ansorc.search.record import Records, current_environment
from ansorc.search.task import Task
from ansorc.target import Target


def chosen_programs(network: Network, choice: ProgramChoice) -> Mapping[str, Program]:
    """Return the program of each task, by its key: the best record, else the untuned default.

    Raise RecordError if the file is missing, or holds no checked program of any of the tasks for
    this machine, threads and caches: a network is never wholly untuned unasked.
    """
    found: Mapping[str, Program] = {} if choice.use_default else _recorded(network, choice)
    return {
        key: found.get(key) or default_program(task.with_threads(choice.threads))
        for key, task in network.tasks.items()
    }


def tuned_share(programs: Mapping[str, Program]) -> str:
    """Return how many of the programs are tuned, for people."""
    tuned = sum(program.is_tuned for program in programs.values())
    return f"{tuned} of {len(programs)} tasks tuned"


def built_network(
    network: Network,
    programs: Mapping[str, Program],
    name: str = "",
    on_task: Callable[[Task], None] = lambda _: None,
) -> NetworkModule:
    """Return `network` compiled as the C function `name` (default: from the graph's name).

    `on_task` is told of each task before it is compiled. Raise BuildError.
    """
    kernels = _compiled([network], programs, on_task)
    plan = network_plan(network, kernels, name or c_name(network.source.name))
    return build_network(plan, network.target)


def built_variants(
    variants: GraphVariants,
    target: Target | str,
    choose: Callable[[Network], Mapping[str, Program]],
    name: str = "",
) -> NetworkVariants:
    """Return all graphs of `variants` compiled, with weights and kernels that are equal held once.

    `choose` returns the programs of the tasks of a network. Raise BuildError.
    """
    title = name or c_name(variants.name)
    networks = {
        f"{title}_{suffix}": Network.of(graph, target)
        for suffix, graph in zip(variants.suffixes(), variants, strict=True)
    }
    programs = {key: one for net in networks.values() for key, one in choose(net).items()}
    kernels = _compiled(list(networks.values()), programs, lambda _: None)
    pairs = zip(networks.values(), network_plans(networks, kernels), strict=True)
    return NetworkVariants(title, [build_network(plan, net.target) for net, plan in pairs])


def _compiled(
    networks: Sequence[Network],
    programs: Mapping[str, Program],
    on_task: Callable[[Task], None],
) -> dict[str, Compiled]:
    """The kernels of all tasks, by their keys."""
    kernels: dict[str, Compiled] = {}
    for key, task in {key: task for net in networks for key, task in net.tasks.items()}.items():
        on_task(task)
        kernels[key] = compiled_program(task, programs[key], f"kernel{len(kernels)}")
    return kernels


def c_name(name: str) -> str:
    """Return `name` as an identifier of C."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
    return word if word and not word[0].isdigit() else f"net_{word}".rstrip("_")


def _recorded(network: Network, choice: ProgramChoice) -> Mapping[str, Program]:
    """The best recorded programs of those tasks that have any."""
    advice = "run `ansorc tune` first, or use --default for untuned schedules"
    if not choice.records.exists():
        raise RecordError(f"there is no record file {choice.records}; {advice}")
    environment = current_environment(choice.threads, choice.cache)
    found: dict[str, Program] = {}
    with Records.open(choice.records, create=False) as records:
        for key, task in network.tasks.items():
            best = records.best(key, environment)
            if best is not None:
                found[key] = recorded_program(task, best)
    if not found:
        raise RecordError(
            f"{choice.records} holds no measured program of '{network.source.name}' for "
            f"{network.target.text} on this machine; {advice}"
        )
    return found
