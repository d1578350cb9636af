"""How many copies of a statement unrolling makes: what the pragma chooses, and what is too many.

Each copy is compiled on its own. LLVM's time grows faster than their number: 2,000 vectors of
multiply-adds take 0.3 s, 16,000 take 16 s; and they fit no instruction cache.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ansorc.errors import Spot
from ansorc.ir.passes.vectorize_reductions import INDEPENDENT_SUMS
from ansorc.schedule.extent import IntArray
from ansorc.schedule.stage import Iterator, IteratorKind, Mark, Stage
from ansorc.schedule.state import State, Step
from ansorc.schedule.values import known

MAX_COPIES = 4096
"""The most copies of a statement, vectors counted one by one."""
NOMINAL_LANES = 8
"""Elements of one vector here: schedules are made for no target, and half or double is near."""


def unrolled_by_pragma(stage: Stage, state: State) -> frozenset[str]:
    """Return the names of the iterators of `stage` that its pragma unrolls.

    Going outwards, loops are unrolled while the number of copies of the body stays at or below the
    pragma's value; a vectorized loop is one copy, but its vectors count towards MAX_COPIES. A loop
    that holds another stage stops it.
    """
    pragma = dict(stage.pragmas).get("auto_unroll_max_step", 0)
    limit = min(pragma, MAX_COPIES // vectors_of(stage))
    chosen: set[str] = set()
    copies = 1
    for iterator in reversed(stage.iterators):
        extent = known(iterator.extent)
        is_plain = iterator.mark in (Mark.NONE, Mark.UNROLL, Mark.VECTORIZE, Mark.TENSORIZE)
        if not is_plain or state.attached(stage.name, iterator.name):
            break
        if iterator.mark in (Mark.VECTORIZE, Mark.TENSORIZE) or extent == 1:
            continue
        copies *= extent
        if iterator.mark is Mark.NONE:
            if copies > limit:
                break
            chosen.add(iterator.name)
    return frozenset(chosen)


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
