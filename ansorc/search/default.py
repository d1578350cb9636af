"""The untuned default: the program that the estimate of a search space prefers."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.names import Steps
from ansorc.search.evolution.by_estimate import best_by_estimate
from ansorc.search.space import search_space
from ansorc.search.space.protocol import DefaultWishes
from ansorc.target import Target


def default_steps(
    dag: ComputeDAG,
    target: Target,
    *,
    rewrite_layout: bool = True,
    redefine: bool = True,
    like: Sequence[Steps] = (),
) -> Steps:
    """Return the program that is used without any tuning; always the same one.

    `rewrite_layout` and `redefine` are those of `SearchOptions`. One that reads the constants as a
    program of `like` does, of the same computation for other extents, is preferred. A space without
    layouts ignores all three.
    """
    wishes = DefaultWishes(rewrite_layout, redefine, like)
    return best_by_estimate(search_space(target).untuned(dag.plain, target, wishes))
