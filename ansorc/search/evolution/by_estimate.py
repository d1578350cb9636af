"""The search for an untuned program: evolution by the analytic estimate, without a trial.

One loop for all spaces: random programs of each part of each structure are scored, the best
structures are refined by changing the best programs of their parts, and the best program is taken.
A space gives what is its own as an `UntunedSearch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.names import Steps
from ansorc.search.cost_model import Float64Array
from ansorc.search.evolution.sampling import all_programs, sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.options import DEFAULTS
from ansorc.search.sketch.generate import generate
from ansorc.search.space import Genes, are_legal, search_space, steps
from ansorc.search.space.protocol import Budget, Pool, SketchPart, Structure, UntunedSearch
from ansorc.target import Target

BEST_ALIKE, OTHERS_ALIKE = 128, 128
"""Programs that a part takes from the one that it is like: of the best, and of all others."""

Scored: TypeAlias = dict[bytes, tuple[Genes, float]]
"""The genes and the cost that programs of a part have, by the genes before the estimate."""


def best_by_estimate(untuned: UntunedSearch) -> Steps:
    """Return the program that `untuned` estimates to be fastest; always the same one."""
    return untuned.finish(best_programs(untuned, 1)[0], best_by_estimate)


def best_programs(untuned: UntunedSearch, count: int) -> list[Steps]:
    """Return the `count` programs, or fewer, that are estimated to be fastest, the best first."""
    return EstimateSearch(untuned).best(count)


@dataclass(frozen=True, eq=False)
class EstimateSearch:
    """One search by the estimate, and the programs of each part that it has scored."""

    untuned: UntunedSearch
    drawn: dict[SketchPart, Pool] = field(default_factory=dict[SketchPart, Pool])
    refined: dict[SketchPart, Pool] = field(default_factory=dict[SketchPart, Pool])
    complete: set[SketchPart] = field(default_factory=set[SketchPart])
    """Parts all of whose programs were drawn."""

    def best(self, count: int) -> list[Steps]:
        """Return up to `count` programs of the best structures, the best first."""
        budget = self.untuned.budget
        structures = dict.fromkeys(self.untuned.structures(self.cost_of))
        ranked = sorted(filter(self._has_programs, structures), key=self.cost_of)
        most = budget.within * self.cost_of(ranked[0])
        near = [each for each in ranked[: budget.refined] if self.cost_of(each) <= most]
        programs: dict[Steps, float] = {}
        for structure in near:
            for program, cost in self._programs(structure, count):
                programs.setdefault(program, cost)
        return sorted(programs, key=lambda program: programs[program])[:count]

    def cost_of(self, structure: Structure) -> float:
        """Return the least cost of a structure by its random programs, times its penalty."""
        if not self._has_programs(structure):
            return float("inf")
        return structure.penalty * sum(self.draw(part).best for part in structure.parts)

    def _has_programs(self, structure: Structure) -> bool:
        return all(len(self.draw(part).genes) for part in structure.parts)

    def draw(self, part: SketchPart) -> Pool:
        """Return random programs of a part with their costs, or all that there are."""
        if part not in self.drawn:
            genes = all_programs(part.sketch, part.rows, DEFAULTS)
            if genes is not None:
                self.complete.add(part)
            elif part.like is not None:
                genes = self._programs_of(part.like, part)
            if genes is None or not len(genes):
                genes = self.untuned.start(part, np.random.default_rng(0))
            genes = np.unique(_with_fixed(part, genes), axis=0)
            self.drawn[part] = self._score(part, genes)
        return self.drawn[part]

    def _programs_of(self, other: SketchPart, part: SketchPart) -> Genes:
        """Return some of the random programs of another part, those that are legal in `part`."""
        pool = self.draw(other)
        order = np.argsort(pool.costs, kind="stable")
        order[BEST_ALIKE:] = np.random.default_rng(0).permutation(order[BEST_ALIKE:])
        return _legal_in(part, pool.genes[order[: BEST_ALIKE + OTHERS_ALIKE]])

    def refine(self, part: SketchPart) -> Pool:
        """Return the programs of a part after rounds of changes of the best ones.

        They end where the last rounds hardly improve the best one. Where all programs were drawn
        there are none.
        """
        if part not in self.refined:
            pool, rng = self._start(part), np.random.default_rng(0)
            scored: Scored = {}
            budget, bests = self.untuned.budget, [pool.best]
            is_complete = part in self.complete or not part.sketch.variables
            for _ in range(0 if is_complete else part.rounds):
                pool = self._next(pool, rng, scored)
                bests.append(pool.best)
                before = bests[: -budget.patience]
                if before and bests[-1] > budget.enough * before[-1]:
                    break
            self.refined[part] = pool
        return self.refined[part]

    def _start(self, part: SketchPart) -> Pool:
        """Return the random programs of a part, and the best ones of those like it."""
        pool = self.draw(part)
        for other, refined in self.refined.items():
            if {other, other.like} & {part, part.like} - {None}:
                best = cheapest(refined, self.untuned.budget.survivors).genes
                known = self._score(part, _legal_in(part, best))
                pool = Pool(
                    part,
                    np.concatenate([pool.genes, known.genes]),
                    np.concatenate([pool.costs, known.costs]),
                )
        return pool

    def _next(self, pool: Pool, rng: np.random.Generator, scored: Scored) -> Pool:
        """Return the best programs of a pool, and changed ones, scored once in all rounds."""
        budget = self.untuned.budget
        best = np.argsort(pool.costs, kind="stable")[: budget.survivors]
        parents = np.repeat(pool.genes[best], -(-budget.children // len(best)), axis=0)
        children = _with_fixed(pool.part, self.untuned.neighbours(pool.part, parents, rng))
        made = [child.tobytes() for child in children]
        unscored = {program: row for row, program in enumerate(made) if program not in scored}
        new = self._score(pool.part, children[list(unscored.values())])
        scored |= zip(unscored, zip(new.genes, new.costs, strict=True), strict=True)
        genes = np.array([scored[program][0] for program in made], dtype=np.int64)
        costs = np.array([scored[program][1] for program in made])
        return Pool(
            pool.part,
            np.concatenate([pool.genes[best], genes.reshape(children.shape)]),
            np.concatenate([pool.costs[best], costs]),
        )

    def _score(self, part: SketchPart, genes: Genes) -> Pool:
        if not len(genes):
            return Pool(part, genes, np.zeros(0))
        return Pool(part, *self.untuned.estimate(part, genes))

    def _programs(self, structure: Structure, count: int) -> Iterator[tuple[Steps, float]]:
        """Yield up to `count` programs of a structure, the best of each part together first."""
        chosen = [self.untuned.choose(self.refine(part), count) for part in structure.parts]
        for number in range(min(count, max(len(pool.genes) for pool in chosen))):
            row = np.zeros(len(structure.sketch.columns), dtype=np.int64)
            cost = 0.0
            for pool in chosen:
                place = min(number, len(pool.genes) - 1)
                row[_columns_in(structure, pool.part)] = pool.genes[place]
                cost += float(pool.costs[place])
            yield steps(structure.sketch, row), structure.penalty * cost


def _columns_in(structure: Structure, part: SketchPart) -> list[int]:
    """Return where the genes of a part stand in a program of the whole structure."""
    places = {name: place for place, name in enumerate(structure.sketch.columns)}
    return [places[name] for name in part.sketch.columns]


def _with_fixed(part: SketchPart, genes: Genes) -> Genes:
    """Return the legal programs among `genes` after the fixed genes are set in all of them."""
    if not part.fixed:
        return genes
    genes = genes.copy()
    for column, gene in part.fixed.items():
        genes[:, column] = gene
    return genes[are_legal(part.sketch, genes)]


def _legal_in(part: SketchPart, genes: Genes) -> Genes:
    """Return the programs of a part that is like `part` which are legal in that one."""
    genes = _with_fixed(part, genes)
    return genes[are_legal(part.sketch, genes)]


@dataclass(frozen=True, eq=False)
class EverySketch:
    """The untuned search of a space that gives no other: all sketches, mutation, the estimate."""

    dag: ComputeDAG
    target: Target
    rows: int = 256
    rounds: int = 3
    budget: Budget = field(
        default=Budget(survivors=16, children=240, refined=1, within=1.0, patience=3, enough=1.0)
    )

    def structures(self, cost_of: Callable[[Structure], float]) -> Iterator[Structure]:
        """Yield each complete sketch, whole."""
        space = search_space(self.target)
        derived = generate(self.dag, self.target, space.rules(DEFAULTS))
        for _, complete in space.complete(derived, DEFAULTS):
            for sketch in complete:
                yield Structure(sketch, (SketchPart(sketch, self.rows, self.rounds),))

    def start(self, part: SketchPart, rng: np.random.Generator) -> Genes:
        """Return random programs as the space draws them."""
        return sample(part.sketch, part.rows, rng)

    def neighbours(self, part: SketchPart, parents: Genes, rng: np.random.Generator) -> Genes:
        """Return mutations."""
        return mutate(part.sketch, parents, rng)

    def estimate(self, part: SketchPart, genes: Genes) -> tuple[Genes, Float64Array]:
        """Return the programs as they are, and the estimate of the space."""
        return genes, search_space(self.target).estimate(part.sketch, genes)

    def choose(self, pool: Pool, count: int) -> Pool:
        """Return the different programs of least cost."""
        return cheapest(pool, count)

    def finish(self, steps: Steps, search: Callable[[UntunedSearch], Steps]) -> Steps:
        """Return the program as it is."""
        return steps


def cheapest(pool: Pool, count: int) -> Pool:
    """Return the `count` different programs of least cost, the best first."""
    order = np.argsort(pool.costs, kind="stable")
    _, first = np.unique(pool.genes[order], axis=0, return_index=True)
    chosen = order[np.sort(first)[:count]]
    return Pool(pool.part, pool.genes[chosen], pool.costs[chosen])
