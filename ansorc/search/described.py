"""Described: programs with their features, which are computed once in a run.

To describe a program takes far longer than to score it again. So the random programs that evolution
begins with are the same in all rounds, and more than one round would draw: as the model learns, it
finds others among them good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from ansorc.search.candidate import Candidate
from ansorc.search.enumerate import all_programs
from ansorc.search.features import Features, extract
from ansorc.search.judge import drafted
from ansorc.search.memo import memoized
from ansorc.search.options import SearchOptions
from ansorc.search.space import Genes, Space, phenotype_keys, sample

Keys = npt.NDArray[np.uint64]

MIN_FOUNDERS = 32
"""Random programs that are drawn of each sketch, at least."""
FOUNDING_GENERATIONS = 4
"""Random programs that are drawn of all sketches together, in generations."""

_drawing = attrgetter(
    "population", "draft_share", "is_simd_aware", "max_register_ratio", "parallel_ratios",
    "serial_share",
)  # fmt: skip
"""The options that say which programs are drawn."""


class _Drawing:
    """Options that are equal if the same programs are drawn by them."""

    def __init__(self, options: SearchOptions) -> None:
        self.options = options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Drawing) and _drawing(self.options) == _drawing(other.options)

    def __hash__(self) -> int:
        return hash(_drawing(self.options))


@dataclass(frozen=True, eq=False)
class Described:
    """Programs of one sketch, none twice, with what a cost model is asked about."""

    keys: Keys
    """[rows]."""
    genes: Genes
    """[rows, columns]."""
    features: Features
    """[rows, statements, features]."""

    def at(self, places: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Described:
        """Return the programs at `places`."""
        return Described(self.keys[places], self.genes[places], self.features[places])


@dataclass(frozen=True, eq=False)
class Founders:
    """The programs that evolutions of one sketch begin with."""

    programs: Described
    is_complete: bool
    """Whether they are all programs of the sketch."""


def founders_of(space: Space, number: int, options: SearchOptions) -> Founders:
    """Return all programs of the sketch `number` of `space`, if one generation can hold them.

    Else random ones, the `options.draft_share` with the best analytic estimates; always the same.
    """
    return _founders(space, number, _Drawing(options))


@memoized
def _founders(space: Space, number: int, drawing: _Drawing) -> Founders:
    options = drawing.options
    sketch = space.sketches[number]
    everything = all_programs(sketch, options.population, options)
    if everything is not None:
        return Founders(described(space, number, everything), is_complete=True)
    rng = np.random.default_rng([space.seed, number])
    share = FOUNDING_GENERATIONS * options.population // len(space.sketches)
    drawn = described(space, number, sample(sketch, max(MIN_FOUNDERS, share), rng, options))
    if options.draft_share < 1:
        drawn = drawn.at(drafted(drawn.features, options.draft_share))
    return Founders(drawn, is_complete=False)


def described(space: Space, number: int, genes: Genes, skipped: Keys | None = None) -> Described:
    """Return the different programs among `genes` of the sketch `number`, but for `skipped`."""
    sketch = space.sketches[number]
    keys, first = np.unique(phenotype_keys(sketch, genes), return_index=True)
    if skipped is not None:
        is_new = ~np.isin(keys, skipped, assume_unique=True)
        keys, first = keys[is_new], first[is_new]
    genes = genes[first]
    return Described(keys, genes, extract(sketch, genes, space.target))


def together(founders: Described, seeds: Sequence[Candidate]) -> Described:
    """Return `founders` and those of the `seeds`, of the same sketch, that are not among them."""
    keys: set[int] = set(founders.keys.tolist())
    new = list({seed.key: seed for seed in seeds if seed.key not in keys}.values())
    if not new:
        return founders
    return Described(
        np.concatenate([founders.keys, np.array([seed.key for seed in new], dtype=np.uint64)]),
        np.concatenate([founders.genes, np.stack([seed.genes for seed in new])]),
        np.concatenate([founders.features, np.stack([seed.features for seed in new])]),
    )
