"""Beam search: build programs up decision by decision, keeping the most promising incomplete ones.

This is how the paper's Figure 7 prunes (and the auto-scheduler of Halide). The first decision is
the sketch; then each tile variable gets its lengths, one after the other, and then each choice its
value. The cost model scores incomplete programs as if they were complete:

    sketch 3                      i, j and k are loops of their own
    sketch 3, i = (4, 2, 1, 16)   i is tiled, j and k are loops of their own
    …

It learned from complete programs, so it is often wrong about these: that is what is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import numpy.typing as npt

from ansorc.search.candidate import Candidate
from ansorc.search.cost_model import CostModel
from ansorc.search.draw import draw
from ansorc.search.evolve import Evolution
from ansorc.search.features import Features, extract
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space, phenotype_keys, sample
from ansorc.search.space.genes import gene_counts, table_of
from ansorc.search.space.registers import within_registers

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Ray:
    """The incomplete programs of one sketch that are in the beam, the best first."""

    number: int
    genes: Genes
    """[rows, columns]; what is not decided has the values of `_undecided`."""
    features: Features
    """[rows, statements, features]."""
    scores: FloatArray
    """[rows]."""


def build_up(
    space: Space,
    model: CostModel,
    rng: np.random.Generator,
    options: SearchOptions,
    measured: AbstractSet[int] = frozenset(),
    seeds: Sequence[Candidate] = (),
) -> Evolution:
    """Return up to `options.trials_per_round` programs that are not in `measured`, best first.

    A share of `options.epsilon`, and what the beam does not bring, is drawn at random; these come
    last. `seeds` are not used: programs are not tuned further once they are measured.
    """
    beam = _Beam(space, model, rng, options, np.array(sorted(measured), dtype=np.uint64))
    rays = beam.kept([beam.ray(n, _undecided(s)) for n, s in enumerate(space.sketches)])
    for column in range(max(len(sketch.columns) for sketch in space.sketches)):
        rays = beam.kept([beam.decided(ray, column) for ray in rays])
    chances = ceil(options.epsilon * options.trials_per_round)
    built = beam.candidates(rays)[: options.trials_per_round - chances]
    taken = measured | {candidate.key for candidate in built}
    wanted = replace(options, trials_per_round=options.trials_per_round - len(built))
    drawn = draw(space, model, rng, wanted, taken).candidates
    return Evolution((*built, *drawn), not built and not drawn, beam.scored)


@dataclass
class _Beam:
    """What a beam is held against, and how much the model was asked."""

    space: Space
    model: CostModel
    rng: np.random.Generator
    options: SearchOptions
    measured: npt.NDArray[np.uint64]
    scored: int = 0

    def ray(self, number: int, genes: Genes) -> _Ray:
        """Score `genes` of a sketch."""
        features = extract(self.space.sketches[number], genes, self.space.target)
        self.scored += len(genes)
        return _Ray(number, genes, features, self.model.predict(features))

    def decided(self, ray: _Ray, column: int) -> _Ray:
        """Try values of one more column for each program; measured programs are left out."""
        sketch = self.space.sketches[ray.number]
        if column >= len(sketch.columns):
            return ray
        children = np.unique(self._children(sketch, ray.genes, column), axis=0)
        children = children[within_registers(sketch, children, self.options.max_register_ratio)]
        if column == len(sketch.columns) - 1:
            keys, first = np.unique(phenotype_keys(sketch, children), return_index=True)
            children = children[first[~np.isin(keys, self.measured)]]
        return self.ray(ray.number, children)

    def _children(self, sketch: Sketch, genes: Genes, column: int) -> Genes:
        count = int(gene_counts(sketch)[column])
        tries = max(1, self.options.population // self._width)
        children = np.repeat(genes, min(count, tries), axis=0)
        if count <= tries:
            children[:, column] = np.tile(np.arange(count), len(genes))
        else:
            drawn = sample(sketch, len(children), self.rng, self.options)
            children[:, column] = drawn[:, column]
        return children

    def kept(self, rays: Sequence[_Ray]) -> list[_Ray]:
        """The best programs of all rays, as many as the beam is wide."""
        scores = np.concatenate([ray.scores for ray in rays])
        owners = np.repeat(np.arange(len(rays)), [len(ray.scores) for ray in rays])
        places = np.concatenate([np.arange(len(ray.scores)) for ray in rays])
        best = np.argsort(-scores, kind="stable")[: self._width]
        found: list[_Ray] = []
        for number, ray in enumerate(rays):
            own = places[best[owners[best] == number]]
            found.append(_Ray(ray.number, ray.genes[own], ray.features[own], ray.scores[own]))
        return found

    @property
    def _width(self) -> int:
        return max(self.options.beam_width, self.options.trials_per_round)

    def candidates(self, rays: Sequence[_Ray]) -> list[Candidate]:
        """The complete programs of the beam, the best first, none twice."""
        found: dict[int, Candidate] = {}
        for ray in rays:
            sketch = self.space.sketches[ray.number]
            keys: list[int] = phenotype_keys(sketch, ray.genes).tolist()
            rows = zip(ray.genes, keys, ray.features, ray.scores.tolist(), strict=True)
            for genes, key, features, score in rows:
                one = Candidate(sketch, ray.number, genes, key, features, score)
                found.setdefault(key, one)
        return sorted(found.values(), key=_score, reverse=True)


def _undecided(sketch: Sketch) -> Genes:
    """[1, columns]: axes that are not split, loops that are not parallel, nothing unrolled."""
    whole = [
        table_of(variable).find(np.array([variable.extent] + [1] * (variable.levels - 1)))
        for variable in sketch.variables
    ]
    return np.array([[*whole, *(0 for _ in sketch.choices)]], dtype=np.int64)


def _score(candidate: Candidate) -> float:
    return candidate.score
