"""The untuned default: a good program for a computation, chosen without measuring anything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.stage import Root
from ansorc.schedule.state import State, Step
from ansorc.search.estimate import parallel_speed, stage_cycles
from ansorc.search.sketch.complete import completed
from ansorc.search.sketch.generate import generate
from ansorc.search.sketch.inline import AlwaysInline
from ansorc.search.sketch.multi_level_tiling import MultiLevelTiling
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.sketch import Sketch, UnrollLimit
from ansorc.search.sketch.skip import Skip
from ansorc.search.sketch.tiling_with_fusion import MultiLevelTilingWithFusion
from ansorc.search.space.genes import Genes, population_state, steps
from ansorc.search.space.sample import sample
from ansorc.search.space.vary import mutate
from ansorc.target import Target

RULES: tuple[SketchRule, ...] = (
    AlwaysInline(),
    MultiLevelTilingWithFusion(levels=(2,)),
    MultiLevelTiling(),
    Skip(),
)
"""The first sketch of these is taken: tiled stages in their consumers where they can be."""

ROWS, SURVIVORS, ROUNDS = 1024, 64, 6
UNROLL_LIMIT = 64


def default_steps(dag: ComputeDAG, target: Target) -> tuple[Step, ...]:
    """Return the program that seems best by a rough estimate of its cycles; always the same one.

    A few thousand tilings of one structure are compared, as arrays.
    """
    sketch = completed(generate(dag, target, RULES)[0], max_locations=1)[0]
    rng = np.random.default_rng(0)
    genes, cycles = _judged(sketch, sample(sketch, ROWS, rng))
    for _ in range(ROUNDS if sketch.variables else 0):
        best = np.argsort(cycles, kind="stable")[:SURVIVORS]
        children = mutate(sketch, np.repeat(genes[best], ROWS // SURVIVORS // 4, axis=0), rng)
        made, made_cycles = _judged(sketch, children)
        genes = np.concatenate([genes[best], made])
        cycles = np.concatenate([cycles[best], made_cycles])
    return steps(sketch, genes[np.argmin(cycles)])


def _judged(sketch: Sketch, genes: Genes) -> tuple[Genes, npt.NDArray[np.float64]]:
    """The rows with the choices made for them, and their estimated cycles."""
    genes = genes.copy()
    rows = len(genes)
    state = population_state(sketch, genes)
    roots = [stage.name for stage in state.stages if isinstance(stage.attach, Root)]
    serial = {name: np.zeros(rows) for name in roots}
    for stage in state.stages:
        if not stage.is_inlined:
            serial[_root(state, stage.name)] += stage_cycles(state, stage, sketch.target, rows)
    for column, choice in enumerate(sketch.choices, start=len(sketch.variables)):
        if isinstance(choice, UnrollLimit):
            genes[:, column] = choice.values.index(UNROLL_LIMIT)
            continue
        loops = state.stage(choice.stage).iterators
        extents = [loop.extent for loop in loops if loop.name in choice.iterators]
        best = parallel_speed(extents, serial[choice.stage], sketch.target.cores)
        genes[:, column], serial[choice.stage] = best
    return genes, np.sum(list(serial.values()), axis=0)


def _root(state: State, name: str) -> str:
    chain = state.chain(state.stage(name))
    return chain[0][0].name if chain else name
