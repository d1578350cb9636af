"""Refuse a plan whose calls would read or write outside their memory."""

from __future__ import annotations

from ansorc.codegen.network.plan import BufferSlot, KernelCall, NetworkPlan, PlaceKind
from ansorc.codegen.package.c_names import require_c_name
from ansorc.codegen.package.signature import Param
from ansorc.errors import BuildError
from ansorc.ir.aligned import ALIGNMENT


def require_valid(plan: NetworkPlan) -> None:
    """Raise BuildError, naming call and argument, unless every array has a place that fits it.

    The name is one of C; each argument lies inside what it is a part of, in the arena and the
    weights at a multiple of 64 bytes; what a call writes is neither input nor weight, and overlaps
    no other argument of the call; every output is written, and not read before.
    """
    require_c_name(plan.name)
    if plan.arena_bytes < 0:
        raise BuildError(f"{plan.name}: arena_bytes is {plan.arena_bytes}, but must be at least 0")
    for offset, weight in plan.derived.weights.items():
        end = weight.source + weight.packing.source.bytes
        if weight.source % ALIGNMENT or not 0 <= weight.source < end <= plan.weights.nbytes:
            span = f"the bytes {weight.source} to {end} of the weights, which has"
            words = f"the derived weight at {offset} is made of {span} {plan.weights.nbytes}"
            raise BuildError(f"{plan.name}: {words}")
        if weight.packer.signature.workspace_bytes or weight.packer.signature.parallel:
            raise BuildError(f"{plan.name}: what packs at load must need no workspace, no threads")
    written: set[int] = set()
    for number, call in enumerate(plan.calls):
        _require_call(plan, _CheckedCall(plan, number, call), call)
        places = list(zip(_params(plan, call), call.arguments, strict=True))
        outputs = [(param, slot) for param, slot in places if slot.kind is PlaceKind.OUTPUT]
        for param, slot in outputs:
            if not param.is_output and slot.offset not in written:
                name = plan.outputs[slot.offset].name
                words = f"reads the output '{name}', which no call before has written"
                raise _CheckedCall(plan, number, call).refuse(param, words)
        written |= {slot.offset for param, slot in outputs if param.is_output}
    missing = [param.name for n, param in enumerate(plan.outputs) if n not in written]
    if missing:
        raise BuildError(f"{plan.name}: no call writes the output '{missing[0]}'")


class _CheckedCall:
    """Which call is being checked, for the messages."""

    def __init__(self, plan: NetworkPlan, number: int, call: KernelCall) -> None:
        self._words = f"{plan.name}: call {number} '{call.name}'"

    def refuse(self, param: Param | None, reason: str) -> BuildError:
        where = "" if param is None else f", argument '{param.name}'"
        return BuildError(f"{self._words}{where}: it {reason}")


def _params(plan: NetworkPlan, call: KernelCall) -> tuple[Param, ...]:
    return plan.kernels[call.kernel].signature.params


def _require_call(plan: NetworkPlan, spot: _CheckedCall, call: KernelCall) -> None:
    if not 0 <= call.kernel < len(plan.kernels):
        raise spot.refuse(None, f"calls kernel {call.kernel}, but there are {len(plan.kernels)}")
    params = _params(plan, call)
    if len(params) != len(call.arguments):
        count = f"has {len(call.arguments)} arguments, but its kernel takes {len(params)}"
        raise spot.refuse(None, count)
    if call.threads < 0:
        raise spot.refuse(None, f"may use {call.threads} threads, but it must be 0 (all) or more")
    for param, slot in zip(params, call.arguments, strict=True):
        _require_inside(plan, spot, param, slot)
    _require_no_overlap(spot, list(zip(params, call.arguments, strict=True)))


def _require_inside(plan: NetworkPlan, spot: _CheckedCall, param: Param, slot: BufferSlot) -> None:
    offset = slot.offset
    match slot.kind:
        case PlaceKind.INPUT | PlaceKind.OUTPUT as kind:
            params = plan.inputs if kind is PlaceKind.INPUT else plan.outputs
            if not 0 <= offset < len(params):
                raise spot.refuse(param, f"is {kind.value} {offset}, but there are {len(params)}")
            if params[offset].bytes != param.bytes:
                sizes = f"{params[offset].bytes} bytes, but the kernel takes {param.bytes}"
                raise spot.refuse(param, f"is the {kind.value} '{params[offset].name}' of {sizes}")
        case PlaceKind.BOUND:
            if not 0 <= offset < len(plan.bound):
                raise spot.refuse(param, f"is bound weight {offset} of {len(plan.bound)}")
            array = plan.bound[offset].array
            if array.nbytes != param.bytes or array.ctypes.data % ALIGNMENT:
                words = f"is a bound weight of {array.nbytes} bytes at {array.ctypes.data}"
                raise spot.refuse(param, f"{words}, but takes {param.bytes} at a multiple of 64")
        case PlaceKind.ARENA | PlaceKind.WEIGHTS | PlaceKind.DERIVED as kind:
            size = {
                PlaceKind.ARENA: plan.arena_bytes,
                PlaceKind.WEIGHTS: plan.weights.nbytes,
                PlaceKind.DERIVED: plan.derived.nbytes,
            }[kind]
            if offset % ALIGNMENT:
                words = f"lies at byte {offset} of the {kind.value}, which is no multiple of 64"
                raise spot.refuse(param, words)
            if offset < 0 or offset + param.bytes > size:
                span = f"takes the bytes {offset} to {offset + param.bytes} of the {kind.value}"
                raise spot.refuse(param, f"{span}, which has {size}")
    if param.is_output and slot.kind not in (PlaceKind.OUTPUT, PlaceKind.ARENA):
        what = "an input" if slot.kind is PlaceKind.INPUT else "the weights"
        raise spot.refuse(param, f"is written, but lies in {what}")


def _require_no_overlap(spot: _CheckedCall, places: list[tuple[Param, BufferSlot]]) -> None:
    """Refuse a written argument that shares a byte with another: the kernel has its own order."""
    for number, (param, slot) in enumerate(places):
        for other, elsewhere in places[:number]:
            if (param.is_output or other.is_output) and _overlap(param, slot, other, elsewhere):
                raise spot.refuse(param, f"overlaps '{other.name}', and one of them is written")


def _overlap(param: Param, slot: BufferSlot, other: Param, elsewhere: BufferSlot) -> bool:
    if slot.kind is not elsewhere.kind:
        return False
    if slot.kind in (PlaceKind.INPUT, PlaceKind.OUTPUT):
        return slot.offset == elsewhere.offset
    ends = slot.offset + param.bytes, elsewhere.offset + other.bytes
    return slot.offset < ends[1] and elsewhere.offset < ends[0]
