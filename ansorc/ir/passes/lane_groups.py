"""Choose how each vectorised loop is cut into vectors: the lanes, and whether the last is masked.

Loops that share a register tile form a group and are cut alike, so that the tile stays in
registers. A remainder of several bits, such as 7 of 8 lanes, takes one masked vector instead of 4 +
2 + 1 if masked loads are fast. A tile then has only whole vectors. Its loops store to memory by
masked vectors if those are fast, too, else in powers of two.

A math function such as exp is a chain of about 20 dependent instructions. Loops that call one work
on several vectors together, which LLVM emits as neighbouring instructions: a processor looks ahead
only a limited distance (docs/decisions/0022).
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
from ansorc.ir.passes.queries import uses
from ansorc.ir.stmt import Function, LoopKind
from ansorc.ir.substitute import with_buffers

_POWERS = np.array([rest.bit_count() for rest in range(256)], dtype=np.int64)
"""The number of powers of two in each remainder; a vector has at most 256 lanes."""

_LEAST_BYTES = 16
"""The narrowest masked vectors of any processor."""


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """The abilities of a processor's vectors."""

    bytes: int
    masked: frozenset[int] = frozenset()
    """The sizes of elements, in bytes, for which masked loads are fast and masked stores exist."""
    stores_masked_fast: bool = False
    """Whether masked stores are fast, too."""
    interleaved: int = 1
    """The number of vectors to work on together if instructions depend on each other."""


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """Vectorised loops that share register tiles, or one loop alone."""

    native: int
    """The lanes of a whole vector: as many as fit with the widest element, or enough for the
    longest of the loops."""
    is_padded: bool
    """Whether its register tiles have room for whole vectors, the last of which is partly used."""
    interleaved: int = 1
    """The number of whole vectors that are worked on together."""


def lane_groups(accesses: Accesses, vectors: VectorUnit) -> dict[int, LaneGroup]:
    """Return the group of each VECTORIZED loop, by the loop's id."""
    spans = [span for span in accesses.spans() if span.loop.kind is LoopKind.VECTORIZED]
    groups_: dict[int, LaneGroup] = {}
    for members in _group_spans(spans):
        widest = max((a.buffer.dtype.bytes for span in members for a in span.accesses), default=1)
        native = _lanes(max(span.loop.extent for span in members), widest, vectors)
        is_padded = any(map(_tiles, members)) and all(
            is_ragged(span.loop.extent, native) and _may_pad(span, native, vectors)
            for span in members
        )
        for span in members:
            together = vectors.interleaved if _waits(span) else 1
            groups_[id(span.loop)] = LaneGroup(native, is_padded, together)
    return groups_


def _lanes(longest: int, widest: int, vectors: VectorUnit) -> int:
    """Return the lanes for loops of up to `longest` iterations on elements of `widest` bytes.

    A loop shorter than a vector gets the next power of two: whole vectors would nearly always touch
    two cache lines, and take twice as long on a core that processes them in halves.
    """
    shortest = max(1, min(_LEAST_BYTES, vectors.bytes) // widest)
    return min(max(1, vectors.bytes // widest), max(shortest, 1 << (longest - 1).bit_length()))


def _waits(span: Span) -> bool:
    """Return whether the loop calls a math function of many steps, and uses no register tile."""
    if any(access.buffer.scope is Scope.REGISTER for access in span.accesses):
        return False
    return any(isinstance(x, Call) and x.name not in SHORT_FUNCTIONS for x in walk(span.loop))


def is_ragged(extent: int, native: int) -> bool:
    """Return whether the rest of `extent` after vectors of `native` lanes is no power of two."""
    return (extent % native).bit_count() > 1


def vector_pieces(
    extents: npt.NDArray[np.int64], native: int, *, is_masked: bool | npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the number of vectors of loops of `extents`.

    The remainder after whole vectors takes one masked vector if `is_masked`, else one for each
    power of two.
    """
    rest = extents % native
    return extents // native + np.where(is_masked, rest > 0, _POWERS[rest])


def may_mask(span: Span, vectors: VectorUnit) -> bool:
    """Return whether masked vectors exist for all accesses of the loop of `span`."""
    return all(_is_maskable(span, access, vectors) for access in span.accesses)


def masks_tail(span: Span, group: LaneGroup, vectors: VectorUnit) -> bool:
    """Return whether one masked vector at the end of a loop is faster than several parts."""
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


def _group_spans(spans: Sequence[Span]) -> list[list[Span]]:
    """Return the spans in groups; different groups have no register tile in common."""
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
    """Return the register buffers in which each lane has an element."""
    return {a.buffer for a in span.accesses if _is_tile(a, span.loop.var.name)}


def _is_tile(access: BufferAccess, name: str) -> bool:
    is_register = access.buffer.scope is Scope.REGISTER
    return is_register and any(uses(index, name) for index in access.indices)


def _may_pad(span: Span, native: int, vectors: VectorUnit) -> bool:
    """Return whether the loop can use whole vectors of its register tiles, and masked loads.

    Unused lanes compute arbitrary values, but must not divide by zero.
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
    """Return whether the last index is the variable `name`, and the others do not use it."""
    return indices[-1] == Var(name) and not any(uses(index, name) for index in indices[:-1])


def _is_maskable(span: Span, access: BufferAccess, vectors: VectorUnit) -> bool:
    """Return whether the access is to one element, registers, or neighbours that may be masked.

    Operands of a dot product have several elements for each lane; they are not masked.
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
