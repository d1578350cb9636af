"""Nodes: which steps, genes and statements of a sketch belong to which node of the computation.

A node is one operation of the DAG together with the stages that rules made of it: the copy that a
tile is computed in, partial results, panels that it alone reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ansorc.schedule.extent import Hole, IntArray
from ansorc.schedule.stage import At
from ansorc.schedule.state import State, Step
from ansorc.schedule.steps import CacheRead, ComputeAt, Split
from ansorc.search.sketch.sketch import Sketch

Gene = tuple[str, str]
"""A node, and the axis that a tile variable divides or the kind of a choice."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """A sketch, node by node."""

    names: tuple[str, ...]
    parts: tuple[tuple[Step, ...], ...]
    """The steps of each node, in their order."""
    owners: IntArray
    """[columns]: the node of each gene."""
    genes: tuple[Gene, ...]
    """For each column what it decides, whatever its stage is called in this sketch."""
    statements: IntArray
    """[statements]: the node of each stage that is not inlined, producers first. A stage without
    genes that is computed inside another one counts as a part of that."""
    is_tiled: tuple[bool, ...]
    """Whether a multi-level tiling of the node has genes."""

    def loose(self) -> tuple[object, ...]:
        """Return the parts in words that do not depend on the names of other nodes' stages."""
        return tuple(
            part if tiled else tuple(_kind(step) for step in part)
            for part, tiled in zip(self.parts, self.is_tiled, strict=True)
        )


@lru_cache(maxsize=4096)
def nodes_of(sketch: Sketch) -> Nodes:
    """Return `sketch` node by node."""
    state = sketch.state
    names = tuple(op.name for op in sketch.dag.ops)
    copies = _copies(sketch)
    number = {stage.name: _node(stage.name, names, copies) for stage in state.stages}
    parts: list[list[Step]] = [[] for _ in names]
    for step in sketch.steps:
        owner = step.readers[0] if isinstance(step, CacheRead) else step.stage
        parts[number[owner]].append(step)
    stages = [_stage_of(variable.name, sketch, number) for variable in sketch.variables]
    kinds = [variable.name.rpartition(".")[2] for variable in sketch.variables]
    stages += [choice.stage for choice in sketch.choices]
    kinds += [f"{choice.name.partition(':')[0]}:" for choice in sketch.choices]
    owners = [number[stage] for stage in stages]
    tiled = {number[tile.stage] for tile in sketch.register_tiles}
    return Nodes(
        names,
        tuple(tuple(part) for part in parts),
        np.array(owners, dtype=np.int64),
        tuple((names[owner], kind) for owner, kind in zip(owners, kinds, strict=True)),
        _statements(state, number, set(owners)),
        tuple(place in tiled for place in range(len(names))),
    )


def _copies(sketch: Sketch) -> dict[str, str]:
    """The reader of each tensor that is copied for it, by the beginning of the copy's name."""
    reads = [step for step in sketch.steps if isinstance(step, CacheRead)]
    return {f"{step.stage}.{step.scope}": step.readers[0] for step in reads}


def _stage_of(variable: str, sketch: Sketch, known: Mapping[str, int]) -> str:
    """The stage that a tile variable is named after, else the first one that it divides."""
    named = variable.rpartition(".")[0]
    if named in known:
        return named
    splits = (step for step in sketch.steps if isinstance(step, Split))
    holes = ((s.stage, length) for s in splits for length in s.lengths if isinstance(length, Hole))
    return next(stage for stage, hole in holes if hole.variable == variable)


def _node(stage: str, names: tuple[str, ...], copies: Mapping[str, str]) -> int:
    if stage in names:
        return names.index(stage)
    reader = next((copies[copy] for copy in copies if f"{stage}.".startswith(f"{copy}.")), stage)
    fitting = [name for name in names if f"{reader}.".startswith(f"{name}.")]
    return names.index(max(fitting, key=len))


def _statements(state: State, number: Mapping[str, int], owners: set[int]) -> IntArray:
    found: list[int] = []
    for stage in state.stages:
        inner = stage
        while number[inner.name] not in owners and isinstance(inner.attach, At):
            inner = state.stage(inner.attach.stage)
        found += [] if stage.is_inlined else [number[inner.name]]
    return np.array(found, dtype=np.int64)


def _kind(step: Step) -> tuple[str, str]:
    place = step.iterator if isinstance(step, ComputeAt) else ""
    return type(step).__name__, place
