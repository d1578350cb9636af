"""Keys of programs: equal for rows of genes that lower to the same loops."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import IntArray
from ansorc.schedule.stage import IteratorKind, Mark, Stage
from ansorc.schedule.state import State
from ansorc.schedule.unrolling import MAX_COPIES, vectors_of
from ansorc.search.sketch.sketch import ParallelLoops, Sketch, UnrollLimit
from ansorc.search.space.genes import Genes, choice_values, population_state

Keys = npt.NDArray[np.uint64]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / the golden ratio spreads neighbours apart
_SHIFT = np.uint64(29)
_PARALLEL, _UNROLLED = 1, 2
_ATTACHED, _REDUCE = -1, -2
_STRIDE = 1 << 40
"""Above any extent, so that a loop's extent and what kind of loop it is never mix."""


def phenotype_keys(sketch: Sketch, genes: Genes) -> Keys:
    """Return [rows] 64-bit keys: equal for rows of this sketch that are the same program.

    Loops of one iteration do not count, nor do parallel loops or unroll limits that change
    nothing. The keys are the same in every run.
    """
    state = population_state(sketch, genes)
    values = choice_values(sketch, genes)
    salt = hashlib.blake2b(repr(sketch.steps).encode(), digest_size=8).digest()
    keys = np.full(len(genes), int.from_bytes(salt, "little"), dtype=np.uint64)
    zeros = np.zeros(len(genes), dtype=np.int64)
    parallel = {c.stage: values[c.name] for c in sketch.choices if isinstance(c, ParallelLoops)}
    limits = {c.stage: values[c.name] for c in sketch.choices if isinstance(c, UnrollLimit)}
    for stage in state.stages:
        if not stage.is_inlined:
            count = parallel.get(stage.name, zeros)
            unrolled = _unrolled(state, stage, count, limits.get(stage.name, zeros))
            keys = _loop_keys(state, stage, keys, (count, unrolled))
    return keys


def _loop_keys(state: State, stage: Stage, keys: Keys, chosen: tuple[IntArray, IntArray]) -> Keys:
    """Mix the loops of one stage into the keys, outermost first, skipping single iterations."""
    parallel, unrolled = chosen
    axes = [axis.name for axis in (*stage.op.axes, *stage.op.reduce_axes)]
    marks = list(Mark)
    seen_reduce = False
    for place, iterator in enumerate(stage.iterators):
        assert iterator.extent is not None
        if iterator.kind is IteratorKind.REDUCE and not seen_reduce:
            seen_reduce = True  # the initial value is stored just before this loop
            keys = _mixed(keys, np.full(len(keys), _REDUCE, dtype=np.int64))
        kind = _axis(iterator.name, axes) * len(marks)
        kind = (kind + marks.index(iterator.mark)) * 4
        bits = _PARALLEL * (place < parallel) + _UNROLLED * (place >= unrolled)
        loop = (kind + bits + 1) * _STRIDE + iterator.extent
        keys = np.where(np.asarray(iterator.extent) > 1, _mixed(keys, loop), keys)
        if state.attached(stage.name, iterator.name):
            keys = _mixed(keys, np.full(len(keys), _ATTACHED, dtype=np.int64))
    return _mixed(keys, np.full(len(keys), len(stage.iterators), dtype=np.int64))


def _axis(iterator: str, axes: Sequence[str]) -> int:
    """The number of the axis that `iterator` is or was split from."""
    return next(n for n, axis in enumerate(axes) if f"{iterator}.".startswith(f"{axis}."))


def _unrolled(state: State, stage: Stage, parallel: IntArray, limit: IntArray) -> IntArray:
    """[rows]: the place of the outermost loop that the unroll limit reaches."""
    limit = np.minimum(limit, MAX_COPIES // vectors_of(stage))
    reached = np.full(len(parallel), len(stage.iterators), dtype=np.int64)
    alive = np.ones(len(parallel), dtype=bool)
    copies = np.ones(len(parallel), dtype=np.int64)
    for place in reversed(range(len(stage.iterators))):
        iterator = stage.iterators[place]
        if state.attached(stage.name, iterator.name):
            break
        alive &= place >= parallel
        if iterator.mark is Mark.VECTORIZE or iterator.extent is None:
            continue
        copies = copies * iterator.extent
        if iterator.mark is Mark.NONE:
            alive &= (copies <= limit) | (np.asarray(iterator.extent) == 1)
            reached = np.where(alive, place, reached)
    return reached


def _mixed(keys: Keys, tokens: IntArray) -> Keys:
    mixed = (keys ^ tokens.astype(np.uint64)) * _MULTIPLIER
    return mixed ^ (mixed >> _SHIFT)
