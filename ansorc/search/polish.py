"""Polish: coordinate descent from the best measured programs, at the end of a run.

All programs one move away from them are compared: one tile length moved to another level, one other
choice, one stage in another place. What evolution leaves to chance is looked at completely here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ansorc.search.candidate import Candidate
from ansorc.search.cost_model import CostModel
from ansorc.search.evolve import Evolution
from ansorc.search.features import Features, extract
from ansorc.search.judge import judged
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Brood, Genes, Mating, Space, phenotype_keys, relatives_of
from ansorc.search.space.genes import gene_counts, table_of
from ansorc.search.space.registers import within_registers

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

PARENTS = 4
"""The fastest programs whose neighbours are compared."""


@dataclass(frozen=True, eq=False)
class _Seen:
    """What is known of a brood."""

    scores: FloatArray
    """[programs]."""
    features: Features
    """[programs, statements, features]."""


def polish(
    space: Space,
    model: CostModel,
    rng: np.random.Generator,
    options: SearchOptions,
    measured: AbstractSet[int],
    seeds: Sequence[Candidate],
) -> Evolution:
    """Return up to `options.trials_per_round` neighbours of the first few `seeds`, the best first.

    `seeds` are measured programs, the fastest first, `score` their measured speed, 0 if they
    failed. What the model is wrong by for a program it is mostly wrong by for its neighbours too:
    these are ranked by the measured speed, changed as the model thinks that it changes.
    """
    mating = Mating(space, rng, options)
    parents = [seed for seed in seeds[:PARENTS] if seed.score > 0]
    families = [[_alone(seed), *_neighbours(seed, mating)] for seed in parents]
    judgements = iter(_looked_at(space, model, [brood for family in families for brood in family]))
    best: dict[int, Candidate] = {}
    scored = 0
    for seed, (_, *family) in zip(parents, families, strict=True):
        own = next(judgements).scores[0]
        for number, genes in family:
            sketch = space.sketches[number]
            keys: list[int] = phenotype_keys(sketch, genes).tolist()
            seen = next(judgements)
            scores = seed.score * seen.scores / own
            scored += len(genes)
            rows = zip(genes, keys, seen.features, scores.tolist(), strict=True)
            for row, key, features, score in rows:
                if key not in measured and (key not in best or score > best[key].score):
                    best[key] = Candidate(sketch, number, row, key, features, score)
    ranked = sorted(best.values(), key=lambda one: -one.score)[: options.trials_per_round]
    ranked = [  # copied, or each would keep all that it was chosen from
        replace(one, genes=one.genes.copy(), features=one.features.copy()) for one in ranked
    ]
    return Evolution(tuple(ranked), not ranked, scored)


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


def _neighbours(seed: Candidate, mating: Mating) -> Iterator[Brood]:
    """Programs one move away from `seed`, by sketch."""
    space, ratio = mating.space, mating.options.max_register_ratio
    yield seed.number, neighbours(seed.sketch, seed.genes, ratio)
    for number in relatives_of(space).moved[seed.number]:
        yield number, mating.moved((seed.number, seed.genes[None, :]), number)


def _alone(seed: Candidate) -> Brood:
    return seed.number, seed.genes[None, :]


def _looked_at(space: Space, model: CostModel, broods: Sequence[Brood]) -> list[_Seen]:
    """What `model` says of each of `broods`; those of one sketch are looked at together."""
    seen: dict[int, _Seen] = {}
    for number in {number for number, _ in broods}:
        own = [place for place, brood in enumerate(broods) if brood[0] == number]
        genes = np.concatenate([broods[place][1] for place in own])
        features = extract(space.sketches[number], genes, space.target)
        ends = np.cumsum([len(broods[place][1]) for place in own])[:-1]
        scores = judged(model, features).scores
        parts = zip(np.split(scores, ends), np.split(features, ends), strict=True)
        seen |= {place: _Seen(*part) for place, part in zip(own, parts, strict=True)}
    return [seen[place] for place in range(len(broods))]
