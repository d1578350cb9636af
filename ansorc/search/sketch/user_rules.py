"""The rules of users: registered by name, and asked like those of the search space.

What is registered holds for the process: the one place of the search that is not a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ansorc.schedule.extent import Hole
from ansorc.schedule.schedule import replay
from ansorc.schedule.steps import Split
from ansorc.search.sketch.rule import PartialSketch, SketchRule, Verdict, rule_name
from ansorc.search.sketch.sketch import Sketch


@dataclass(frozen=True)
class UserRule:
    """A registered rule, under its name."""

    name: str
    rule: SketchRule
    before: str
    """The rule that is asked after it."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return what the registered rule says."""
        return self.rule.verdict(partial, stage)

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield what the registered rule makes; raise ValueError if its steps do not make it."""
        for made in self.rule.expand(partial, stage):
            if _is_partial_sketch(made):
                _check_replay(made)
            yield made


USER_RULES: dict[str, UserRule] = {}
"""By name, in the order in which they were registered."""


def with_user_rules(rules: Sequence[SketchRule]) -> tuple[SketchRule, ...]:
    """Return `rules` with the registered ones among them, each before the one that it names.

    One whose neighbour is not among `rules` comes first.
    """
    ordered = list(rules)
    for user_rule in USER_RULES.values():
        names = [rule_name(rule) for rule in ordered]
        ordered.insert(names.index(user_rule.before) if user_rule.before in names else 0, user_rule)
    return tuple(ordered)


def user_rule_of(sketch: Sketch) -> tuple[str, str] | None:
    """Return the last rule of a user, with the stage to which it was applied, if any."""
    applied_rules = [applied for applied in sketch.derivation if applied.is_own]
    return (applied_rules[-1].rule, applied_rules[-1].stage) if applied_rules else None


def _is_partial_sketch(made: object) -> bool:
    return isinstance(made, PartialSketch)


def _check_replay(partial: PartialSketch) -> None:
    """Raise ValueError if the steps of `partial` do not make its state, or have unknown holes."""
    if str(replay(partial.state.dag, partial.state.steps)) != str(partial.state):
        raise ValueError("its steps do not make its state: change it by `partial.then` alone")
    levels = {variable.name: variable.levels for variable in partial.variables}
    splits = [step for step in partial.state.steps if isinstance(step, Split)]
    for hole in (length for step in splits for length in step.lengths):
        if isinstance(hole, Hole) and max(hole.levels) >= levels.get(hole.variable, 0):
            raise ValueError(f"{hole} is no level of a tile variable of the sketch")
