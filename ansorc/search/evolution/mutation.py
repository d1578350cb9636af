"""Mutation: programs of the same sketch that differ in a gene or two, random ones or all."""

from __future__ import annotations

import numpy as np

from ansorc.schedule.extent import IntArray
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, gene_counts, table_of, within_registers

ROUNDS = 4
"""Times that a child whose register tile is too large is made again before it stays its parent."""


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
        made = genes[todo]
        _change(sketch, made, np.arange(len(made)), rng, options)
        second = np.flatnonzero(rng.random(len(made)) < options.second_move_rate)
        _change(sketch, made, second, rng, options)
        good = within_registers(sketch, made, options.max_register_ratio)
        children[todo[good]] = made[good]
        todo = todo[~good]
        if not len(todo):
            break
    return children


def neighbours(sketch: Sketch, row: Genes, max_register_ratio: float) -> Genes:
    """Return all legal programs [rows, columns] one move away from `row` [columns]."""
    found: list[Genes] = []
    for column, count in enumerate(gene_counts(sketch)):
        if column < len(sketch.variables):
            table = table_of(sketch.variables[column])
            values: IntArray = np.unique(table.around(int(row[column])))
        else:
            values = np.arange(count, dtype=np.int64)
        changed = np.repeat(row[None, :], len(values), axis=0)
        changed[:, column] = values
        found.append(changed[values != row[column]])
    genes = np.concatenate([row[None, :0].reshape(0, len(row)), *found])
    return genes[within_registers(sketch, genes, max_register_ratio)]


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
            table = table_of(sketch.variables[column])
            genes[chosen, column] = table.moved(genes[chosen, column], rng)
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
    """The gene to change in each of `rows` programs; -1 in a sketch with nothing to change."""
    able = np.flatnonzero(counts > 1)
    variables = able[able < len(sketch.variables)]
    choices = able[able >= len(sketch.variables)]
    if not len(able):
        return np.full(rows, -1, dtype=np.int64)
    is_choice = rng.random(rows) < options.choice_mutation_rate
    if not len(variables) or not len(choices):
        return rng.choice(able, rows)
    return np.where(is_choice, rng.choice(choices, rows), rng.choice(variables, rows))
