"""Boxes of what is read: each index that a reader uses lies in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.bounds import region


@given(
    st.integers(4, 40), st.integers(1, 9), st.integers(1, 3), st.integers(-6, 6),
    st.integers(0, 3), st.integers(0, 3),
)  # fmt: skip
def test_indices_that_are_cut_off_lie_in_the_box(
    extent: int, tile: int, stride: int, shift: int, low: int, above: int
) -> None:
    """Each value of max(min(stride * i + shift, high), low) in a tile is in the tile's box."""
    rows = stride * extent + 12
    high = max(low, rows - 1 - above)
    data = ac.placeholder((rows,), name="A")
    source = ac.compute((rows,), lambda i: data[i] + 1.0, name="S")
    read = ac.compute(
        (extent,),
        lambda i: source[ac.maximum(ac.minimum(i * stride + shift, high), low)],
        name="R",
    )
    state = ac.schedule(ComputeDAG([data, read])).split("R", "i", [tile])
    (box,) = region(state, "S", state.stage("R"), 1)
    assert isinstance(box.width, int)
    assert isinstance(box.start, int)
    for outer in range(-(-extent // tile)):
        places = range(outer * tile, min(extent, (outer + 1) * tile))
        indices = [max(min(i * stride + shift, high), low) for i in places]
        if box.low is None or not box.low.terms:
            begin = 0
        else:
            (((_, divisor), factor),) = box.low.terms.items()
            begin = factor * (outer * tile // divisor) + box.start
        assert all(begin <= index < begin + box.width for index in indices)


def test_each_axis_of_an_index_that_is_cut_off_has_its_own_factor() -> None:
    data = ac.placeholder((4,), name="A")
    source = ac.compute(4, lambda i: data[i] + 1.0, name="S")
    read = ac.compute((2, 3), lambda i, j: source[ac.minimum(i * 3 + j, 3)], name="R")
    state = ac.schedule(ComputeDAG([data, read]))
    (box,) = region(state, "S", state.stage("R"), 2)
    assert (box.start, box.width) == (-2, 3)
