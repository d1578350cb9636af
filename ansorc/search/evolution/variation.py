"""Variation: programs made of others, by mutation, by crossover, and by migration between sketches.

Mutation changes a gene or two of a program, at random or in every way there is. Crossover takes a
node of the computation from one parent with everything that belongs to it: its place,
its structure and its genes. What depends on another node (tile lengths that both share, the loop in
which it is computed) follows the sketch that has this combination. Migration brings a program to
another sketch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import IntArray
from ansorc.search.cost_model import Float64Array
from ansorc.search.evolution.sampling import sample
from ansorc.search.memo import memoize
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.sketch import Choice, ParallelLoops, Sketch, TileVariable
from ansorc.search.space.design import Space
from ansorc.search.space.genes import Genes, are_legal, gene_counts, table_of
from ansorc.search.space.nodes import Nodes, nodes_of
from ansorc.search.tiles import TileTable

MISSING = -1
"""A gene about which the other program says nothing, or something impossible."""
ROUNDS = 4
"""Times that a child whose register tile is too large is made again before it stays its parent."""


@dataclass(frozen=True, eq=False)
class Parents:
    """Programs of one sketch, and the expected times of their statements."""

    sketch: int
    genes: Genes
    """[rows, columns]."""
    times: Float64Array
    """[rows, statements] in any unit."""

    def of(self, rows: IntArray) -> Parents:
        """Return the programs at `rows`."""
        return Parents(self.sketch, self.genes[rows], self.times[rows])


Offspring = tuple[int, Genes]
"""The number of a sketch, and programs of it [rows, columns]."""


@dataclass(frozen=True, eq=False)
class Variation:
    """Makes offspring in a space, by random numbers, as the options say."""

    space: Space
    rng: np.random.Generator
    options: SearchOptions

    def migrate(self, parents: Offspring, number: int) -> Genes:
        """Return programs of the sketch `number` with all that `parents` decide for it.

        What they do not decide is drawn. A program whose register tile would be too large is left
        out.
        """
        source, target = self.space.sketches[parents[0]], self.space.sketches[number]
        return self._whole(number, translate(source, target, parents[1]))

    def cross(self, ones: Parents, others: Parents) -> list[Offspring]:
        """Return children of the pairs of rows of `ones` and `others`, by sketch.

        Each node comes from the parent whose statements for it should take less time, or, with
        `options.crossover_chance`, from any. A child that no sketch allows, or whose register tile
        would be too large, is left out. In a sketch with the genes of one node alone single genes
        are exchanged, at random.
        """
        plan = neighbourhood_of(self.space).nodes[ones.sketch]
        if ones.sketch == others.sketch and len(set(plan.owners.tolist())) < 2:
            sketch = self.space.sketches[ones.sketch]
            genes = uniform_crossover(sketch, ones.genes, others.genes, self.rng, self.options)
            return [(ones.sketch, genes)]
        choice = self._choice(ones, others)
        patterns, pattern_of = np.unique(choice, axis=0, return_inverse=True)
        offspring: list[Offspring] = []
        for index, pattern in enumerate(patterns):
            rows = np.flatnonzero(pattern_of.reshape(-1) == index)
            number = neighbourhood_of(self.space).recombine(
                ones.sketch, others.sketch, pattern.tolist()
            )
            if number is not None:
                pair = (ones.of(rows), others.of(rows))
                offspring.append((number, self._recombine(pair, pattern, number)))
        return offspring

    def _choice(self, ones: Parents, others: Parents) -> npt.NDArray[np.bool_]:
        """Return [rows, nodes]: whether the node comes from the second parent."""
        nodes = neighbourhood_of(self.space).nodes
        first, second = (
            _node_times(nodes[parents.sketch], parents.times) for parents in (ones, others)
        )
        differs = np.array(
            [
                node in nodes[ones.sketch].owners
                or node in nodes[others.sketch].owners
                or nodes[ones.sketch].parts[node] != nodes[others.sketch].parts[node]
                for node in range(first.shape[1])
            ]
        )
        is_free = (first == second) | (self.rng.random(first.shape) < self.options.crossover_chance)
        choice = np.where(is_free, self.rng.random(first.shape) < 0.5, second < first)
        return choice & differs

    def _recombine(
        self, pair: tuple[Parents, Parents], from_other: npt.NDArray[np.bool_], number: int
    ) -> Genes:
        """Return the children with the nodes `from_other` of the second parent."""
        sketches = self.space.sketches
        first, second = (
            translate(sketches[parents.sketch], sketches[number], parents.genes) for parents in pair
        )
        owners = neighbourhood_of(self.space).nodes[number].owners
        return self._whole(number, np.where(from_other[owners], second, first))

    def _whole(self, number: int, genes: Genes) -> Genes:
        """Return the programs with missing genes drawn, without those that are too large."""
        lacking = np.flatnonzero((genes == MISSING).any(axis=1))
        if len(lacking):
            drawn = sample(self.space.sketches[number], len(lacking), self.rng, self.options)
            genes[lacking] = np.where(genes[lacking] == MISSING, drawn, genes[lacking])
        return genes[are_legal(self.space.sketches[number], genes, self.options)]


def _node_times(plan: Nodes, times: Float64Array) -> Float64Array:
    """Return [rows, nodes]: the sum of the times of each node's statements."""
    belongs = plan.statements[:, None] == np.arange(len(plan.names))
    return times @ belongs.astype(np.float64)


