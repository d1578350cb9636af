"""How each vectorised loop is cut into vectors: of how many lanes, and if the last is masked.

Loops that share a register tile are cut alike, or the tile would not stay in registers: a group.
A remainder of several bits, such as 7 of 8 lanes, takes one masked vector instead of 4 + 2 + 1
where masked loads are fast. A tile then has whole vectors only; what its loops store to memory is
stored by masked vectors where those are fast too, else in powers of two.

A math function such as exp is a chain of about 20 instructions, each of which waits for the one
before. Loops that call one work on several vectors together, which LLVM writes as neighbouring
instructions: a processor looks ahead only so far (docs/decisions/0022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ansorc.ir.arith.affine import linear
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Binary, BinaryOp, Call, Const, Expr, Var, dtype_of
from ansorc.ir.node import Node, walk
from ansorc.ir.operator import SHORT_FUNCTIONS
from ansorc.ir.passes.accesses import Accesses, BufferAccess, Span
from ansorc.ir.passes.independence import are_iterations_independent
from ansorc.ir.passes.places import uses
from ansorc.ir.stmt import Function, LoopKind
from ansorc.ir.substitute import with_buffers

_POWERS = np.array([rest.bit_count() for rest in range(256)], dtype=np.int64)
"""Into how many powers of two each remainder falls; a vector has at most 255 other lanes."""

_LEAST_BYTES = 16
"""No processor has narrower vectors that are masked."""


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """What a processor's vectors can do."""

    bytes: int
    masked: frozenset[int] = frozenset()
    """The bytes of the elements of which it loads some lanes as fast as all, and stores some."""
    stores_masked_fast: bool = False
    """Whether it also stores some lanes as fast as all."""
    interleaved: int = 1
    """How many are worked on together where instructions wait for each other."""


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """Vectorised loops that share register tiles, or one loop alone."""

    native: int
    """The lanes of a whole vector: as many as its widest element leaves room for, or enough for the
    longest of the loops."""
    is_padded: bool
    """Whether its register tiles have room for whole vectors, and the last is filled in part."""
    interleaved: int = 1
    """Whole vectors that are worked on together."""


def lane_groups(accesses: Accesses, vectors: VectorUnit) -> dict[int, LaneGroup]:
    """Return the group of each VECTORIZED loop, by the loop's id."""
    spans = [span for span in accesses.spans() if span.loop.kind is LoopKind.VECTORIZED]
    found: dict[int, LaneGroup] = {}
    for members in _joined(spans):
        widest = max((a.buffer.dtype.bytes for span in members for a in span.accesses), default=1)
        native = _lanes(max(span.loop.extent for span in members), widest, vectors)
        is_padded = any(map(_tiles, members)) and all(
            is_ragged(span.loop.extent, native) and _may_pad(span, native, vectors)
            for span in members
        )
        for span in members:
            together = vectors.interleaved if _waits(span) else 1
            found[id(span.loop)] = LaneGroup(native, is_padded, together)
    return found


