"""Families: a few programs of a computation whose sizes the caller gives, and where each is used.

Candidates are the programs that are best at some sizes. Each is estimated at more of them, and the
range of sizes is divided so that the sum of the losses to the best candidate is least. Constants
are packed once, so all programs of a family read them in one layout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise, product
from operator import mul

import numpy as np

from ansorc.codegen.size_branches import SizeBranches
from ansorc.errors import ArgumentError, BuildError, ScheduleError
from ansorc.ir.dim import Dim, SizeLike, size_of, value_of
from ansorc.ir.packing import Packing
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import State, lower, packings, replay, schedule
from ansorc.schedule.names import Steps
from ansorc.schedule.stage import Mark, Root, Stage
from ansorc.schedule.state import Step
from ansorc.schedule.steps import Split
from ansorc.search.cost_model import Float64Array
from ansorc.search.default import default_steps
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.features.statement import StageAnalysis
from ansorc.target import Target

MOST_MEMBERS = 4
"""Programs of a family, at most."""
MEMBER_LOSS = 0.03
"""The share of the time that one more program has to save over the whole range."""
MOST_HINTS = 4
"""Sizes for which a program is chosen."""
REGISTER_ROWS, TOGETHER = (1, 2, 3, 4, 6), (1, 4)
"""Rows of register tiles that are tried for small sizes, and how many of these a block has."""
FEW = 32
"""The largest size for which they are tried."""
UNTRIED = 1e30
"""The cycles of a program at a size for which it is not meant."""
CUT_TILE = 1.5
"""How many times more a register tile costs that the end cuts off: it is computed as a whole."""


@dataclass(frozen=True)
class Family:
    """Programs of `dag`, smallest sizes first: each up to the limit that follows it."""

    dag: ComputeDAG
    measure: SizeLike
    """What the limits are compared with: a dimension, or the product of all of them."""
    programs: tuple[Steps, ...]
    limits: tuple[int, ...]
    """One less than the programs: what is not below it is for the next one."""

    def branches(self) -> SizeBranches:
        """Return the programs as one kernel.

        With one dimension, each is made for its own part of the range: what cannot happen there
        costs nothing.
        """
        functions = tuple(
            lower(replay(dag, steps))
            for dag, steps in zip(self._parts(), self.programs, strict=True)
        )
        params = self.dag.arguments
        packed = {packing.source.name: packing.packed for packing in self.packings}
        return SizeBranches(
            tuple(packed.get(b.name, b) for b in params), self.dag.dims, self.measure, functions,
            self.limits,
        )  # fmt: skip

    @property
    def packings(self) -> tuple[Packing, ...]:
        """How constants are packed, for all programs."""
        return packings(replay(self.dag, self.programs[0]))

    def _parts(self) -> list[ComputeDAG]:
        if len(self.dag.dims) != 1:
            return [self.dag] * len(self.programs)
        (dim,) = self.dag.dims
        spans = pairwise((dim.low, *self.limits, dim.high + 1))
        return [self.dag.within({dim.name: (low, high - 1)}) for low, high in spans]


def choose_family(dag: ComputeDAG, target: Target, known: Sequence[Steps] = ()) -> Family:
    """Return the family of `dag` by estimates.

    Its programs are among `known`, if there are some, else among the untuned ones. Of several
    layouts of the constants, the one with the least losses is taken. Raise BuildError if none of
    `known` holds for all sizes.
    """
    samples = sample_sizes(dag.dims)
    candidates = [each for each in known if _is_legal(dag, each)]
    if known and not candidates:
        raise BuildError(
            f"none of the {len(known)} measured programs holds for all sizes of "
            f"{', '.join(map(str, dag.dims))}: tune other sizes, or build without records"
        )
    candidates = candidates or _untuned(dag, target, samples)
    costs = [[estimate_at(dag, each, row, target) for row in samples] for each in candidates]
    candidates, costs = _in_one_layout(dag, candidates, costs)
    small = [number for number, row in enumerate(samples) if max(row.values()) <= FEW]
    for variant in _variants(dag, candidates[0]) if small and not known else ():
        if _is_legal(dag, variant):
            candidates.append(variant)
            costs.append([
                estimate_at(dag, variant, row, target) if number in small else UNTRIED
                for number, row in enumerate(samples)
            ])  # fmt: skip
    table = np.array(costs)
    parts = divide_range(np.log(table / table.min(axis=0)))
    measure: SizeLike = reduce(mul, (size_of(dim) for dim in dag.dims))
    values = [value_of(measure, row) for row in samples]
    by = dag.dims[0].multiple if len(dag.dims) == 1 else 1
    limits = tuple(_limit(values[first - 1], values[first], by) for first, _ in parts[1:])
    return Family(dag, measure, tuple(candidates[number] for _, number in parts), limits)


def _in_one_layout(
    dag: ComputeDAG, candidates: Sequence[Steps], costs: Sequence[list[float]]
) -> tuple[list[Steps], list[list[float]]]:
    """Return the candidates that lay constants out in the way that costs least, and their costs."""
    groups: dict[tuple[Packing, ...], list[int]] = {}
    for number, steps in enumerate(candidates):
        groups.setdefault(packings(replay(dag, steps)), []).append(number)
    table = np.log(np.array(costs))
    best = min(groups.values(), key=lambda group: float(table[group].min(axis=0).sum()))
    return [candidates[number] for number in best], [costs[number] for number in best]


def sample_sizes(dims: Sequence[Dim]) -> list[dict[str, int]]:
    """Return sizes at which programs are compared: the ends, and powers of 2 between them.

    Several dimensions grow together, from the least of each to the largest.
    """
    counts = [sorted(_powers(*dim.bounds)) for dim in dims]
    turns = max(map(len, counts))
    rows: list[dict[str, int]] = []
    for turn in range(turns):
        places = [turn * (len(each) - 1) // max(1, turns - 1) for each in counts]
        row = {
            dim.name: each[place] * dim.multiple
            for dim, each, place in zip(dims, counts, places, strict=True)
        }
        rows += [row] if row not in rows else []
    return rows


def _powers(low: int, high: int) -> set[int]:
    return {low, high} | {n for e in range(62) if low < (n := 1 << e) < high}


def _limit(below: int, above: int, by: int) -> int:
    """Return the first value, a multiple of `by`, that belongs to the upper of two samples."""
    return min(above, -(-(math.isqrt(below * above) + 1) // by) * by)


def _untuned(dag: ComputeDAG, target: Target, samples: Sequence[Mapping[str, int]]) -> list[Steps]:
    """Return the untuned programs for some of the samples, each once.

    Those after the first lay constants out as it does, where they can. Other definitions of stages
    are left out, as they are made for one extent.
    """
    last = len(samples) - 1
    places = sorted({round(last * turn / (MOST_HINTS - 1)) for turn in range(MOST_HINTS)})
    middle = places[len(places) * 2 // 3]
    programs: dict[Steps, None] = {}
    for place in (middle, *(each for each in places if each != middle)):
        first = next(iter(programs), None)
        like = () if first is None else (first, first)  # two: it must be one of these layouts
        steps = default_steps(dag.at(samples[place]), target, redefine=False, like=like)
        if _is_legal(dag, steps):
            programs.setdefault(steps)
    return list(programs) or [default_steps(dag.at(samples[0]), target, redefine=False)]


def _variants(dag: ComputeDAG, steps: Steps) -> list[Steps]:
    """Return the program with other tiles along axes of run-time extents that are no vectors.

    Such tiles move no constant, so its layout stays. That of register tiles is the last length of a
    stage that reduces, that of blocks of any other.
    """
    if len(dag.dims) != 1:
        return []
    state = replay(dag, steps)
    vectors = {
        (stage.name, part.axis)
        for stage in state.stages
        for loop in stage.iterators
        if loop.mark is Mark.VECTORIZE
        for part in stage.parts[loop.name]
    }
    sized = {
        (stage.name, axis.name)
        for stage in state.stages
        for axis in stage.op.axes
        if axis.size is not None and (stage.name, axis.name) not in vectors
    }
    reducing = {stage.name for stage in state.stages if stage.op.reduce_axes}
    found: list[Steps] = []
    for rows, together in product(REGISTER_ROWS, TOGETHER):
        block = rows * together
        changed = tuple(
            replace(step, lengths=(*step.lengths[:-1], rows if step.stage in reducing else block))
            if isinstance(step, Split) and (step.stage, step.iterator) in sized
            else step
            for step in steps
        )
        found.append(changed)
    return found


def _is_legal(dag: ComputeDAG, steps: Steps) -> bool:
    """Return whether a program for known extents is one for all sizes."""
    try:
        lower(replay(dag, steps))
    except (ScheduleError, ArgumentError):
        return False
    return True


def estimate_at(dag: ComputeDAG, steps: Steps, sizes: Mapping[str, int], target: Target) -> float:
    """Return the estimated cycles of a program of `dag` at these sizes.

    Tiles end where the tensor does, but register tiles are computed whole.
    """
    state, cut = schedule(dag.at(sizes)), dict[str, float]()
    sized = {
        (op.name, a.name)
        for op in dag.ops
        for a in (*op.axes, *op.reduce_axes)
        if a.size is not None
    }
    for step in steps:
        if isinstance(step, Split):
            stage = state.stage(step.stage)
            if stage.op.reduce_axes and (stage.origin.node, step.iterator) in sized:
                cut[stage.name] = max(cut.get(stage.name, 0.0), _cut_share(stage, step))
        state = _cut_off(step, state).apply(state)
    nests, total = LoopNests(state, 1), 0.0
    serial: dict[str, float] = {}
    for stage in state.stages:
        if not stage.is_inlined:
            root = state.root(stage).name
            cycles = StageAnalysis(nests, nests.nest(stage), target).estimate.total_cycles
            slower = 1 + CUT_TILE * cut.get(stage.name, 0.0)
            serial[root] = serial.get(root, 0.0) + float(cycles[0]) * slower
    for stage in state.stages:
        if isinstance(stage.attach, Root) and stage.name in serial:
            shared = [loop.extent for loop in stage.iterators if loop.mark is Mark.PARALLEL]
            turns = math.prod(extent for extent in shared if isinstance(extent, int))
            cycles = serial[stage.name]
            if turns > 1:
                cycles = cycles * -(-turns // target.cores) / turns + target.costs.fork
            total += cycles
    return total


def _cut_share(stage: Stage, split: Split) -> float:
    """Return the share of the register tiles of a split that the end of its axis cuts off."""
    extents = {axis.name: axis.extent for axis in (*stage.op.axes, *stage.op.reduce_axes)}
    length, rows = extents[split.iterator], split.lengths[-1]
    assert isinstance(rows, int)
    return 1 / -(-length // rows) if length % rows else 0.0


def _cut_off(step: Step, state: State) -> Step:
    """Return a split with lengths that are no longer than what there is."""
    if not isinstance(step, Split):
        return step
    stage = state.stage(step.stage)
    position = stage.position(step.iterator)
    rest = None if position is None else stage.iterators[position].extent
    if not isinstance(rest, int):
        return step
    lengths: list[int] = []
    for number, length in enumerate(reversed(step.lengths)):
        assert isinstance(length, int)
        is_register_tile = number == 0 and bool(stage.op.reduce_axes)
        used = length if is_register_tile else min(length, rest)
        lengths.insert(0, used)
        rest = -(-rest // used)
    return replace(step, lengths=tuple(lengths))


def divide_range(losses: Float64Array) -> list[tuple[int, int]]:
    """Return the first sample of each part of the range and the candidate for it.

    `losses` [candidates, samples] are logarithms of how many times as long a candidate takes as the
    best one. Each part more has to save MEMBER_LOSS of the mean.
    """
    count = losses.shape[1]
    sums = np.concatenate([np.zeros((len(losses), 1)), np.cumsum(losses, axis=1)], axis=1)
    best: list[dict[int, tuple[float, list[tuple[int, int]]]]] = [{0: (0.0, [])}]
    for parts in range(1, MOST_MEMBERS + 1):
        reached: dict[int, tuple[float, list[tuple[int, int]]]] = {}
        for first, (cost, chosen) in best[parts - 1].items():
            for end in range(first + 1, count + 1):
                of_part = sums[:, end] - sums[:, first]
                number = int(np.argmin(of_part))
                total = cost + float(of_part[number])
                if end not in reached or total < reached[end][0]:
                    reached[end] = total, [*chosen, (first, number)]
        best.append(reached)
    ways = [
        (found[count][0] / count + MEMBER_LOSS * parts, found[count][1])
        for parts, found in enumerate(best)
        if count in found
    ]
    return min(ways, key=lambda way: way[0])[1]
