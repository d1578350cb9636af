"""Hand-made schedules of convolutions, channels-last, with constant weights."""

from __future__ import annotations

from dataclasses import dataclass

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule
from ansorc.target import Target


@dataclass(frozen=True)
class Tile:
    """The register tile of a convolution, and the order of the loops around it."""

    pixels: int
    """Neighbours along w."""
    vectors: int
    """Along the output channels."""
    rows: int = 1
    """Neighbours along h."""
    unroll: int = 4
    """The steps of the input channels without a jump."""
    has_rows_outside: bool = False
    """Whether the loop over rows is outside that over blocks of output channels: for weights that
    stay in a near cache."""
    has_taps_outside: bool = False
    """Whether the loop over the rows of the kernel is outside that over rows of pixels: for weights
    of which only a part stays in a near cache."""
    copies_padding: bool = False
    """Whether the padded input is copied before: for windows that are much larger than the tile's
    distance from one row to the next, where skipping taps makes too many copies of the tile."""


def convolution(shape: tuple[int, ...]) -> ComputeDAG:
    """Return the 2-d convolution of (h, w, ci, co, kernel, stride, padding), batch 1."""
    h, w, ci, co, kernel, stride, padding = shape
    x = ac.placeholder((1, h, w, ci), name="X")
    weight = ac.placeholder((kernel, kernel, ci, co), name="W", constant=True)
    y = ac.ops.conv2d(x, weight, stride=stride, padding=padding, name="Y")
    return ac.ComputeDAG([x, weight, y])


def transposed_convolution(shape: tuple[int, ...]) -> ComputeDAG:
    """Return the transposed convolution of (h, w, ci, co, kernel, stride, padding), batch 1."""
    h, w, ci, co, kernel, stride, padding = shape
    x = ac.placeholder((1, h, w, ci), name="X")
    weight = ac.placeholder((kernel, kernel, ci, co), name="W", constant=True)
    y = ac.ops.conv2d_transpose(x, weight, stride=stride, padding=padding, name="Y")
    return ac.ComputeDAG([x, weight, y])


def depthwise(shape: tuple[int, ...]) -> ComputeDAG:
    """Return the depthwise convolution of (h, w, channels, kernel, stride, padding), batch 1."""
    h, w, channels, kernel, stride, padding = shape
    x = ac.placeholder((1, h, w, channels), name="X")
    weight = ac.placeholder((kernel, kernel, channels), name="W", constant=True)
    y = ac.ops.depthwise_conv2d(x, weight, stride=stride, padding=padding, name="Y")
    return ac.ComputeDAG([x, weight, y])


def direct(dag: ComputeDAG, target: Target, tile: Tile) -> Schedule:
    """Keep a tile of pixels and channels in registers over the whole window."""
    s = ac.schedule(dag)
    if tile.copies_padding:
        s = _padding_copied(s, "Y.pad")
    elif s.find("Y.pad") is not None:
        s = s.compute_inline("Y.pad")
    s = s.split("Y", "h", [tile.rows]).split("Y", "w", [tile.pixels])
    s = s.split("Y", "c", [tile.vectors * target.vector_bytes // 4])
    s = s.split("Y", "rc", [tile.unroll])
    outer = ["h.0", "c.0"] if tile.has_rows_outside else ["c.0", "h.0"]
    inner = ["w.0", "rh"]
    if tile.has_taps_outside:
        outer, inner = ["c.0"], ["rh", "h.0", "w.0"]
    inner += ["rw", "rc.0", "rc.1", "h.1", "w.1", "c.1"]
    s = s.reorder("Y", ["n", *outer, *inner]).fuse("Y", ["n", *outer])
    for loop in ("rc.1", "h.1", "w.1"):
        s = s.unroll("Y", loop)
    s = s.vectorize("Y", "c.1").rewrite_layout("Y", "W")
    return s.parallel("Y", "@".join(["n", *outer]))


def by_phases(dag: ComputeDAG, target: Target, tile: Tile) -> Schedule:
    """Treat the dense convolutions of a transposed one as `direct` does, then interleave them."""
    phases = "Y.phases"
    s = _padding_copied(ac.schedule(dag), "Y.pad")
    s = s.split(phases, "h", [tile.rows]).split(phases, "w", [tile.pixels])
    s = s.split(phases, "c", [tile.vectors * target.vector_bytes // 4])
    s = s.split(phases, "rc", [tile.unroll])
    outer = ["n", "c.0", "ph", "pw", "h.0", "w.0"]
    s = s.reorder(phases, [*outer, "rh", "rw", "rc.0", "rc.1", "h.1", "w.1", "c.1"])
    s = s.fuse(phases, outer[:4])
    for loop in ("rc.1", "h.1", "w.1"):
        s = s.unroll(phases, loop)
    s = s.vectorize(phases, "c.1").rewrite_layout(phases, "W")
    s = s.parallel(phases, "@".join(outer[:4]))
    return s.fuse("Y", ["n", "h"]).parallel("Y", "n@h").vectorize("Y", "c")


def sliding(dag: ComputeDAG, target: Target, tile: Tile) -> Schedule:
    """A depthwise convolution whose window slides over a register tile; padding is tested.

    All channels of a tile are taken before its neighbour: arrays are read and written in order.
    """
    s = ac.schedule(dag).compute_inline("Y.pad")
    s = s.split("Y", "h", [tile.rows]).split("Y", "w", [tile.pixels])
    s = s.split("Y", "c", [tile.vectors * target.vector_bytes // 4])
    s = s.reorder("Y", ["n", "h.0", "w.0", "c.0", "rh", "rw", "h.1", "w.1", "c.1"])
    for loop in ("rh", "rw", "h.1", "w.1"):
        s = s.unroll("Y", loop)
    return s.fuse("Y", ["n", "h.0"]).parallel("Y", "n@h.0").vectorize("Y", "c.1")


def _padding_copied(s: Schedule, stage: str) -> Schedule:
    """Copy the padded input, if there is one, before everything else."""
    if s.find(stage) is None:
        return s
    s = s.fuse(stage, ["n", "h"]).parallel(stage, "n@h")
    return s.vectorize(stage, "c")
