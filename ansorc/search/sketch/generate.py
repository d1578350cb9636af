"""Derive the sketches of a computation: every rule is tried on every stage, outputs first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.errors import AnsorcError
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.schedule import schedule
from ansorc.search.sketch.add_rfactor import AddRfactor
from ansorc.search.sketch.cache_write import AddCacheWrite
from ansorc.search.sketch.draft import Draft
from ansorc.search.sketch.inline import AlwaysInline
from ansorc.search.sketch.multi_level_tiling import MultiLevelTiling
from ansorc.search.sketch.rule import SketchRule, Verdict
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.sketch.skip import Skip
from ansorc.search.sketch.tiling import SSRSRS, Tiling
from ansorc.search.sketch.tiling_with_fusion import MultiLevelTilingWithFusion
from ansorc.target import Target

MAX_SKETCHES = 256
"""Derivation stops here: a chain of n tiled stages has 3^n sketches."""

_FAULTS = (
    AnsorcError, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip
"""What a faulty rule may raise: it costs the sketches of that rule, not the search."""


@dataclass(frozen=True)
class RuleFailure:
    """A rule that raised an error on a stage."""

    rule: str
    stage: str
    reason: str


def cpu_rules(tiling: Tiling) -> tuple[SketchRule, ...]:
    """Return the rules for a CPU, in the order in which they are asked."""
    return (
        AlwaysInline(),
        AddRfactor(),
        AddCacheWrite(),
        MultiLevelTilingWithFusion(tiling),
        MultiLevelTiling(tiling),
        Skip(),
    )


RULES = cpu_rules(SSRSRS)


def generate(
    dag: ComputeDAG,
    target: Target,
    rules: Sequence[SketchRule] = RULES,
    failures: list[RuleFailure] | None = None,
) -> tuple[Sketch, ...]:
    """Return the sketches that `rules` derive from `dag`, before locations and annotations.

    A rule that raises an error is left out for that stage, and noted in `failures`.
    """
    state = schedule(dag)
    names = tuple(stage.name for stage in state.stages)
    work = [Draft(state, target, names)]
    notes: list[RuleFailure] = [] if failures is None else failures
    finished: list[Sketch] = []
    while work and len(finished) < MAX_SKETCHES:
        draft = work.pop()
        if not draft.pending:
            finished.append(draft.sketch())
        else:
            work += reversed(_derived(draft, rules, notes))
    return tuple(finished)


def _derived(draft: Draft, rules: Sequence[SketchRule], notes: list[RuleFailure]) -> list[Draft]:
    """The drafts that the rules make of the next pending stage."""
    stage = draft.pending[-1]
    visited = replace(draft, pending=draft.pending[:-1])
    found: list[Draft] = []
    for rule in rules:
        try:
            verdict = rule.verdict(visited, stage)
            made = [] if verdict is Verdict.SKIP else list(rule.expand(visited, stage))
        except _FAULTS as error:
            notes.append(RuleFailure(type(rule).__name__, stage, str(error)))
            continue
        found += made
        if verdict is Verdict.APPLY_AND_STOP:
            break
    return found
