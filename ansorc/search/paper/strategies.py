"""The strategies that the paper compares with: random search, and beam search.

Random search asks no model. Beam search builds programs up decision by decision, keeping the most
promising incomplete ones: this is how the paper's Figure 7 prunes, and the auto-scheduler of
Halide. The first decision is the sketch; then each tile variable gets its lengths, one after the
other, and then each choice its value. The cost model scores incomplete programs as if they were
complete:

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

from ansorc.search.candidate import Candidate, candidates
from ansorc.search.cost_model import CostModel, Float64Array
from ansorc.search.evolution.sampling import all_programs, sample
from ansorc.search.evolution.selection import Proposal, SelectionPool, select
from ansorc.search.features import Features
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space, extract, phenotype_keys
from ansorc.search.space.genes import are_legal, gene_counts, table_of

SPARE = 2
"""So many times the programs wanted are drawn of each sketch: some are known, or drawn twice."""


def random_search(
    space: Space,
    model: CostModel,
    rng: np.random.Generator,
    options: SearchOptions,
    measured: AbstractSet[int] = frozenset(),
    seeds: Sequence[Candidate] = (),
) -> Proposal:
    """Return up to `options.trials_per_round` random programs that are not in `measured`.

    Every sketch is as likely as any other. `model` and `seeds` are not used. Sketches with few
    programs are drawn from without repetition.
    """
    known = np.array(sorted(measured), dtype=np.uint64)
    pools: list[SelectionPool] = []
    for number, sketch in enumerate(space.sketches):
        genes = all_programs(sketch, options.population, options)
        if genes is None:
            genes = sample(sketch, SPARE * options.trials_per_round, rng, options)
        keys, first = np.unique(phenotype_keys(sketch, genes), return_index=True)
        is_new = ~np.isin(keys, known)
        genes, keys = genes[first[is_new]], keys[is_new]
        niches = np.zeros(len(keys), dtype=np.int64)
        pools.append(SelectionPool(number, genes, keys, np.zeros(len(keys)), niches))
    chosen = select(pools, rng, replace(options, epsilon=1.0))
    drawn = candidates(space, [(candidate.sketch, candidate.genes) for candidate in chosen])
    return Proposal(tuple(replace(candidate, is_random=True) for candidate in drawn), not drawn, 0)


@dataclass(frozen=True, eq=False)
class _Partials:
    """The incomplete programs of one sketch that are in the beam, the best first."""

    number: int
    genes: Genes
    """[rows, columns]; what is not decided has the values of `_default_genes`."""
    features: Features
    """[rows, statements, features]."""
    scores: Float64Array
    """[rows]."""


def beam_search(
    space: Space,
    model: CostModel,
    rng: np.random.Generator,
    options: SearchOptions,
    measured: AbstractSet[int] = frozenset(),
    seeds: Sequence[Candidate] = (),
) -> Proposal:
    """Return up to `options.trials_per_round` programs that are not in `measured`, best first.

    A share of `options.epsilon`, and what the beam does not bring, is drawn at random; these come
    last. `seeds` are not used: programs are not tuned further once they are measured.
    """
    beam = _Beam(space, model, rng, options, np.array(sorted(measured), dtype=np.uint64))
    partials = beam.keep_best(
        [beam.partial(n, _default_genes(s)) for n, s in enumerate(space.sketches)]
    )
    for column in range(max(len(sketch.columns) for sketch in space.sketches)):
        partials = beam.keep_best([beam.decide(partial, column) for partial in partials])
    chances = ceil(options.epsilon * options.trials_per_round)
    built = beam.candidates(partials)[: options.trials_per_round - chances]
    taken = measured | {candidate.key for candidate in built}
    wanted = replace(options, trials_per_round=options.trials_per_round - len(built))
    drawn = random_search(space, model, rng, wanted, taken).candidates
    return Proposal((*built, *drawn), not built and not drawn, beam.scored)


@dataclass
class _Beam:
    """The state of a beam search, and how often the model was asked."""

    space: Space
    model: CostModel
    rng: np.random.Generator
    options: SearchOptions
    measured: npt.NDArray[np.uint64]
    scored: int = 0

    def partial(self, number: int, genes: Genes) -> _Partials:
        """Score `genes` of a sketch."""
        features = extract(self.space.sketches[number], genes, self.space.target)
        self.scored += len(genes)
        return _Partials(number, genes, features, self.model.predict(features))

    def decide(self, partial: _Partials, column: int) -> _Partials:
        """Try values of one more column for each program; measured programs are left out."""
        sketch = self.space.sketches[partial.number]
        if column >= len(sketch.columns):
            return partial
        children = np.unique(self._children(sketch, partial.genes, column), axis=0)
        children = children[are_legal(sketch, children, self.options)]
        if column == len(sketch.columns) - 1:
            keys, first = np.unique(phenotype_keys(sketch, children), return_index=True)
            children = children[first[~np.isin(keys, self.measured)]]
        return self.partial(partial.number, children)

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

    def keep_best(self, partials: Sequence[_Partials]) -> list[_Partials]:
        """The best programs of all partials, as many as the beam is wide."""
        scores = np.concatenate([partial.scores for partial in partials])
        owners = np.repeat(np.arange(len(partials)), [len(partial.scores) for partial in partials])
        places = np.concatenate([np.arange(len(partial.scores)) for partial in partials])
        best = np.argsort(-scores, kind="stable")[: self._width]
        best_of_each: list[_Partials] = []
        for number, partial in enumerate(partials):
            members = places[best[owners[best] == number]]
            best_of_each.append(
                _Partials(
                    partial.number,
                    partial.genes[members],
                    partial.features[members],
                    partial.scores[members],
                )
            )
        return best_of_each

    @property
    def _width(self) -> int:
        return max(self.options.beam_width, self.options.trials_per_round)

    def candidates(self, partials: Sequence[_Partials]) -> list[Candidate]:
        """The complete programs of the beam, the best first, none twice."""
        by_key: dict[int, Candidate] = {}
        for partial in partials:
            sketch = self.space.sketches[partial.number]
            keys: list[int] = phenotype_keys(sketch, partial.genes).tolist()
            rows = zip(partial.genes, keys, partial.features, partial.scores.tolist(), strict=True)
            for genes, key, features, score in rows:
                candidate = Candidate(sketch, partial.number, genes, key, features, score)
                by_key.setdefault(key, candidate)
        return sorted(by_key.values(), key=_score, reverse=True)


def _default_genes(sketch: Sketch) -> Genes:
    """[1, columns]: axes that are not split, loops that are not parallel, nothing unrolled."""
    whole = [
        table_of(sketch, variable).find(np.array([variable.extent] + [1] * (variable.levels - 1)))
        for variable in sketch.variables
    ]
    return np.array([[*whole, *(0 for _ in sketch.choices)]], dtype=np.int64)


def _score(candidate: Candidate) -> float:
    return candidate.score
