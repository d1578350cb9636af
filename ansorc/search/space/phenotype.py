"""Keys of programs: equal for rows of genes that lower to the same loops, in whichever sketch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import IntArray, as_array
from ansorc.schedule.stage import Iterator, IteratorKind, Mark, Part, Root, Stage
from ansorc.schedule.state import State
from ansorc.schedule.unrolling import MAX_COPIES, vectors_of
from ansorc.search.memo import memoized
from ansorc.search.sketch.sketch import ParallelLoops, Sketch, UnrollLimit
from ansorc.search.space.genes import Genes, choice_values, population_state

Keys = npt.NDArray[np.uint64]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / the golden ratio spreads neighbours apart
_SHIFT = np.uint64(29)
_PARALLEL, _UNROLLED = 1, 2
_START_OF_SUM = 2


def phenotype_keys(sketch: Sketch, genes: Genes) -> Keys:
    """Return [rows] 64-bit keys: equal for rows of any sketch that are the same program.

    A program is its loops with what is computed inside, in order: the extent, the axis and the
    stride of each, and how it is run. Loops of one iteration do not count, nor do parallel loops or
    unroll limits that change nothing. The keys are the same in every run.
    """
    state = population_state(sketch, genes)
    values = choice_values(sketch, genes)
    parallel = {c.stage: values[c.name] for c in sketch.choices if isinstance(c, ParallelLoops)}
    limits = {c.stage: values[c.name] for c in sketch.choices if isinstance(c, UnrollLimit)}
    nests = _Nests(state, _texts(sketch), parallel, limits, len(genes))
    keys = np.full(len(genes), _token(sorted(state.rewritten)), dtype=np.uint64)
    for stage in state.stages:
        if isinstance(stage.attach, Root):
            keys = nests.mixed(stage, keys)
    return keys


@memoized
def _texts(sketch: Sketch) -> dict[str, int]:
    """For each stage a number that stands for all of it but its loops."""
    return {
        stage.name: _token(
            (stage.op, stage.scope, stage.alignments, stage.panel, stage.pragmas, stage.is_output)
        )
        for stage in sketch.state.stages
    }


@dataclass(frozen=True, eq=False)
class _Nests:
    """The loops of a population, to be mixed into keys."""

    state: State
    texts: Mapping[str, int]
    parallel: Mapping[str, IntArray]
    limits: Mapping[str, IntArray]
    rows: int

    def mixed(self, stage: Stage, keys: Keys) -> Keys:
        """Mix `stage` and what is computed inside it into the keys, skipping single iterations."""
        extents = np.empty((len(stage.iterators), self.rows), dtype=np.int64)
        for place, iterator in enumerate(stage.iterators):
            extents[place] = as_array(iterator.extent)
        is_loop = extents > 1
        loops = self._loops(stage, extents)
        seen_reduce = False
        for place, iterator in enumerate(stage.iterators):
            if iterator.kind is IteratorKind.REDUCE and not seen_reduce:
                seen_reduce = True  # the initial value is stored just before this loop
                keys = _mixed(keys, _START_OF_SUM)
            keys = np.where(is_loop[place], _mixed(keys, loops[place]), keys)
            for inner in self.state.attached(stage.name, iterator.name):
                keys = self.mixed(inner, keys)
        return _mixed(_mixed(keys, self.texts[stage.name]), is_loop.sum(axis=0))

    def _loops(self, stage: Stage, extents: IntArray) -> Keys:
        """[loops, rows] numbers that stand for the loops of `stage`, each by itself."""
        zeros = np.zeros(self.rows, dtype=np.int64)
        parallel = self.parallel.get(stage.name, zeros)
        unrolled = _unrolled(self.state, stage, parallel, self.limits.get(stage.name, zeros))
        parts = [stage.parts[iterator.name] for iterator in stage.iterators]
        strides = np.zeros((max(map(len, parts), default=0), *extents.shape), dtype=np.int64)
        for place, own in enumerate(parts):
            for number, part in enumerate(own):
                strides[number, place] = as_array(part.stride)
        places = np.arange(len(extents))[:, None]
        may_unroll = _column([i.mark is Mark.NONE for i in stage.iterators], bool)
        bits = _PARALLEL * (places < parallel) + _UNROLLED * may_unroll * (places >= unrolled)
        tokens = [_loop_token(*loop) for loop in zip(stage.iterators, parts, strict=True)]
        keys = _mixed(_mixed(_column(tokens, np.uint64), extents), bits)
        for stride in strides:
            keys = _mixed(keys, stride)
        return keys


def _column(values: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """[values, 1]."""
    return np.array(values, dtype=dtype).reshape(-1, 1)


def _loop_token(iterator: Iterator, parts: tuple[Part, ...]) -> int:
    """A number for what a loop is but its length."""
    kind = (iterator.kind, iterator.mark, iterator.thread, iterator.chunk, iterator.function)
    names = [part.axis for part in parts] if all(p.is_whole for p in parts) else [iterator.name]
    return _kind_token(kind, tuple(names))


@lru_cache(maxsize=4096)
def _kind_token(kind: tuple[object, ...], names: tuple[str, ...]) -> int:
    return _token((kind, names))


def _token(what: object) -> int:
    digest = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


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


def _mixed(keys: Keys, tokens: npt.ArrayLike) -> Keys:
    mixed = (keys ^ np.asarray(tokens).astype(np.uint64)) * _MULTIPLIER
    return mixed ^ (mixed >> _SHIFT)
