"""A leaf of expressions that are being defined, which holds what a definition puts in its place."""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.ir.expr import Load


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldLoad(Load):
    """A load of no tensor, compared by identity."""

    held: object
    """The value that definitions put in its place. Walks over nodes do not go into it."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)
