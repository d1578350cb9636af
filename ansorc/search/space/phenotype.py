"""Keys of programs: equal for rows of genes that lower to the same loops, in whichever sketch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ansorc.ir.node import structure_text
from ansorc.lang.canonical import rename_op
from ansorc.schedule.extent import BoolArray, IntArray, as_array
from ansorc.schedule.memory import memory_shape, panel_of
from ansorc.schedule.scattered import start_of_results
from ansorc.schedule.stage import AxisKind, FuseRelation, Loop, Mark, Part, Root, Stage
from ansorc.schedule.state import State
from ansorc.schedule.unrolling import loops_to_unroll
from ansorc.search.memo import memoize
from ansorc.search.sketch.sketch import ParallelLoops, Sketch, UnrollLimit
from ansorc.search.space.genes import Genes, choice_values, population_state

Keys = npt.NDArray[np.uint64]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / the golden ratio spreads neighbours apart
_SHIFT = np.uint64(29)
_START_OF_SUM = 2
_KINDS = {mark: number for number, mark in enumerate(Mark, start=1)}
"""How a loop is run, by what it is marked with; an unrolled loop may owe it to the pragma."""
_ALL_KINDS = len(_KINDS) + 1


def phenotype_keys(sketch: Sketch, genes: Genes) -> Keys:
    """Return [rows] 64-bit keys: equal for rows of any sketch that are the same program.

    A program is its loops with what is computed inside, in order: the extent, the axis and the
    stride of each, how it is run, and how it is run where a sum begins. Loops of one iteration do
    not count, nor do parallel loops or unroll limits that change nothing. The keys are the same in
    every run.
    """
    state = population_state(sketch, genes)
    values = choice_values(sketch, genes)
    parallel = {c.stage: values[c.name] for c in sketch.choices if isinstance(c, ParallelLoops)}
    limits = {c.stage: values[c.name] for c in sketch.choices if isinstance(c, UnrollLimit)}
    nests = _KeyMixer(state, _texts(sketch), parallel, limits, len(genes))
    places = {buffer.name: number for number, buffer in enumerate(sketch.dag.params)}
    rewritten = sorted(places[tensor] for tensor in state.rewritten)
    keys = np.full(len(genes), _token(rewritten), dtype=np.uint64)
    for stage in state.stages:
        if isinstance(stage.attach, Root):
            keys = nests.mix(stage, keys)
    return keys


@memoize
def _texts(sketch: Sketch) -> dict[str, int]:
    """Return for each stage a number that stands for all of it but its loops and its memory.

    Tensors are numbered, parameters first, the others as they are computed: names do not count.
    """
    state = sketch.state
    roots = (stage for stage in state.stages if isinstance(stage.attach, Root))
    stages = [stage for root in roots for stage in _stages_inside(state, root)]
    names = [buffer.name for buffer in sketch.dag.params]
    names += [buffer.name for stage in stages for buffer in stage.op.buffers]
    tensors = {name: f"t{number}" for number, name in enumerate(dict.fromkeys(names))}
    return {
        stage.name: _token((rename_op(stage.op, tensors), stage.scope, *_other_pragmas(stage)))
        for stage in stages
    }


def _other_pragmas(stage: Stage) -> tuple[tuple[str, int], ...]:
    """Return the pragmas but that of unrolling, which counts by the loops that it unrolls."""
    return tuple(pragma for pragma in stage.pragmas if pragma[0] != "auto_unroll_max_step")


def _stages_inside(state: State, stage: Stage) -> Iterable[Stage]:
    """Yield the stages that are computed inside `stage`, in their order, then `stage`."""
    for iterator in stage.iterators:
        for inner in state.stages_inside(stage.name, iterator.name):
            yield from _stages_inside(state, inner)
    yield stage


@dataclass(frozen=True, eq=False)
class _KeyMixer:
    """Mixes the loops of a population into keys."""

    state: State
    texts: Mapping[str, int]
    parallel: Mapping[str, IntArray]
    limits: Mapping[str, IntArray]
    rows: int

    def mix(self, stage: Stage, keys: Keys) -> Keys:
        """Mix `stage` and what is computed inside it into the keys, skipping single iterations."""
        extents = np.empty((len(stage.iterators), self.rows), dtype=np.int64)
        for loop, iterator in enumerate(stage.iterators):
            extents[loop] = as_array(iterator.extent)
        is_loop = self._find_remaining(stage, extents)
        start = _start_of_sum(stage)
        loops = self._loops(stage, extents, start)
        starts = set(np.unique(start).tolist())
        for loop, iterator in enumerate(stage.iterators):
            if loop in starts:
                keys = np.where(start == loop, _mix(keys, _START_OF_SUM), keys)
            keys = np.where(is_loop[loop], _mix(keys, loops[loop]), keys)
            for inner in self.state.stages_inside(stage.name, iterator.name):
                keys = self.mix(inner, keys)
        keys = self._in_memory(stage, keys)
        return _mix(_mix(keys, self.texts[stage.name]), is_loop.sum(axis=0))

    def _find_remaining(self, stage: Stage, extents: IntArray) -> BoolArray:
        """Return [loops, rows]: which loops are left after longer ones absorbed others.

        Parallel loops are fused: that i.0 and i.1 are two of them does not matter, unless the steps
        of another axis lie between. The longer loop gets its length in `extents` [loops, rows].
        """
        is_loop = extents > 1
        parallel = self.parallel.get(stage.name)
        if parallel is None:
            return is_loop
        columns = np.arange(self.rows)
        last = np.full(self.rows, -1)
        axes = np.full(len(stage.iterators), -1)
        strides = np.ones_like(extents)
        names = {axis.name: number for number, axis in enumerate(stage.op.axes)}
        for loop, iterator in enumerate(stage.iterators[: parallel.max(initial=0)]):
            (part, *others) = stage.parts[iterator.name]
            if part.is_whole and not others:
                axes[loop], strides[loop] = names[part.axis], as_array(part.stride)
            is_here = is_loop[loop] & (loop < parallel)
            if axes[loop] >= 0 and axes[loop] in axes[:loop]:
                joins = is_here & (last >= 0) & (axes[last] == axes[loop])
                joins &= strides[last, columns] == strides[loop] * extents[loop]
                extents[loop] *= np.where(joins, extents[last, columns], 1)
                is_loop[last[joins], columns[joins]] = False
            last = np.where(is_here, loop, last)
        return is_loop

    def _in_memory(self, stage: Stage, keys: Keys) -> Keys:
        """Mix in how the tensor lies in memory, unless it is the box that is computed."""
        if stage.alignments or stage.panel:
            panel = panel_of(stage)
            keys = _mix(keys, -1 if panel is None else panel[0])
            for extent in memory_shape(stage):
                keys = _mix(keys, as_array(extent))
        if stage.ring is not None:
            keys = _mix(_mix(keys, as_array(stage.ring.length)), as_array(stage.ring.warm_up))
        return keys

    def _loops(self, stage: Stage, extents: IntArray, start: IntArray) -> Keys:
        """Return [loops, rows]: numbers that stand for the loops of `stage`, each by itself."""
        parts = [stage.parts[iterator.name] for iterator in stage.iterators]
        strides = np.zeros((max(map(len, parts), default=0), *extents.shape), dtype=np.int64)
        for loop, loop_parts in enumerate(parts):
            for number, part in enumerate(loop_parts):
                strides[number, loop] = as_array(part.stride)
        loops = zip(stage.iterators, parts, strict=True)
        tokens = [_loop_token(stage, iterator, loop_parts) for iterator, loop_parts in loops]
        keys = _mix(_mix(_column(tokens, np.uint64), extents), self._kinds(stage, start))
        for stride in strides:
            keys = _mix(keys, stride)
        return keys

    def _kinds(self, stage: Stage, start: IntArray) -> IntArray:
        """Return [loops, rows]: how each loop is run.

        It counts as well how the loop is run where it sets what the sum begins with.
        """
        zeros = np.zeros(self.rows, dtype=np.int64)
        parallel = self.parallel.get(stage.name, zeros)
        unrolled = loops_to_unroll(stage, self.state, self.limits.get(stage.name), parallel)
        is_unrolled = np.empty((len(stage.iterators), self.rows), dtype=bool)
        for loop, iterator in enumerate(stage.iterators):
            is_unrolled[loop] = unrolled[iterator.name]
        marks = _column([_KINDS[iterator.mark] for iterator in stage.iterators], np.int64)
        places = np.arange(len(stage.iterators))[:, None]
        kinds = np.where(is_unrolled, _KINDS[Mark.UNROLL], marks)
        np.copyto(kinds, _KINDS[Mark.PARALLEL], where=places < parallel)
        if start.max(initial=-1) >= 0:
            is_space = [iterator.kind is AxisKind.SPACE for iterator in stage.iterators]
            is_again = _column(is_space, bool) & (start >= 0) & (places >= start)
            kinds += _ALL_KINDS * marks * is_again
        return kinds


def _start_of_sum(stage: Stage) -> IntArray:
    """Return before which loop the identities of a sum are stored; -1 without a sum."""
    kinds = [iterator.kind for iterator in stage.iterators]
    if AxisKind.REDUCE not in kinds:
        return np.asarray(-1)
    return np.asarray(start_of_results(stage, kinds.index(AxisKind.REDUCE)))


def _column(values: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return `values` as an array [values, 1]."""
    return np.array(values, dtype=dtype).reshape(-1, 1)


