"""AccessFeatures: how a statement uses each of at most five tensors, the most used ones first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from ansorc.search.features.access import Access
from ansorc.search.features.columns import LOG, FloatArray
from ansorc.search.features.paper.neighbours import Neighbour
from ansorc.search.features.paper.reuse import paper_reuse
from ansorc.search.features.places import Places

BUFFERS = 5
"""Tensors with features of their own; of more, those with the fewest lines are left out."""


@dataclass(frozen=True, eq=False)
class AccessFeatures:
    """One tensor of a statement; all 0 where it has fewer. Loads of one tensor whose indices move
    in different ways count as tensors of their own."""

    is_read: FloatArray
    """1 if the tensor is only read, else 0, as in the following."""
    is_written: FloatArray
    """1 if it is only written."""
    is_updated: FloatArray
    """1 if it is read and written."""
    bytes: FloatArray = field(metadata=LOG)
    """Bytes of one element for each iteration."""
    unique_bytes: FloatArray = field(metadata=LOG)
    """Bytes of different elements."""
    lines: FloatArray = field(metadata=LOG)
    """Cache lines fetched if only neighbouring iterations share one."""
    unique_lines: FloatArray = field(metadata=LOG)
    """Different cache lines."""
    has_loop_reuse: FloatArray
    """1 if the next use of an element is in another iteration of a loop that does not move it."""
    has_serial_reuse: FloatArray
    """1 if the next use is by another statement in the same iteration of a loop."""
    has_no_reuse: FloatArray
    """1 if an element is used once."""
    reuse_iterations: FloatArray = field(metadata=LOG)
    """Iterations between two uses; 0 without reuse."""
    reuse_bytes: FloatArray = field(metadata=LOG)
    """Bytes of different elements that all statements there touch between two uses."""
    reuse_count: FloatArray = field(metadata=LOG)
    """Uses: iterations of the loop, or statements before; 0 without reuse."""
    bytes_per_use: FloatArray = field(metadata=LOG)
    """`bytes` for each use; twice the bytes without reuse, as in the following."""
    unique_bytes_per_use: FloatArray = field(metadata=LOG)
    """`unique_bytes` for each use."""
    lines_per_use: FloatArray = field(metadata=LOG)
    """`lines` for each use."""
    unique_lines_per_use: FloatArray = field(metadata=LOG)
    """`unique_lines` for each use."""
    stride: FloatArray = field(metadata=LOG)
    """Elements from one iteration of the innermost loop to the next."""


_NAMES = tuple(each.name for each in fields(AccessFeatures))


def access_columns(
    accesses: Sequence[Access], places: Places, neighbours: Sequence[Neighbour]
) -> Iterator[FloatArray]:
    """Yield the columns of the tensors, sorted in each row by lines and bytes, the most first."""
    found = [_access_features(access, places, neighbours) for access in accesses]
    lines = np.stack([features.lines for features in found])
    sizes = np.stack([features.bytes for features in found])
    order = np.lexsort((-sizes, -lines), axis=0)[:BUFFERS]
    columns = {
        name: np.take_along_axis(np.stack([getattr(each, name) for each in found]), order, axis=0)
        for name in _NAMES
    }
    for place in range(len(order)):
        yield from (columns[name][place] for name in _NAMES)
    yield from [np.zeros(accesses[0].rows, dtype=np.float32)] * (
        (BUFFERS - len(order)) * len(_NAMES)
    )


def _access_features(
    access: Access, places: Places, neighbours: Sequence[Neighbour]
) -> AccessFeatures:
    ones = np.ones(access.rows, dtype=np.float32)
    reuse = paper_reuse(access, places, neighbours)
    lines, stride = _lines(access, places)
    moved = (
        places.inside[0] * access.element_bytes,
        access.elements[0] * access.element_bytes,
        lines,
        access.lines[0],
    )
    return AccessFeatures(
        ones * (access.is_read and not access.is_written),
        ones * (access.is_written and not access.is_read),
        ones * (access.is_read and access.is_written),
        *moved,
        has_loop_reuse=reuse.is_loop,
        has_serial_reuse=reuse.is_serial,
        has_no_reuse=1 - reuse.is_loop - reuse.is_serial,
        reuse_iterations=reuse.iterations,
        reuse_bytes=reuse.bytes,
        reuse_count=reuse.count,
        bytes_per_use=_per_use(moved[0], reuse.count),
        unique_bytes_per_use=_per_use(moved[1], reuse.count),
        lines_per_use=_per_use(moved[2], reuse.count),
        unique_lines_per_use=_per_use(moved[3], reuse.count),
        stride=stride,
    )


def _per_use(amount: FloatArray, uses: FloatArray) -> FloatArray:
    return np.where(uses > 0.5, amount / np.maximum(uses, 0.5), 2 * amount)


def _lines(access: Access, places: Places) -> tuple[FloatArray, FloatArray]:
    """The lines fetched, and the stride of the innermost loop.

    Loops that do not move the access find its line again; the next one out fetches one line for
    each of its iterations, or for each few where it moves by less than a line.
    """
    steps, skipped = np.zeros(access.rows, dtype=np.float32), np.ones(access.rows, dtype=np.float32)
    innermost = np.zeros(access.rows, dtype=np.float32)
    for place in reversed(range(len(access.nest.loops))):
        extent = access.nest.loops[place].extent
        stride = access.strides[place] * (extent > 1)
        skipped = np.where((steps == 0) & (stride == 0), skipped * extent, skipped)
        is_last = (places.inside[place + 1] == 1) & (extent > 1)
        innermost = np.where(is_last, stride, innermost)
        steps = np.where(steps == 0, stride, steps)
    share = np.minimum(steps * access.element_bytes / access.line_bytes, 1)
    return np.maximum(places.inside[0] / skipped * share, 1), innermost
