"""A network as one program: the kernels of its plan, and the launches of all its calls.

Inputs, outputs and, last, the weights are the parameters; intermediate tensors and what kernels
keep for themselves are in the workspace. Nothing but launches happens in a call.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ansorc.codegen.cuda.emit import CLEAR_FAULTS, clearing
from ansorc.codegen.network.own_weights import with_all_packed, with_own_weights
from ansorc.codegen.network.plan import BufferSlot, KernelCall, NetworkPlan, PlaceKind
from ansorc.codegen.package.signature import FAULT_STATUS
from ansorc.codegen.program.device_program import DeviceProgram, KernelText
from ansorc.codegen.program.launch_plan import KernelArgument, Launch, LaunchPlan
from ansorc.errors import BuildError

_MOST_LETTERS = 48


def ready_plan(plan: NetworkPlan) -> NetworkPlan:
    """Return `plan` with its own weights alone, all packed before they are copied to a GPU."""
    return with_all_packed(with_own_weights(plan))


def network_program(plan: NetworkPlan) -> DeviceProgram:
    """Return the kernels of `plan`, each once, and the launches of all its calls.

    Raise BuildError if a kernel of it is not for a GPU.
    """
    kernels: list[KernelText] = []
    launches: dict[int, tuple[Launch, ...]] = {}
    titles = {call.kernel: call.name for call in reversed(plan.calls)}
    for number in sorted(titles):
        program = plan.kernels[number].code.device_program
        names = _names(number, titles[number], program)
        checks = plan.first_fault(number)
        kernels += [
            kernel.rename(names[kernel.name], checks)
            for kernel in program.kernels
            if kernel != CLEAR_FAULTS
        ]
        launches[number] = tuple(
            replace(launch, name=names[launch.name])
            for launch in program.plan.launches
            if launch.name != CLEAR_FAULTS.name
        )
    steps = [_place_launches(plan, call, launches[call.kernel]) for call in plan.calls]
    if plan.faults:
        steps[0] = (clearing(plan.fault_place), *steps[0])
        kernels.append(CLEAR_FAULTS)
    whole = LaunchPlan(
        plan.name,
        tuple(launch for call in steps for launch in call),
        plan.signature.workspace_bytes,
        tuple(map(len, steps)),
        plan.fault_place if plan.faults else 0,
        tuple(FAULT_STATUS[site.kind] for site in plan.faults),
    )
    return DeviceProgram(tuple(kernels), whole)


def _names(number: int, title: str, program: DeviceProgram) -> dict[str, str]:
    """Return what the kernels are called in the network, for profilers: "k7_0_conv1_relu"."""
    words = re.sub(r"\W+", "_", title, flags=re.ASCII).strip("_")[:_MOST_LETTERS]
    return {
        kernel.name: f"k{number}_{n}_{words}".rstrip("_")
        for n, kernel in enumerate(program.kernels)
    }


def _place_launches(
    plan: NetworkPlan, call: KernelCall, launches: tuple[Launch, ...]
) -> tuple[Launch, ...]:
    """The launches of one call, on the arrays of the network."""
    has_faults = bool(plan.kernels[call.kernel].signature.faults)

    def move(argument: KernelArgument) -> KernelArgument:
        if argument.kind == "workspace" and has_faults and argument.place == 0:
            return replace(argument, place=plan.fault_place)
        if argument.kind == "workspace":
            return replace(argument, place=plan.kernel_workspace + argument.place)
        return _argument(plan, call.arguments[argument.place])

    return tuple(
        replace(launch, arguments=tuple(map(move, launch.arguments))) for launch in launches
    )


def _argument(plan: NetworkPlan, slot: BufferSlot) -> KernelArgument:
    match slot.kind:
        case PlaceKind.INPUT:
            return KernelArgument("parameter", slot.offset)
        case PlaceKind.OUTPUT:
            return KernelArgument("parameter", len(plan.inputs) + slot.offset)
        case PlaceKind.ARENA:
            return KernelArgument("workspace", slot.offset)
        case PlaceKind.WEIGHTS:
            last = len(plan.inputs) + len(plan.outputs)
            return KernelArgument("parameter", last, slot.offset)
        case PlaceKind.DERIVED | PlaceKind.BOUND:
            raise BuildError(f"{plan.name}: {slot.kind.value} are not for a GPU")
