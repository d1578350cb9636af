"""The search for an untuned program: within its budget, the best of what it scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.names import Steps
from ansorc.search.cost_model import Float64Array
from ansorc.search.evolution.by_estimate import (
    EstimateSearch,
    EverySketch,
    best_by_estimate,
    best_programs,
    cheapest,
)
from ansorc.search.space import Genes, are_legal, search_space
from ansorc.search.space.protocol import (
    Budget,
    DefaultWishes,
    Pool,
    SketchPart,
    Structure,
    UntunedSearch,
)
from ansorc.target import Target

TARGETS = ("x86_64-linux-gnu -mcpu=znver4", "cuda -arch=sm_90")


def rows_then_product() -> ComputeDAG:
    a, b = ac.placeholder((96, 64), "a"), ac.placeholder((64, 80), "b")
    return ComputeDAG([a, b, ac.ops.softmax(ac.ops.matmul(a, b, name="c"))])


def convolution() -> ComputeDAG:
    x, w = ac.placeholder((1, 14, 14, 32), "x"), ac.placeholder((3, 3, 32, 48), "w", constant=True)
    return ComputeDAG([x, w, ac.ops.relu(ac.ops.conv2d(x, w, padding=1))])


DAGS = {"rows then product": rows_then_product(), "convolution": convolution()}


@dataclass(frozen=True, eq=False)
class Noted:
    """A search that notes what is scored."""

    untuned: UntunedSearch
    scored: Counter[SketchPart] = field(default_factory=Counter[SketchPart])
    costs: dict[SketchPart, float] = field(default_factory=dict[SketchPart, float])
    chosen: list[SketchPart] = field(default_factory=list[SketchPart])

    @property
    def budget(self) -> Budget:
        return self.untuned.budget

    def structures(self, cost_of: Callable[[Structure], float]) -> Iterable[Structure]:
        return self.untuned.structures(cost_of)

    def start(self, part: SketchPart, rng: np.random.Generator) -> Genes:
        return self.untuned.start(part, rng)

    def neighbours(self, part: SketchPart, parents: Genes, rng: np.random.Generator) -> Genes:
        return self.untuned.neighbours(part, parents, rng)

    def estimate(self, part: SketchPart, genes: Genes) -> tuple[Genes, Float64Array]:
        genes, costs = self.untuned.estimate(part, genes)
        self.scored[part] += len(genes)
        self.costs[part] = min(self.costs.get(part, np.inf), float(costs.min()))
        return genes, costs

    def choose(self, pool: Pool, count: int) -> Pool:
        self.chosen.append(pool.part)
        assert pool.best == self.costs[pool.part]
        return cheapest(pool, count)

    def finish(self, steps: Steps, search: Callable[[UntunedSearch], Steps]) -> Steps:
        return steps


def noted(dag: ComputeDAG, target: str) -> Noted:
    machine = Target.parse(target)
    return Noted(search_space(machine).untuned(dag.plain, machine, DefaultWishes()))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", DAGS)
def test_it_keeps_within_its_budget_and_takes_the_best_that_it_scored(
    name: str, target: str
) -> None:
    untuned = noted(DAGS[name], target)
    search = EstimateSearch(untuned)
    search.best(1)
    budget = untuned.budget
    in_a_round = budget.children + budget.survivors
    for part, scored in untuned.scored.items():
        rounds = part.rounds if part in search.refined else 0
        assert scored <= part.rows + rounds * in_a_round
    parts = {part for part in search.refined if untuned.scored[part] > part.rows}
    assert parts <= set(untuned.chosen)
    assert all(search.refined[part].best == untuned.costs[part] for part in search.refined)
    assert len({part.sketch for part in parts}) <= budget.refined * max(len(parts), 1)


@pytest.mark.parametrize("target", TARGETS)
def test_it_finds_the_same_program_again(target: str) -> None:
    first, second = (best_by_estimate(noted(rows_then_product(), target)) for _ in range(2))
    assert first == second


def test_the_programs_are_different_and_the_best_comes_first() -> None:
    target = TARGETS[1]
    programs = best_programs(noted(rows_then_product(), target), 4)
    assert len(set(programs)) == len(programs) == 4
    assert programs[0] == best_programs(noted(rows_then_product(), target), 1)[0]


def few_rows() -> EverySketch:
    target = Target.parse(TARGETS[0])
    return EverySketch(rows_then_product().plain, target, rows=32, rounds=2)


def test_more_rounds_are_no_worse() -> None:
    costs: list[float] = []
    for rounds in (0, 2, 4):
        untuned = few_rows()
        search = EstimateSearch(untuned)
        (structure, *_) = sorted(untuned.structures(search.cost_of), key=search.cost_of)
        (part,) = structure.parts
        costs.append(search.refine(SketchPart(part.sketch, part.rows, rounds)).best)
    assert costs == sorted(costs, reverse=True)


def test_fixed_genes_stay() -> None:
    untuned = few_rows()
    search = EstimateSearch(untuned)
    (part,) = next(iter(untuned.structures(search.cost_of))).parts
    gene = int(search.draw(part).genes[0, 0])
    fixed = SketchPart(part.sketch, part.rows, part.rounds, {0: gene})
    assert set(search.refine(fixed).genes[:, 0].tolist()) == {gene}


def test_all_programs_are_scored_where_they_are_few() -> None:
    x = ac.placeholder((64, 64), "x")
    target = Target.parse(TARGETS[1])
    untuned = Noted(search_space(target).untuned(
        ComputeDAG([x, ac.ops.relu(x)]).plain, target, DefaultWishes()
    ))  # fmt: skip
    search = EstimateSearch(untuned)
    search.best(1)
    ((part, scored),) = untuned.scored.items()
    assert scored == len(search.draw(part).genes) < part.rows
    assert search.refine(part) is search.draw(part)


def test_changed_programs_are_scored_once() -> None:
    scored: list[Genes] = []

    class Listed(EverySketch):
        def estimate(self, part: SketchPart, genes: Genes) -> tuple[Genes, Float64Array]:
            scored.append(genes)
            return super().estimate(part, genes)

    few = few_rows()
    search = EstimateSearch(Listed(few.dag, few.target, rows=32, rounds=4))
    (structure, *_) = few.structures(search.cost_of)
    search.refine(SketchPart(structure.parts[0].sketch, 32, 4))
    changed = np.concatenate(scored[1:])
    assert len(np.unique(changed, axis=0)) == len(changed) > 32


def test_a_part_like_another_one_begins_with_its_programs() -> None:
    """A product with copies ahead: shared memory holds several of them, so fewer are legal."""
    a, b = ac.placeholder((256, 512), "a"), ac.placeholder((512, 256), "b")
    untuned = noted(ComputeDAG([a, b, ac.ops.matmul(a, b)]), TARGETS[1])
    search = EstimateSearch(untuned)
    parts = [p for each in untuned.structures(search.cost_of) for p in each.parts]
    alike = [part for part in parts if part.like is not None]
    assert alike
    for part in alike:
        assert part.like in parts
        first = {genes.tobytes() for genes in search.draw(part.like).genes}
        drawn = search.draw(part)
        assert {genes.tobytes() for genes in drawn.genes} <= first
        assert len(drawn.genes) < len(first)
        assert are_legal(part.sketch, drawn.genes).all()
    part = alike[0]
    assert part.like is not None
    refined = search.refine(part.like)
    best = cheapest(refined, 1).genes
    assert are_legal(part.sketch, best).all()
    assert search.refine(part).best <= float(untuned.estimate(part, best)[1][0])


def test_programs_of_a_part_that_are_not_legal_in_one_like_it_are_left_out() -> None:
    few = few_rows()
    search = EstimateSearch(few)
    (part,) = next(iter(few.structures(search.cost_of))).parts
    gene = int(search.draw(part).genes[0, 0])
    alike = SketchPart(part.sketch, part.rows, part.rounds, {0: gene}, part)
    search.refine(part)
    assert set(search.draw(alike).genes[:, 0].tolist()) == {gene}
    assert set(search.refine(alike).genes[:, 0].tolist()) == {gene}
