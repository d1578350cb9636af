"""Choose the loops that the pragma unrolls, and refuse too many copies of a statement.

Each copy is compiled on its own. LLVM's time grows faster than their number: 2,000 vectors of
multiply-adds take 0.3 s, 16,000 take 16 s. So many copies exceed the instruction cache, too.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ansorc.errors import Spot
from ansorc.schedule.extent import BoolArray, Extent, IntArray, as_array
from ansorc.schedule.stage import AxisKind, Loop, Mark, Stage
from ansorc.schedule.state import State, Step
from ansorc.target.code_facts import INDEPENDENT_SUMS

MAX_COPIES = 4096
"""The most copies of a statement, vectors counted one by one."""
NOMINAL_LANES = 8
"""The assumed elements of a vector: schedules do not know the target; half or double is near."""
_PASSED = (Mark.NONE, Mark.UNROLL, Mark.VECTORIZE, Mark.TENSORIZE, Mark.MATRIX)
"""Loops with these marks do not stop unrolling of the loops around them."""


def loops_to_unroll(
    stage: Stage, state: State, limit: Extent = None, parallel: Extent = 0
) -> dict[str, BoolArray]:
    """Return whether the pragma of `stage` unrolls each of its iterators, for each row.

    Going outwards, loops are unrolled while the number of copies of the body stays at or below the
    limit. A vectorized loop is one copy, but its vectors count towards MAX_COPIES. A parallel loop,
    or one with another stage inside, stops it. `limit` is a choice as in `unroll_limit`. The first
    `parallel` iterators run in parallel, in addition to those that are marked.
    """
    most = np.minimum(unroll_limit(stage, limit), MAX_COPIES // as_array(vectors_of(stage)))
    serial = as_array(parallel)
    chosen = dict.fromkeys((it.name for it in stage.iterators), np.asarray(False))
    is_open, copies = np.asarray(True), np.asarray(1)
    for position, iterator in reversed(tuple(enumerate(stage.iterators))):
        if iterator.mark not in _PASSED or state.stages_inside(stage.name, iterator.name):
            break
        if stage.is_ragged(iterator):
            break
        is_open = is_open & (position >= serial)
        if iterator.mark in (Mark.VECTORIZE, Mark.TENSORIZE, Mark.MATRIX):
            continue
        extent = as_array(iterator.extent)
        copies = copies * extent
        if iterator.mark is Mark.NONE:
            is_open = is_open & ((copies <= most) | (extent == 1))
            chosen[iterator.name] = is_open & (extent > 1)
    return chosen


def unroll_limit(stage: Stage, chosen: Extent = None) -> IntArray:
    """Return the most copies of the body of `stage` that unrolling may make.

    It is `chosen`, or the value of the pragma where `chosen` is None or 0.
    """
    pragma = np.asarray(dict(stage.pragmas).get("auto_unroll_max_step", 0))
    return pragma if chosen is None else np.where(np.equal(chosen, 0), pragma, chosen)


def vectors_of(stage: Stage) -> int | IntArray:
    """Return the vectors of the vectorized loops of `stage`, for one program or each of many."""
    vectors: int | IntArray = 1
    for iterator in stage.iterators:
        if iterator.mark is Mark.VECTORIZE and iterator.extent is not None:
            vectors = vectors * _vectors(iterator.extent, iterator.kind)
    return vectors


def _vectors(extent: int | IntArray, kind: AxisKind) -> int | IntArray:
    """Return the vectors of a vectorized loop in the code; a long reduction is a short loop."""
    vectors = -(-extent // NOMINAL_LANES)
    if kind is AxisKind.SPACE:
        return vectors
    most = 2 * INDEPENDENT_SUMS
    return min(vectors, most) if isinstance(vectors, int) else np.minimum(vectors, most)


def require_bounded(step: Step, state: State, after: State, loop: Spot) -> None:
    """Refuse `step` at `loop` if a statement has more than MAX_COPIES copies `after` it.

    Sketches and populations are not checked.
    """
    nest = after.root(after.stage(loop[0]))
    for stage in after.stages:
        if stage.is_inlined or after.root(stage) is not nest:
            continue
        loops = (*after.around(stage), *((stage, iterator) for iterator in stage.iterators))
        marked = [(owner, it) for owner, it in loops if it.mark is Mark.UNROLL]
        vectors = [(stage, it) for it in stage.iterators if it.mark is Mark.VECTORIZE]
        is_plain = not stage.op.reduce_axes and stage.op.scan is None
        if not marked and is_plain and not stage.scope:
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


def _copies(iterator: Loop) -> int:
    if not isinstance(iterator.extent, int):
        return 1
    is_vector = iterator.mark is Mark.VECTORIZE
    return int(_vectors(iterator.extent, iterator.kind)) if is_vector else iterator.extent
