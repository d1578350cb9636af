"""From a network and a program for each of its tasks to the plan that a back end builds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ansorc.codegen.build import compile_function
from ansorc.codegen.network.derived import DerivedBlock
from ansorc.codegen.network.plan import (
    BoundWeight,
    BufferSlot,
    KernelCall,
    NetworkPlan,
    PlaceKind,
)
from ansorc.codegen.network.weights import Weight, WeightBlock
from ansorc.codegen.package.signature import Param
from ansorc.codegen.program.compiled import Compiled
from ansorc.graph.arena import place_in_arena
from ansorc.graph.fusion_group import FusionGroup
from ansorc.graph.network import Network
from ansorc.graph.partition import lifetimes
from ansorc.graph.weight_placement import PlacedWeights, merge_equal, place_weights
from ansorc.ir.dump import DumpFolder
from ansorc.schedule import lower, packings, replay
from ansorc.schedule.dump import write_schedule
from ansorc.search.programs import ChosenSchedule
from ansorc.search.task import Task

_LOG = logging.getLogger(__name__)


def compile_kernel(
    task: Task, program: ChosenSchedule, name: str, dump: DumpFolder | None = None
) -> Compiled:
    """Return the kernel of `program`, called `name`, without packers; raise BuildError.

    All stages are written to a folder in `dump`.
    """
    state = replay(task.dag, program.steps)
    folder = dump and dump.folder(f"{name}_{task.name}")
    if folder is not None:
        write_schedule(folder, state)
    _LOG.debug("building %s, %s: %s", name, task.name, program.origin)
    function = replace(lower(state, name), checks_indices=program.check_indices)
    built = compile_function(
        function, task.target, flops=task.dag.flops, packings=packings(state),
        is_part=True, dump=folder,
    )  # fmt: skip
    return replace(built, signature=replace(built.signature, records=program.records))


def plan_networks(
    networks: Mapping[str, Network], kernels: Mapping[str, Compiled]
) -> list[NetworkPlan]:
    """Return the plans of networks by their names in C, their kernels given by task keys.

    They have their weights in one block, in which those that are equal and packed alike lie once.
    """
    plannings = {
        name: _Planning(network, {key: kernels[key] for key in network.tasks})
        for name, network in networks.items()
    }
    placed = [planning.place_arguments() for planning in plannings.values()]
    weights = [argument for places in placed for argument in places if isinstance(argument, Weight)]
    if len(networks) > 1:
        weights = merge_equal(weights)
    first = next(iter(networks.values()))
    stored = place_weights(weights, first.target, first.dump)
    rest = iter(weights)
    plans = [
        planning.plan(
            name,
            [p if isinstance(p, BufferSlot) else stored.place(next(rest)) for p in places],
            stored,
        )
        for (name, planning), places in zip(plannings.items(), placed, strict=True)
    ]
    if len(plans) > 1:
        return [replace(plan, weights_owner=plans[0].name) for plan in plans]
    return plans


def plan_bound_network(
    network: Network,
    kernels: Mapping[str, Compiled],
    name: str,
    bind: Callable[[Sequence[Weight]], Sequence[BoundWeight]],
) -> NetworkPlan:
    """Return the plan of `network` whose weights lie where `bind` puts them in this process."""
    planning = _Planning(network, {key: kernels[key] for key in network.tasks})
    placed = planning.place_arguments()
    weights = [argument for argument in placed if isinstance(argument, Weight)]
    bound = bind(weights)
    numbers = {id(w): n for n, w in enumerate({id(w): w for w in bound}.values())}
    rest = iter(bound)
    places = [
        argument
        if isinstance(argument, BufferSlot)
        else BufferSlot(PlaceKind.BOUND, numbers[id(next(rest))])
        for argument in placed
    ]
    plan = planning.plan(name, places, PlacedWeights(WeightBlock(), DerivedBlock(), {}))
    return replace(plan, bound=tuple({id(weight): weight for weight in bound}.values()))


class _Planning:
    """The plan of one network in the making."""

    def __init__(self, network: Network, kernels: Mapping[str, Compiled]) -> None:
        self._network, self._kernels = network, kernels
        self._numbers = {key: number for number, key in enumerate(kernels)}
        graph, partition = network.graph, network.partition
        lives = lifetimes(graph, partition)
        self._offsets, self._arena_bytes = place_in_arena(lives, network.arena_alignment)
        self._inputs = {name: index for index, name in enumerate(graph.inputs)}
        roots = map(partition.root, graph.outputs)
        self._outputs = {name: index for index, name in enumerate(roots)}
        self._weights: dict[tuple[str, object], Weight] = {}

    def place_arguments(self) -> list[BufferSlot | Weight]:
        """Return the places of the arguments of all calls; in place of weights, the weights."""
        return [
            argument
            for group, task in self._network.task_of
            for argument in self._arguments(group, self._kernels[task.key])
        ]

    def plan(self, name: str, places: Sequence[BufferSlot], weights: PlacedWeights) -> NetworkPlan:
        """Return the plan, where `places` has those of all arguments of all calls."""
        graph, rest, calls = self._network.graph, iter(places), list[KernelCall]()
        for group, task in self._network.task_of:
            count = len(group.inputs) + len(group.outputs)
            arguments = tuple(next(rest) for _ in range(count))
            calls.append(KernelCall(self._numbers[task.key], arguments, group.title))
        titles = zip(graph.outputs, self._network.output_names, strict=True)
        return NetworkPlan(
            name,
            tuple(Param(n, kind.shape, kind.dtype, False) for n, kind in graph.inputs.items()),
            tuple(self._output(name, title) for name, title in titles),
            tuple(self._kernels.values()),
            tuple(calls),
            self._arena_bytes,
            weights.stored,
            weights.derived,
            precision=self._network.precision,
        )

    def _output(self, name: str, title: str) -> Param:
        kind = self._network.graph.types[name]
        return Param(title, kind.shape, kind.dtype, is_output=True)

    def _arguments(self, group: FusionGroup, kernel: Compiled) -> list[BufferSlot | Weight]:
        names = (*group.inputs, *group.outputs)
        pairs = zip(names, kernel.signature.params, strict=True)
        return [self._argument(name, param) for name, param in pairs]

    def _argument(self, name: str, param: Param) -> BufferSlot | Weight:
        root = self._network.partition.root(name)
        if root in self._outputs:
            return BufferSlot(PlaceKind.OUTPUT, self._outputs[root])
        if root in self._inputs:
            return BufferSlot(PlaceKind.INPUT, self._inputs[root])
        if root in self._offsets:
            return BufferSlot(PlaceKind.ARENA, self._offsets[root])
        return self._weight(root, param)

    def _weight(self, name: str, param: Param) -> Weight:
        """Return the constant `name` as a kernel reads it; one object for all that read it so."""
        packing = None
        if param.packing is not None:
            packing = replace(param.packing, source=replace(param.packing.source, name=""))
        if (name, packing) not in self._weights:
            source = self._network.graph.constants[name]
            self._weights[name, packing] = Weight(source, packing)
        return self._weights[name, packing]
