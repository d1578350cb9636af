"""How many copies of a statement unrolling makes: what the pragma chooses, and what is too many.

Each copy is compiled on its own. LLVM's time grows faster than their number: 2,000 vectors of
multiply-adds take 0.3 s, 16,000 take 16 s; and they fit no instruction cache.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ansorc.errors import Spot
from ansorc.ir.passes.vectorize_reductions import INDEPENDENT_SUMS
from ansorc.schedule.extent import BoolArray, Extent, IntArray, as_array
from ansorc.schedule.stage import Iterator, IteratorKind, Mark, Stage
from ansorc.schedule.state import State, Step

MAX_COPIES = 4096
"""The most copies of a statement, vectors counted one by one."""
NOMINAL_LANES = 8
"""Elements of one vector here: schedules are made for no target, and half or double is near."""
_PASSED = (Mark.NONE, Mark.UNROLL, Mark.VECTORIZE, Mark.TENSORIZE, Mark.MATRIX)
"""What unrolling goes on outside of."""


def unrolled_by_pragma(
    stage: Stage, state: State, limit: Extent = None, parallel: Extent = 0
) -> dict[str, BoolArray]:
    """Return which iterators of `stage` its pragma unrolls: one truth each, or one for each row.

    Going outwards, loops are unrolled while the number of copies of the body stays at or below the
    limit; a vectorized loop is one copy, but its vectors count towards MAX_COPIES. A parallel loop,
    or one that holds another stage, stops it. `limit` is a choice as in `unroll_limit`; the first
    `parallel` iterators run in parallel besides those that are marked.
    """
    most = np.minimum(unroll_limit(stage, limit), MAX_COPIES // as_array(vectors_of(stage)))
    serial = as_array(parallel)
    chosen = dict.fromkeys((it.name for it in stage.iterators), np.asarray(False))
    is_open, copies = np.asarray(True), np.asarray(1)
    for place, iterator in reversed(tuple(enumerate(stage.iterators))):
        if iterator.mark not in _PASSED or state.attached(stage.name, iterator.name):
            break
        is_open = is_open & (place >= serial)
        if iterator.mark in (Mark.VECTORIZE, Mark.TENSORIZE, Mark.MATRIX):
            continue
        extent = as_array(iterator.extent)
        copies = copies * extent
        if iterator.mark is Mark.NONE:
            is_open = is_open & ((copies <= most) | (extent == 1))
            chosen[iterator.name] = is_open & (extent > 1)
    return chosen


def unroll_limit(stage: Stage, chosen: Extent = None) -> IntArray:
    """Return up to how many copies of the body of `stage` its loops are unrolled.

    That is what was `chosen`, or what its pragma says where nothing, or 0, is.
    """
    own = np.asarray(dict(stage.pragmas).get("auto_unroll_max_step", 0))
    return own if chosen is None else np.where(np.equal(chosen, 0), own, chosen)


def vectors_of(stage: Stage) -> int | IntArray:
    """Return the vectors of the vectorized loops of `stage`, for one program or each of many."""
    vectors: int | IntArray = 1
    for iterator in stage.iterators:
        if iterator.mark is Mark.VECTORIZE and iterator.extent is not None:
            vectors = vectors * _vectors(iterator.extent, iterator.kind)
    return vectors


def _vectors(extent: int | IntArray, kind: IteratorKind) -> int | IntArray:
    """The vectors of a vectorized loop that become code; a long reduction is a loop of a few."""
    vectors = -(-extent // NOMINAL_LANES)
    if kind is IteratorKind.SPACE:
        return vectors
    most = 2 * INDEPENDENT_SUMS
    return min(vectors, most) if isinstance(vectors, int) else np.minimum(vectors, most)


def require_bounded(step: Step, state: State, after: State, loop: Spot) -> None:
    """Refuse `step`, which is about `loop`, if `after` it a statement has more than MAX_COPIES.

    Lengths that are not chosen yet, and whole populations, are not looked at.
    """
    for stage in after.stages:
        if stage.is_inlined:
            continue
        loops = (*after.around(stage), *((stage, iterator) for iterator in stage.iterators))
        marked = [(owner, it) for owner, it in loops if it.mark is Mark.UNROLL]
        vectors = [(stage, it) for it in stage.iterators if it.mark is Mark.VECTORIZE]
        if not marked and not stage.op.reduce_axes and not stage.scope:
            continue  # `vectorize_loops` keeps the many vectors of a plain stage a loop
        copies = prod(_copies(iterator) for _, iterator in (*marked, *vectors))
        if copies > MAX_COPIES:
            spots: list[Spot] = [(owner.name, it.name) for owner, it in (*marked, *vectors)]
            step.refuse(
                state,
                f"it would make {copies} copies of the statement of '{stage.name}', which would "
                f"compile for seconds; the most is {MAX_COPIES}: split a loop, and unroll or "
                "vectorize only its inner part",
                *dict.fromkeys((loop, *spots)),
            )


def _copies(iterator: Iterator) -> int:
    if not isinstance(iterator.extent, int):
        return 1
    is_vector = iterator.mark is Mark.VECTORIZE
    return int(_vectors(iterator.extent, iterator.kind)) if is_vector else iterator.extent