def uniform_crossover(
    sketch: Sketch,
    parents: Genes,
    others: Genes,
    rng: np.random.Generator,
    options: SearchOptions = DEFAULTS,
) -> Genes:
    """Return children [rows, columns] that have each gene from either parent, at random.

    A child whose register tile would be too large is its first parent. `Variation.cross` takes
    whole nodes instead, where there are several.
    """
    children = np.where(rng.random(parents.shape) < 0.5, others, parents)
    good = are_legal(sketch, children, options)
    return np.where(good[:, None], children, parents)


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The sketches of a space as combinations of parts, one for each node."""

    nodes: tuple[Nodes, ...]
    """One for each sketch."""
    relocated: tuple[tuple[int, ...], ...]
    """For each sketch those in which one node that is not tiled is computed in another place."""
    reachable: tuple[tuple[int, ...], ...]
    """For each sketch all the others that can take over tile lengths from it."""
    whole: dict[tuple[object, ...], int]
    """The first sketch with these parts."""
    loose: dict[tuple[object, ...], int]
    """The same for parts in words that do not depend on the names of other nodes' stages."""

    def recombine(self, base: int, other: int, from_other: Sequence[bool]) -> int | None:
        """Return the sketch with the nodes `from_other` as in `other`, the rest as in `base`.

        Where no sketch has exactly these, one in which a node that is not tiled is computed in a
        like place, of a tile that has another structure. None if there is neither.
        """
        for table, parts in (
            (self.whole, [self.nodes[number].parts for number in (base, other)]),
            (self.loose, [self.nodes[number].loose() for number in (base, other)]),
        ):
            wanted = tuple(b if is_b else a for a, b, is_b in zip(*parts, from_other, strict=True))
            if wanted in table:
                return table[wanted]
        return None


@memoize
def neighbourhood_of(space: Space) -> Neighbourhood:
    """Return which sketches of `space` programs can migrate to, and which are made of two."""
    nodes = tuple(nodes_of(sketch) for sketch in space.sketches)
    numbers = range(len(nodes))
    relocated = [
        [n for n in numbers if _is_relocated(nodes[origin], nodes[n])] for origin in numbers
    ]
    reachable = [
        [
            number
            for number, target in enumerate(space.sketches)
            if number not in (origin, *relocated[origin]) and _count_common_columns(sketch, target)
        ]
        for origin, sketch in enumerate(space.sketches)
    ]
    return Neighbourhood(
        nodes,
        tuple(tuple(each) for each in relocated),
        tuple(tuple(each) for each in reachable),
        {nodes[number].parts: number for number in reversed(numbers)},
        {nodes[number].loose(): number for number in reversed(numbers)},
    )


def _is_relocated(first_nodes: Nodes, other: Nodes) -> bool:
    """Return whether one node that is not tiled is all that differs."""
    pairs = zip(first_nodes.parts, other.parts, first_nodes.is_tiled, other.is_tiled, strict=True)
    changed = [(a, b) for first, second, a, b in pairs if first != second]
    return changed == [(False, False)]


def translate(source: Sketch, target: Sketch, genes: Genes) -> Genes:
    """Return rows of `target` [rows, columns] that do as the rows `genes` of `source`, or MISSING.

    Tile variables and choices of the same name are taken over, else those of the same axis of
    the same node. As many loops are parallel as before, or as many as there are.
    """
    result = np.full((len(genes), len(target.columns)), MISSING, dtype=np.int64)
    for column, origin in enumerate(_origins(source, target)):
        if origin is not None:
            result[:, column] = _translation(source, target, origin, column)[genes[:, origin]]
    return result


def _count_common_columns(source: Sketch, target: Sketch) -> int:
    """Return how many tile variables of `target` are decided by programs of `source`."""
    return sum(origin is not None for origin in _origins(source, target)[: len(target.variables)])


