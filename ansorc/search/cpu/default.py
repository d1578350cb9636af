"""The untuned default: a good program for a computation, chosen without measuring anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import step_along
from ansorc.ir.buffer import Buffer
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import Extent, IntArray, as_array
from ansorc.schedule.names import Steps
from ansorc.schedule.stage import At, Root, Stage
from ansorc.schedule.state import State
from ansorc.schedule.steps import RFactor
from ansorc.search.cpu.default_alike import find_kept_columns
from ansorc.search.cpu.default_borders import is_border, settle_borders
from ansorc.search.cpu.sampling import sample_on_cpu
from ansorc.search.evolution.variation import mutate
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.features.statement import StageAnalysis
from ansorc.search.sketch.complete import is_long, place_stages, slides
from ansorc.search.sketch.digits import TermsOfDigits
from ansorc.search.sketch.dot_product import TensorizeDotProduct, is_tensorized
from ansorc.search.sketch.extreme_blocks import ExtremesInBlocks
from ansorc.search.sketch.generate import generate
from ansorc.search.sketch.matrix_product import TileMatrixProduct
from ansorc.search.sketch.operand_layout import pack_operand, rewrite_layouts
from ansorc.search.sketch.private_copies import KeepRanges, PrivateCopies
from ansorc.search.sketch.redefined import Redefined, is_redefined
from ansorc.search.sketch.rfactor import AddRfactor, TuplesInLanes
from ansorc.search.sketch.rows_in_ranges import RowsInRanges
from ansorc.search.sketch.rule import PartialSketch, SketchRule
from ansorc.search.sketch.rules import (
    AddCacheWrite,
    AlwaysInline,
    MultiLevelTiling,
    MultiLevelTilingWithFusion,
    Skip,
)
from ansorc.search.sketch.scan_blocks import ScanInBlocks
from ansorc.search.sketch.simplify_const_indices import SimplifyConstIndices
from ansorc.search.sketch.sketch import ParallelLoops, Sketch
from ansorc.search.sketch.tiling_variants import (
    FuseInterleavedConsumer,
    FuseProductChain,
    FuseRowReductions,
    LaneReductionTiling,
)
from ansorc.search.sketch.widened import WidenFactors
from ansorc.search.sketch.windows import is_pipeline
from ansorc.search.space.genes import (
    Genes,
    choice_values,
    population_state,
)
from ansorc.search.space.protocol import (
    Budget,
    DefaultWishes,
    Pool,
    SketchPart,
    Structure,
    UntunedSearch,
)
from ansorc.target import Target

Cycles: TypeAlias = npt.NDArray[np.float64]
LoopCounts: TypeAlias = npt.NDArray[np.int64]
Way: TypeAlias = dict[str, tuple[LoopCounts, Cycles]]
"""For each root stage how many of its loops run in parallel, and its cycles then."""

RULES: tuple[SketchRule, ...] = (
    AlwaysInline(),
    RowsInRanges(),
    KeepRanges(),
    SimplifyConstIndices(),
    TuplesInLanes(),
    WidenFactors(),
    AddCacheWrite(),
    MultiLevelTilingWithFusion(levels=(2,)),
    MultiLevelTiling(),
    Skip(),
)
"""The first sketch of these is taken: tiled stages in their consumers, or in those of copies."""
WITH_COPIES: tuple[SketchRule, ...] = (
    PrivateCopies(parts_per_core=(1,), together=(1,), keeps=False),
    *RULES,
)
"""The first sketch of these has a copy of scattered results for each core."""
WITH_RFACTOR: tuple[SketchRule, ...] = (
    RowsInRanges(),
    KeepRanges(),
    AddRfactor(vectors=()),
    *RULES,
)
"""The first sketch of these has long reductions in shares for the cores."""
IN_LANES: tuple[SketchRule, ...] = (
    RowsInRanges(),
    KeepRanges(),
    LaneReductionTiling(levels=(2,)),
    *RULES,
)
"""The first sketch of these has the sums of narrow results in the lanes of vectors."""
WITH_ROWS: tuple[SketchRule, ...] = (RowsInRanges(), KeepRanges(), FuseRowReductions(), *RULES)
"""The first sketch of these has what reduces the rows of a tiled stage computed with them."""
WITH_TERMS: tuple[SketchRule, ...] = (
    AlwaysInline(),
    RowsInRanges(),
    KeepRanges(),
    AddCacheWrite(),
    FuseProductChain(),
    *RULES,
)
"""The first sketch of these has products of rows of other products computed with these."""
UNTILED: tuple[SketchRule, ...] = (
    AlwaysInline(),
    RowsInRanges(),
    KeepRanges(),
    SimplifyConstIndices(),
    Skip(),
)
"""The first sketch of these leaves the sums of a pipeline to its strips of rows."""
REDEFINED: tuple[SketchRule, ...] = (
    AlwaysInline(),
    RowsInRanges(),
    KeepRanges(),
    SimplifyConstIndices(),
    WidenFactors(),
    Redefined(),
    ScanInBlocks(),
    TermsOfDigits(),
    ExtremesInBlocks(),
    FuseInterleavedConsumer(),
    MultiLevelTiling(),
    Skip(),
)
"""Those of these sketches that redefine something: on its own, or in blocks of its consumer."""

ROWS, ROUNDS = 1024, 3
BUDGET = Budget(survivors=32, children=768, refined=2, within=1.25, patience=6, enough=1.0)
"""The more loops there are to tile, the more is found later."""
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

MOST_LAYOUTS, ALIKE, PREFERRED = 2, 1.25, 1e-6
"""In how many layouts a constant may lie for different programs, how many times as long one may
seem to take that reads it in one of them, and the penalty of one that must."""
HELD = 1.02
"""How many times as long a program may seem to take whose copies read out register tiles: what goes
through memory instead is counted as if nothing waited for it."""


def estimate_cycles(sketch: Sketch, genes: Genes) -> Cycles:
    """Return [rows]: the estimated cycles of all statements of the programs `genes`."""
    state = population_state(sketch, genes)
    nests = LoopNests(state, len(genes), choice_values(sketch, genes))
    total = np.zeros(len(genes))
    for stage in state.stages:
        if not stage.is_inlined:
            total += StageAnalysis(nests, nests.nest(stage), sketch.target).estimate.total_cycles
    return total


@dataclass(frozen=True, eq=False)
class UntunedOnCpu:
    """The search for the untuned program of `dag`.

    Thousands of tilings of a few structures are compared as arrays: with and without a packed
    operand, with long reductions in shares or in lanes, with the rows of a product finished beside
    it, with plain stages in two places, and of other definitions. Where a dot-product
    instruction fits, it is used. Borders are read in place where that leaves few tests.
    """

    dag: ComputeDAG
    target: Target
    wishes: DefaultWishes
    without: frozenset[str]
    """Borders, whose time is not counted."""
    sketches: Sequence[Sketch]
    budget: Budget = BUDGET

    @staticmethod
    def of(dag: ComputeDAG, target: Target, wishes: DefaultWishes) -> UntunedOnCpu:
        """Return the search that counts no borders yet."""
        by_instruction = (TileMatrixProduct, TensorizeDotProduct)
        made = (rule(wishes.rewrite_layout) for rule in by_instruction)
        rules = (AlwaysInline(), RowsInRanges(), KeepRanges(), *made, Skip())
        sketches = tuple(s for s in generate(dag, target, rules) if is_tensorized(s))
        borders = frozenset[str]()
        if not sketches:
            rewrite_layout = wishes.rewrite_layout
            others = (
                _redefine(dag, target, rewrite_layout=rewrite_layout) if wishes.redefine else ()
            )
            sketches = (*_plain(dag, target, rewrite_layout=rewrite_layout), *others)
            borders = frozenset(op.name for op in dag.ops if is_border(dag, op))
        return UntunedOnCpu(dag, target, wishes, borders, sketches)

    def structures(self, cost_of: Callable[[Structure], float]) -> Iterator[Structure]:
        """Yield each sketch with plain stages in their first place, and in another one.

        Those that may lay constants out as a program of `wishes.like` come once more, preferred.
        """
        for sketch in self.sketches:
            penalty, places = (PENALTY_LEAVING, 1) if _leaves_caches(sketch) else (1.0, PLACES)
            if any(isinstance(step, RFactor) for step in sketch.steps):
                penalty *= PENALTY_SHARES
            for number, whole in enumerate(place_stages(sketch, places, UNROLL_LIMITS)):
                rows = ROWS_ELSEWHERE if number else ROWS
                factor = penalty * (PENALTY_ELSEWHERE if number else 1.0)
                part = SketchPart(whole, rows, _rounds(whole))
                yield Structure(whole, (part,), factor)
                yield from self._alike(part, factor)

    def _alike(self, part: SketchPart, penalty: float) -> Iterator[Structure]:
        """Yield the structure with constants laid out as in the programs that are known."""
        must = len(self.wishes.like) >= MOST_LAYOUTS
        for known in self.wishes.like:
            kept = find_kept_columns(part.sketch, known)
            if kept is not None:
                preferred = penalty * (PREFERRED if must else 1 / ALIKE)
                yield Structure(part.sketch, (replace(part, fixed=kept),), preferred)

    def start(self, part: SketchPart, rng: np.random.Generator) -> Genes:
        """Return random programs whose register tiles fit."""
        return sample_on_cpu(part.sketch, part.rows, rng)

    def neighbours(self, part: SketchPart, parents: Genes, rng: np.random.Generator) -> Genes:
        """Return mutations."""
        return mutate(part.sketch, parents, rng)

    def estimate(self, part: SketchPart, genes: Genes) -> tuple[Genes, Cycles]:
        """Return the programs with parallel loops and unrolling chosen, and their cycles."""
        return _evaluate(part.sketch, genes, self.without)

    def choose(self, pool: Pool, count: int) -> Pool:
        """Return the best programs, first one whose copies read from registers."""
        order = _with_held_first(pool)[:count]
        # The first one counts as the best: what it saves by not waiting is not in the estimate.
        return Pool(pool.part, pool.genes[order], np.sort(pool.costs[order]))

    def finish(self, steps: Steps, search: Callable[[UntunedSearch], Steps]) -> Steps:
        """Return the program with borders settled, which may need a search that counts them."""
        if not self.without:
            return steps
        counting = replace(self, without=frozenset[str]())
        return settle_borders(self.dag, self.target, steps, lambda: search(counting))


def _rounds(sketch: Sketch) -> int:
    """Return how often programs of a sketch are changed."""
    return WINDOW_ROUNDS if any(_has_windows(s.op) for s in sketch.state.stages) else ROUNDS


def _plain(dag: ComputeDAG, target: Target, *, rewrite_layout: bool) -> tuple[Sketch, ...]:
    """Return the sketches of the definition itself: as they are, and with an operand packed.

    In long pipelines other ways to compute single reductions are not tried, and nothing is packed:
    each of these would be one more program of all stages.
    """
    copies = (WITH_COPIES,) if any(op.places for op in dag.ops) else ()
    plain = generate(dag, target, RULES, most=1)[0]
    is_short = not is_long(plain)
    variants = (WITH_RFACTOR, IN_LANES, WITH_ROWS, WITH_TERMS) if is_short else ()
    firsts = [plain, *(generate(dag, target, r, most=1)[0] for r in (*copies, *variants))]
    if is_short and is_pipeline(PartialSketch.of(plain)):
        firsts += [s for s in generate(dag, target, UNTILED, most=1) if slides(s)]
    fused = {s.steps: rewrite_layouts(s) if rewrite_layout else s for s in firsts}
    return tuple(
        sketch
        for first in fused.values()
        for sketch in (first, *(pack_operand(first) if is_short else ()))
    )


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


def _with_held_first(pool: Pool) -> IntArray:
    """Return the rows of programs nearly as good as the best one, first one of held copies.

    It is the best whose copies read from registers. If there is none, the best one comes first.
    """
    order = np.argsort(pool.costs, kind="stable")
    order = order[pool.costs[order] <= HELD * pool.costs.min()]
    sketch, genes = pool.part.sketch, pool.genes[order]
    choices = choice_values(sketch, genes)
    nests = LoopNests(population_state(sketch, genes), len(genes), choices)
    is_held = np.ones(len(genes), dtype=np.bool_)
    for stage in nests.state.stages:
        if not stage.is_inlined and stage.op.combiner is None:
            statement = StageAnalysis(nests, nests.nest(stage), sketch.target)
            is_held &= (statement.registers.is_read_out > 0) if statement.inside else True
    first = int(np.argmax(is_held))
    return np.concatenate([order[first : first + 1], np.delete(order, first)])


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
