"""Which serial loops the `auto_unroll_max_step` pragma turns into unrolled ones."""

from __future__ import annotations

from ansorc.schedule.stage import Mark, Stage
from ansorc.schedule.state import State
from ansorc.schedule.values import known


def unrolled_by_pragma(stage: Stage, state: State) -> frozenset[str]:
    """Return the names of the iterators of `stage` that its pragma unrolls.

    Going outwards, loops are unrolled while the number of copies of the body stays at or below the
    pragma's value; a vectorized loop is one copy. A loop that holds another stage stops it.
    """
    limit = dict(stage.pragmas).get("auto_unroll_max_step", 0)
    chosen: set[str] = set()
    copies = 1
    for iterator in reversed(stage.iterators):
        extent = known(iterator.extent)
        is_plain = iterator.mark in (Mark.NONE, Mark.UNROLL, Mark.VECTORIZE)
        if not is_plain or state.attached(stage.name, iterator.name):
            break
        if iterator.mark is Mark.VECTORIZE or extent == 1:
            continue
        copies *= extent
        if iterator.mark is Mark.NONE:
            if copies > limit:
                break
            chosen.add(iterator.name)
    return frozenset(chosen)
