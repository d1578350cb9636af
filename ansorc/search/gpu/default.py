"""The untuned default for a GPU: the best of thousands of programs by the model of the machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import BoolArray
from ansorc.schedule.state import State, Step
from ansorc.search.cost_model import Float64Array
from ansorc.search.evolution.variation import mutate
from ansorc.search.gpu.description import descriptions
from ansorc.search.gpu.kernels import kernels_of
from ansorc.search.gpu.rules import completed_on_gpu, gpu_rules
from ansorc.search.gpu.sampling import sample_on_gpu
from ansorc.search.sketch.generate import MAX_SKETCHES, generate
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, choice_values, population_state, steps
from ansorc.target import Target
from ansorc.target.gpu_kernel import KernelDescription
from ansorc.target.gpu_model import seconds
from ansorc.target.gpu_occupancy import resident_blocks, warps_of

ROWS, ALL_ROWS = 2048, 12288
"""Random programs of each sketch, and of all sketches, at most."""
SURVIVORS, CHILDREN, ROUNDS = 32, 1024, 10
EVOLVED, NEAR = 4, 1.5
"""Sketches that are tried further, and the time of their best random programs at most, in those of
the best one."""
FEW_REDUCTIONS, MOST_OF_MANY = 5, 8
"""Reductions of a computation up to which all its sketches are tried, and sketches of one of more:
there are two for each of them, so their number doubles with each."""

LEAST_WARPS, PENALTY = 8, 1.25
"""Warps of a multiprocessor that hide each other's latencies, and how many times as fast a program
with fewer must seem: what the compiler makes of it is known less well than these."""

NARROW, WIDE_SECTORS = 0.03, 16
"""How much slower narrow accesses may seem, so that of programs that are as good one with wide ones
is taken; sectors of a request of 16 bytes a thread."""

MAX_CODE = 24 << 10
"""Bytes of straight code in which the compiler finds registers for all; in more it may spill."""


@dataclass(frozen=True, eq=False)
class _ThreadPrograms:
    """Programs of one sketch [rows, columns], and their estimated seconds [rows]."""

    sketch: Sketch
    genes: Genes
    seconds: Float64Array

    @property
    def best(self) -> float:
        return float(self.seconds.min())

    def next(self, rng: np.random.Generator) -> _ThreadPrograms:
        """The best programs of the pool and mutations of them."""
        best = np.argsort(self.seconds, kind="stable")[:SURVIVORS]
        parents = np.repeat(self.genes[best], -(-CHILDREN // len(best)), axis=0)
        children = mutate(self.sketch, parents, rng)
        return _ThreadPrograms(
            self.sketch,
            np.concatenate([self.genes[best], children]),
            np.concatenate([self.seconds[best], seconds_of(self.sketch, children)]),
        )


def default_gpu_steps(dag: ComputeDAG, target: Target) -> tuple[Step, ...]:
    """Return the program that should be the fastest one on `target`; always the same one."""
    return best_on_gpu(dag, target, 1)[0]


def sketches_on_gpu(dag: ComputeDAG, target: Target) -> list[Sketch]:
    """Return the complete sketches of `dag` for a GPU."""
    reductions = sum(bool(op.reduce_axes) for op in dag.ops)
    most = MAX_SKETCHES if reductions <= FEW_REDUCTIONS else MOST_OF_MANY
    derived = generate(dag, target, gpu_rules(), most=most)
    return [whole for sketch in derived for whole in completed_on_gpu(sketch)]


def best_on_gpu(dag: ComputeDAG, target: Target, count: int) -> list[tuple[Step, ...]]:
    """Return the `count` programs, or fewer, that should be the fastest ones, the best first."""
    sketches = sketches_on_gpu(dag, target)
    rows = min(ROWS, ALL_ROWS // len(sketches))
    pools = sorted((_drawn(sketch, rows) for sketch in sketches), key=lambda pool: pool.best)
    near = [pool for pool in pools[:EVOLVED] if pool.best <= NEAR * pools[0].best]
    found: dict[tuple[Step, ...], float] = {}
    for pool in map(_evolved, near):
        _, different = np.unique(pool.genes, axis=0, return_index=True)
        genes = pool.genes[np.sort(different)]
        times = seconds_of(pool.sketch, genes, NARROW)
        for row in np.argsort(times, kind="stable")[: 2 * count]:
            found.setdefault(steps(pool.sketch, genes[row]), float(times[row]))
    return sorted(found, key=lambda program: found[program])[:count]


def seconds_of(sketch: Sketch, genes: Genes, narrow: float = 0.0) -> Float64Array:
    """Return the estimated seconds of the programs `genes` [rows, columns]: [rows].

    Those all of whose accesses to memory are narrow seem slower by the share `narrow`.
    """
    state = population_state(sketch, genes)
    choices, rows = choice_values(sketch, genes), len(genes)
    found = np.zeros(rows)
    for kernel in descriptions(state, rows, choices):
        is_long = np.asarray(kernel.code_bytes) > MAX_CODE
        factor = np.where(is_long, PENALTY, 1.0) * (1 + narrow * narrow_share(kernel))
        found += seconds(kernel, sketch.target.gpu) * factor
    return found * np.where(_fills(state, sketch.target), 1.0, PENALTY)


def narrow_share(kernel: KernelDescription) -> Float64Array:
    """Return how much of what a block moves is asked for less than 16 bytes a thread at a time."""
    narrow, total = np.zeros(()), np.zeros(())
    for access in kernel.global_accesses:
        moved = np.asarray(access.block_bytes, float)
        total = total + moved
        narrow = narrow + moved * (1 - np.minimum(1, np.asarray(access.sectors) / WIDE_SECTORS))
    return np.asarray(narrow / np.maximum(1, total), float)


def _fills(state: State, target: Target) -> BoolArray:
    """Whether each multiprocessor has two blocks of each kernel at a time, or warps enough."""
    good = np.asarray(True)
    for kernel in kernels_of(state):
        blocks = resident_blocks(
            target.gpu.architecture, kernel.threads, kernel.registers, kernel.shared_bytes
        )
        good = good & ((blocks >= 2) | (blocks * warps_of(kernel.threads) >= LEAST_WARPS))
    return good


def _drawn(sketch: Sketch, rows: int) -> _ThreadPrograms:
    genes = sample_on_gpu(sketch, rows, np.random.default_rng(0))
    return _ThreadPrograms(sketch, genes, seconds_of(sketch, genes))


def _evolved(pool: _ThreadPrograms) -> _ThreadPrograms:
    rng = np.random.default_rng(0)
    for _ in range(ROUNDS if pool.sketch.variables else 0):
        pool = pool.next(rng)
    return pool
