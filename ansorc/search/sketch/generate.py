"""Derive the sketches of a computation: every rule is tried on every stage, outputs first.

The rules are those of a search space, with those of users among them (`user_rules`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ansorc.errors import ScheduleError
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.schedule import schedule
from ansorc.search.sketch.rule import PartialSketch, SketchRule, Verdict, rule_name
from ansorc.search.sketch.sketch import Application, Sketch
from ansorc.search.sketch.user_rules import UserRule
from ansorc.target import Target

MAX_SKETCHES = 256
"""Derivation stops here: a chain of n tiled stages has 3^n sketches."""
MAX_EXPANSIONS = 32
"""Sketches that a rule may make of one stage."""
MAX_VISITS = 4
"""Times for each stage that one rule may be applied in one derivation and still ask for a visit."""


@dataclass(frozen=True)
class RuleFailure:
    """A rule that raised an error on a stage, or made something that is no program."""

    rule: str
    stage: str
    reason: str


def reason_of(error: Exception) -> str:
    """Return what `error` says, in one line: of a refused step the reason, without the loops."""
    if isinstance(error, ScheduleError):
        return error.reason
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def generate(
    dag: ComputeDAG,
    target: Target,
    rules: Sequence[SketchRule],
    failures: list[RuleFailure] | None = None,
    most: int = MAX_SKETCHES,
) -> tuple[Sketch, ...]:
    """Return the sketches that `rules` derive from `dag`, before locations and annotations.

    Of all of them the first `most` are made: many stages may have thousands.
    A rule that raises an error is left out for that stage, and noted in `failures`; so is one that
    makes something else than sketches. What a program is made of is decided without its checks.
    """
    state = schedule(dag.plain)
    names = tuple(stage.name for stage in state.stages)
    work = [PartialSketch(state, target, names)]
    notes: list[RuleFailure] = [] if failures is None else failures
    finished: list[Sketch] = []
    while work and len(finished) < most:
        partial = work.pop()
        if not partial.pending:
            finished.append(partial.sketch())
        else:
            work += reversed(_derive(partial, rules, notes))
    return tuple(finished)


def _derive(
    partial: PartialSketch, rules: Sequence[SketchRule], notes: list[RuleFailure]
) -> list[PartialSketch]:
    """Return the sketches that the rules make of the next pending stage."""
    stage = partial.pending[-1]
    visited = replace(partial, pending=partial.pending[:-1])
    derived: list[PartialSketch] = []
    for rule in rules:
        name = rule_name(rule)
        try:
            verdict, made = _ask(rule, visited, stage)
        except Exception as error:  # noqa: BLE001 - a rule is a user's code; it costs its sketches
            failure = RuleFailure(name, stage, reason_of(error))
            notes += [] if failure in notes else [failure]
            continue
        for new in made:
            is_own = isinstance(rule, UserRule)
            applied = Application(name, stage, len(new.state.steps), is_own)
            derived.append(replace(new, derivation=(*partial.derivation, applied)))
        if verdict is Verdict.APPLY_AND_STOP:
            break
    return derived


def _ask(
    rule: SketchRule, partial: PartialSketch, stage: str
) -> tuple[Verdict, list[PartialSketch]]:
    """Return the verdict of a rule, and the sketches that it makes.

    Raise an error if they are no sketches.
    """
    verdict = rule.verdict(partial, stage)
    _check_verdict(verdict)
    if verdict is Verdict.SKIP:
        return verdict, []
    made = list(islice(rule.expand(partial, stage), MAX_EXPANSIONS + 1))
    if len(made) > MAX_EXPANSIONS:
        raise ValueError(f"it makes more than {MAX_EXPANSIONS} sketches of one stage")
    if not made:
        raise ValueError("it applies and makes no sketch")
    for new in made:
        _check(new, partial)
    times = sum(applied.rule == rule_name(rule) for applied in partial.derivation)
    is_revisited = any(len(new.pending) > len(partial.pending) for new in made)
    if is_revisited and times >= MAX_VISITS * len(partial.state.dag.ops):
        raise ValueError("it asks for another visit again and again")
    return verdict, made


def _check_verdict(answer: object) -> None:
    """Raise an error if `answer` is no verdict: a user's rule may return anything."""
    if not isinstance(answer, Verdict):
        raise TypeError(f"its verdict is {answer!r}, not a Verdict")


def _check(new: object, partial: PartialSketch) -> None:
    """Raise an error if `new` cannot have been made of `partial` by adding steps to it."""
    if not isinstance(new, PartialSketch):
        raise TypeError(f"it made {new!r} ({type(new).__name__}), not a PartialSketch")
    before = partial.state.steps
    if new.state.dag is not partial.state.dag or new.state.steps[: len(before)] != before:
        raise ValueError("it made a sketch of another computation, or took steps back")
    unknown = [name for name in new.pending if new.state.find(name) is None]
    if unknown:
        raise ValueError(f"it asks for a visit to '{unknown[0]}', which is no stage")
