"""Multi-level tiling of one stage: the splits, the loop order, the register tile, its hints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from ansorc.errors import RuleError
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.hints import hint_axes
from ansorc.schedule.extent import Hole
from ansorc.schedule.stage import Stage
from ansorc.schedule.steps import Reorder, Split
from ansorc.schedule.unrolling import MAX_COPIES, NOMINAL_LANES
from ansorc.search.sketch.rule import PartialSketch, vector_axis
from ansorc.search.sketch.short_rows import find_joined_axes
from ansorc.search.sketch.sketch import RegisterTile, TileVariable
from ansorc.search.tiles import ragged_lengths

_REGISTER_RATIO = 2
"""A register tile may have so many times as many vectors as there are registers."""


@dataclass(frozen=True)
class Tiling:
    """The shape of a tiling: `structure` lists the levels, S for space and R for reduce loops.

    SSRSRS of C[i, j] += A[i, k] * B[k, j]:   i0 j0  i1 j1  k0  i2 j2  k1  i3 j3
    """

    structure: str = "SSRSRS"
    innermost: int = 64
    """The largest innermost length of a space axis."""
    innermost_reduce: int = 512
    """The largest innermost length of a reduce axis."""
    innermost_vectors: int = 32
    """The largest innermost length of the vectorised axis, in native vectors (`innermost` binds
    where it is larger)."""

    has_ragged_tiles: bool = True
    """Whether innermost lengths of space axes may leave a tail."""
    joins_short_rows: bool = True
    """Whether a last axis that is shorter than a vector is joined with the one before it."""

    def fusible(self, levels: Iterable[int]) -> tuple[int, ...]:
        """Return those of `levels` outside of which there are only space loops."""
        return tuple(level for level in levels if self.structure[:level] == "S" * level)

    @property
    def space_levels(self) -> int:
        """How many loops each space axis becomes."""
        return self.structure.count("S")

    @property
    def reduce_levels(self) -> int:
        """How many loops each reduce axis becomes."""
        return self.structure.count("R")


SSRSRS = Tiling()
"""The tiling of the paper for CPUs."""


def is_split(axis: Axis) -> bool:
    """Return whether tiling splits `axis`: a single iteration has nothing to divide."""
    return axis.extent > 1


def add_tile_vars(partial: PartialSketch, stage: Stage, tiling: Tiling) -> PartialSketch:
    """Return the sketch with the tile variables of `stage` added.

    Two axes may have lengths that do not divide, the vectorised one and the last before it: tails
    along more of them have corners, each of which is code of its own.
    """
    _require_registers(partial, stage)
    contiguous = vector_axis(stage.op)
    may_be_ragged = [number for number, axis in enumerate(stage.op.axes) if is_split(axis)][-2:]
    lanes = partial.lanes(stage.op)
    joined = find_joined_axes(partial, stage) if tiling.joins_short_rows else ()
    variables: list[TileVariable] = []
    for number, axis in enumerate(stage.op.axes):
        is_vector = number == contiguous
        limit = max(tiling.innermost, tiling.innermost_vectors * lanes if is_vector else 0)
        limit = _innermost_limit(stage.op, axis, limit)
        lanes_along = lanes if is_vector else 0
        has_ragged = tiling.has_ragged_tiles and number in may_be_ragged and axis not in joined
        ragged = ragged_lengths(axis.extent, limit, lanes_along) if has_ragged else ()
        variables.append(_variable(stage, axis, tiling.space_levels, limit))
        variables[-1] = replace(variables[-1], lanes=lanes_along, ragged=ragged)
        if joined and is_vector:
            variables[-1] = replace(variables[-1], whole=tiling.space_levels - 1)
    unrolled = _terms_to_unroll(partial, stage)
    for axis in stage.op.reduce_axes:
        limit = min(tiling.innermost_reduce, unrolled.get(axis.name, axis.extent))
        variables.append(_variable(stage, axis, tiling.reduce_levels, limit))
    used = (variable for variable in variables if variable.extent > 1 and variable.levels > 1)
    return replace(partial, variables=(*partial.variables, *used))


def _variable(stage: Stage, axis: Axis, levels: int, limit: int) -> TileVariable:
    """Return the tile variable of an axis, with the level that holds it whole."""
    variable = tile_variable(stage, axis, levels, _innermost_limit(stage.op, axis, limit))
    return replace(variable, whole=whole_level(stage.op, axis, levels))


def apply_tiling(
    partial: PartialSketch, name: str, tiling: Tiling, fused: int = 0, rows_of: Stage | None = None
) -> PartialSketch:
    """Return the sketch with stage `name` split and ordered by `tiling`, its variables declared.

    With `fused` levels the stage is attached to the innermost of its consumer's first `fused`
    levels, and its own loops begin at the level after them. All its axes but the last are tiled
    like those of `rows_of`, if that is given.
    """
    stage = partial.stage(name)
    variables = {axis.name: variable_name(stage, axis) for axis in stage.op.axes}
    if rows_of is not None:
        rows = zip(stage.op.axes[:-1], rows_of.op.axes, strict=False)
        variables |= {axis.name: variable_name(rows_of, other) for axis, other in rows}
    for axis in stage.op.axes:
        levels = range(fused + 1, tiling.space_levels)
        partial = _split_axis(partial, stage, axis, variables[axis.name], levels)
    for axis in stage.op.reduce_axes:
        variable = variable_name(stage, axis)
        partial = _split_axis(partial, stage, axis, variable, range(1, tiling.reduce_levels))
    order = _order(partial.stage(name), tiling, fused)
    if len(order) > 1:
        partial = partial.then(Reorder(name, order))
    tile = _register_tile(partial.stage(name), variables, tiling, fused)
    return replace(partial, register_tiles=(*partial.register_tiles, tile))


def tile_variable(
    stage: Stage, axis: Axis, levels: int, limit: int, lanes: int = 0
) -> TileVariable:
    """Return the tile variable of an axis of `stage`, whose innermost lengths reach to `limit`."""
    name = variable_name(stage, axis)
    return TileVariable(name, axis.extent, levels, limit, lanes, stage=stage.name, axis=axis.name)


def variable_name(stage: Stage, axis: Axis) -> str:
    """Return the name of the tile variable of an axis of `stage`: `stage.axis`."""
    return f"{stage.name}.{axis.name}"


def part(stage: Stage, axis: Axis, level: int) -> str:
    """Return the name of loop number `level` that `axis` was split into, or of its only loop."""
    return stage.loop(axis.name, level if is_split(axis) else 0)


def _split_axis(
    partial: PartialSketch, stage: Stage, axis: Axis, variable: str, levels: range
) -> PartialSketch:
    """Return the sketch with an axis split into the levels of its variable."""
    if not levels or not is_split(axis):
        return partial
    lengths = tuple(Hole(variable, (level,)) for level in levels)
    return partial.then(Split(stage.name, axis.name, lengths))


def _order(stage: Stage, tiling: Tiling, fused: int) -> tuple[str, ...]:
    """Return the loops by level; an axis that is not split goes with its kind's first level."""
    kinds = {"S": stage.op.axes, "R": stage.op.reduce_axes}
    seen = {"S": 0, "R": 0}
    order: list[str] = []
    for letter in tiling.structure[fused:]:
        axes, level = kinds[letter], seen[letter]
        order += [stage.loop(a.name, level) for a in axes if level == 0 or is_split(a)]
        seen[letter] += 1
    return tuple(order)


