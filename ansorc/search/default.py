"""The untuned default of a search space that has no better one: the best by its estimate."""

from __future__ import annotations

import numpy as np

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.names import Steps
from ansorc.search.cost_model import Float64Array
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.options import DEFAULTS
from ansorc.search.sketch.generate import generate
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, search_space, steps
from ansorc.target import Target

ROWS, SURVIVORS, CHILDREN, ROUNDS = 256, 16, 240, 3
"""Random programs of each sketch; those that have mutations in the next round, how many, and how
often."""


def best_by_estimate(dag: ComputeDAG, target: Target) -> Steps:
    """Return the program that the space of `target` estimates to be fastest; always the same one.

    Random programs of all sketches are drawn, and those of the best sketch mutated.
    """
    space = search_space(target)
    derived = generate(dag, target, space.rules(DEFAULTS))
    whole = [one for _, each in space.complete(derived, DEFAULTS) for one in each]
    drawn = [(sketch, *_drawn(sketch)) for sketch in whole]
    sketch, genes, costs = min(drawn, key=lambda pool: float(pool[2].min()))
    rng = np.random.default_rng(0)
    for _ in range(ROUNDS):
        best = np.argsort(costs, kind="stable")[:SURVIVORS]
        children = mutate(sketch, np.repeat(genes[best], CHILDREN // SURVIVORS, axis=0), rng)
        genes = np.concatenate([genes[best], children])
        costs = np.concatenate([costs[best], space.estimate(sketch, children)])
    return steps(sketch, genes[np.argmin(costs)])


def _drawn(sketch: Sketch) -> tuple[Genes, Float64Array]:
    """Random programs of `sketch`, and their estimates."""
    genes = sample(sketch, ROWS, np.random.default_rng(0))
    return genes, search_space(sketch.target).estimate(sketch, genes)
