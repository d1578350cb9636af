"""A rule for terms that go to places: copies of the results, one for each thread, or several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from ansorc.schedule.steps import Fuse, Reorder, RFactor, Split, Unroll
from ansorc.search.sketch.predicates import LEAST_TERMS
from ansorc.search.sketch.rule import PartialSketch, Verdict

MOST_COPIED = 1 << 24
"""The most elements of all copies of a result."""
LONGEST_ROW = 8
"""The most elements at a place for which a thread has several copies: more take long enough."""


@dataclass(frozen=True)
class KeepRanges:
    """Leave a reduction over ranges that are data in its loops: rows differ, so it has no tiles.

    Its contiguous axis is divided and vectorised inside the range, as of any plain reduction.
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` reduces over ranges that are data."""
        is_ragged = partial.stage(stage).op.ragged_axis is not None
        return Verdict.APPLY_AND_STOP if is_ragged else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch as it is."""
        yield partial.with_trace(f"keep the ranges of {stage}")


@dataclass(frozen=True)
class PrivateCopies:
    """Give each thread a copy of the results that terms go to, or several, and add the copies up.

        for n: H[I[n]] += 1   ->   parallel c: for n': H.rf[c, I[c * L + n']] += 1
                                   for s, c: H[s] += H.rf[c, s]

    Terms that follow each other go to different copies of a thread, where it has several: it then
    does not wait for the last one if both go to one place. The sketch without copies, in which
    threads divide the other axes, comes first.
    """

    parts_per_core: tuple[int, ...] = (1, 4)
    """The shares of the terms, for each core."""
    together: tuple[int, ...] = (1, 4, 8)
    """The copies of a thread."""
    keeps: bool = True
    """Whether the sketch without copies is made."""

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether the terms of `stage` go to places."""
        candidate = partial.stage(stage)
        is_scattered = bool(candidate.op.places) and candidate.is_untouched
        return Verdict.APPLY_AND_STOP if is_scattered else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch as it is, and one for each number of shares and of copies."""
        op = partial.stage(stage).op
        terms = prod(axis.extent for axis in op.reduce_axes)
        results = prod(axis.extent for axis in op.axes)
        row, made = prod(axis.extent for axis in op.loop_axes), 0
        for each in self.parts_per_core if terms * row >= LEAST_TERMS else ():
            for copies in self.together:
                parts = each * partial.target.cores
                is_short = copies == 1 or row <= LONGEST_ROW
                fits = is_short and parts * copies * results <= min(MOST_COPIED, terms * row)
                if fits and parts * copies > 1:
                    made += 1
                    yield _with_copies(partial, stage, parts, copies)
        if self.keeps or not made:
            yield partial.with_trace(f"{stage} without copies")


def _with_copies(partial: PartialSketch, stage: str, parts: int, copies: int) -> PartialSketch:
    """Return the sketch with `parts` shares of the terms, each in several `copies`."""
    divided, first, last = _divide_by_rows(partial, stage, parts, copies) or _divide_terms(
        partial, stage, parts, copies
    )
    factored = first
    if copies > 1:
        loops = [it.name for it in divided.stage(stage).iterators]
        space = [it for it in loops if it in {axis.name for axis in partial.stage(stage).op.axes}]
        rest = [it for it in loops if it not in {first, last, *space}]
        fuse = Fuse(stage, (first, last))
        divided = divided.then(Reorder(stage, (*space, first, last, *rest)), fuse)
        factored = fuse.made
    made = divided.then(RFactor(stage, factored, axis=0))
    (shares,) = made.state.beyond(partial.state)
    words = f"{parts} times {copies} copies of {stage}"
    return _spread(made, shares.name, factored, copies).with_trace(words)


Divided: TypeAlias = tuple[PartialSketch, str, str]
"""A sketch with divided terms, the loop over shares, and that over copies, if there are some."""


def _divide_by_rows(partial: PartialSketch, stage: str, parts: int, copies: int) -> Divided | None:
    """Return the terms divided along their first and last axis; None if that is uneven.

    Fused axes would be found again by a division for each term.
    """
    axes = partial.stage(stage).op.reduce_axes
    rows, columns = axes[0], axes[-1]
    if len(axes) == 1 or rows.extent % parts or columns.extent % copies:
        return None
    split = Split(stage, rows.name, (rows.extent // parts,))
    divided, last = partial.then(split), ""
    if copies > 1:
        inner = Split(stage, columns.name, (copies,))
        divided, last = divided.then(inner), inner.made[-1]
    return divided, split.made[0], last


def _divide_terms(partial: PartialSketch, stage: str, parts: int, copies: int) -> Divided:
    """Return the terms divided as if they were one row."""
    axes = partial.stage(stage).op.reduce_axes
    loop, extent = axes[0].name, prod(axis.extent for axis in axes)
    if len(axes) > 1:
        fuse = Fuse(stage, tuple(axis.name for axis in axes))
        partial, loop = partial.then(fuse), fuse.made
    length = -(-extent // (parts * copies))
    split = Split(stage, loop, (length, copies) if copies > 1 else (length,))
    return partial.then(split), split.made[0], split.made[-1]


def _spread(partial: PartialSketch, name: str, factored: str, copies: int) -> PartialSketch:
    """Return the sketch with the copies of a thread inside its loop over terms."""
    rest = [it.name for it in partial.stage(name).iterators if it.name != factored]
    inner = [it for it in rest if it in {a.name for a in partial.stage(name).op.axes}]
    terms = [it for it in rest if it not in inner]
    if copies == 1:
        return partial
    split = Split(name, factored, (copies,))
    outer, copy = split.made
    return partial.then(
        split,
        Reorder(name, (outer, *terms, copy, *inner)),
        Unroll(name, copy),
    )
