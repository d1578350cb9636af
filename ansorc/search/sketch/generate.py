"""Derive the sketches of a computation: every rule is tried on every stage, outputs first.

The rules are those of `cpu_rules`, and those that users register by name, which are asked like the
built-in ones. What is registered holds for the process: the one place of the search that is not a
value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ansorc.errors import RuleError, ScheduleError
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import Hole
from ansorc.schedule.schedule import replay, schedule
from ansorc.schedule.steps import Split
from ansorc.search.sketch.dot_product import TensorizeDotProduct
from ansorc.search.sketch.redefined import Redefined
from ansorc.search.sketch.rfactor import AddOpenRfactor, AddRfactor
from ansorc.search.sketch.rule import PartialSketch, SketchRule, Verdict, rule_name
from ansorc.search.sketch.rules import (
    AddCacheWrite,
    AlwaysInline,
    MultiLevelTiling,
    MultiLevelTilingWithFusion,
    Skip,
)
from ansorc.search.sketch.simplify_const_indices import SimplifyConstIndices
from ansorc.search.sketch.sketch import Application, Sketch
from ansorc.search.sketch.tiling import SSRSRS, Tiling
from ansorc.search.sketch.tiling_variants import (
    TilingInBlocks,
    TilingInLanes,
    TilingWithRows,
    TilingWithTerms,
)
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


def cpu_rules(tiling: Tiling = SSRSRS) -> tuple[SketchRule, ...]:
    """Return the rules for a CPU, in the order in which they are asked."""
    return (
        AlwaysInline(),
        SimplifyConstIndices(),
        TensorizeDotProduct(),
        Redefined(),
        AddRfactor(),
        TilingInLanes(tiling),
        TilingWithRows(tiling),
        TilingWithTerms(tiling),
        TilingInBlocks(tiling),
        AddCacheWrite(),
        MultiLevelTilingWithFusion(tiling),
        MultiLevelTiling(tiling),
        Skip(),
    )


RULES = cpu_rules()


def generate(
    dag: ComputeDAG,
    target: Target,
    rules: Sequence[SketchRule] = RULES,
    failures: list[RuleFailure] | None = None,
) -> tuple[Sketch, ...]:
    """Return the sketches that `rules` derive from `dag`, before locations and annotations.

    A rule that raises an error is left out for that stage, and noted in `failures`; so is one that
    makes something else than sketches. What a program is made of is decided without its checks.
    """
    state = schedule(dag.plain)
    names = tuple(stage.name for stage in state.stages)
    work = [PartialSketch(state, target, names)]
    notes: list[RuleFailure] = [] if failures is None else failures
    finished: list[Sketch] = []
    while work and len(finished) < MAX_SKETCHES:
        partial = work.pop()
        if not partial.pending:
            finished.append(partial.sketch())
        else:
            work += reversed(_derived(partial, rules, notes))
    return tuple(finished)


def _derived(
    partial: PartialSketch, rules: Sequence[SketchRule], notes: list[RuleFailure]
) -> list[PartialSketch]:
    """The sketches that the rules make of the next pending stage."""
    stage = partial.pending[-1]
    visited = replace(partial, pending=partial.pending[:-1])
    found: list[PartialSketch] = []
    for rule in rules:
        name = rule_name(rule)
        try:
            verdict, made = _asked(rule, visited, stage)
        except Exception as error:  # noqa: BLE001 - a rule is a user's code; it costs its sketches
            failure = RuleFailure(name, stage, reason_of(error))
            notes += [] if failure in notes else [failure]
            continue
        for new in made:
            applied = Application(name, stage, len(new.state.steps))
            found.append(replace(new, derivation=(*partial.derivation, applied)))
        if verdict is Verdict.APPLY_AND_STOP:
            break
    return found


def _asked(
    rule: SketchRule, partial: PartialSketch, stage: str
) -> tuple[Verdict, list[PartialSketch]]:
    """What a rule answers, and the sketches that it makes; raise an error if they are none."""
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


GPU_RULES = (
    "InlineOnGpu", "LeaveToThreads", "SumInParts", "TilingForMatrixUnits", "TilingForThreads",
)  # fmt: skip
"""The names of the rules in `ansorc.search.gpu.rules`, which has more of them from here."""
BUILT_IN = (
    *dict.fromkeys(rule_name(rule) for rule in (*cpu_rules(), AddOpenRfactor())),
    *GPU_RULES,
)
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
                _check_replay(made)
            yield made


_REGISTERED: dict[str, UserRule] = {}


def register_sketch_rule(name: str, rule: SketchRule, before: str = "AlwaysInline") -> None:
    """Have every search of this process ask `rule`, called `name`, before the rule `before`.

    A rule of that name is replaced. Rules with the same `before` are asked in the order in which
    they were registered. If it raises an error, or what it makes is no program, it costs its own
    sketches, and the result of the search says so. Raise RuleError for the name of a built-in rule,
    for an unknown `before`, and for what is no rule.
    """
    is_text = isinstance(name, str) and isinstance(before, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_text or not name or name in BUILT_IN:
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
    is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_text or name not in _REGISTERED:
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


def _check_replay(partial: PartialSketch) -> None:
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
