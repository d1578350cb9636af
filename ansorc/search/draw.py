"""Draw: programs at random, asking no model; the search without fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from ansorc.search.candidate import Candidate, candidates
from ansorc.search.cost_model import CostModel
from ansorc.search.enumerate import all_programs
from ansorc.search.evolve import Evolution
from ansorc.search.options import SearchOptions
from ansorc.search.pick import Offer, picked
from ansorc.search.space import Space, phenotype_keys, sample

SPARE = 2
"""So many times the programs wanted are drawn of each sketch: some are known, or drawn twice."""


def draw(
    space: Space,
    model: CostModel,
    rng: np.random.Generator,
    options: SearchOptions,
    measured: AbstractSet[int] = frozenset(),
    seeds: Sequence[Candidate] = (),
) -> Evolution:
    """Return up to `options.trials_per_round` random programs that are not in `measured`.

    Every sketch is as likely as any other. `model` and `seeds` are not used. Sketches with few
    programs are drawn from without repetition.
    """
    known = np.array(sorted(measured), dtype=np.uint64)
    offers: list[Offer] = []
    for number, sketch in enumerate(space.sketches):
        genes = all_programs(sketch, options.population, options)
        if genes is None:
            genes = sample(sketch, SPARE * options.trials_per_round, rng, options)
        keys, first = np.unique(phenotype_keys(sketch, genes), return_index=True)
        is_new = ~np.isin(keys, known)
        genes, keys = genes[first[is_new]], keys[is_new]
        niches = np.zeros(len(keys), dtype=np.int64)
        offers.append(Offer(number, genes, keys, np.zeros(len(keys)), niches))
    picks = picked(offers, rng, replace(options, epsilon=1.0))
    found = candidates(space, [(one.sketch, one.genes) for one in picks])
    return Evolution(tuple(replace(one, is_random=True) for one in found), not found, 0)