@memoize
def _origins(source: Sketch, target: Sketch) -> tuple[int | None, ...]:
    """Return for each column of `target` the column of `source` that it follows."""
    names = {name: column for column, name in reversed(list(enumerate(source.columns)))}
    genes = nodes_of(source).genes
    kinds = {gene: column for column, gene in reversed(list(enumerate(genes)))}
    wanted = zip(target.columns, nodes_of(target).genes, strict=True)
    return tuple(names.get(name, kinds.get(gene)) for name, gene in wanted)


@memoize
def _translation(source: Sketch, target: Sketch, origin: int, column: int) -> IntArray:
    """Return [values of the origin]: the value of the target's column, or MISSING."""
    old, new = _column(source, origin), _column(target, column)
    if isinstance(old, TileVariable) and isinstance(new, TileVariable):
        return _rows(table_of(source, old), table_of(target, new))
    if isinstance(old, TileVariable) or isinstance(new, TileVariable):
        return np.full(int(gene_counts(source)[origin]), MISSING)
    if isinstance(new, ParallelLoops):
        return np.minimum(old.values, len(new.values) - 1)
    places = [new.values.index(v) if v in new.values else MISSING for v in old.values]
    return np.array(places, dtype=np.int64)


def _rows(ours: TileTable, theirs: TileTable) -> IntArray:
    """Return for each row of `ours` the equal row of `theirs`, or MISSING."""
    if ours is theirs:
        return np.arange(len(ours), dtype=np.int64)
    known: list[list[int]] = theirs.rows.tolist()
    places = {tuple(row): number for number, row in enumerate(known)}
    wanted: list[list[int]] = ours.rows.tolist()
    matching = [places.get(tuple(row), MISSING) for row in wanted]
    return np.array(matching, dtype=np.int64)


def _column(sketch: Sketch, column: int) -> TileVariable | Choice:
    """Return what the gene of a column decides."""
    return (*sketch.variables, *sketch.choices)[column]


def mutate(
    sketch: Sketch, genes: Genes, rng: np.random.Generator, options: SearchOptions = DEFAULTS
) -> Genes:
    """Return a child of each row [rows, columns], legal as its parent is.

    A tile variable moves one divisor from a level to another, or a choice changes; some children
    get two such changes.
    """
    children = genes.copy()
    todo = np.arange(len(genes))
    for _ in range(ROUNDS):
        trial = genes[todo]
        _change(sketch, trial, np.arange(len(trial)), rng, options)
        second = np.flatnonzero(rng.random(len(trial)) < options.second_move_rate)
        _change(sketch, trial, second, rng, options)
        good = are_legal(sketch, trial, options)
        children[todo[good]] = trial[good]
        todo = todo[~good]
        if not len(todo):
            break
    return children


def neighbours(sketch: Sketch, row: Genes, options: SearchOptions = DEFAULTS) -> Genes:
    """Return all legal programs [rows, columns] one move away from `row` [columns]."""
    changes: list[Genes] = []
    for column, count in enumerate(gene_counts(sketch)):
        if column < len(sketch.variables):
            table = table_of(sketch, sketch.variables[column])
            values: IntArray = np.unique(table.around(int(row[column])))
        else:
            values = np.arange(count, dtype=np.int64)
        changed = np.repeat(row[None, :], len(values), axis=0)
        changed[:, column] = values
        changes.append(changed[values != row[column]])
    genes = np.concatenate([row[None, :0].reshape(0, len(row)), *changes])
    return genes[are_legal(sketch, genes, options)]


def _change(
    sketch: Sketch,
    genes: Genes,
    rows: IntArray,
    rng: np.random.Generator,
    options: SearchOptions,
) -> None:
    """Change one gene of each of `rows` in place."""
    counts = gene_counts(sketch)
    columns = _columns(sketch, counts, len(rows), rng, options)
    for column in np.flatnonzero(counts > 1):
        chosen = rows[columns == column]
        if not len(chosen):
            continue
        if column < len(sketch.variables):
            table = table_of(sketch, sketch.variables[column])
            genes[chosen, column] = table.move(genes[chosen, column], rng)
        else:
            shift = rng.integers(1, counts[column], size=len(chosen))
            genes[chosen, column] = (genes[chosen, column] + shift) % counts[column]


def _columns(
    sketch: Sketch,
    counts: IntArray,
    rows: int,
    rng: np.random.Generator,
    options: SearchOptions,
) -> IntArray:
    """Return the gene to change in each of `rows` programs; -1 where nothing can change."""
    able = np.flatnonzero(counts > 1)
    variables = able[able < len(sketch.variables)]
    choices = able[able >= len(sketch.variables)]
    if not len(able):
        return np.full(rows, -1, dtype=np.int64)
    is_choice = rng.random(rows) < options.choice_mutation_rate
    if not len(variables) or not len(choices):
        return rng.choice(able, rows)
    return np.where(is_choice, rng.choice(choices, rows), rng.choice(variables, rows))
