"""The ways to find programs for measuring, by the name they have in SearchOptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Protocol

import numpy as np

from ansorc.search.candidate import Candidate
from ansorc.search.cost_model import CostModel
from ansorc.search.evolution.evolve import evolve
from ansorc.search.evolution.selection import Proposal
from ansorc.search.options import SearchOptions, StrategyName
from ansorc.search.paper.strategies import beam_search, random_search
from ansorc.search.space import Space


class Strategy(Protocol):
    """Finds programs of a space; a function of its arguments alone."""

    def __call__(
        self,
        space: Space,
        model: CostModel,
        rng: np.random.Generator,
        options: SearchOptions,
        measured: AbstractSet[int] = frozenset(),
        seeds: Sequence[Candidate] = (),
    ) -> Proposal:
        """Return up to `options.trials_per_round` programs whose keys are not in `measured`.

        `seeds` are the measured programs, the fastest first, `score` their speed; that of programs
        that failed, which come last, is 0.
        """
        ...


STRATEGIES: Mapping[StrategyName, Strategy] = MappingProxyType(
    {"evolution": evolve, "random": random_search, "beam": beam_search}
)
