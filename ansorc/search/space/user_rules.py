"""Registering rules of users: names are checked against those of the search spaces."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.errors import RuleError
from ansorc.search.options import DEFAULTS, LIMITED_SPACE, PAPER
from ansorc.search.sketch.rule import SketchRule, rule_name
from ansorc.search.sketch.user_rules import USER_RULES, UserRule
from ansorc.search.space.registry import platform_spaces

_RENAMED_RULES: Mapping[str, str] = {
    "SumInParts": "SplitK",
    "TilingInBlocks": "FuseInterleavedConsumer",
    "TilingInLanes": "LaneReductionTiling",
    "TilingWithRows": "FuseRowReductions",
    "TilingWithTerms": "FuseProductChain",
}
"""The present names of rules that earlier versions call otherwise."""


def register_sketch_rule(name: str, rule: SketchRule, before: str = "AlwaysInline") -> None:
    """Have every search of this process ask `rule`, called `name`, before the rule `before`.

    A rule of that name is replaced. Rules with the same `before` are asked in the order in which
    they were registered. If it raises an error, or what it makes is no program, it costs its own
    sketches, and the result of the search says so. `before` may be the name that a built-in rule
    had in an earlier version. Raise RuleError for the name of a built-in rule, for an unknown
    `before`, and for what is no rule.
    """
    is_text = isinstance(name, str) and isinstance(before, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    built_in = list_built_in_names()
    if not is_text or not name or name in built_in:
        raise RuleError(f"'{name}' is no name for a rule of yours; taken are {', '.join(built_in)}")
    known = (*built_in, *(other for other in USER_RULES if other != name))
    if before not in known:
        before = _RENAMED_RULES.get(before, before)
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
    USER_RULES.pop(name, None)
    USER_RULES[name] = UserRule(name, rule, before)


def unregister_sketch_rule(name: str) -> None:
    """Forget the registered rule `name`; raise RuleError if there is none."""
    is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_text or name not in USER_RULES:
        known = ", ".join(USER_RULES) or "none at all"
        raise RuleError(f"there is no registered rule '{name}'; registered are {known}")
    del USER_RULES[name]


def list_built_in_names() -> tuple[str, ...]:
    """Return the names of the rules that are always there, on any platform."""
    rules = (
        rule
        for space in platform_spaces()
        for options in (DEFAULTS, PAPER, LIMITED_SPACE)
        for rule in space.rules(options)
    )
    return tuple(dict.fromkeys(map(rule_name, rules)))


def _has(rule: object, method: str) -> bool:
    return not isinstance(rule, type) and callable(getattr(rule, method, None))
