"""SketchRule: one way to derive the structure of a program, after Table 1 of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Protocol

from ansorc.search.sketch.draft import Draft


class Verdict(Enum):
    """What a rule says to a stage."""

    SKIP = "skip"
    """The rule does not apply."""
    APPLY = "apply"
    """It applies, and the rules after it are asked as well."""
    APPLY_AND_STOP = "apply and stop"
    """It applies, and no rule after it is asked."""


class SketchRule(Protocol):
    """A derivation rule: a frozen dataclass whose fields are its numbers.

    A field or property `name` is what it is called; without one, the name of its class is.
    """

    def verdict(self, draft: Draft, stage: str) -> Verdict:
        """Return whether the rule applies to `stage`, which no rule has changed yet."""
        ...

    def expand(self, draft: Draft, stage: str) -> Iterator[Draft]:
        """Yield the drafts that the rule makes; `draft.visiting(…)` asks for another visit."""
        ...


def rule_name(rule: SketchRule) -> str:
    """Return what `rule` is called in derivations and notes."""
    return str(getattr(rule, "name", type(rule).__name__))
