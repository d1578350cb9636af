"""Flock: the programs of one sketch in the current generation, the best first."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ansorc.search.cost_model import CostModel
from ansorc.search.described import Described, described
from ansorc.search.features import Features
from ansorc.search.judge import drafted, judged
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space
from ansorc.search.space.mate import Parents

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

PRESSURE = 2.0
"""Parents have rank `n * u ** PRESSURE` for a uniform u: above 1, better ones breed more."""


def _no_keys() -> Keys:
    return np.zeros(0, dtype=np.uint64)


@dataclass
class Flock:
    """The programs of one sketch, sorted by score, the best first."""

    number: int
    space: Space
    model: CostModel
    genes: Genes
    keys: Keys = field(default_factory=_no_keys)
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))
    times: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    """[programs, statements], as in `Judgement`."""
    is_complete: bool = False
    """Whether it holds every program of its sketch."""
    known: Keys = field(default_factory=_no_keys)
    """The keys of all programs that were ever added."""
    batches: list[Described] = field(default_factory=list[Described])
    """What the model was asked about, as it came."""

    @property
    def sketch(self) -> Sketch:
        """The sketch whose programs these are."""
        return self.space.sketches[self.number]

    @property
    def scored(self) -> int:
        """How many programs the model was asked about."""
        return sum(len(batch.keys) for batch in self.batches)

    def add(self, genes: Genes, draft_share: float = 1.0) -> None:
        """Score the programs among `genes` that were never seen, and sort them in.

        The model is asked about the `draft_share` of them that the analytic estimate likes best;
        the rest are forgotten.
        """
        if not len(genes):
            return
        programs = described(self.space, self.number, genes, self.known)
        self.known = np.concatenate([self.known, programs.keys])
        if draft_share < 1:
            programs = programs.at(drafted(programs.features, draft_share))
        self._sort_in(programs)

    def found(self, programs: Described) -> None:
        """Score `programs` and sort them in; none was seen before."""
        self.known = np.concatenate([self.known, programs.keys])
        self._sort_in(programs)

    def _sort_in(self, programs: Described) -> None:
        if not len(programs.keys):
            return
        judgement = judged(self.model, programs.features)
        self.batches.append(programs)
        self.genes = np.concatenate([self.genes, programs.genes])
        self.keys = np.concatenate([self.keys, programs.keys])
        self.scores = np.concatenate([self.scores, judgement.scores])
        self.times = np.concatenate(
            [self.times.reshape(-1, judgement.times.shape[1]), judgement.times]
        )
        self.keep(np.argsort(-self.scores, kind="stable"))

    def keep(self, places: IntArray) -> None:
        """Forget the programs that are not at `places`."""
        self.genes, self.keys = self.genes[places], self.keys[places]
        self.scores, self.times = self.scores[places], self.times[places]

    def features(self, keys: Keys) -> dict[int, Features]:
        """Return what the model was asked about the programs with `keys`, by key."""
        found: dict[int, Features] = {}
        for batch in self.batches if len(keys) else ():
            chosen = batch.at(np.isin(batch.keys, keys))
            # copied, or each row would keep the whole batch that it is from
            found.update(zip(chosen.keys.tolist(), map(np.copy, chosen.features), strict=True))
        return found

    def parents(self, count: int, rng: np.random.Generator) -> Parents:
        """Return `count` programs, the better ones more often; all by rank, not by score."""
        ranks = (len(self.genes) * rng.random(count) ** PRESSURE).astype(np.int64)
        return Parents(self.number, self.genes[ranks], self.times[ranks])
