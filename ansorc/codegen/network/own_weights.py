"""Plans with other weights: those of one network of several, or none that are made at load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ansorc.codegen.network.derived import DerivedBlock, DerivedWeight
from ansorc.codegen.network.plan import BufferSlot, NetworkPlan, PlaceKind
from ansorc.codegen.network.weights import Weight, WeightBlock


def with_own_weights(plan: NetworkPlan) -> NetworkPlan:
    """Return `plan` without the weights that only other networks read, if there are any.

    Those that lie elsewhere in the process are then among its own.
    """
    plan = _with_bound_stored(plan)
    derived = {n: plan.derived.weights[n] for n in _list_offsets(plan, PlaceKind.DERIVED)}
    sources = {weight.source for weight in derived.values()}
    stored = list(dict.fromkeys([*_list_offsets(plan, PlaceKind.WEIGHTS), *sorted(sources)]))
    if len(stored) == len(plan.weights.offsets) and len(derived) == len(plan.derived.weights):
        return replace(plan, weights_owner="")
    block = WeightBlock([plan.weights.at(offset) for offset in stored])
    new = dict(zip(stored, block.offsets, strict=True))
    made = DerivedBlock([replace(weight, source=new[weight.source]) for weight in derived.values()])
    places = {
        PlaceKind.WEIGHTS: new,
        PlaceKind.DERIVED: dict(zip(derived, made.weights, strict=True)),
    }

    def move(slot: BufferSlot) -> BufferSlot:
        known = places.get(slot.kind)
        return replace(slot, offset=known[slot.offset]) if known else slot

    return replace(_with_places(plan, move), weights=block, derived=made, weights_owner="")


def _with_bound_stored(plan: NetworkPlan) -> NetworkPlan:
    if not plan.bound:
        return plan
    known = [plan.weights.at(offset) for offset in plan.weights.offsets]
    block = WeightBlock([*known, *(Weight(weight.array) for weight in plan.bound)])
    starts = block.offsets[len(known) :]

    def move(slot: BufferSlot) -> BufferSlot:
        is_bound = slot.kind is PlaceKind.BOUND
        return BufferSlot(PlaceKind.WEIGHTS, starts[slot.offset]) if is_bound else slot

    return replace(_with_places(plan, move), weights=block, bound=())


def with_all_packed(plan: NetworkPlan) -> NetworkPlan:
    """Return `plan` with all weights stored as its kernels read them, none made at load."""
    if not plan.derived.weights:
        return plan
    read = _list_offsets(plan, PlaceKind.WEIGHTS)
    packed = [_pack(plan, weight) for weight in plan.derived.weights.values()]
    block = WeightBlock([*(plan.weights.at(offset) for offset in read), *packed])
    stored = dict(zip(read, block.offsets, strict=False))
    made = dict(zip(plan.derived.weights, block.offsets[len(read) :], strict=True))

    def move(slot: BufferSlot) -> BufferSlot:
        if slot.kind is PlaceKind.DERIVED:
            return BufferSlot(PlaceKind.WEIGHTS, made[slot.offset])
        if slot.kind is PlaceKind.WEIGHTS:
            return replace(slot, offset=stored[slot.offset])
        return slot

    return replace(_with_places(plan, move), weights=block, derived=DerivedBlock())


def _pack(plan: NetworkPlan, weight: DerivedWeight) -> Weight:
    source, kind = plan.weights.at(weight.source).source, weight.packing.source.dtype.numpy
    return Weight(source if source.dtype == kind else source.view(kind), weight.packing)


def _list_offsets(plan: NetworkPlan, kind: PlaceKind) -> list[int]:
    """The offsets of the places of a kind that calls have, each once."""
    places = [slot for call in plan.calls for slot in call.arguments]
    return list(dict.fromkeys(slot.offset for slot in places if slot.kind is kind))


def _with_places(plan: NetworkPlan, moved: Callable[[BufferSlot], BufferSlot]) -> NetworkPlan:
    calls = [replace(call, arguments=tuple(map(moved, call.arguments))) for call in plan.calls]
    return replace(plan, calls=tuple(calls))
