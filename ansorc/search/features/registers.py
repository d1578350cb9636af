"""RegisterTile: the results that the innermost loops of a statement compute at once, in registers.

The innermost loops that are unrolled or vectorised make the tile. A reduce loop around them adds
to it step by step without touching memory (`ansorc.ir.passes.promote_accumulators`). A step is one
iteration of all the loops of the tile. Where the vectorised loop is itself one of the reduction, it
is a loop of the tile as well: its lanes are terms, and each result has a few vectors of sums
(`ansorc.ir.passes.vectorize_reductions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import takewhile
from math import prod
from typing import NamedTuple

import numpy as np

from ansorc.ir.expr import Load
from ansorc.ir.passes.lane_groups import vector_pieces
from ansorc.ir.passes.vectorize_reductions import (
    calls_function,
    count_sums,
    vectors_and_turns,
)
from ansorc.lang.compute_op import ComputeOp
from ansorc.search.features.access import Access, Places, reuse_of
from ansorc.search.features.columns import LOG, BoolArray, FloatArray
from ansorc.search.features.loop_nest import LoopNest, NestLoop, Shift, product
from ansorc.search.memo import memoize
from ansorc.target import Target
from ansorc.target.code_facts import INDEPENDENT_SUMS, LEAST_TRANSPOSED_ROWS, MAX_UNROLLED_CHUNKS


@dataclass(frozen=True, eq=False)
class Vectors:
    """The vectorised loop of a statement; extent 1 if there is none."""

    loop: int | None
    """Its number in the nest."""
    extent: FloatArray
    chunks: FloatArray
    """Instructions for it: the full vectors, and for the remainder a masked one, or one for each
    power of two."""
    lanes: int
    """Elements of a native vector, of the widest type that the statement touches."""
    is_reduce: bool
    """Whether the lanes are terms of one sum."""
    wanted_sums: int
    """Vectors of such sums that are wanted beside each other, for all rows of the tile."""
    around: FloatArray
    """Iterations of the reduce loop directly around it, which may have sums of their own."""
    loads: tuple[FloatArray, ...]
    """For each access, the instructions that load or store what it touches."""


class Tile(NamedTuple):
    """The tile of a statement; arrays are [rows]."""

    copies: FloatArray
    """Product of the unrolled loops."""
    vectors: FloatArray
    """Vectors computed in a step: `copies` times the chunks of the vectorised loop."""
    sums: FloatArray
    """Vectors of results, or of sums in lanes, that are kept in registers."""
    elements: FloatArray
    """Iterations in a step: `copies` times the extent of the vectorised loop."""
    loads: tuple[FloatArray, ...]
    """For each access, the instructions that load or store its elements of one step."""
    terms: FloatArray
    """Terms that are added to each result while the tile stays in registers; 1 if it does not."""
    unrolled_terms: FloatArray
    """Copies of a step in straight-line code."""
    beside: FloatArray
    """Vectors of sums inside the innermost reduce loop: only these are added to beside each other,
    where that loop is unrolled inside others of the tile."""
    beside_terms: FloatArray
    """Terms that are added to these, one after the other."""
    beside_loads: FloatArray
    """Instructions that load the operands of one term of these."""


def vectors_of(nest: LoopNest, accesses: Sequence[Access], target: Target) -> Vectors:
    """Return how the vectorised loops of `nest` become vector instructions."""
    rows = accesses[0].rows
    lanes = max(1, target.vector_bytes // max(access.element_bytes for access in accesses))
    places = [position for position, loop in enumerate(nest.loops) if loop.is_vector]
    extent = product([nest.loops[position].extent for position in places], rows)
    is_reduce = bool(places) and nest.loops[places[-1]].is_reduce
    is_sum = nest.stage.op.combiner is not None
    is_masked = is_reduce or _is_masked(accesses[is_sum:], places, target, in_registers=is_sum)
    chunks = vector_pieces(extent.astype(np.int64), lanes, is_masked=is_masked)
    last = places[-1] if places else None
    chunks = chunks.astype(np.float32)
    around, outer = np.ones_like(extent), nest.loops[: places[0]] if is_reduce else ()
    for loop in takewhile(lambda nested: nested.is_reduce, reversed(outer)):
        around = np.where(around == 1, loop.extent, around)
    wanted = _count_wanted_sums(nest, accesses, target)
    loads = tuple(_loads(access, last, extent, chunks, lanes) for access in accesses)
    return Vectors(last, extent, chunks, lanes, is_reduce, wanted, around, loads)


def _is_masked(
    accesses: Sequence[Access], loops: Sequence[int], target: Target, *, in_registers: bool
) -> bool | BoolArray:
    """Where a remainder is one masked vector (see `ansorc.ir.passes.lane_groups`): [rows], or for
    all."""
    if not target.masks_remainders(in_registers=in_registers):
        return False
    is_masked: bool | BoolArray = True
    for access in accesses:
        for loop in loops:
            is_masked = is_masked & _is_maskable(access, loop, target)
    return is_masked


def _is_maskable(access: Access, loop: int, target: Target) -> BoolArray:
    """Where the vectorised loop touches one element, or neighbours that may be masked: [rows].

    A quotient, which moves by less than 1, is taken for one element. A loop of one iteration
    touches one, however far it would move.
    """
    is_one = access.nest.extents[loop] == 1
    stays = others = np.ones(access.rows, dtype=np.bool_)
    step: Shift = None
    for movement in access.movements:
        step, others = movement.steps[loop], stays
        if step is not None:
            stays = stays & (is_one | (np.abs(step) < 1))
    dtype = access.buffer.dtype
    is_narrow_float = dtype.is_float and dtype.bits < 32
    if step is None or dtype.bytes not in target.masked_bytes or is_narrow_float:
        return stays
    return stays | (others & (step == 1))


def _count_wanted_sums(nest: LoopNest, accesses: Sequence[Access], target: Target) -> int:
    reads = (access for access in accesses if not access.is_local and not access.is_written)
    return count_sums(
        calls=_calls(nest.stage.op),
        streams=any(access.buffer.bytes > max(target.cache_bytes) for access in reads),
        streaming_sums=target.streaming_sums,
    )


@memoize
def _calls(op: ComputeOp) -> bool:
    return calls_function(*op.parts)


def tile_of(nest: LoopNest, accesses: Sequence[Access], vectors: Vectors, target: Target) -> Tile:
    """Return the tile of the statement of `nest`."""
    if nest.stage.op.places:
        return _vector_only(vectors)
    scan = _start(accesses)
    best = _Scan(_vector_only(vectors), scan.is_open, scan.is_straight)
    is_sum = nest.stage.op.combiner is not None or nest.stage.op.scan is not None
    written = sum(access.element_bytes for access in accesses if access.is_written)
    for position in reversed(range(nest.own, len(nest.loops))):
        loop = nest.loops[position]
        if loop.is_reduce and loop.is_vector:
            scan = _choose(scan.is_open, _grow(scan, position, accesses, vectors), scan)
            best = scan
        elif loop.is_reduce:
            fits = _fits(scan.tile, written, vectors, target)
            scan = _Scan(scan.tile, scan.is_open & fits, scan.is_straight)
            operands = _operands(scan.tile, position, accesses, vectors, target)
            added = _add(scan, best, loop, operands)
            best = _choose(scan.is_open & (loop.extent > 1), added, best)
        else:
            inside = loop.is_unrolled | loop.is_vector | (loop.extent == 1)
            scan = _Scan(scan.tile, scan.is_open & inside, scan.is_straight)
            scan = _choose(scan.is_open, _grow(scan, position, accesses, vectors), scan)
    return best.tile if is_sum else scan.tile


def _fits(tile: Tile, written: int, vectors: Vectors, target: Target) -> BoolArray:
    """Where the sums are kept in registers, of `written` bytes for each element of the results."""
    limit = int(target.costs.tile_ratio * target.vector_registers)
    if vectors.is_reduce:
        return tile.sums <= limit
    return tile.elements * written <= limit * target.vector_bytes


class _Scan(NamedTuple):
    """The tile of the loops seen so far, from the inside."""

    tile: Tile
    is_open: BoolArray
    """Whether all of them can be loops of the tile, or reduce loops around it."""
    is_straight: BoolArray
    """Whether all reduce loops seen are unrolled."""


def _start(accesses: Sequence[Access]) -> _Scan:
    ones = np.ones(accesses[0].rows, dtype=np.float32)
    tile = Tile(ones, ones, ones, ones, tuple(ones for _ in accesses), *[ones] * 5)
    return _Scan(tile, ones > 0, ones > 0)


def _vector_only(vectors: Vectors) -> Tile:
    """The tile of a reduction whose sums stay in memory."""
    ones, chunks = np.ones_like(vectors.extent), vectors.chunks
    return Tile(ones, chunks, chunks, vectors.extent, vectors.loads, ones, ones, chunks, ones, ones)


def _loads(
    access: Access, loop: int | None, extent: FloatArray, chunks: FloatArray, lanes: int
) -> FloatArray:
    """The instructions that load or store what the vectorised loop touches.

    A copy loads vectors along another loop, if that has rows enough, and turns them in registers.
    """
    reached = None if loop is None else _count_reached(access, loop)
    if loop is None or reached is None:
        return np.ones_like(extent)
    if isinstance(access.nest.stage.op.bodies[0], Load):
        has_rows = (access.strides == 1) & (access.nest.extents >= LEAST_TRANSPOSED_ROWS)
        turned = np.minimum(reached, chunks * lanes.bit_length())
        reached = np.where(has_rows.any(axis=0), turned, reached)
    return np.where(access.strides[loop] == 1, chunks, reached)


def _count_reached(access: Access, loop: int) -> FloatArray | None:
    """Elements that a loop reaches, fewer than it has iterations by a quotient; None: one."""
    if not access.moving[loop]:
        return None
    extent = access.nest.extents[loop]
    steps = [step for movement in access.movements if (step := movement.steps[loop]) is not None]
    fastest = reduce(np.maximum, map(np.abs, steps))
    return extent if (fastest >= 1).all() else np.minimum(extent, np.ceil(extent * fastest))


def _grow(scan: _Scan, position: int, accesses: Sequence[Access], vectors: Vectors) -> _Scan:
    """`scan` with a space loop in its tile."""
    tile, loop = scan.tile, accesses[0].nest.loops[position]
    if loop.is_vector and position != vectors.loop:
        return scan
    if position == vectors.loop:
        factors = vectors.loads
        copies, chunks, extent = tile.copies, vectors.chunks, vectors.extent
    else:
        factors = [_count_reached(access, position) for access in accesses]
        copies, chunks, extent = tile.copies * loop.extent, loop.extent, loop.extent
    whole = tile.vectors * chunks
    loads = tuple(
        old if factor is None else old * factor
        for old, factor in zip(tile.loads, factors, strict=True)
    )
    grown = tile._replace(
        copies=copies, vectors=whole, sums=_sums(copies, whole, vectors),
        elements=tile.elements * extent, loads=loads,
    )  # fmt: skip
    return _Scan(grown, scan.is_open, scan.is_straight)


def _sums(copies: FloatArray, whole: FloatArray, vectors: Vectors) -> FloatArray:
    """The vectors of sums of a tile of so many copies, which has `whole` vectors in all."""
    if not vectors.is_reduce:
        return whole
    most = vectors.extent // vectors.lanes
    each, turns = vectors_and_turns(vectors.wanted_sums, copies, most, vectors.around)
    return copies * each * turns


def _add(scan: _Scan, best: _Scan, loop: NestLoop, operands: FloatArray) -> _Scan:
    """`scan` with a reduce loop around its tile; `best` knows the reduce loops inside.

    `operands` are loaded for each term, if it is the innermost one.
    """
    is_straight = best.is_straight & loop.is_unrolled
    inner = best.tile
    copies = np.where(is_straight, inner.unrolled_terms * loop.extent, inner.unrolled_terms)
    is_inner = inner.terms == 1
    beside = np.where(is_inner, scan.tile.sums, inner.beside)
    is_same = is_inner | (scan.tile.sums == beside)
    tile = scan.tile._replace(
        terms=inner.terms * loop.extent,
        unrolled_terms=copies,
        beside=beside,
        beside_loads=np.where(is_inner, operands, inner.beside_loads),
        beside_terms=np.where(is_same, inner.beside_terms * loop.extent, inner.beside_terms),
    )
    return _Scan(tile, scan.is_open, is_straight)


def _operands(
    tile: Tile, loop: int, accesses: Sequence[Access], vectors: Vectors, target: Target
) -> FloatArray:
    """Instructions that load what is read in a step, but for the sums, of the first access.

    In an unrolled reduce loop `loop`, vectors that several steps read are loaded once if there
    are registers for them: neighbouring windows of a convolution.
    """
    nest, zeros = accesses[0].nest, np.zeros_like(tile.copies)
    terms, each, shared, more = nest.extents[loop], zeros, zeros, zeros
    for access, loads in zip(accesses[1:], tile.loads[1:], strict=True):
        whole = loads * terms
        if not access.moves_together(loop, vectors.loop):
            whole = np.minimum(whole, loads * access.elements[loop] / access.elements[loop + 1])
        each, shared = each + loads, shared + whole / terms
        more = more + (whole - loads) / np.maximum(terms - 1, 1)
    has_room = tile.sums + each + more <= target.vector_registers
    return np.where(nest.loops[loop].is_unrolled & has_room, shared, each)


def _choose(condition: BoolArray, new: _Scan, old: _Scan) -> _Scan:
    def pick(a: FloatArray, b: FloatArray) -> FloatArray:
        return b if a is b else np.where(condition, a, b)

    loads = tuple(map(pick, new.tile.loads, old.tile.loads))
    pairs = [(name, getattr(old.tile, name)) for name in Tile._fields if name != "loads"]
    tile = Tile(loads=loads, **{name: pick(getattr(new.tile, name), b) for name, b in pairs})
    straight = np.where(condition, new.is_straight, old.is_straight)
    return _Scan(tile, old.is_open, straight)


_MAX_RATIO = 4.0


@dataclass(frozen=True, eq=False)
class RegisterFeatures:
    """The tile of one statement (see `ansorc.search.features.registers`), against the machine."""

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
    sums_beside: FloatArray = field(metadata=LOG)
    """Those that are added to beside each other, inside the innermost reduce loop of the tile."""
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
    is_read_out: FloatArray
    """1 if it only reads and stores what other statements have just left in registers, else 0."""
    accumulators: FloatArray
    """Sums that do not wait for each other, for each one that the latency of an addition asks for;
    1 at most, and where nothing is added up."""
    inner_terms: FloatArray = field(metadata=LOG)
    """Steps that add to each result while the tile stays in registers."""
    beside_terms: FloatArray = field(metadata=LOG)
    """Those of them that follow each other without a step of another result between them."""
    sum_distance: FloatArray = field(metadata=LOG)
    """Steps from one addition to a result to the next: 1 for sums in registers."""
    loads: FloatArray = field(metadata=LOG)
    """Load instructions in a step, if operands that several results share are loaded once."""
    reloads: FloatArray = field(metadata=LOG)
    """Load instructions in a step, if only those are shared that are added to beside each other."""
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
    is_read_out: FloatArray,
) -> RegisterFeatures:
    """Return the register features of a statement of `instructions` arithmetic instructions."""
    zeros = np.zeros(accesses[0].rows, dtype=np.float32)
    reads = [(a, n) for a, n in zip(accesses, tile.loads, strict=True) if not a.is_written]
    loads = sum((count for _, count in reads), zeros)
    most = reduce(np.maximum, (count for _, count in reads), zeros)
    is_sum = accesses[0].is_read
    in_lanes = (vectors.extent > 1) & vectors.is_reduce
    is_kept = (tile.terms > 1) | in_lanes
    kept = np.where(is_kept, tile.sums, 1) + np.where(in_lanes, len(reads), loads - most + 1)
    registers = float(target.vector_registers)
    steps = places.inside[0] / tile.elements
    beside = np.where(tile.terms > 1, tile.beside, tile.sums)
    gathered = [(each > vectors.chunks).astype(np.float32) for each in vectors.loads]
    return RegisterFeatures(
        vector_extent=vectors.extent,
        vector_chunks=vectors.chunks,
        vector_efficiency=vectors.extent / (vectors.chunks * vectors.lanes),
        copies=tile.copies,
        vectors=tile.vectors,
        sums=tile.sums,
        sums_beside=beside,
        sums_in_lanes=in_lanes.astype(np.float32),
        tile_ratio=np.minimum(tile.sums / registers, _MAX_RATIO),
        live_ratio=np.minimum(kept / registers, _MAX_RATIO),
        spilled=np.maximum(kept - registers, 0),
        is_promoted=is_kept.astype(np.float32),
        is_read_out=is_read_out,
        accumulators=np.minimum(beside / INDEPENDENT_SUMS, 1) if is_sum else zeros + 1,
        inner_terms=tile.terms,
        beside_terms=tile.beside_terms,
        sum_distance=_sum_distance(tile, accesses[0], places, is_kept) if is_sum else steps,
        loads=loads,
        reloads=np.where(tile.terms > 1, tile.beside_loads * (tile.sums / beside), loads),
        loads_per_vector=loads / tile.vectors,
        gathered=sum(gathered[len(accesses) - len(reads) :], zeros),
        broadcast=sum((_broadcasts(access, n, vectors) for access, n in reads), zeros),
        scattered=gathered[0],
        steps=steps,
        tiles=steps / tile.terms,
        step_code=_step_code(tile, vectors, loads, instructions, is_kept),
    )


def _step_code(
    tile: Tile, vectors: Vectors, loads: FloatArray, instructions: float, is_kept: BoolArray
) -> FloatArray:
    """The code of the vectors that are not in a loop: all, those of sums in lanes, or so many of a
    long row that is not kept in registers."""
    share = np.minimum(tile.sums / tile.vectors, 1)
    share = np.where(is_kept, share, np.minimum(MAX_UNROLLED_CHUNKS / vectors.chunks, share))
    return share * (tile.vectors * tile.unrolled_terms * (instructions + 1) + loads)


def _sum_distance(tile: Tile, store: Access, places: Places, is_kept: BoolArray) -> FloatArray:
    op = store.nest.stage.op
    if op.places:  # the next term goes to any of them
        scattered = {place.axis for place in op.places}
        count = prod(axis.extent for axis in op.axes if axis.name in scattered)
        return np.full_like(tile.elements, count)
    again = reuse_of(store, places).iterations
    inside = np.where(again > 0, again, places.inside[0])
    return np.where(is_kept, 1, np.maximum(inside / tile.elements, 1))


def _broadcasts(access: Access, loads: FloatArray, vectors: Vectors) -> FloatArray:
    if vectors.loop is None or access.moving[vectors.loop]:
        return np.zeros_like(loads)
    return np.where(vectors.extent > 1, loads, 0)
