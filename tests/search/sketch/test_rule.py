"""Rules of users: registered by name, asked like the built-in ones, and harmless when faulty."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import RuleError
from ansorc.schedule import schedule
from ansorc.schedule.extent import Hole
from ansorc.schedule.steps import Reorder, Split
from ansorc.search.cpu.rules import cpu_rules
from ansorc.search.evolution.sampling import sample
from ansorc.search.options import PAPER, SearchOptions
from ansorc.search.proposals import make_checked_space
from ansorc.search.sketch import PartialSketch, SketchRule, Verdict, generate, rule_name
from ansorc.search.sketch.sketch import TileVariable
from ansorc.search.sketch.user_rules import USER_RULES
from ansorc.search.space import sketch_rules, steps
from ansorc.search.space.user_rules import list_built_in_names
from ansorc.search.tune import tune_task
from tests.search.small_dags import TARGET, check_meaning, matmul, two_matmuls
from tests.search.small_tasks import options as tune_options
from tests.search.small_tasks import product

OPTIONS = SearchOptions()
TASK = ac.Task(matmul(16, 24, 8), TARGET)


@dataclass(frozen=True)
class InColumns:
    """Go along the columns, a block of rows at a time: a structure of its own."""

    answer: Verdict = Verdict.APPLY

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        found = partial.stage(stage)
        fits = not found.scope and len(found.op.axes) == 2 and found.op.reduce_axes
        return self.answer if fits else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        rows, columns = partial.stage(stage).op.axes
        name = f"{stage}.block"
        opened = replace(
            partial, variables=(*partial.variables, TileVariable(name, rows.extent, 2, 64))
        ).then(
            Split(stage, rows.name, (Hole(name, (1,)),)),
        )
        order = (f"{rows.name}.0", columns.name, f"{rows.name}.1")
        reduce = tuple(axis.name for axis in partial.stage(stage).op.reduce_axes)
        yield opened.then(Reorder(stage, (*order, *reduce))).with_trace(f"columns of {stage}")


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    before = [rule_name(rule) for rule in sketch_rules()]
    yield
    for rule in sketch_rules():
        if rule_name(rule) not in before:
            ac.unregister_sketch_rule(rule_name(rule))


def names_of(computation: ac.ComputeDAG) -> list[str]:
    return [sketch.name for sketch in generate(computation, TARGET, sketch_rules())]


def test_a_registered_rule_takes_part() -> None:
    before = names_of(TASK.dag)
    ac.register_sketch_rule("columns", InColumns())
    assert names_of(TASK.dag) == ["columns of C", *before]
    assert rule_name(ac.sketch_rules()[0]) == "columns"
    ac.unregister_sketch_rule("columns")
    assert names_of(TASK.dag) == before


def test_the_derivation_names_it() -> None:
    ac.register_sketch_rule("columns", InColumns())
    sketch = generate(TASK.dag, TARGET, sketch_rules())[0]
    assert [(applied.rule, applied.stage) for applied in sketch.derivation] == [("columns", "C")]


def test_rules_are_asked_in_the_order_that_was_asked_for() -> None:
    ac.register_sketch_rule("late", InColumns(), before="Skip")
    ac.register_sketch_rule("later", InColumns(), before="Skip")
    ac.register_sketch_rule("early", InColumns(), before="late")
    built_in = [rule_name(rule) for rule in cpu_rules()]
    expected = [*built_in[:-1], "early", "late", "later", "Skip"]
    assert [rule_name(rule) for rule in sketch_rules()] == expected


@pytest.mark.parametrize(
    ("earlier", "name"),
    [
        ("SumInParts", "SplitK"),
        ("TilingInBlocks", "FuseInterleavedConsumer"),
        ("TilingInLanes", "LaneReductionTiling"),
        ("TilingWithRows", "FuseRowReductions"),
        ("TilingWithTerms", "FuseProductChain"),
    ],
)
def test_the_rule_after_it_may_be_named_as_in_earlier_versions(earlier: str, name: str) -> None:
    assert name in list_built_in_names()
    ac.register_sketch_rule("columns", InColumns(), before=earlier)
    assert USER_RULES["columns"].before == name


def test_an_own_rule_may_have_the_name_of_one_of_an_earlier_version() -> None:
    ac.register_sketch_rule("SumInParts", InColumns())
    ac.register_sketch_rule("columns", InColumns(), before="SumInParts")
    assert [rule_name(rule) for rule in sketch_rules()][:2] == ["columns", "SumInParts"]


def test_a_rule_may_keep_the_others_from_being_asked() -> None:
    ac.register_sketch_rule("columns", InColumns(Verdict.APPLY_AND_STOP))
    assert names_of(two_matmuls(8)) == ["columns of E, columns of C"]


def test_the_paper_rules_are_joined_too() -> None:
    ac.register_sketch_rule("columns", InColumns())
    assert rule_name(sketch_rules(PAPER)[0]) == "columns"


def test_a_rule_of_the_same_name_is_replaced() -> None:
    ac.register_sketch_rule("columns", InColumns())
    ac.register_sketch_rule("columns", InColumns(Verdict.APPLY_AND_STOP), before="Skip")
    assert [rule_name(rule) for rule in sketch_rules()].count("columns") == 1


def test_programs_of_a_users_rule_are_right() -> None:
    ac.register_sketch_rule("columns", InColumns())
    space = make_checked_space(TASK, OPTIONS)
    own = [sketch for sketch in space.sketches if "columns" in sketch.name]
    assert own
    assert not space.failures
    for row in sample(own[0], 4, np.random.default_rng(0)):
        check_meaning(TASK.dag, steps(own[0], row))


@pytest.mark.parametrize(
    ("name", "rule", "before", "words"),
    [
        ("Skip", InColumns(), "Skip", "'Skip' is no name for a rule of yours; taken are AlwaysInl"),
        ("", InColumns(), "Skip", "'' is no name for a rule"),
        ("mine", InColumns(), "Nothing", "no rule 'Nothing' to be asked after 'mine'; known are"),
        ("mine", InColumns(), "mine", "no rule 'mine' to be asked after 'mine'"),
        ("mine", "tile", "Skip", "'tile' is no rule: it has no method verdict and no expand"),
        ("mine", InColumns, "Skip", "is no rule: it has no method verdict and no expand"),
    ],
)
def test_refusals(name: str, rule: SketchRule, before: str, words: str) -> None:
    with pytest.raises(RuleError, match=words):
        ac.register_sketch_rule(name, rule, before)


def test_only_what_is_registered_can_be_forgotten() -> None:
    with pytest.raises(RuleError, match="no registered rule 'mine'; registered are none at all"):
        ac.unregister_sketch_rule("mine")


class OwnError(Exception):
    """An error that nobody else knows."""


@dataclass(frozen=True)
class Faulty:
    """A rule that somebody got wrong, in one of many ways."""

    fault: str

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        if self.fault == "raises":
            raise OwnError("out of ideas")
        if self.fault == "no verdict":
            return partial  # pyright: ignore[reportReturnType]
        return Verdict.APPLY_AND_STOP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        match self.fault:
            case "no sketches":
                yield from ()
            case "no sketch":
                yield partial.state  # pyright: ignore[reportReturnType]
            case "many":
                yield from [partial] * 100
            case "again":
                yield partial.with_pending(stage)
            case "unknown stage":
                yield partial.with_pending("nowhere")
            case "other":
                yield replace(partial, state=schedule(matmul(3, 4, 5)))
            case "refused":
                yield partial.then(Split(stage, "nowhere", (2,)))
            case "open":
                axis = partial.stage(stage).op.axes[0].name
                yield partial.then(Split(stage, axis, (Hole("unknown", (0,)),)))
            case _:
                loop = replace(partial.stage(stage).iterators[0], name="gone")
                state = partial.state.with_stage(partial.stage(stage).with_iterator(0, loop))
                yield replace(partial, state=state)


FAULTS = {
    "raises": "out of ideas",
    "no verdict": "its verdict is PartialSketch",
    "no sketches": "it applies and makes no sketch",
    "no sketch": "not a PartialSketch",
    "many": "it makes more than 32 sketches of one stage",
    "again": "it asks for another visit again and again",
    "unknown stage": "it asks for a visit to 'nowhere', which is no stage",
    "other": "it made a sketch of another computation",
    "refused": "nowhere",
    "open": "unknown",
    "tampered": "its steps do not make its state",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_rule_costs_its_own_sketches_only(fault: str) -> None:
    usual = make_checked_space(TASK, OPTIONS)
    ac.register_sketch_rule("mine", Faulty(fault))
    space = make_checked_space(TASK, OPTIONS)
    assert {s.steps for s in space.sketches} == {s.steps for s in usual.sketches}
    assert {failure.rule for failure in space.failures} == {"mine"}
    assert FAULTS[fault] in space.failures[0].reason
    assert "\n" not in space.failures[0].reason


def test_a_tuning_run_goes_on_and_names_the_rule(tmp_path: Path) -> None:
    ac.register_sketch_rule("mine", Faulty("open"))
    ac.register_sketch_rule("columns", InColumns())
    result = tune_task(product(), tune_options(tmp_path, trials=4))
    assert result.best is not None
    assert result.trials == 4
    assert not result.failures
    assert any("the rule mine failed on 'C'" in note for note in result.notes)
