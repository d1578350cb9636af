"""What statements touch: closed forms against counting."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.lang import ComputeDAG, compute, placeholder
from ansorc.lang import operators as ops
from ansorc.schedule import Schedule, lower, replay, schedule
from ansorc.search.features.access import Access, accesses_of, in_panels
from ansorc.search.features.loop_nest import LoopNest, LoopNests, digits_of
from ansorc.target import Target
from tests.search.features import brute_force
from tests.search.workloads import convolution, matmul, smoothing, tiled_matmul, transpose
from tests.support.nightly import examples


def lengths(extent: int, levels: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Tuples of `levels` numbers whose product is `extent`."""
    choices = [shares for shares in np.ndindex(*(extent + 1,) * levels) if prod(shares) == extent]
    return st.sampled_from(choices)


TARGET = Target.parse("x86_64-linux-gnu -mcpu=znver4")


def accesses_by_name(state: Schedule, name: str) -> tuple[LoopNest, dict[str, Access]]:
    nests = LoopNests(state, 1)
    nest = nests.nest(state.stage(name))
    found = [in_panels(nests, access) for access in accesses_of(nests, nest, TARGET)]
    return nest, {access.buffer.name: access for access in found}


def check_counts(state: Schedule, *, clipped: bool = False) -> None:
    """Compare the elements of every access at every place with counting.

    Where loads may lie outside a tensor, the counts of each dimension are clipped.
    """
    counted = brute_force.statements(lower(state))
    assert set(counted) == {stage.name for stage in state.stages if not stage.is_inlined}
    for name, statement in counted.items():
        nest, found = accesses_by_name(state, name)
        places = [0] + [n + 1 for n, loop in enumerate(nest.loops) if loop.extent[0] > 1]
        extents = [int(loop.extent[0]) for loop in nest.loops if loop.extent[0] > 1]
        assert extents == [loop.extent for loop in statement.loops]
        for buffer, indices in brute_force.accesses(statement).items():
            access = found[buffer]
            for number, place in enumerate(places):
                touched = brute_force.touched(statement, indices, number)
                expected = len(touched)
                if clipped:
                    sides = [len(set(values)) for values in zip(*touched, strict=True)]
                    shape = [int(np.max(extent)) for extent in access.shape]
                    expected = prod(min(pair) for pair in zip(sides, shape, strict=True))
                assert access.elements[place, 0] == expected, (name, buffer, number)


@examples(5, nightly=25)
@given(i=lengths(8, 4), j=lengths(12, 4), k=lengths(6, 2))
def test_matmul_tiles_touch_what_counting_says(
    i: tuple[int, ...], j: tuple[int, ...], k: tuple[int, ...]
) -> None:
    tiles = {name: np.array(levels) for name, levels in (("i", i), ("j", j), ("k", k))}
    check_counts(replay(matmul(8, 12, 6), tiled_matmul(), tiles))


@examples(5, nightly=20)
@given(j=lengths(12, 3), k=lengths(6, 2), i=lengths(4, 2))
def test_panels_are_touched_as_counting_says(
    j: tuple[int, ...], k: tuple[int, ...], i: tuple[int, ...]
) -> None:
    state = schedule(matmul(4, 12, 6)).cache_read("B", "local", ["C"])
    state = state.split("C", "i", i[1:]).split("C", "j", j[1:]).split("C", "k", k[1:])
    state = state.reorder("C", ["j.0", "k.0", "i.0", "j.1", "k.1", "i.1", "j.2"])
    state = state.compute_at("B.local", "C", "k.0")
    rows, columns = (iterator.name for iterator in state.stage("B.local").iterators)
    state = state.split("B.local", columns, [j[2]]).panel("B.local", f"{columns}.1")
    check_counts(state.reorder("B.local", [f"{columns}.0", rows, f"{columns}.1"]))


@examples(4, nightly=12)
@given(
    stride=st.sampled_from([1, 2]), rows=lengths(4, 2), columns=lengths(4, 2), at=st.integers(0, 3)
)
def test_convolution_with_padding_inside_touches_what_counting_says(
    stride: int, rows: tuple[int, ...], columns: tuple[int, ...], at: int
) -> None:
    dag = convolution(4 * stride, 2, stride)
    state = schedule(dag).split("Y", "h", rows[1:]).split("Y", "v", columns[1:])
    order = ["h.0", "v.0", "h.1", "v.1", "c", "r", "s", "k"]
    state = state.reorder("Y", order).compute_at("P", "Y", order[at])
    check_counts(state, clipped=True)