def _lanes(longest: int, widest: int, vectors: VectorUnit) -> int:
    """Return the lanes for loops of up to `longest` iterations on elements of `widest` bytes.

    A loop shorter than a vector has the next power of two: whole vectors would touch two cache
    lines nearly always, and take twice as long where a core works on them in halves.
    """
    shortest = max(1, min(_LEAST_BYTES, vectors.bytes) // widest)
    return min(max(1, vectors.bytes // widest), max(shortest, 1 << (longest - 1).bit_length()))


def _waits(span: Span) -> bool:
    """Whether the loop calls a math function of many steps, and keeps nothing in registers."""
    if any(access.buffer.scope is Scope.REGISTER for access in span.accesses):
        return False
    return any(isinstance(x, Call) and x.name not in SHORT_FUNCTIONS for x in walk(span.loop))


def is_ragged(extent: int, native: int) -> bool:
    """Whether what is left of `extent` after vectors of `native` lanes is no power of two."""
    return (extent % native).bit_count() > 1


def vector_pieces(
    extents: npt.NDArray[np.int64], native: int, *, is_masked: bool | npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return into how many vectors loops of `extents` are cut: whole ones, and for the remainder a
    masked one where `is_masked`, or one for each power of two.
    """
    rest = extents % native
    return extents // native + np.where(is_masked, rest > 0, _POWERS[rest])


def may_mask(span: Span, vectors: VectorUnit) -> bool:
    """Whether there are masked vectors for all that the loop of `span` accesses."""
    return all(_is_maskable(span, access, vectors) for access in span.accesses)


def masks_tail(span: Span, group: LaneGroup, vectors: VectorUnit) -> bool:
    """Whether one masked vector at the end of the loop of `span` is faster than several parts."""
    if not is_ragged(span.loop.extent, group.native) or not may_mask(span, vectors):
        return False
    if vectors.stores_masked_fast:
        return group.is_padded or not _tiles(span)
    stored = (access.buffer for access in span.accesses if access.is_store)
    return group.is_padded and all(buffer.scope is Scope.REGISTER for buffer in stored)


def with_padded_tiles(
    function: Function, accesses: Accesses, groups: dict[int, LaneGroup]
) -> Function:
    """Return `function` with room for whole vectors in the register tiles of padded groups."""
    wider: dict[Buffer, Buffer] = {}  # another of the same name may be in memory
    for span in accesses.spans():
        group = groups.get(id(span.loop))
        if group is not None and group.is_padded:
            for tile in _tiles(span):
                whole = _whole(tile.shape[-1], group.native)
                wider[tile] = replace(tile, shape=(*tile.shape[:-1], whole))
    return with_buffers(function, wider)


def _whole(extent: int, native: int) -> int:
    """Return `extent` rounded up to whole vectors."""
    return -(-extent // native) * native


def _joined(spans: Sequence[Span]) -> list[list[Span]]:
    """Return the spans in groups that have no register tile in common."""
    groups: list[tuple[set[str], list[Span]]] = []
    for span in spans:
        names, members = {tile.name for tile in _tiles(span)}, [span]
        apart: list[tuple[set[str], list[Span]]] = []
        for other in groups:
            if names.isdisjoint(other[0]):
                apart.append(other)
            else:
                names, members = names | other[0], other[1] + members
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def _tiles(span: Span) -> set[Buffer]:
    """Return the registers in which each lane has an element."""
    return {a.buffer for a in span.accesses if _is_tile(a, span.loop.var.name)}


def _is_tile(access: BufferAccess, name: str) -> bool:
    is_register = access.buffer.scope is Scope.REGISTER
    return is_register and any(uses(index, name) for index in access.indices)


def _may_pad(span: Span, native: int, vectors: VectorUnit) -> bool:
    """Whether the loop can work on whole vectors of its register tiles, loading parts of others.

    Lanes that are not wanted compute something, which must not be a division by zero.
    """
    name, extent = span.loop.var.name, span.loop.extent
    whole = _whole(extent, native)
    return (
        are_iterations_independent(span)
        and all(
            _is_lane(a.indices, name) and a.buffer.shape[-1] in (extent, whole)
            for a in span.accesses
            if _is_tile(a, name)
        )
        and all(_is_maskable(span, a, vectors) for a in span.accesses if not a.is_store)
        and not _divides(span.loop)
    )


def _is_lane(indices: Sequence[Expr], name: str) -> bool:
    """Whether the last index is the variable `name`, and the others are without it."""
    return indices[-1] == Var(name) and not any(uses(index, name) for index in indices[:-1])


def _is_maskable(span: Span, access: BufferAccess, vectors: VectorUnit) -> bool:
    """Whether the loop accesses one element, registers, or neighbours that may be masked.

    The operands of a dot product have several elements for a lane; they are not masked.
    """
    name = span.loop.var.name
    if access.buffer.scope is Scope.REGISTER or not any(uses(i, name) for i in access.indices):
        return True
    total = linear(access.indices[-1])
    return (
        access.buffer.dtype.bytes in vectors.masked
        and not (access.buffer.dtype.is_float and access.buffer.dtype.bits < 32)
        and total is not None
        and total.terms.get(name) == 1
        and all(dtype_of(index).lanes == 1 for index in access.indices)
        and not any(uses(atom, name) for atom in total.terms if not isinstance(atom, str))
        and not any(uses(index, name) for index in access.indices[:-1])
    )


def _divides(root: Node) -> bool:
    divisions = (BinaryOp.FLOORDIV, BinaryOp.MOD)
    return any(
        isinstance(part, Binary) and part.op in divisions and not isinstance(part.right, Const)
        for part in walk(root)
    )
