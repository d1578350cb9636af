"""The untuned default: a good program for a computation, chosen without measuring anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import step_along
from ansorc.ir.buffer import Buffer
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import Extent, as_array
from ansorc.schedule.names import Steps
from ansorc.schedule.stage import At, Root, Stage
from ansorc.schedule.state import State
from ansorc.schedule.steps import RFactor
from ansorc.search.cpu.default_alike import kept_columns
from ansorc.search.cpu.default_borders import is_border, settled_borders
from ansorc.search.cpu.register_tiles import within_registers
from ansorc.search.cpu.sampling import sample_on_cpu
from ansorc.search.evolution.variation import mutate
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.features.statement import StageAnalysis
from ansorc.search.options import DEFAULTS
from ansorc.search.sketch.complete import place_stages
from ansorc.search.sketch.dot_product import TensorizeDotProduct, is_tensorized
from ansorc.search.sketch.generate import generate
from ansorc.search.sketch.operand_layout import pack_operand, rewrite_layouts
from ansorc.search.sketch.redefined import Redefined, is_redefined
from ansorc.search.sketch.rfactor import AddRfactor
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.rules import (
    AddCacheWrite,
    AlwaysInline,
    MultiLevelTiling,
    MultiLevelTilingWithFusion,
    Skip,
)
from ansorc.search.sketch.simplify_const_indices import SimplifyConstIndices
from ansorc.search.sketch.sketch import ParallelLoops, Sketch
from ansorc.search.sketch.tiling_variants import (
    TilingInBlocks,
    TilingInLanes,
    TilingWithRows,
    TilingWithTerms,
)
from ansorc.search.space.genes import (
    Genes,
    choice_values,
    population_state,
    steps,
)
from ansorc.target import Target

Cycles: TypeAlias = npt.NDArray[np.float64]
LoopCounts: TypeAlias = npt.NDArray[np.int64]
Way: TypeAlias = dict[str, tuple[LoopCounts, Cycles]]
"""For each root stage how many of its loops run in parallel, and its cycles then."""

RULES: tuple[SketchRule, ...] = (
    AlwaysInline(),
    SimplifyConstIndices(),
    AddCacheWrite(),
    MultiLevelTilingWithFusion(levels=(2,)),
    MultiLevelTiling(),
    Skip(),
)
"""The first sketch of these is taken: tiled stages in their consumers, or in those of copies."""
WITH_RFACTOR: tuple[SketchRule, ...] = (AddRfactor(vectors=()), *RULES)
"""The first sketch of these has long reductions in shares for the cores."""
IN_LANES: tuple[SketchRule, ...] = (TilingInLanes(levels=(2,)), *RULES)
"""The first sketch of these has the sums of narrow results in the lanes of vectors."""
WITH_ROWS: tuple[SketchRule, ...] = (TilingWithRows(), *RULES)
"""The first sketch of these has what reduces the rows of a tiled stage computed with them."""
WITH_TERMS: tuple[SketchRule, ...] = (AlwaysInline(), AddCacheWrite(), TilingWithTerms(), *RULES)
"""The first sketch of these has products of rows of other products computed with these."""
TENSORIZED: tuple[SketchRule, ...] = (AlwaysInline(), TensorizeDotProduct(), Skip())
"""Those of these sketches that use a dot-product instruction, where there are any."""
REDEFINED: tuple[SketchRule, ...] = (
    AlwaysInline(),
    SimplifyConstIndices(),
    Redefined(),
    TilingInBlocks(),
    MultiLevelTiling(),
    Skip(),
)
"""Those of these sketches that redefine something: on its own, or in blocks of its consumer."""

ROWS, CHILDREN, SURVIVORS, ROUNDS = 1024, 768, 32, 3
EVOLVED, NEAR = 2, 1.25
"""Sketches that are tried further, and the cycles of their best random programs at most, in those
of the best one: the more loops there are to tile, the more is found later."""
PLACES, ROWS_ELSEWHERE, PENALTY_ELSEWHERE = 2, 256, 1.4
"""Places of plain stages that are tried, programs with others than the first, and how many times
as fast they must seem: what a place saves is known less well than what a tile does."""
PENALTY_SHARES, PENALTY_LEAVING = 1.1, 1.5
"""The same of reductions in shares, and of other definitions that leave the second caches."""
UNROLL_LIMIT, NARROW_UNROLL_LIMIT, UNROLL_LIMITS = 16, 4, (0, 4, 16, 64)
"""Longer straight-line code is seldom faster and sometimes has spills; with vectors of 16 bytes a
step is several times as many instructions. Neither of the first two is a limit of the search, which
would settle too early on the structure of the default."""
WINDOW_UNROLL_LIMIT, WINDOW_GAIN, WINDOW_ROUNDS = 64, 0.98, 6
"""Where windows overlap, longer code may load what they have in common once. It is taken where it
seems to take this share of the time at most; with that choice more rounds are needed."""
MANY_REDUCTIONS = 8
"""A program of more, as a sort of several passes, does little in each; its loops are not unrolled.
Sorting 1,000 integers then builds in 2.3 s instead of 5.3 and takes 36 µs instead of 44, 128,000
floats build in 22 s instead of 59 and take 13 ms instead of 20."""

MOST_LAYOUTS, ALIKE = 2, 1.25
"""In how many layouts a constant may lie for different programs, and how many times as long one may
seem to take that reads it in one of them."""
HELD = 1.02
"""How many times as long a program may seem to take whose copies read out register tiles: what goes
through memory instead is counted as if nothing waited for it."""


def default_steps(
    dag: ComputeDAG,
    target: Target,
    *,
    rewrite_layout: bool = True,
    redefine: bool = True,
    like: Sequence[Steps] = (),
) -> Steps:
    """Return the program that seems best by a rough estimate of its cycles; always the same one.

    Thousands of tilings of a few structures are compared as arrays: with and without a packed
    operand, with long reductions in shares or in lanes, with the rows of a product finished beside
    it, with plain stages in two places, and of other definitions. Where a dot-product
    instruction fits, it is used. Borders are read in place where that leaves few tests.
    `rewrite_layout` and `redefine` are those of `SearchOptions`. One that reads the constants as a
    program of `like` does is preferred unless it seems much slower, and one of two at any time.
    """
    dag = dag.plain
    sketches = tuple(s for s in generate(dag, target, TENSORIZED) if is_tensorized(s))
    if sketches:
        return _fastest(sketches, like=like)
    others = _redefine(dag, target, rewrite_layout=rewrite_layout) if redefine else ()
    sketches = (*_plain(dag, target, rewrite_layout=rewrite_layout), *others)
    borders = frozenset(op.name for op in dag.ops if is_border(dag, op))
    chosen = _fastest(sketches, borders, like)
    if not borders:
        return chosen
    return settled_borders(dag, target, chosen, lambda: _fastest(sketches, like=like))


def estimated(sketch: Sketch, genes: Genes) -> Cycles:
    """Return [rows]: the estimated cycles of all statements of the programs `genes`."""
    state = population_state(sketch, genes)
    nests = LoopNests(state, len(genes), choice_values(sketch, genes))
    total = np.zeros(len(genes))
    for stage in state.stages:
        if not stage.is_inlined:
            total += StageAnalysis(nests, nests.nest(stage), sketch.target).estimate.total_cycles
    return total


def _fastest(
    sketches: Sequence[Sketch], without: frozenset[str] = frozenset(), like: Sequence[Steps] = ()
) -> Steps:
    """Return the program that seems best if the stages `without` took no time."""
    pools = sorted((pool for sketch in sketches for pool in _pools(sketch, without)), key=_best)
    alike = [pool for candidate in pools for known in like for pool in _pool_like(candidate, known)]
    if alike:
        chosen = min(map(_evolve, alike), key=_best)
        if len(like) >= MOST_LAYOUTS or _best(chosen) <= ALIKE * _best(pools[0]):
            return steps(chosen.sketch, _settle(chosen))
    near = [pool for pool in pools[:EVOLVED] if _best(pool) <= NEAR * _best(pools[0])]
    pool = min(map(_evolve, near), key=_best)
    return steps(pool.sketch, _settle(pool))


def _plain(dag: ComputeDAG, target: Target, *, rewrite_layout: bool) -> tuple[Sketch, ...]:
    """Return the sketches of the definition itself: as they are, and with an operand packed."""
    firsts = [
        generate(dag, target, rules, most=1)[0]
        for rules in (RULES, WITH_RFACTOR, IN_LANES, WITH_ROWS, WITH_TERMS)
    ]
    fused = {s.steps: rewrite_layouts(s) if rewrite_layout else s for s in firsts}
    return tuple(sketch for first in fused.values() for sketch in (first, *pack_operand(first)))


def _redefine(dag: ComputeDAG, target: Target, *, rewrite_layout: bool) -> tuple[Sketch, ...]:
    """Return the sketches of other definitions."""
    made = [sketch for sketch in generate(dag, target, REDEFINED) if is_redefined(sketch)]
    return tuple(rewrite_layouts(sketch) if rewrite_layout else sketch for sketch in made)


def _leaves_caches(sketch: Sketch) -> bool:
    """Return whether another definition holds more than the second caches do.

    Its root stages may be too large for all of them, or its blocks may read more constants than
    one of them holds. The constants of root stages may take half of the last cache: 14×14, 256 to
    256 in batch 1 took 0.71 ms instead of 1.44 on a Zen 4.
    """
    stages, target = sketch.state.stages, sketch.target
    own_bytes = target.cache_bytes[1]
    roots = [stage for stage in stages if isinstance(stage.attach, Root)]
    inside = [s for s in stages if isinstance(s.attach, At) and s.op.reduce_axes]
    buffers = [buffer for s in roots if not s.is_output for buffer in s.op.buffers]
    return is_redefined(sketch) and (
        any(buffer.bytes > own_bytes * target.cores for buffer in buffers)
        or any(b.bytes > target.cache_bytes[-1] // 2 for s in roots for b in _constants(s))
        or any(b.bytes > own_bytes for s in inside for b in _constants(s))
    )


def _constants(stage: Stage) -> list[Buffer]:
    """Return the constant buffers that the stage reads."""
    return [buffer for buffer in stage.op.reads if buffer.constant]


@dataclass(frozen=True, eq=False)
class Pool:
    """Programs of one sketch [rows, columns] and their estimated cycles [rows]."""

    sketch: Sketch
    genes: Genes
    cycles: Cycles
    without: frozenset[str]
    """Stages whose time is not counted."""
    penalty: float
    """How many times as fast it must seem, as its estimate is uncertain."""
    kept: Mapping[int, int] = field(default_factory=dict[int, int])
    """Genes that all have, by column."""


def _pools(sketch: Sketch, without: frozenset[str]) -> Iterator[Pool]:
    """Yield random programs with the plain stages in their first place, and fewer in another."""
    penalty, places = (PENALTY_LEAVING, 1) if _leaves_caches(sketch) else (1.0, PLACES)
    if any(isinstance(step, RFactor) for step in sketch.steps):
        penalty *= PENALTY_SHARES
    for number, whole in enumerate(place_stages(sketch, places, UNROLL_LIMITS)):
        genes = sample_on_cpu(whole, ROWS_ELSEWHERE if number else ROWS, np.random.default_rng(0))
        factor = penalty * (PENALTY_ELSEWHERE if number else 1.0)
        yield Pool(whole, *_evaluate(whole, genes, without), without, factor)


def _pool_like(pool: Pool, known: Steps) -> Iterator[Pool]:
    """Yield the pool with constants laid out as in the program `known`, if the sketch can."""
    kept = kept_columns(pool.sketch, known)
    if kept is None:
        return
    genes = _with_kept(pool.sketch, pool.genes, kept)
    if len(genes):
        genes, cycles = _evaluate(pool.sketch, genes, pool.without)
        yield replace(pool, genes=genes, cycles=cycles, kept=kept)


def _with_kept(sketch: Sketch, genes: Genes, kept: Mapping[int, int]) -> Genes:
    """Return the legal rows after the genes `kept` are set in all rows."""
    if not kept:
        return genes
    genes = genes.copy()
    for column, gene in kept.items():
        genes[:, column] = gene
    return genes[within_registers(sketch, genes, DEFAULTS.max_register_ratio)]


def _best(pool: Pool) -> float:
    """Return the least cycles, times the penalty for an uncertain estimate."""
    return float(pool.cycles.min()) * pool.penalty


def _evolve(pool: Pool) -> Pool:
    """Return the pool after rounds of mutations."""
    rng = np.random.default_rng(0)
    rounds = WINDOW_ROUNDS if any(_has_windows(s.op) for s in pool.sketch.state.stages) else ROUNDS
    for _ in range(rounds if pool.sketch.variables else 0):
        pool = _next(pool, rng)
    return pool


def _next(pool: Pool, rng: np.random.Generator) -> Pool:
    """Return the best programs of the pool and mutations of them."""
    best = np.argsort(pool.cycles, kind="stable")[:SURVIVORS]
    parents = np.repeat(pool.genes[best], CHILDREN // SURVIVORS, axis=0)
    children = _with_kept(pool.sketch, mutate(pool.sketch, parents, rng), pool.kept)
    if not len(children):
        return pool
    genes, cycles = _evaluate(pool.sketch, children, pool.without)
    return replace(
        pool,
        genes=np.concatenate([pool.genes[best], genes]),
        cycles=np.concatenate([pool.cycles[best], cycles]),
    )


def _settle(pool: Pool) -> Genes:
    """Return the best program, or one near it whose copies read from registers."""
    order = np.argsort(pool.cycles, kind="stable")
    order = order[pool.cycles[order] <= HELD * pool.cycles.min()]
    sketch, genes = pool.sketch, pool.genes[order]
    choices = choice_values(sketch, genes)
    nests = LoopNests(population_state(sketch, genes), len(genes), choices)
    is_held = np.ones(len(genes), dtype=np.bool_)
    for stage in nests.state.stages:
        if not stage.is_inlined and stage.op.combiner is None:
            statement = StageAnalysis(nests, nests.nest(stage), sketch.target)
            is_held &= (statement.registers.is_read_out > 0) if statement.inside else True
    return genes[np.argmax(is_held)]


def _evaluate(sketch: Sketch, genes: Genes, without: frozenset[str]) -> tuple[Genes, Cycles]:
    """Return the rows with parallel loops and unrolling chosen, and their estimated cycles."""
    state = population_state(sketch, genes)
    is_narrow = sketch.target.vector_bytes <= 16
    limits = (
        (NARROW_UNROLL_LIMIT, UNROLL_LIMIT) if is_narrow else (UNROLL_LIMIT, WINDOW_UNROLL_LIMIT)
    )
    if sum(bool(s.op.reduce_axes) for s in state.stages if not s.is_inlined) > MANY_REDUCTIONS:
        return _with_limit(sketch, state, genes, without, 0)
    narrow, cycles = _with_limit(sketch, state, genes, without, limits[0])
    if any(_has_windows(stage.op) for stage in state.stages):
        others, less = _with_limit(sketch, state, genes, without, limits[1])
        better = less < WINDOW_GAIN * cycles
        return np.where(better[:, None], others, narrow), np.where(better, less, cycles)
    return narrow, cycles


def _has_windows(op: ComputeOp) -> bool:
    """Return whether neighbouring results share terms.

    Unrolling the last reduction loop brings these terms together.
    """
    return any(
        step_along(index, op.reduce_axes[-1].name)
        and any(step_along(index, axis.name) for axis in op.axes)
        for load in (op.loads if op.reduce_axes else ())
        for index in load.indices
    )


def _with_limit(
    sketch: Sketch, state: State, genes: Genes, without: frozenset[str], limit: int
) -> tuple[Genes, Cycles]:
    """Return the rows with loops unrolled up to `limit` copies, and their estimated cycles."""
    genes, rows = genes.copy(), len(genes)
    counted = [s for s in state.stages if not without & {s.name, root_of(state, s.name)}]
    roots = [stage.name for stage in counted if isinstance(stage.attach, Root)]
    serial = {name: np.zeros(rows) for name in roots}
    nests = LoopNests(state, rows, {f"unroll:{stage.name}": limit for stage in state.stages})
    for stage in counted:
        if not stage.is_inlined:
            estimate = StageAnalysis(nests, nests.nest(stage), sketch.target).estimate
            serial[root_of(state, stage.name)] += estimate.total_cycles
    outer: dict[str, list[Extent]] = {name: [] for name in roots}
    for choice in sketch.choices:
        if isinstance(choice, ParallelLoops) and choice.stage in roots:
            loops = state.stage(choice.stage).iterators
            outer[choice.stage] = [loop.extent for loop in loops if loop.name in choice.iterators]
    by_root = {name: RootLoops(outer[name], serial[name]) for name in roots}
    counts, cycles = parallel_loops(state, by_root, sketch.target)
    for column, choice in enumerate(sketch.choices, start=len(sketch.variables)):
        is_parallel = isinstance(choice, ParallelLoops)
        genes[:, column] = (
            counts.get(choice.stage, 0) if is_parallel else choice.values.index(limit)
        )
    return genes, cycles


@dataclass(frozen=True, eq=False)
class RootLoops:
    """The outermost loops of a root stage, and its cycles on one core [rows]."""

    extents: Sequence[Extent]
    serial: Cycles

    def fastest(self, target: Target) -> tuple[LoopCounts, Cycles]:
        """Return how many outer loops are best fused and run in parallel, and the cycles then.

        An uneven last round of chunks and the start of the threads are counted. 0 loops where there
        are not two iterations.
        """
        best, count = np.full(len(self.serial), np.inf), np.zeros(len(self.serial), dtype=np.int64)
        chunks = np.ones(len(self.serial), dtype=np.int64)
        for loops, extent in enumerate(self.extents, start=1):
            chunks = chunks * as_array(extent)
            cycles = self.serial * -(-chunks // target.cores) / chunks + target.costs.fork
            better = (chunks > 1) & (cycles < 0.98 * best)
            best = np.where(better, cycles, best)
            count = np.where(better, loops, count)
        return count, np.where(count > 0, best, self.serial)


def parallel_loops(
    state: State, roots: Mapping[str, RootLoops], target: Target
) -> tuple[dict[str, LoopCounts], Cycles]:
    """Return how many loops of each root stage to run in parallel, and the cycles of all [rows].

    What several threads have made lies in the caches of their cores, so one stage on one core costs
    the next one what is handed over. Three ways are compared: as is best for each stage by itself,
    all in parallel that can be, and none.
    """
    shared = {name: loops.fastest(target) for name, loops in roots.items()}
    each: Way = {}
    for name, (count, cycles) in shared.items():
        pays = cycles < 0.98 * roots[name].serial
        each[name] = np.where(pays, count, 0), np.where(pays, cycles, roots[name].serial)
    none = {name: (np.zeros_like(count), roots[name].serial) for name, (count, _) in shared.items()}
    handed = _count_shared_bytes(state, roots, target)
    counts, best = {name: count for name, (count, _) in each.items()}, _cycles(each, handed, target)
    for way in (shared, none):
        cycles = _cycles(way, handed, target)
        better = cycles < best
        counts = {name: np.where(better, way[name][0], counts[name]) for name in roots}
        best = np.where(better, cycles, best)
    return counts, best


def _cycles(way: Way, handed: Mapping[tuple[str, str], int], target: Target) -> Cycles:
    """Return the cycles of all stages, and of moving data between one thread and many."""
    total = np.sum([cycles for _, cycles in way.values()], axis=0)
    for (source, reader), size in handed.items():
        part = size / target.cores / target.costs.handed_bytes
        is_made, is_read = way[source][0] > 0, way[reader][0] > 0
        total = (
            total + part * (~is_made & is_read) + (target.cores - 1) * part * (is_made & ~is_read)
        )
    return total


def _count_shared_bytes(
    state: State, roots: Mapping[str, RootLoops], target: Target
) -> dict[tuple[str, str], int]:
    """Return the bytes that `roots` read of each other, at most what the second caches hold."""
    held = target.cores * target.cache_bytes[1]
    sizes: dict[tuple[str, str], int] = {}
    for stage in state.stages:
        reader = root_of(state, stage.name)
        for source in (each for each in state.stages if reader in roots and each.name in roots):
            if source.name != reader and not stage.is_inlined:
                size = sum(buffer.bytes for buffer in source.op.buffers if buffer in stage.op.reads)
                if size:
                    sizes[source.name, reader] = min(size, held)
    return sizes


def root_of(state: State, name: str) -> str:
    """Return the root stage in whose loops the stage `name` is computed, maybe itself."""
    chain = state.chain(state.stage(name))
    return chain[0][0].name if chain else name
