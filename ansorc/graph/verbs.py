"""`ac.build`: the same verb for operators and networks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import overload

from ansorc.codegen.call.module import Module
from ansorc.codegen.call.network_module import NetworkModule
from ansorc.codegen.call.network_variants import NetworkVariants
from ansorc.graph.graph import Graph
from ansorc.graph.graph_variants import GraphVariants
from ansorc.graph.network import Network
from ansorc.graph.network_build import built_network, built_variants, chosen_programs
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import State
from ansorc.search.programs import ProgramChoice, build_program, chosen_program
from ansorc.search.programs import build as build_operator
from ansorc.search.task import Task
from ansorc.target import Target

RecordFile = str | os.PathLike[str]


@overload
def build(
    program: State | ComputeDAG | Task,
    target: Target | str | None = None,
    name: str = "",
    *,
    records: RecordFile | None = None,
) -> Module: ...
@overload
def build(
    program: Graph,
    target: Target | str | None = None,
    name: str = "",
    *,
    records: RecordFile | None = None,
) -> NetworkModule: ...
@overload
def build(
    program: GraphVariants,
    target: Target | str | None = None,
    name: str = "",
    *,
    records: RecordFile | None = None,
) -> NetworkVariants: ...
def build(
    program: State | ComputeDAG | Task | Graph | GraphVariants,
    target: Target | str | None = None,
    name: str = "",
    *,
    records: RecordFile | None = None,
) -> Module | NetworkModule | NetworkVariants:
    """Return `program` compiled as the C function `name`, an operator or a whole network.

    Variants of a network become one module that picks the program of a call by its shapes.

    Without `records` a ComputeDAG, a Task and the tasks of a network get the untuned default
    schedule, else the best program in that file; tasks of a network that have none there keep the
    default. `target` is the task's, else "native", unless given. Raise TargetError or BuildError
    for what cannot be built, RecordError where the file has nothing for it.
    """
    choice = ProgramChoice(Path(records or "tune.db"), use_default=records is None)
    if isinstance(program, GraphVariants):
        machine = "native" if target is None else target
        return built_variants(program, machine, lambda net: chosen_programs(net, choice), name)
    if isinstance(program, Graph):
        network = Network.of(program, "native" if target is None else target)
        return built_network(network, chosen_programs(network, choice), name)
    if records is None or isinstance(program, State):
        return build_operator(program, target, name)
    own = program.target if isinstance(program, Task) else "native"
    title = program.name if isinstance(program, Task) else "kernel"
    dag = program.dag if isinstance(program, Task) else program
    task = Task(dag, own if target is None else target, name or title)
    return build_program(task, chosen_program(task, choice))
