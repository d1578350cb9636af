"""`Network`: a graph prepared for one target: optimised, cut into kernels, equal ones one task."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ansorc.codegen.base import backend_of
from ansorc.graph.fusion_group import FusionGroup
from ansorc.graph.graph import Graph
from ansorc.graph.narrow_storage import narrow_storage
from ansorc.graph.partition import GraphPartition, partition
from ansorc.graph.passes.pipeline import optimize_graph
from ansorc.graph.precision import PRECISIONS
from ansorc.graph.verify import verify_partition
from ansorc.ir import notebook
from ansorc.ir.dump import DumpFolder, dump_folder
from ansorc.lang.dag import ComputeDAG
from ansorc.search.task import Task
from ansorc.target import Target

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Network:
    """A network as weighted tasks (paper §6) for `target`."""

    source: Graph
    """As it was imported: what the outputs are checked against; see `without_source`."""
    graph: Graph
    """After the rewrites."""
    partition: GraphPartition
    target: Target
    output_names: tuple[str, ...]
    """As the source has them; rewrites may give them others."""
    dump: DumpFolder | None = None
    """The folder of `ANSORC_DUMP` for what is built of it."""

    @staticmethod
    def of(graph: Graph, target: Target | str = "native") -> Network:
        """Prepare `graph` for `target`; nothing is measured or compiled."""
        machine = Target.parse(target) if isinstance(target, str) else target
        dump = dump_folder(graph.name)
        if dump is not None:
            dump.write("imported", graph.to_text())
        rewritten = optimize_graph(graph, dump=dump)
        rewritten, cut = narrow_storage(rewritten, partition(rewritten), machine)
        verify_partition(rewritten, cut)
        if dump is not None:
            dump.write("kernels", "\n".join(group.line for group in cut.groups))
        _LOG.info(
            "%s for %s: %d nodes, %d after the rewrites, %d kernels",
            graph.name, machine.text, len(graph.nodes), len(rewritten.nodes), len(cut.groups),
        )  # fmt: skip
        return Network(graph, rewritten, cut, machine, graph.outputs, dump)

    def __str__(self) -> str:
        tasks = [
            f"{self.weights[key]:4d} x {task.name}, {task.dag.flops:.4g} FLOP a call"
            for key, task in self.tasks.items()
        ]
        return "\n".join((repr(self), *tasks, str(self.graph)))

    def __repr__(self) -> str:
        kernels = f"{len(self.task_of)} kernels, {len(self.tasks)} of them different"
        return f"<Network {self.source.name} for {self.target.text}: {kernels}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the graph after the rewrites, and its different kernels."""
        rows = [(task.name, f"{task.dag.flops:.4g} FLOP a call") for task in self.tasks.values()]
        lines = [(line, "") for line in self.graph.to_text().splitlines()]
        title = f"{self.graph.name} for {self.target.text}: {len(rows)} tasks"
        return notebook.frame(title, notebook.table(rows), notebook.code(lines))

    def without_source(self) -> Network:
        """Return the network for building alone: its source is what it was rewritten to.

        The weights of the graph that was imported are then no longer held.
        """
        return replace(self, source=self.graph)

    @property
    def precision(self) -> str:
        """Return the types that weights and tensors between kernels are kept in, as a plan does."""
        outside = {*self.graph.inputs, *map(self.partition.root, self.graph.outputs)}
        names = {n for g in self.partition.groups for n in (*g.inputs, *g.outputs)}
        inside = {root for root in map(self.partition.root, names) if root not in outside}
        kinds = {self.graph.types[name].dtype.name for name in inside}
        kept = {"int8": "int8", **PRECISIONS}
        narrow = [name for name, kind in kept.items() if kind in kinds]
        return "+".join(narrow) or "f32"

    @property
    def arena_alignment(self) -> int:
        """The alignment of intermediate tensors, in bytes."""
        return backend_of(self.target).capabilities(self.target).alignment

    @cached_property
    def task_of(self) -> tuple[tuple[FusionGroup, Task], ...]:
        """Each kernel with its task, in the order in which they run; equal ones share a task."""
        known: dict[str, Task] = {}
        pairs: list[tuple[FusionGroup, Task]] = []
        for group in self.partition.groups:
            task = Task(group.dag(self.graph), self.target, group.name)
            same = known.setdefault(task.key, task)
            if not _checks_alike(same, task):
                task = Task(_set_apart(task.dag), self.target, group.name)
                same = known.setdefault(task.key, task)
            pairs.append((group, same))
        return tuple(pairs)

    @cached_property
    def tasks(self) -> Mapping[str, Task]:
        """The different tasks by their keys, in the order in which they first run."""
        return {task.key: task for _, task in self.task_of}

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """How often each task runs in one call of the network, by its key."""
        return Counter(task.key for _, task in self.task_of)


def _checks_alike(first: Task, second: Task) -> bool:
    """Return whether two tasks of the same key refuse the same data."""
    if first.dag.plain is first.dag and second.dag.plain is second.dag:
        return True
    return first.dag.canonical == second.dag.canonical


def _set_apart(dag: ComputeDAG) -> ComputeDAG:
    """Return `dag` with another key, by a hint that says what its checks are."""
    checks = hashlib.sha256(dag.canonical.to_text().encode()).hexdigest()[:16]
    first, *rest = dag.ops
    marked = replace(first, hints=(*first.hints, ("ansorc.checks", checks)))
    return ComputeDAG.of_ops(dag.params, (marked, *rest))


def weights_of(networks: Sequence[Network]) -> Mapping[str, int]:
    """Return how often each task runs in one call of each of `networks`, by its key."""
    return sum((Counter(network.weights) for network in networks), Counter[str]())
