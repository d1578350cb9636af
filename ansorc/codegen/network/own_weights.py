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
    derived = {n: plan.derived.weights[n] for n in _used_offsets(plan, PlaceKind.DERIVED)}
    sources = {one.source for one in derived.values()}
    stored = list(dict.fromkeys([*_used_offsets(plan, PlaceKind.WEIGHTS), *sorted(sources)]))
    if len(stored) == len(plan.weights.offsets) and len(derived) == len(plan.derived.weights):
        return replace(plan, weights_owner="")
    block = WeightBlock([plan.weights.at(offset) for offset in stored])
    new = dict(zip(stored, block.offsets, strict=True))
    made = DerivedBlock([replace(one, source=new[one.source]) for one in derived.values()])
    places = {
        PlaceKind.WEIGHTS: new,
        PlaceKind.DERIVED: dict(zip(derived, made.weights, strict=True)),
    }

    def move(place: BufferSlot) -> BufferSlot:
        known = places.get(place.kind)
        return replace(place, offset=known[place.offset]) if known else place

    return replace(_with_places(plan, move), weights=block, derived=made, weights_owner="")


def _with_bound_stored(plan: NetworkPlan) -> NetworkPlan:
    if not plan.bound:
        return plan
    known = [plan.weights.at(offset) for offset in plan.weights.offsets]
    block = WeightBlock([*known, *(Weight(one.array) for one in plan.bound)])
    starts = block.offsets[len(known) :]

    def move(place: BufferSlot) -> BufferSlot:
        is_bound = place.kind is PlaceKind.BOUND
        return BufferSlot(PlaceKind.WEIGHTS, starts[place.offset]) if is_bound else place

    return replace(_with_places(plan, move), weights=block, bound=())


def with_all_packed(plan: NetworkPlan) -> NetworkPlan:
    """Return `plan` with all weights stored as its kernels read them, none made at load."""
    if not plan.derived.weights:
        return plan
    read = _used_offsets(plan, PlaceKind.WEIGHTS)
    packed = [_pack(plan, one) for one in plan.derived.weights.values()]
    block = WeightBlock([*(plan.weights.at(offset) for offset in read), *packed])
    stored = dict(zip(read, block.offsets, strict=False))
    made = dict(zip(plan.derived.weights, block.offsets[len(read) :], strict=True))

    def move(place: BufferSlot) -> BufferSlot:
        if place.kind is PlaceKind.DERIVED:
            return BufferSlot(PlaceKind.WEIGHTS, made[place.offset])
        if place.kind is PlaceKind.WEIGHTS:
            return replace(place, offset=stored[place.offset])
        return place

    return replace(_with_places(plan, move), weights=block, derived=DerivedBlock())


def _pack(plan: NetworkPlan, one: DerivedWeight) -> Weight:
    source, kind = plan.weights.at(one.source).source, one.packing.source.dtype.numpy
    return Weight(source if source.dtype == kind else source.view(kind), one.packing)


def _used_offsets(plan: NetworkPlan, kind: PlaceKind) -> list[int]:
    """The offsets of the places of a kind that calls have, each once."""
    places = [place for call in plan.calls for place in call.arguments]
    return list(dict.fromkeys(place.offset for place in places if place.kind is kind))


def _with_places(plan: NetworkPlan, moved: Callable[[BufferSlot], BufferSlot]) -> NetworkPlan:
    calls = [replace(call, arguments=tuple(map(moved, call.arguments))) for call in plan.calls]
    return replace(plan, calls=tuple(calls))
