"""From a network and a program for each of its tasks to the plan that a back end builds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ansorc.codegen.build import compile_function
from ansorc.codegen.compiled import Compiled
from ansorc.codegen.network.plan import (
    KernelCall,
    NetworkPlan,
    Place,
    PlaceKind,
    joined_weights,
)
from ansorc.codegen.package.signature import Param
from ansorc.graph.arena import place_in_arena
from ansorc.graph.fusion_group import FusionGroup
from ansorc.graph.network import Network
from ansorc.graph.partition import lifetimes
from ansorc.ir.aligned import Array
from ansorc.schedule import lower, packings, replay
from ansorc.search.programs import Program
from ansorc.search.task import Task


def compiled_program(task: Task, program: Program, name: str) -> Compiled:
    """Return the kernel of `program`, called `name`, without packers; raise BuildError."""
    state = replay(task.dag, program.steps)
    return compile_function(
        lower(state, name), task.target, flops=task.dag.flops, packings=packings(state), packs=False
    )


def network_plan(network: Network, kernels: Mapping[str, Compiled], name: str) -> NetworkPlan:
    """Return the plan of `network` as the C function `name`, its kernels given by task keys."""
    return network_plans({name: network}, kernels)[0]


def network_plans(
    networks: Mapping[str, Network], kernels: Mapping[str, Compiled]
) -> list[NetworkPlan]:
    """Return the plans of networks by their names in C, their kernels given by task keys.

    They have their weights in one block, in which those that are equal and packed alike lie once.
    """
    plannings = {
        name: _Planning(network, {key: kernels[key] for key in network.tasks})
        for name, network in networks.items()
    }
    placed = [planning.placed() for planning in plannings.values()]
    arrays = [one for places in placed for one in places if not isinstance(one, Place)]
    weights, offsets = joined_weights(arrays if len(networks) == 1 else _merged_equal(arrays))
    rest = iter(offsets)
    plans: list[NetworkPlan] = []
    for (name, planning), places in zip(plannings.items(), placed, strict=True):
        known = [
            p if isinstance(p, Place) else Place(PlaceKind.WEIGHTS, next(rest)) for p in places
        ]
        plans.append(planning.plan(name, known, weights))
    if len(plans) > 1:
        return [replace(plan, weights_owner=plans[0].name) for plan in plans]
    return plans


def _merged_equal(arrays: Sequence[Array]) -> list[Array]:
    """Return `arrays`, each replaced by the first one that has the same elements and shape."""
    digests: dict[int, object] = {}
    first: dict[object, Array] = {}
    for array in arrays:
        if id(array) not in digests:
            content = hashlib.sha256(np.ascontiguousarray(array).view(np.uint8).data).digest()
            digests[id(array)] = (array.dtype.name, array.shape, content)
            first.setdefault(digests[id(array)], array)
    return [first[digests[id(array)]] for array in arrays]


class _Planning:
    """The plan of one network in the making."""

    def __init__(self, network: Network, kernels: Mapping[str, Compiled]) -> None:
        self._network, self._kernels = network, kernels
        self._numbers = {key: number for number, key in enumerate(kernels)}
        graph, partition = network.graph, network.partition
        lives = lifetimes(graph, partition)
        self._offsets, self._arena_bytes = place_in_arena(lives)
        self._inputs = {name: place for place, name in enumerate(graph.inputs)}
        roots = map(partition.root, graph.outputs)
        self._outputs = {name: place for place, name in enumerate(roots)}
        self._packed: dict[tuple[str, object], Array] = {}

    def placed(self) -> list[Place | Array]:
        """Return where the arguments of all calls lie; a weight itself, packed, where it is one."""
        return [
            place
            for group, task in self._network.task_of
            for place in self._arguments(group, self._kernels[task.key])
        ]

    def plan(self, name: str, places: Sequence[Place], weights: Array) -> NetworkPlan:
        """Return the plan, where `places` has those of all arguments of all calls."""
        graph, rest, calls = self._network.graph, iter(places), list[KernelCall]()
        for group, task in self._network.task_of:
            count = len(group.inputs) + len(group.outputs)
            arguments = tuple(next(rest) for _ in range(count))
            calls.append(KernelCall(self._numbers[task.key], arguments, group.title))
        titles = zip(graph.outputs, self._network.source.outputs, strict=True)
        return NetworkPlan(
            name,
            tuple(Param(n, kind.shape, kind.dtype, False) for n, kind in graph.inputs.items()),
            tuple(self._output(name, title) for name, title in titles),
            tuple(self._kernels.values()),
            tuple(calls),
            self._arena_bytes,
            weights,
        )

    def _output(self, name: str, title: str) -> Param:
        kind = self._network.graph.types[name]
        return Param(title, kind.shape, kind.dtype, is_output=True)

    def _arguments(self, group: FusionGroup, kernel: Compiled) -> list[Place | Array]:
        names = (*group.inputs, *group.outputs)
        pairs = zip(names, kernel.signature.params, strict=True)
        return [self._argument(name, param) for name, param in pairs]

    def _argument(self, name: str, param: Param) -> Place | Array:
        root = self._network.partition.root(name)
        if root in self._outputs:
            return Place(PlaceKind.OUTPUT, self._outputs[root])
        if root in self._inputs:
            return Place(PlaceKind.INPUT, self._inputs[root])
        if root in self._offsets:
            return Place(PlaceKind.ARENA, self._offsets[root])
        return self._weight(root, param)

    def _weight(self, name: str, param: Param) -> Array:
        """The constant `name` as a kernel reads it; one array for all that read it so."""
        packing = None
        if param.packing is not None:
            packing = replace(param.packing, source=replace(param.packing.source, name=""))
        key = name, packing
        if key not in self._packed:
            shaped = np.ascontiguousarray(self._network.graph.constants[name])
            array = shaped.reshape(param.source_shape)
            self._packed[key] = array if param.packing is None else param.packing.apply(array)
        return self._packed[key]
