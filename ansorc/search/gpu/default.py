"""The untuned default for a GPU: of each kernel the best of thousands by the machine's model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.names import Steps
from ansorc.schedule.steps import Pragma
from ansorc.search.cost_model import Float64Array
from ansorc.search.evolution.by_estimate import best_programs, cheapest
from ansorc.search.evolution.variation import mutate
from ansorc.search.gpu.estimated_programs import NARROW, seconds_of
from ansorc.search.gpu.few_sketches import FewOfMany
from ansorc.search.gpu.kernel_sketches import kernel_sketches
from ansorc.search.gpu.rules import complete_in_all_ways, gpu_rules, ways_on_gpu
from ansorc.search.gpu.sampling import sample_on_gpu
from ansorc.search.sketch.generate import MAX_SKETCHES, generate
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes
from ansorc.search.space.protocol import Budget, Pool, SketchPart, Structure, UntunedSearch
from ansorc.target import Target

ROWS, ALL_ROWS, FEW_ROWS = 1536, 12288, 512
"""Random programs of each kernel, of a kernel in all sketches at most, and of each kernel where
few of many sketches are tried."""
ROUNDS, DRAWINGS = 12, 6
"""How often the best programs are changed, and how often random ones are drawn, at most."""
BUDGET = Budget(survivors=32, children=512, refined=2, within=1.5, patience=3, enough=0.995)
MANY_SKETCHES = 20
"""Sketches that are not all tried if there are more."""
FEW_REDUCTIONS, MOST_OF_MANY = 5, 8
"""Reductions of a computation up to which all its sketches are tried, and sketches of one of more:
there are two for each of them, so their number doubles with each."""


def sketches_on_gpu(dag: ComputeDAG, target: Target) -> list[Sketch]:
    """Return the complete sketches of `dag` for a GPU."""
    return [whole for sketch in _derive(dag, target) for whole in complete_in_all_ways(sketch)]


def best_on_gpu(dag: ComputeDAG, target: Target, count: int) -> list[Steps]:
    """Return the `count` programs, or fewer, that should be the fastest ones, the best first."""
    return best_programs(UntunedOnGpu(dag.plain, target), count)


def _derive(dag: ComputeDAG, target: Target) -> tuple[Sketch, ...]:
    """Return the sketches that the rules derive, not yet complete."""
    reductions = sum(bool(op.reduce_axes) for op in dag.ops)
    most = MAX_SKETCHES if reductions <= FEW_REDUCTIONS else MOST_OF_MANY
    return generate(dag, target, gpu_rules(), most=most)


@dataclass(frozen=True, eq=False)
class UntunedOnGpu:
    """The search for the untuned program of `dag`: the parts of a program are its kernels."""

    dag: ComputeDAG
    target: Target
    budget: Budget = BUDGET
    parts: dict[Hashable, SketchPart] = field(default_factory=dict[Hashable, SketchPart])
    """The kernels of all sketches, those that several have in common once."""

    def structures(self, cost_of: Callable[[Structure], float]) -> Iterator[Structure]:
        """Yield all complete sketches, or those worth a try of many."""
        derived = _derive(self.dag, self.target)
        if sum(len(ways_on_gpu(sketch)) for sketch in derived) > MANY_SKETCHES:
            yield from FewOfMany(derived, self.structure_of, cost_of).structures()
            return
        whole = [complete for sketch in derived for complete in complete_in_all_ways(sketch)]
        for sketch in whole:
            yield self.structure_of(sketch, min(ROWS, ALL_ROWS // len(whole)))

    def structure_of(self, sketch: Sketch, rows: int = FEW_ROWS) -> Structure:
        """Return a complete sketch as its kernels."""
        parts: list[SketchPart] = []
        for kernel in kernel_sketches(sketch):
            genes = kernel.variables, kernel.choices, kernel.stages
            if (kernel.steps, *genes) not in self.parts:
                first = self.parts.get((_without_copies_ahead(kernel), *genes))
                self.parts[kernel.steps, *genes] = SketchPart(kernel, rows, ROUNDS, like=first)
            parts.append(self.parts[kernel.steps, *genes])
        return Structure(sketch, tuple(parts))

    def start(self, part: SketchPart, rng: np.random.Generator) -> Genes:
        """Return random programs whose kernels can be launched."""
        return sample_on_gpu(part.sketch, part.rows, rng, DRAWINGS)

    def neighbours(self, part: SketchPart, parents: Genes, rng: np.random.Generator) -> Genes:
        """Return mutations."""
        return mutate(part.sketch, parents, rng)

    def estimate(self, part: SketchPart, genes: Genes) -> tuple[Genes, Float64Array]:
        """Return the programs as they are, and their seconds by the model."""
        return genes, seconds_of(part.sketch, genes)

    def choose(self, pool: Pool, count: int) -> Pool:
        """Return the programs of least time; of those as good one with wide accesses is taken."""
        is_near = pool.costs <= (1 + NARROW) * cheapest(pool, count).costs[-1]
        genes = pool.genes[is_near]
        return cheapest(Pool(pool.part, genes, seconds_of(pool.part.sketch, genes, NARROW)), count)

    def finish(self, steps: Steps, search: Callable[[UntunedSearch], Steps]) -> Steps:
        """Return the program as it is."""
        return steps


def _without_copies_ahead(kernel: Sketch) -> Steps:
    """Return the steps of a kernel without those that say how many steps are copied ahead."""
    return tuple(
        step
        for step in kernel.steps
        if not (isinstance(step, Pragma) and step.name == "async_stages")
    )
