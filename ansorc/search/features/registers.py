"""RegisterFeatures: how a statement uses vectors and registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from ansorc.search.features.access import Access
from ansorc.search.features.columns import LOG, BoolArray, FloatArray
from ansorc.search.features.places import Places, reuse_of
from ansorc.search.features.tile import Tile, Vectors, vector_loads
from ansorc.target import Target

LATENCY_TIMES_PORTS = 8.0
"""Independent sums that keep two multiply-add units busy at a latency of four cycles."""
_MAX_RATIO = 4.0


@dataclass(frozen=True, eq=False)
class RegisterFeatures:
    """The tile of one statement (see `ansorc.search.features.tile`), against the machine."""

    vector_extent: FloatArray = field(metadata=LOG)
    """Iterations of the vectorised loop; 1 without one."""
    vector_chunks: FloatArray = field(metadata=LOG)
    """Vector instructions for these iterations, the smaller ones of the remainder included."""
    vector_efficiency: FloatArray
    """Used share of the lanes of native vectors: 1 for a multiple of the native length."""
    copies: FloatArray = field(metadata=LOG)
    """Product of the unrolled loops of the tile."""
    vectors: FloatArray = field(metadata=LOG)
    """Vectors computed in a step of the tile."""
    sums: FloatArray = field(metadata=LOG)
    """Vectors of results in the tile; of sums in lanes where the lanes are terms of one result."""
    sums_in_lanes: FloatArray
    """1 if the lanes are terms of one result and have to be added up at the end, else 0."""
    tile_ratio: FloatArray
    """Vectors of results or sums for each vector register of the machine, 4 at most."""
    live_ratio: FloatArray
    """The same with the operands that are kept beside the tile."""
    spilled: FloatArray = field(metadata=LOG)
    """Vectors that do not fit into the registers."""
    is_promoted: FloatArray
    """1 if sums are made in registers, else 0."""
    accumulators: FloatArray
    """Sums that do not wait for each other, for each one that the latency of an addition asks for;
    1 at most, and where nothing is added up."""
    inner_terms: FloatArray = field(metadata=LOG)
    """Steps that add to each result while the tile stays in registers."""
    sum_distance: FloatArray = field(metadata=LOG)
    """Steps from one addition to a result to the next: 1 for sums in registers."""
    loads: FloatArray = field(metadata=LOG)
    """Load instructions in a step."""
    loads_per_vector: FloatArray = field(metadata=LOG)
    """Load instructions for each vector of results."""
    gathered: FloatArray = field(metadata=LOG)
    """Tensors read by vectors whose elements are not neighbours."""
    broadcast: FloatArray = field(metadata=LOG)
    """Loads in a step of one element for all lanes."""
    scattered: FloatArray
    """1 if vectors of results are stored to elements that are not neighbours, else 0."""
    steps: FloatArray = field(metadata=LOG)
    """Steps of the statement."""
    tiles: FloatArray = field(metadata=LOG)
    """Times that the results of a tile are begun and stored."""
    step_code: FloatArray = field(metadata=LOG)
    """Vector instructions in the straight-line code that unrolling makes, about."""


def register_features(
    tile: Tile,
    vectors: Vectors,
    accesses: Sequence[Access],
    places: Places,
    instructions: float,
    target: Target,
) -> RegisterFeatures:
    """Return the register features of a statement of `instructions` arithmetic instructions."""
    rows = accesses[0].rows
    zeros = np.zeros(rows, dtype=np.float32)
    pairs = zip(accesses, tile.loads, strict=True)
    reads = [(access, count) for access, count in pairs if not access.is_written]
    loads = sum((count for _, count in reads), zeros)
    most = reduce(np.maximum, (count for _, count in reads), zeros)
    is_sum = accesses[0].is_read
    in_lanes = (vectors.extent > 1) & vectors.is_reduce
    is_kept = (tile.terms > 1) | in_lanes
    operands = np.where(in_lanes, len(reads), loads - most + 1)
    kept = np.where(is_kept, tile.sums, 1) + operands
    registers = float(target.vector_registers)
    steps = places.inside[0] / tile.elements
    return RegisterFeatures(
        vector_extent=vectors.extent,
        vector_chunks=vectors.chunks,
        vector_efficiency=vectors.extent / (vectors.chunks * vectors.lanes),
        copies=tile.copies,
        vectors=tile.vectors,
        sums=tile.sums,
        sums_in_lanes=in_lanes.astype(np.float32),
        tile_ratio=np.minimum(tile.sums / registers, _MAX_RATIO),
        live_ratio=np.minimum(kept / registers, _MAX_RATIO),
        spilled=np.maximum(kept - registers, 0),
        is_promoted=is_kept.astype(np.float32),
        accumulators=np.minimum(tile.sums / LATENCY_TIMES_PORTS, 1) if is_sum else zeros + 1,
        inner_terms=tile.terms,
        sum_distance=_sum_distance(tile, accesses[0], places, is_kept) if is_sum else steps,
        loads=loads,
        loads_per_vector=loads / tile.vectors,
        gathered=sum((_is_gathered(access, vectors) for access, _ in reads), zeros),
        broadcast=sum((_broadcasts(access, n, vectors) for access, n in reads), zeros),
        scattered=_is_gathered(accesses[0], vectors),
        steps=steps,
        tiles=steps / tile.terms,
        step_code=_step_code(tile, loads, instructions),
    )


def _step_code(tile: Tile, loads: FloatArray, instructions: float) -> FloatArray:
    """The code of the vectors that are not in a loop: all, or those of sums in lanes."""
    share = np.minimum(tile.sums / tile.vectors, 1)
    return share * (tile.vectors * tile.unrolled_terms * (instructions + 1) + loads)


def _sum_distance(tile: Tile, store: Access, places: Places, is_kept: BoolArray) -> FloatArray:
    again = reuse_of(store, places).iterations
    inside = np.where(again > 0, again, places.inside[0])
    return np.where(is_kept, 1, np.maximum(inside / tile.elements, 1))


def _is_gathered(access: Access, vectors: Vectors) -> FloatArray:
    """1 where the vectorised loop touches elements of `access` that are not neighbours."""
    return (vector_loads(access, vectors) > vectors.chunks).astype(np.float32)


def _broadcasts(access: Access, loads: FloatArray, vectors: Vectors) -> FloatArray:
    if vectors.loop is None or access.moving[vectors.loop]:
        return np.zeros_like(loads)
    return np.where(vectors.extent > 1, loads, 0)
