"""Views of a network for `ansorc show`: its nodes, its tasks, its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import click

from ansorc.codegen.base import NetworkSourceBackend, Source, backend_of
from ansorc.graph.arena import place_in_arena
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs, compile_network_plan
from ansorc.graph.partition import least_bytes, lifetimes
from ansorc.search.programs import ProgramChoice
from ansorc.target import Target

NETWORK_VIEWS = {
    "graph": "the nodes as they were imported",
    "optimized-graph": "the nodes after all rewrites",
    "tasks": "the kernels, equal ones together, with their work",
    "memory": "the offsets and lifetimes of intermediate tensors",
}


def show_network(network: Network, choice: ProgramChoice, views: Sequence[str]) -> None:
    """Print some of `NETWORK_VIEWS` (default: the tasks), or views of the back end.

    The latter show the programs of `choice`, if the kernels are compiled together.
    """
    backend = backend_of(network.target)
    listings: dict[str, Callable[[Source, Target], str]] = {}
    if isinstance(backend, NetworkSourceBackend):
        listings.update(backend.listings)
    texts: Mapping[str, Callable[[Network], str]] = {
        "graph": lambda network: network.source.to_text(),
        "optimized-graph": lambda network: network.graph.to_text(),
        "tasks": _tasks,
        "memory": _memory,
    }
    for view in views:
        if view not in texts and view not in listings:
            words = f"'{view}' is not one of {', '.join(map(repr, (*texts, *listings)))}."
            raise click.BadParameter(words, param_hint="'--view'")
    source: Source = None
    for view in views or ("tasks",):
        if view in listings and source is None and isinstance(backend, NetworkSourceBackend):
            plan = compile_network_plan(network, choose_programs(network, choice))
            source = backend.network_source(plan)
        if view in texts:
            click.echo(f"# {NETWORK_VIEWS[view]}\n{texts[view](network).rstrip()}")
        else:
            click.echo(listings[view](source, network.target).rstrip())


def _tasks(network: Network) -> str:
    total = sum(task.dag.flops for _, task in network.task_of)
    lines = [f"{len(network.tasks)} tasks, {len(network.task_of)} kernels, {total / 1e9:.4g} GFLOP"]
    for key, task in network.tasks.items():
        shapes = ", ".join(f"{b.dtype}{list(b.shape)}" for b in task.dag.params)
        weight, flops = network.weights[key], task.dag.flops
        lines.append(f"{weight:3d} x {flops / 1e6:9.2f} MFLOP  {task.name}  ({shapes})  {key}")
    return "\n".join(lines)


def _memory(network: Network) -> str:
    lives = lifetimes(network.graph, network.partition)
    offsets, size = place_in_arena(lives, network.arena_alignment)
    least = least_bytes(network.graph, network.partition)
    weights = sum(array.nbytes for array in network.graph.constants.values())
    lines = [
        f"weights {weights / 1e6:.2f} MB, arena {size / 1e6:.2f} MB "
        f"(no less than {least / 1e6:.2f} MB live at one time)"
    ]
    for life in sorted(lives, key=lambda life_: (life_.first, life_.name)):
        begin = offsets[life.name]
        lines.append(
            f"kernels {life.first:3d} to {life.last:3d}  bytes {begin:10d} to "
            f"{begin + life.bytes:10d}  {life.name}"
        )
    return "\n".join(lines)