def _places(stage: Stage) -> dict[str, int]:
    """Return the positions of the axes of a stage, by their names."""
    return {axis.name: n for n, axis in enumerate((*stage.op.axes, *stage.op.reduce_axes))}


def _loop_token(stage: Stage, iterator: Loop, parts: tuple[Part, ...]) -> int:
    """Return a number for all of a loop but its length."""
    kind = (iterator.kind, iterator.thread, iterator.chunk, iterator.function)
    places = _places(stage)
    if all(part.is_whole for part in parts):
        return _kind_token(kind, tuple(places[part.axis] for part in parts))
    return _kind_token(kind, _descent(stage, iterator.name, places))


def _descent(stage: Stage, iterator: str, places: Mapping[str, int]) -> tuple[object, ...]:
    """Return how an iterator was split and fused, from the axes on."""
    for relation in stage.relations:
        if isinstance(relation, FuseRelation):
            if relation.child.name == iterator:
                return tuple(_descent(stage, each.name, places) for each in relation.parents)
            continue
        names = [child.name for child in relation.children]
        if iterator in names:
            return names.index(iterator), _descent(stage, relation.parent.name, places)
    return (places[iterator],)


@lru_cache(maxsize=4096)
def _kind_token(kind: tuple[object, ...], axes: tuple[object, ...]) -> int:
    return _token((kind, axes))


def _token(what: object) -> int:
    # Programs are proposed in the order of their keys: the first name of this class stays in them.
    text = structure_text(what).replace("<AxisKind.", "<IteratorKind.")
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _mix(keys: Keys, tokens: npt.ArrayLike) -> Keys:
    given = np.asarray(tokens)
    mixed = keys ^ (given.view(np.uint64) if given.itemsize == 8 else given.astype(np.uint64))
    mixed *= _MULTIPLIER
    mixed ^= mixed >> _SHIFT
    return mixed
