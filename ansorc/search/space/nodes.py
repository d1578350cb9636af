"""Nodes: which steps, genes and statements of a sketch belong to which node of the computation.

A node is one operation of the DAG together with the stages that rules made of it: the copy that a
tile is computed in, partial results, panels that it alone reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ansorc.schedule.extent import Hole, IntArray
from ansorc.schedule.stage import At, Making
from ansorc.schedule.state import State, Step
from ansorc.schedule.steps import CacheRead, ComputeAt, Split
from ansorc.search.memo import memoize
from ansorc.search.sketch.sketch import Sketch, TileVariable

Gene = tuple[str, str, str]
"""A node, the role of a stage in it, and the axis of a tile variable or the kind of a choice."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """A sketch, node by node."""

    names: tuple[str, ...]
    parts: tuple[tuple[Step, ...], ...]
    """The steps of each node, in their order."""
    kinds: tuple[tuple[tuple[object, ...], ...], ...]
    """The same in words that do not depend on the names of stages."""
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
            part if tiled else kinds
            for part, kinds, tiled in zip(self.parts, self.kinds, self.is_tiled, strict=True)
        )


@memoize
def nodes_of(sketch: Sketch) -> Nodes:
    """Return `sketch` node by node."""
    state = sketch.state
    names = tuple(op.name for op in sketch.dag.ops)
    number = {stage.name: names.index(stage.origin.node) for stage in state.stages}
    parts: list[list[Step]] = [[] for _ in names]
    for step in sketch.steps:
        owner = step.readers[0] if isinstance(step, CacheRead) else step.stage
        parts[number[owner]].append(step)
    owned = [_owner(variable, sketch) for variable in sketch.variables]
    owned += [(choice.stage, type(choice).__name__) for choice in sketch.choices]
    owners = [number[stage] for stage, _ in owned]
    tiled = {number[tile.stage] for tile in sketch.register_tiles}
    return Nodes(
        names,
        tuple(tuple(part) for part in parts),
        tuple(tuple(_kind(step, state) for step in part) for part in parts),
        np.array(owners, dtype=np.int64),
        tuple((names[number[stage]], _role(state, stage), axis) for stage, axis in owned),
        _statements(state, number, set(owners)),
        tuple(node in tiled for node in range(len(names))),
    )


def _owner(variable: TileVariable, sketch: Sketch) -> tuple[str, str]:
    """Return the stage and axis of a tile variable: its own, else the first that it divides."""
    if variable.stage:
        return variable.stage, variable.axis
    splits = (step for step in sketch.steps if isinstance(step, Split))
    holes = ((s, length) for s in splits for length in s.lengths if isinstance(length, Hole))
    split = next(step for step, hole in holes if hole.variable == variable.name)
    return split.stage, split.iterator


def _role(state: State, stage: str) -> str:
    """Return the role of a stage in its node: "copy", or "" for the stage that computes it."""
    origins = state.origins(state.stage(stage))
    return "copy" if any(o.making is Making.CACHE_READ for o in origins) else ""


def _statements(state: State, number: Mapping[str, int], owners: set[int]) -> IntArray:
    """Return the node of each stage that is not inlined."""
    nodes: list[int] = []
    for stage in state.stages:
        inner = stage
        while number[inner.name] not in owners and isinstance(inner.attach, At):
            inner = state.stage(inner.attach.stage)
        nodes += [] if stage.is_inlined else [number[inner.name]]
    return np.array(nodes, dtype=np.int64)


def _kind(step: Step, state: State) -> tuple[object, ...]:
    """Return the step in words that do not depend on the names of stages."""
    attach = state.stage(step.stage).attach if isinstance(step, ComputeAt) else None
    if not isinstance(attach, At):
        return (type(step).__name__,)
    target = state.stage(attach.stage)
    loop = next(it for it in target.iterators if it.name == attach.iterator)
    axes = [axis.name for axis in (*target.op.axes, *target.op.reduce_axes)]
    axis_number = axes.index(loop.axis) if loop.axis else None
    return type(step).__name__, axis_number, loop.level
