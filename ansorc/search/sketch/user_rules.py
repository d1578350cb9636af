"""Derivation rules of users: registered by name, they are asked like the built-in ones.

The one place of the search that is not a value: what is registered holds for the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ansorc.errors import RuleError
from ansorc.schedule.extent import Hole
from ansorc.schedule.schedule import replay
from ansorc.schedule.steps import Split
from ansorc.search.sketch.generate import cpu_rules
from ansorc.search.sketch.rfactor import AddOpenRfactor
from ansorc.search.sketch.rule import PartialSketch, SketchRule, Verdict, rule_name
from ansorc.search.sketch.sketch import Sketch

BUILT_IN = tuple(dict.fromkeys(rule_name(rule) for rule in (*cpu_rules(), AddOpenRfactor())))
"""The names of the rules that are always there."""


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
                _check(made)
            yield made


_REGISTERED: dict[str, UserRule] = {}


def register_sketch_rule(name: str, rule: SketchRule, before: str = "AlwaysInline") -> None:
    """Have every search of this process ask `rule`, called `name`, before the rule `before`.

    A rule of that name is replaced. Rules with the same `before` are asked in the order in which
    they were registered. If it raises an error, or what it makes is no program, it costs its own
    sketches, and the result of the search says so. Raise RuleError for the name of a built-in rule,
    for an unknown `before`, and for what is no rule.
    """
    if not name or name in BUILT_IN:
        raise RuleError(f"'{name}' is no name for a rule of yours; taken are {', '.join(BUILT_IN)}")
    known = (*BUILT_IN, *(other for other in _REGISTERED if other != name))
    if before not in known:
        raise RuleError(
            f"there is no rule '{before}' to be asked after '{name}'; known are {', '.join(known)}"
        )
    missing = [method for method in ("verdict", "expand") if not _has(rule, method)]
    if missing:
        raise RuleError(
            f"{rule!r} is no rule: it has no method {' and no '.join(missing)}; "
            "see ansorc.search.sketch.SketchRule"
        )
    _REGISTERED.pop(name, None)
    _REGISTERED[name] = UserRule(name, rule, before)


def unregister_sketch_rule(name: str) -> None:
    """Forget the registered rule `name`; raise RuleError if there is none."""
    if name not in _REGISTERED:
        known = ", ".join(_REGISTERED) or "none at all"
        raise RuleError(f"there is no registered rule '{name}'; registered are {known}")
    del _REGISTERED[name]


def with_user_rules(rules: Sequence[SketchRule]) -> tuple[SketchRule, ...]:
    """Return `rules` with the registered ones among them, each before the one that it names.

    One whose neighbour is not among `rules` comes first.
    """
    found = list(rules)
    for own in _REGISTERED.values():
        names = [rule_name(rule) for rule in found]
        found.insert(names.index(own.before) if own.before in names else 0, own)
    return tuple(found)


def user_rule_of(sketch: Sketch) -> tuple[str, str] | None:
    """Return the last rule that is not built in, with the stage to which it was applied, if any."""
    own = [a for a in sketch.derivation if a.rule not in BUILT_IN]
    return (own[-1].rule, own[-1].stage) if own else None


def _is_partial_sketch(made: object) -> bool:
    return isinstance(made, PartialSketch)


def _check(partial: PartialSketch) -> None:
    """Raise ValueError if the steps of `partial` do not make its state, or have unknown holes."""
    if str(replay(partial.state.dag, partial.state.steps)) != str(partial.state):
        raise ValueError("its steps do not make its state: change it by `partial.then` alone")
    levels = {variable.name: variable.levels for variable in partial.variables}
    splits = [step for step in partial.state.steps if isinstance(step, Split)]
    for hole in (length for step in splits for length in step.lengths):
        if isinstance(hole, Hole) and max(hole.levels) >= levels.get(hole.variable, 0):
            raise ValueError(f"{hole} is no level of a tile variable of the sketch")


def _has(rule: object, method: str) -> bool:
    return not isinstance(rule, type) and callable(getattr(rule, method, None))
