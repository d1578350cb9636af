"""What `ansorc show` prints of a network: its nodes, its tasks, its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import click

from ansorc.graph.arena import place_in_arena
from ansorc.graph.network import Network
from ansorc.graph.partition import least_bytes, lifetimes

NETWORK_VIEWS = {
    "graph": "the nodes as they were imported",
    "optimized-graph": "the nodes after all rewrites",
    "tasks": "the kernels, equal ones together, with their work",
    "memory": "where intermediate tensors lie, and when",
}


def show_network(network: Network, views: Sequence[str]) -> None:
    """Print some of `NETWORK_VIEWS`, by default the tasks."""
    texts: Mapping[str, Callable[[Network], str]] = {
        "graph": lambda network: network.source.to_text(),
        "optimized-graph": lambda network: network.graph.to_text(),
        "tasks": _tasks,
        "memory": _memory,
    }
    for view in views:
        if view not in texts:
            words = f"'{view}' is not one of {', '.join(map(repr, texts))}."
            raise click.BadParameter(words, param_hint="'--view'")
    for view in views or ("tasks",):
        click.echo(f"# {NETWORK_VIEWS[view]}\n{texts[view](network).rstrip()}")


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
    offsets, size = place_in_arena(lives)
    least = least_bytes(network.graph, network.partition)
    weights = sum(array.nbytes for array in network.graph.constants.values())
    lines = [
        f"weights {weights / 1e6:.2f} MB, arena {size / 1e6:.2f} MB "
        f"(no less than {least / 1e6:.2f} MB live at one time)"
    ]
    for life in sorted(lives, key=lambda one: (one.first, one.name)):
        begin = offsets[life.name]
        lines.append(
            f"kernels {life.first:3d} to {life.last:3d}  bytes {begin:10d} to "
            f"{begin + life.bytes:10d}  {life.name}"
        )
    return "\n".join(lines)