@examples(4, nightly=10)
@given(i=lengths(6, 2), j=lengths(8, 2))
def test_transpose_touches_what_counting_says(i: tuple[int, ...], j: tuple[int, ...]) -> None:
    state = schedule(transpose(6, 8)).split("B", "i", i[1:]).split("B", "j", j[1:])
    check_counts(state.reorder("B", ["j.0", "i.0", "j.1", "i.1"]))


@pytest.mark.parametrize("length", [1, 3, 6])
def test_neighbours_count_once(length: int) -> None:
    check_counts(schedule(smoothing(18)).split("B", "i", [length]))


def test_transpose_reads_whole_lines_for_single_elements() -> None:
    """16 floats a line: a column of 64 rows touches 64 lines, a row of 64 touches 4."""
    state = schedule(transpose(64, 64))
    _, found = accesses_by_name(state, "B")
    assert found["A"].lines[:, 0].tolist() == [256, 64, 1]  # the inner loop walks down a column
    assert found["B"].lines[:, 0].tolist() == [256, 4, 1]


def test_strides_are_distances_in_memory() -> None:
    nest, found = accesses_by_name(schedule(matmul(4, 8, 16)), "C")
    assert len(nest.loops) == 3
    strides = {name: [a.strides[loop, 0] for loop in range(3)] for name, a in found.items()}
    assert strides == {"C": [8, 1, 0], "A": [16, 0, 1], "B": [0, 1, 8]}


def test_a_local_tile_is_held_as_small_as_its_region() -> None:
    tiles = {"i": np.array([2, 2, 1, 2]), "j": np.array([3, 2, 2, 1]), "k": np.array([6, 1])}
    state = replay(matmul(8, 12, 6), tiled_matmul(), tiles)
    nest, found = accesses_by_name(state, "C")
    local = found["C.local"]
    assert local.is_local
    assert [int(np.max(extent)) for extent in local.shape] == [4, 4]
    outside = next(place for place in range(len(nest.loops)) if local.moving[place])
    assert local.elements[:outside, 0].tolist() == [16] * outside  # every outer tile reuses it


def test_a_reader_goes_along_a_row_that_is_held_as_a_whole() -> None:
    x = placeholder((6, 8), name="X")
    state = schedule(ComputeDAG([x, ops.softmax(x, name="y")])).split("y", "i1", [1])
    for name in ("y.sum", "y.exp", "y.max"):
        state = state.compute_at(name, "y", "i1.0")
    check_counts(state)


def quotients_dag() -> ComputeDAG:
    a = placeholder((4, 8), name="A")
    b = compute((32,), lambda i: a[i // 8, i % 8], name="B")
    return ComputeDAG([a, b])


def test_quotients_and_remainders_are_bounded() -> None:
    state = schedule(quotients_dag()).split("B", "i", [8])
    _, found = accesses_by_name(state, "B")
    assert found["A"].elements[0, 0] == 32
    assert found["A"].elements[1, 0] <= 16


@examples(9, nightly=40)
@given(
    i=st.sampled_from([2, 3, 4, 6]),
    j=st.sampled_from([2, 4, 5, 8]),
    data=st.data(),
)
def test_a_fused_loop_that_is_split_moves_its_axes_like_digits(
    i: int, j: int, data: st.DataObject
) -> None:
    """For inner lengths that divide the last axis or are whole multiples of it."""
    inner = data.draw(
        st.sampled_from(
            [n for n in range(1, i * j + 1) if j % n == 0 or (n % j == 0 and i % (n // j) == 0)]
        )
    )
    state = schedule(transpose(i, j)).fuse("B", ["i", "j"]).split("B", "i@j", [inner])
    digits = digits_of(state.stage("B"))
    steps = [d for name in ("i@j.0", "i@j.1") for d in digits[name]]
    reached: list[tuple[int, int]] = []
    for point in np.ndindex(*(int(str(d.extent)) for d in steps)):
        at = {"i": 0, "j": 0}
        for digit, step in zip(steps, point, strict=True):
            at[digit.axis] += int(str(digit.stride)) * step
        reached.append((at["i"], at["j"]))
    assert reached == [(a, b) for a in range(i) for b in range(j)]
