"""Relatives: which sketches of a space differ in a place or two, and which one is made of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansorc.search.memo import memoized
from ansorc.search.space.carry import shared_columns
from ansorc.search.space.design import Space
from ansorc.search.space.nodes import Nodes, nodes_of


@dataclass(frozen=True, eq=False)
class Relatives:
    """The sketches of a space as combinations of parts, one for each node."""

    plans: tuple[Nodes, ...]
    """One for each sketch."""
    moved: tuple[tuple[int, ...], ...]
    """For each sketch those in which one node that is not tiled is computed in another place."""
    others: tuple[tuple[int, ...], ...]
    """For each sketch all the others that can take over tile lengths from it."""
    whole: dict[tuple[object, ...], int]
    """The first sketch with these parts."""
    loose: dict[tuple[object, ...], int]
    """The same for parts in words that do not depend on the names of other nodes' stages."""

    def merged(self, one: int, other: int, from_other: Sequence[bool]) -> int | None:
        """Return the sketch that has the nodes `from_other` as `other` has them, the rest as `one`.

        Where no sketch has exactly these, one in which a node that is not tiled is computed in a
        like place, of a tile that has another structure. None if there is neither.
        """
        for table, parts in (
            (self.whole, [self.plans[number].parts for number in (one, other)]),
            (self.loose, [self.plans[number].loose() for number in (one, other)]),
        ):
            wanted = tuple(b if is_b else a for a, b, is_b in zip(*parts, from_other, strict=True))
            if wanted in table:
                return table[wanted]
        return None


@memoized
def relatives_of(space: Space) -> Relatives:
    """Return how the sketches of `space` are related."""
    plans = tuple(nodes_of(sketch) for sketch in space.sketches)
    numbers = range(len(plans))
    moved = [[n for n in numbers if _is_moved(plans[one], plans[n])] for one in numbers]
    others = [
        [
            number
            for number, target in enumerate(space.sketches)
            if number not in (one, *moved[one]) and shared_columns(sketch, target)
        ]
        for one, sketch in enumerate(space.sketches)
    ]
    return Relatives(
        plans,
        tuple(tuple(each) for each in moved),
        tuple(tuple(each) for each in others),
        {plans[number].parts: number for number in reversed(numbers)},
        {plans[number].loose(): number for number in reversed(numbers)},
    )


def _is_moved(one: Nodes, other: Nodes) -> bool:
    pairs = zip(one.parts, other.parts, one.is_tiled, other.is_tiled, strict=True)
    changed = [(a, b) for first, second, a, b in pairs if first != second]
    return changed == [(False, False)]
