"""Mate: node-based crossover, and moves of programs to other sketches.

A node of the computation is taken from one parent with everything that belongs to it: its place,
its structure and its genes. What depends on another node (tile lengths that both share, the loop in
which it is computed) follows the sketch that has this combination.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import IntArray
from ansorc.search.options import SearchOptions
from ansorc.search.space.carry import MISSING, carried
from ansorc.search.space.design import Space
from ansorc.search.space.genes import Genes
from ansorc.search.space.nodes import Nodes
from ansorc.search.space.registers import within_registers
from ansorc.search.space.relatives import relatives_of
from ansorc.search.space.sample import sample
from ansorc.search.space.vary import crossover

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Parents:
    """Programs of one sketch, and the expected times of their statements."""

    sketch: int
    genes: Genes
    """[rows, columns]."""
    times: FloatArray
    """[rows, statements] in any unit."""

    def of(self, rows: IntArray) -> Parents:
        """Return the programs at `rows`."""
        return Parents(self.sketch, self.genes[rows], self.times[rows])


Brood = tuple[int, Genes]
"""The number of a sketch, and programs of it [rows, columns]."""


@dataclass(frozen=True, eq=False)
class Mating:
    """What children are made with."""

    space: Space
    rng: np.random.Generator
    options: SearchOptions

    def moved(self, parents: Brood, number: int) -> Genes:
        """Return programs of the sketch `number` with all that `parents` decide for it.

        What they do not decide is drawn. A program whose register tile would be too large is left
        out.
        """
        source, target = self.space.sketches[parents[0]], self.space.sketches[number]
        return self._whole(number, carried(source, target, parents[1]))

    def crossed(self, ones: Parents, others: Parents) -> list[Brood]:
        """Return children of the pairs of rows of `ones` and `others`, by sketch.

        Each node comes from the parent whose statements for it should take less time, or, with
        `options.crossover_chance`, from any. A child that no sketch allows, or whose register tile
        would be too large, is left out. In a sketch with the genes of one node alone single genes
        are exchanged, at random.
        """
        plan = relatives_of(self.space).plans[ones.sketch]
        if ones.sketch == others.sketch and len(set(plan.owners.tolist())) < 2:
            sketch = self.space.sketches[ones.sketch]
            genes = crossover(sketch, ones.genes, others.genes, self.rng, self.options)
            return [(ones.sketch, genes)]
        choice = self._choice(ones, others)
        patterns, pattern_of = np.unique(choice, axis=0, return_inverse=True)
        broods: list[Brood] = []
        for place, pattern in enumerate(patterns):
            rows = np.flatnonzero(pattern_of.reshape(-1) == place)
            number = relatives_of(self.space).merged(ones.sketch, others.sketch, pattern.tolist())
            if number is not None:
                pair = (ones.of(rows), others.of(rows))
                broods.append((number, self._merged(pair, pattern, number)))
        return broods

    def _choice(self, ones: Parents, others: Parents) -> BoolArray:
        """[rows, nodes]: whether the node comes from the second parent."""
        plans = relatives_of(self.space).plans
        first, second = (
            _node_times(plans[parents.sketch], parents.times) for parents in (ones, others)
        )
        differs = np.array(
            [
                node in plans[ones.sketch].owners
                or node in plans[others.sketch].owners
                or plans[ones.sketch].parts[node] != plans[others.sketch].parts[node]
                for node in range(first.shape[1])
            ]
        )
        is_free = (first == second) | (self.rng.random(first.shape) < self.options.crossover_chance)
        choice = np.where(is_free, self.rng.random(first.shape) < 0.5, second < first)
        return choice & differs

    def _merged(self, pair: tuple[Parents, Parents], from_other: BoolArray, number: int) -> Genes:
        sketches = self.space.sketches
        first, second = (
            carried(sketches[parents.sketch], sketches[number], parents.genes) for parents in pair
        )
        owners = relatives_of(self.space).plans[number].owners
        return self._whole(number, np.where(from_other[owners], second, first))

    def _whole(self, number: int, genes: Genes) -> Genes:
        """The programs with what is missing drawn, those that are too large left out."""
        lacking = np.flatnonzero((genes == MISSING).any(axis=1))
        if len(lacking):
            drawn = sample(self.space.sketches[number], len(lacking), self.rng, self.options)
            genes[lacking] = np.where(genes[lacking] == MISSING, drawn, genes[lacking])
        ratio = self.options.max_register_ratio
        return genes[within_registers(self.space.sketches[number], genes, ratio)]


def _node_times(plan: Nodes, times: FloatArray) -> FloatArray:
    """[rows, nodes]: the sum of the times of each node's statements."""
    belongs = plan.statements[:, None] == np.arange(len(plan.names))
    return times @ belongs.astype(np.float64)
