"""A network as one CUDA text: the kernels of its plan, and the launches of all its calls.

Inputs, outputs and, last, the weights are the parameters; intermediate tensors and what kernels
keep for themselves are in the workspace. Nothing but launches happens in a call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ansorc.codegen.cuda.emit import CLEARING, clearing
from ansorc.codegen.cuda.launch import KernelArgument, Launch, LaunchPlan
from ansorc.codegen.cuda.prelude import parts_of, prelude
from ansorc.codegen.network.own_weights import with_all_packed, with_own_weights
from ansorc.codegen.network.plan import KernelCall, NetworkPlan, Place, PlaceKind
from ansorc.codegen.package.signature import FAULT_STATUS
from ansorc.errors import BuildError

_KERNEL = re.compile(
    r'extern "C" __global__ void __launch_bounds__\(\d+\) (?P<name>\w+)\((?P<parameters>[^)]*)\)'
)
_FAULT = re.compile(r"(\btell_fault\(\w+, )(\d+)")
_CLEAR = clearing(0)
_MOST_LETTERS = 48


def ready_plan(plan: NetworkPlan) -> NetworkPlan:
    """Return `plan` with its own weights alone, all packed before they are copied to a GPU."""
    return with_all_packed(with_own_weights(plan))


def network_text(plan: NetworkPlan) -> str:
    """Return the CUDA C of `plan`; its first line is the launch plan.

    Raise BuildError if a kernel of it is no CUDA text.
    """
    bodies: list[str] = []
    launches: dict[int, tuple[Launch, ...]] = {}
    parts: set[str] = set()
    titles = {call.kernel: call.name for call in reversed(plan.calls)}
    for number in sorted(titles):
        kernel = plan.kernels[number]
        text = LaunchPlan.text_of(kernel.code)
        parts |= parts_of(text)
        first = _KERNEL.search(text)
        if first is None:
            raise BuildError(f"{plan.name}: the text of '{titles[number]}' has no kernels")
        own = tuple(x for x in LaunchPlan.of_text(text).launches if x.name != _CLEAR.name)
        names = _names(number, titles[number], own)
        body = text[first.start() :].replace(CLEARING, "").rstrip()
        bodies.append(_renumbered(_renamed(body, names), plan.first_fault(number)))
        launches[number] = tuple(replace(one, name=names[one.name]) for one in own)
    steps = [_placed(plan, call, launches[call.kernel]) for call in plan.calls]
    if plan.faults:
        steps[0] = (clearing(plan.fault_place), *steps[0])
        bodies.append(CLEARING)
    whole = LaunchPlan(
        plan.name,
        tuple(launch for call in steps for launch in call),
        plan.signature.workspace_bytes,
        tuple(map(len, steps)),
        plan.fault_place if plan.faults else 0,
        tuple(FAULT_STATUS[site.kind] for site in plan.faults),
    )
    head = prelude(parts)
    return "\n\n".join([whole.comment(), *([head] if head else []), *bodies]) + "\n"


def _names(number: int, title: str, launches: tuple[Launch, ...]) -> dict[str, str]:
    """What the kernels are called in the network, for profilers: "k7_0_conv1_relu"."""
    words = re.sub(r"\W+", "_", title, flags=re.ASCII).strip("_")[:_MOST_LETTERS]
    unique = dict.fromkeys(launch.name for launch in launches)
    return {name: f"k{number}_{n}_{words}".rstrip("_") for n, name in enumerate(unique)}


def _renamed(body: str, names: Mapping[str, str]) -> str:
    def head(found: re.Match[str]) -> str:
        return found[0].replace(f" {found['name']}(", f" {names[found['name']]}(", 1)

    return _KERNEL.sub(head, body)


def _renumbered(body: str, before: int) -> str:
    """Return a text whose checks are counted on from those `before`."""
    return _FAULT.sub(lambda found: f"{found[1]}{int(found[2]) + before}", body)


def _placed(
    plan: NetworkPlan, call: KernelCall, launches: tuple[Launch, ...]
) -> tuple[Launch, ...]:
    """The launches of one call, on the arrays of the network."""
    has_faults = bool(plan.kernels[call.kernel].signature.faults)

    def moved(argument: KernelArgument) -> KernelArgument:
        if argument.kind == "workspace" and has_faults and argument.place == 0:
            return replace(argument, place=plan.fault_place)
        if argument.kind == "workspace":
            return replace(argument, place=plan.kernel_workspace + argument.place)
        return _argument(plan, call.arguments[argument.place])

    return tuple(
        replace(launch, arguments=tuple(map(moved, launch.arguments))) for launch in launches
    )


def _argument(plan: NetworkPlan, place: Place) -> KernelArgument:
    match place.kind:
        case PlaceKind.INPUT:
            return KernelArgument("parameter", place.offset)
        case PlaceKind.OUTPUT:
            return KernelArgument("parameter", len(plan.inputs) + place.offset)
        case PlaceKind.ARENA:
            return KernelArgument("workspace", place.offset)
        case PlaceKind.WEIGHTS:
            last = len(plan.inputs) + len(plan.outputs)
            return KernelArgument("parameter", last, place.offset)
        case PlaceKind.DERIVED | PlaceKind.BOUND:
            raise BuildError(f"{plan.name}: {place.kind.value} are not for a GPU")
