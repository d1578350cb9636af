"""The untuned default for a GPU: the best of thousands of programs by the model of the machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.state import Step
from ansorc.search.gpu.estimated_programs import NARROW, ThreadPrograms, seconds_of
from ansorc.search.gpu.few_sketches import FewOfMany
from ansorc.search.gpu.rules import completed_on_gpu, gpu_rules, ways_on_gpu
from ansorc.search.sketch.generate import MAX_SKETCHES, generate
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import steps
from ansorc.target import Target

ROWS, ALL_ROWS = 1024, 12288
"""Random programs of each sketch, and of all sketches, at most."""
EVOLVED, NEAR = 2, 1.5
"""Sketches that are tried further, and the time of their best random programs at most, in those of
the best one."""
ROUNDS, PATIENCE, ENOUGH = 10, 3, 0.995
"""Rounds of mutations at most, and of how many the last ones must leave this share of the time at
most, or there are no more."""
MANY_SKETCHES = 20
"""Sketches that are not all tried if there are more."""
FEW_REDUCTIONS, MOST_OF_MANY = 5, 8
"""Reductions of a computation up to which all its sketches are tried, and sketches of one of more:
there are two for each of them, so their number doubles with each."""


def default_gpu_steps(dag: ComputeDAG, target: Target) -> tuple[Step, ...]:
    """Return the program that should be the fastest one on `target`; always the same one."""
    return best_on_gpu(dag, target, 1)[0]


def sketches_on_gpu(dag: ComputeDAG, target: Target) -> list[Sketch]:
    """Return the complete sketches of `dag` for a GPU."""
    return [whole for sketch in _derive(dag, target) for whole in completed_on_gpu(sketch)]


def _derive(dag: ComputeDAG, target: Target) -> tuple[Sketch, ...]:
    """Return the sketches that the rules derive, not yet complete."""
    reductions = sum(bool(op.reduce_axes) for op in dag.ops)
    most = MAX_SKETCHES if reductions <= FEW_REDUCTIONS else MOST_OF_MANY
    return generate(dag, target, gpu_rules(), most=most)


def best_on_gpu(dag: ComputeDAG, target: Target, count: int) -> list[tuple[Step, ...]]:
    """Return the `count` programs, or fewer, that should be the fastest ones, the best first."""
    pools = sorted(_draw_pools(_derive(dag, target)), key=lambda pool: pool.best)
    near = [pool for pool in pools[:EVOLVED] if pool.best <= NEAR * pools[0].best]
    programs: dict[tuple[Step, ...], float] = {}
    for pool in map(_evolve, near):
        _, different = np.unique(pool.genes, axis=0, return_index=True)
        genes = pool.genes[np.sort(different)]
        times = seconds_of(pool.sketch, genes, NARROW)
        for row in np.argsort(times, kind="stable")[: 2 * count]:
            programs.setdefault(steps(pool.sketch, genes[row]), float(times[row]))
    return sorted(programs, key=lambda program: programs[program])[:count]


def _draw_pools(derived: Sequence[Sketch]) -> list[ThreadPrograms]:
    """Return random programs of all complete sketches, or of those worth a try of many."""
    if sum(len(ways_on_gpu(sketch)) for sketch in derived) > MANY_SKETCHES:
        return FewOfMany(derived).pools()
    whole = [complete for sketch in derived for complete in completed_on_gpu(sketch)]
    return [ThreadPrograms.draw(sketch, min(ROWS, ALL_ROWS // len(whole))) for sketch in whole]


def _evolve(pool: ThreadPrograms) -> ThreadPrograms:
    """Return the pool after rounds of mutations, until the last ones hardly improve it."""
    rng = np.random.default_rng(0)
    bests = [pool.best]
    for _ in range(ROUNDS if pool.sketch.variables else 0):
        pool = pool.next(rng)
        bests.append(pool.best)
        if len(bests) > PATIENCE and bests[-1] > ENOUGH * bests[-1 - PATIENCE]:
            break
    return pool
