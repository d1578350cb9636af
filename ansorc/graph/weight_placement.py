"""Which constants of networks are stored packed, and which are packed when the code is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ansorc.codegen.build import compile_function
from ansorc.codegen.network.derived import DerivedBlock, DerivedWeight
from ansorc.codegen.network.plan import BufferSlot, PlaceKind
from ansorc.codegen.network.weights import Weight, WeightBlock, join_weights
from ansorc.codegen.program.compiled import Compiled
from ansorc.ir.aligned import Array
from ansorc.ir.dump import DumpFolder
from ansorc.ir.packing import Packing
from ansorc.target import Target

MOST_GROWTH_BYTES = 1 << 20
"""The most bytes by which stored weights may exceed the constants that they are made of.

Winograd's transforms make a weight 1.8 to 4 times as large. What is beyond this is packed when a
library is loaded, in a few milliseconds, from the constant as it is (docs/decisions/0065).
"""
_Form: TypeAlias = tuple[int, Packing | None]
"""A constant, by its id, and how its elements lie; None where they lie as they came."""


@dataclass(frozen=True)
class PlacedWeights:
    """Blocks of weights, and where in them each weight lies."""

    stored: WeightBlock
    derived: DerivedBlock
    places: Mapping[_Form, BufferSlot]

    def place(self, weight: Weight) -> BufferSlot:
        """Return where `weight` lies."""
        return self.places[_form(weight)]


def place_weights(
    weights: Sequence[Weight], target: Target, dump: DumpFolder | None = None
) -> PlacedWeights:
    """Return where `weights` lie; those that are one source packed alike lie once.

    Constants whose packed forms take most more bytes than they do are stored as they are, so that
    the others grow by MOST_GROWTH_BYTES at most. What packs them is written to folders in `dump`.
    Raise BuildError as a compilation does.
    """
    forms = {_form(weight): weight for weight in weights}
    plain = {id(weight.source): Weight(weight.source) for weight in weights}
    grown = _find_grown(forms)
    stored = [plain[form[0]] if form[0] in grown else packed for form, packed in forms.items()]
    block, offsets = join_weights(stored)
    starts = dict(zip(forms, offsets, strict=True))
    packers: dict[Packing, Compiled] = {}
    derived: dict[_Form, DerivedWeight] = {}
    for form, weight in forms.items():
        packing = weight.packing
        if form[0] not in grown or form[1] is None or packing is None:
            continue
        if packing not in packers:
            packers[packing] = compile_function(
                packing.function("pack"), target, is_part=True, dump=dump and dump.folder("pack")
            )
        derived[form] = DerivedWeight(packing, packers[packing], starts[form])
    made = DerivedBlock(list(derived.values()))
    places = {form: BufferSlot(PlaceKind.WEIGHTS, start) for form, start in starts.items()}
    places |= {
        form: BufferSlot(PlaceKind.DERIVED, start)
        for form, start in zip(derived, made.weights, strict=True)
    }
    return PlacedWeights(block, made, places)


def merge_equal(weights: Sequence[Weight]) -> list[Weight]:
    """Return `weights`, their sources replaced by the first ones that have the same elements."""
    merged: dict[int, Array] = {}
    first: dict[object, Array] = {}
    for source in {id(weight.source): weight.source for weight in weights}.values():
        dense = np.ascontiguousarray(source)
        content = hashlib.sha256(dense.reshape(-1).view(np.uint8).data).digest()
        merged[id(source)] = first.setdefault((source.dtype.name, source.size, content), source)
    return [replace(weight, source=merged[id(weight.source)]) for weight in weights]


def _form(weight: Weight) -> _Form:
    packing = weight.packing
    return id(weight.source), None if packing is None or packing.is_plain else packing.merged


def _find_grown(forms: Mapping[_Form, Weight]) -> set[int]:
    """Return the ids of the constants that would take too much if they were stored packed."""
    growth: dict[int, int] = {}
    for (source, _), weight in forms.items():
        growth[source] = growth.get(source, -weight.source.nbytes) + weight.nbytes
    too_large, total = set[int](), 0
    for source in sorted(growth, key=lambda source: growth[source]):
        total += growth[source]
        if growth[source] > 0 and total > MOST_GROWTH_BYTES:
            too_large.add(source)
    return too_large