def _register_tile(
    stage: Stage, variables: Mapping[str, str], tiling: Tiling, fused: int
) -> RegisterTile:
    """Return the register tile of a tiled stage."""
    levels = tiling.space_levels - fused
    split = [axis for axis in stage.op.axes if is_split(axis)]
    contiguous = vector_axis(stage.op)
    assert contiguous is not None, "a stage without a long axis has no reuse and is not tiled"
    return RegisterTile(
        stage.name,
        tuple(variables[axis.name] for axis in split),
        tuple(stage.loop(axis.name, levels - 1) for axis in split),
        split.index(stage.op.axes[contiguous]),
    )


def whole_level(op: ComputeOp, axis: Axis, levels: int) -> int | None:
    """Return the level of the tiling that holds all of `axis`; None where it may be divided."""
    if axis.name in hint_axes(op.hints, "no_split_at_outer"):
        return 0
    return levels - 1 if axis.name in hint_axes(op.hints, "no_split_at_inner") else None


def _innermost_limit(op: ComputeOp, axis: Axis, limit: int) -> int:
    """Return the largest innermost length of `axis`: `limit`, or 1 if a hint says so."""
    return 1 if axis.name in hint_axes(op.hints, "last_split_is_one") else limit


def _terms_to_unroll(partial: PartialSketch, stage: Stage) -> dict[str, int]:
    """Return the reduce axes of a tiled stage whose innermost loop is always unrolled.

    And how long it may be, so that there are not too many copies of the register tile.
    """
    vectors = -(-partial.target.vector_bytes // (4 * NOMINAL_LANES))
    left = MAX_COPIES // (_REGISTER_RATIO * partial.target.vector_registers * vectors)
    lengths: dict[str, int] = {}
    listed = hint_axes(stage.op.hints, "always_unroll_inner")
    for axis in stage.op.reduce_axes:
        if axis.name in listed:
            lengths[axis.name] = min(axis.extent, left)
            left //= lengths[axis.name]
    return lengths


def _require_registers(partial: PartialSketch, stage: Stage) -> None:
    """Raise RuleError if axes that are not to be divided fill more than the registers."""
    op, contiguous = stage.op, vector_axis(stage.op)
    listed = hint_axes(op.hints, "no_split_at_inner")
    lengths = [
        -(-axis.extent // partial.lanes(op)) if number == contiguous else axis.extent
        for number, axis in enumerate(op.axes)
        if axis.name in listed
    ]
    most = _REGISTER_RATIO * partial.target.vector_registers
    if prod(lengths) > most:
        raise RuleError(
            f"the hint no_split_at_inner of '{stage.name}' asks for {prod(lengths)} vectors in "
            f"registers, and there may be {most}; list shorter axes"
        )
    terms = _terms_to_unroll(partial, stage)
    for axis in op.reduce_axes:
        if axis.name in listed and axis.extent > terms.get(axis.name, axis.extent):
            raise RuleError(
                f"the hints of '{stage.name}' ask for all {axis.extent} iterations of "
                f"'{axis.name}' to be unrolled, and {terms[axis.name]} are the most; leave out "
                "always_unroll_inner or no_split_at_inner"
            )
