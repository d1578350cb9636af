"""Products of narrow factors whose terms an instruction takes in groups: how the weights lie.

An instruction that adds up t terms at a time wants the factors of a group next to each other:
`weight[…, k // t, j, k % t]`. A product may be defined so. Other weights are laid out so before the
first call, or packed in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ansorc.ir.arith.affine import step_along
from ansorc.ir.expr import BinaryOp as Op
from ansorc.ir.expr import Load, Var, binary
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import (
    CacheRead,
    CacheWrite,
    ComputeAt,
    Fuse,
    Panel,
    Redefine,
    Reorder,
    Split,
)
from ansorc.search.sketch.predicates import CACHE_SCOPE, fusible_consumer, is_made
from ansorc.search.sketch.rule import PartialSketch
from ansorc.target import Target

AnyMatch = TypeVar("AnyMatch")


@dataclass(frozen=True)
class Weight:
    """The factor of a product that varies along the columns."""

    tensor: str
    group: int
    """Terms that are to adjoin."""
    is_grouped: bool
    """Whether its last axes are those of groups, in its definition."""
    is_transposed: bool = False
    """Whether the terms are along its last axis, though it is not in groups."""


def find_only_match(
    partial: PartialSketch, stage: str, match: Callable[[ComputeOp, Target], AnyMatch | None]
) -> AnyMatch | None:
    """Return the match of `stage`, as it is defined, if no other stage has one; else None."""
    if is_made(partial, stage) or not partial.stage(stage).is_untouched:
        return None
    if any(isinstance(step, Redefine) and step.stage == stage for step in partial.state.steps):
        return None  # its terms are others than in the definition
    matches = {op.name: match(op, partial.target) for op in partial.state.dag.ops}
    fitting = [name for name, found in matches.items() if found is not None]
    return matches[stage] if fitting == [stage] else None


def with_consumer(partial: PartialSketch, name: str) -> tuple[PartialSketch, str, Stage]:
    """Return the sketch in which a stage has a consumer, the stage that computes, and the consumer.

    Without one the sums are written to a stage of their own first.
    """
    if fusible_consumer(partial, name) is None:
        written = partial.then(CacheWrite(name, CACHE_SCOPE))
        (computing,) = written.state.beyond(partial.state)
        partial, name = written, computing.name
    consumer = fusible_consumer(partial, name)
    assert consumer is not None
    return partial, name, consumer


def is_grouped(op: ComputeOp, weight: Load, terms: int) -> bool:
    """Return whether the factors of a group adjoin: `weight[..., k // terms, j, k % terms]`."""
    k, j = Var(op.reduce_axes[-1].name), Var(op.axes[-1].name)
    groups = binary(Op.FLOORDIV, k, terms), j, binary(Op.MOD, k, terms)
    return weight.indices[-3:] == groups


def is_plain(op: ComputeOp, weight: Load, data: Load) -> bool:
    """Return whether it is a product `data[…, k] * weight[…, k, j]`, or `weight[…, j, k]`."""
    k, j = Var(op.reduce_axes[-1].name), Var(op.axes[-1].name)
    own_axes = {k.name, j.name}
    if not data.indices:
        return False
    others = (*weight.indices[:-2], *data.indices[:-1])
    fits = weight.indices[-2:] in ((k, j), (j, k))
    fits = fits and weight.buffer.name != data.buffer.name
    fits = fits and step_along(data.indices[-1], k.name) == 1
    used = {name for index in others for name in free_vars(index)}
    return fits and not own_axes & used and j.name not in free_vars(data.indices[-1])


def outer_axes(
    op: ComputeOp, weight: str, consumer: ComputeOp
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the consumer's outer axes that choose other weights, and those that do not."""
    (load,) = (each for each in op.loads if each.buffer.name == weight)
    own_axes, axes = op.axes[:-2], consumer.axes[:-2]
    pairs = [(each.name, axis.name) for each, axis in zip(own_axes, axes, strict=True)]
    moves = [any(step_along(i, name) for i in load.indices) for name, _ in pairs]
    before = tuple(name for (_, name), moved in zip(pairs, moves, strict=True) if moved)
    return before, tuple(name for (_, name), moved in zip(pairs, moves, strict=True) if not moved)


def with_panel(
    partial: PartialSketch, weight: Weight, reader: str, loop: tuple[str, str]
) -> PartialSketch:
    """Copy the columns of a tile's weights where they lie together, or compute them there.

    They are held in groups, whose terms adjoin.
    """
    panel = partial.state.find(weight.tensor)
    if panel is None or not panel.is_untouched or len(partial.state.readers(weight.tensor)) != 1:
        read = partial.then(CacheRead(weight.tensor, CACHE_SCOPE, (reader,)))
        (panel,) = read.state.beyond(partial.state)
        partial = read
    partial = partial.then(ComputeAt(panel.name, *loop))
    *others, first, second = (axis.name for axis in panel.op.axes)
    if weight.is_grouped:
        return partial.then(Fuse(panel.name, (first, second)))
    column, term = (first, second) if weight.is_transposed else (second, first)
    split = Split(panel.name, term, (weight.group,))
    group, term = split.made
    return partial.then(
        split, Reorder(panel.name, (*others, group, column, term)), Panel(panel.name, term),
        Fuse(panel.name, (column, term)),
    )  # fmt: skip
