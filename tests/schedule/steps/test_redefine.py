"""Redefine: convolutions by Winograd's way mean the same in any schedule; refusals in words."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.interpret import interpret
from ansorc.ir.packing import PackedPart, Packing
from ansorc.ir.transform import Transform
from ansorc.lang import operators as ops
from ansorc.lang.definitions import OF_CONVOLUTIONS
from ansorc.lang.definitions.filters import F2, F4, TAPS, Filter
from ansorc.schedule import Schedule, packings, schedule, steps_from_json, steps_to_json
from tests.schedule.meaning import keeps_the_meaning
from tests.support.nightly import examples
from tests.support.schedule_strategies import schedules

"""Weights are packed for a single call."""

_OPTIONS = settings(
    max_examples=15,
    deadline=None,
    database=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
)


def convolution(
    shape: tuple[int, ...] = (4, 5),
    channels: tuple[int, int] = (3, 4),
    *,
    padding: int = 1,
    constant: bool = True,
    dtype: str = "float32",
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
) -> ac.ComputeDAG:
    """A convolution `y` with windows of 3 along each dimension of `shape`."""
    rank, (before, after) = len(shape), channels
    x = ac.placeholder((2, *shape, before), "x", dtype=dtype)
    kernel = (*(3,) * rank, before // groups, after)
    w = ac.placeholder(kernel, "w", dtype=dtype, constant=constant)
    convolve = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}[rank]
    y = convolve(
        x, w, padding=padding, stride=stride, dilation=dilation, groups=groups, name="y",
        sum_dtype=dtype,
    )  # fmt: skip
    return ac.ComputeDAG([x, w, y])


def with_reader(*, constant: bool = True) -> ac.ComputeDAG:
    x = ac.placeholder((1, 6, 7, 4), "x")
    w = ac.placeholder((3, 3, 4, 4), "w", constant=constant)
    bias = ac.placeholder((4,), "bias")
    y = ops.conv2d(x, w, padding=1, name="y")
    z = ac.compute(y.shape, lambda n, h, v, c: ac.maximum(y[n, h, v, c] + bias[c], 0.0), "z")
    return ac.ComputeDAG([x, w, bias, z])


def with_weight_read_twice() -> ac.ComputeDAG:
    x, w = ac.placeholder((1, 5, 2), "x"), ac.placeholder((3, 2, 2), "w", constant=True)
    y = ops.conv1d(x, w, name="y")
    return ac.ComputeDAG([x, w, y, ops.conv1d(y, w, name="z")])


@st.composite
def convolutions(draw: st.DrawFn) -> ac.ComputeDAG:
    rank = draw(st.integers(1, 3))
    padding = draw(st.integers(0, 1))
    most = 6 if rank < 3 else 4
    extents = st.integers(3 - 2 * padding, most)
    shape = tuple(draw(st.lists(extents, min_size=rank, max_size=rank)))
    if all(extent + 2 * padding - 2 == 1 for extent in shape):
        shape = (*shape[:-1], 4)
    dilation = 2 if rank < 3 and draw(st.booleans()) else 1
    if dilation > 1:
        shape = tuple(extent + 3 for extent in shape)
    channels = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    constant = draw(st.booleans())
    return convolution(
        shape, channels, padding=padding, constant=constant, dtype=dtype, dilation=dilation
    )


DAGS = (with_reader(), with_reader(constant=False), with_weight_read_twice())


def redefined(dag: ac.ComputeDAG, definition: str = "winograd") -> Schedule:
    return schedule(dag).redefine("y", definition)


def redefinitions(most: int) -> st.SearchStrategy[Schedule]:
    """Convolutions redefined in any way, and up to `most` steps after that."""
    starts = [partial(redefined, definition=name) for name in OF_CONVOLUTIONS]
    dags = convolutions() | st.sampled_from(DAGS)
    return st.one_of(*(schedules(dags, most=most, start=start) for start in starts))


@examples(4, nightly=60, options=_OPTIONS)
@given(redefinitions(8))
def test_any_schedule_of_it_keeps_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@settings(_OPTIONS, max_examples=1000)
@given(redefinitions(14))
def test_a_thousand_schedules_of_it_keep_the_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)


@pytest.mark.parametrize("filter_", [F2, F4], ids=["F2", "F4"])
def test_the_matrices_of_a_filter(filter_: Filter) -> None:
    rng = np.random.default_rng(0)
    window, data = rng.uniform(-1, 1, TAPS), rng.uniform(-1, 1, filter_.points)
    result, weight, given_ = map(np.array, (filter_.result, filter_.weight, filter_.data))
    found = result @ ((weight @ window) * (given_ @ data))
    assert filter_.points == filter_.results + TAPS - 1
    np.testing.assert_allclose(found, np.convolve(data, window[::-1], "valid"), 0, 1e-15)


def test_the_loops_of_a_redefined_convolution() -> None:
    state = redefined(convolution((4, 5)))
    assert (
        str(state)
        == """w transformed before
for n in 0..2
  for h in 0..6
    for w in 0..7
      for c in 0..3
        y.pad = ...
for rh in 0..4
  for rw in 0..4
    for i0 in 0..2
      for h in 0..2
        for w in 0..3
          for i3 in 0..3
            y.spread = ...
for rh in 0..4
  for rw in 0..4
    for n in 0..2
      for h in 0..2
        for w in 0..3
          for c in 0..4
            for rc in 0..3
              y.product sum= ...
for n in 0..2
  for h in 0..4
    for w in 0..5
      for c in 0..4
        y = ..."""
    )
    assert steps_from_json(steps_to_json(state.steps)) == state.steps


def test_each_result_takes_four_products_instead_of_nine() -> None:
    state = redefined(convolution((4, 4)))
    counts = [
        np.prod([axis.extent for axis in (*stage.op.axes, *stage.op.reduce_axes)])
        for stage in state.stages
        if stage.op.reduce_axes
    ]
    assert counts == [2 * 4 * 4 * 4 * 3 * 4]


def test_in_tiles_of_four_each_result_takes_two_and_a_quarter() -> None:
    state = redefined(convolution((8, 8)), "winograd4")
    names = [stage.name for stage in state.stages if stage.name.startswith("y")]
    assert names == [
        "y.pad", "y.spread", "y.product.spread", "y.product.product", "y.product", "y",
    ]  # fmt: skip
    sums = [stage.op for stage in state.stages if stage.op.reduce_axes]
    points = [axis.extent for op in sums for axis in (*op.axes, *op.reduce_axes)]
    assert np.prod(points) == 2 * 8 * 8 * 9 // 4 * 3 * 4
    (packing,) = packings(state)
    assert packing.packed.shape == (6, 6, 3, 4)
    keeps_the_meaning(state)


def test_a_block_of_tiles_needs_no_more_than_its_own_elements() -> None:
    state = redefined(convolution((24, 16)), "winograd4").split("y", "h", [2, 4])
    state = state.split("y", "w", [1, 4])
    state = state.reorder("y", ["n", "h.0", "w.0", "h.1", "h.2", "w.1", "w.2", "c"])
    for name in ("y.product", "y.product.product", "y.product.spread", "y.spread"):
        state = state.compute_at(name, "y", "w.0")
    # points, image, rows, columns, channels
    assert state.stage("y.product").region == (6, 1, 8, 1, 4)
    assert state.stage("y.product.product").region == (6, 6, 1, 2, 1, 4)
    assert state.stage("y.product.spread").region == (6, 6, 1, 2, 1, 3)
    assert state.stage("y.spread").region == (6, 1, 10, 1, 3)
    keeps_the_meaning(state)


@pytest.mark.parametrize(
    "dag",
    [
        convolution((9,)), convolution((4, 4, 5), (2, 2)), convolution((9, 9), dilation=2),
        convolution((8, 1)), convolution((5, 6), (4, 6), groups=2), with_weight_read_twice(),
    ],
    ids=["1d", "3d", "dilated", "one column", "groups", "weight read twice"],
)  # fmt: skip
def test_tiles_of_four_keep_the_meaning(dag: ac.ComputeDAG) -> None:
    keeps_the_meaning(redefined(dag, "winograd4"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_have_no_tiles_of_four(dtype: str) -> None:
    dag = convolution((8, 8), dtype=dtype)
    with pytest.raises(ScheduleError, match=r"'y' has no definition 'winograd4': .* of 32 bits"):
        redefined(dag, "winograd4")
    redefined(dag)


def test_of_three_windows_the_third_may_be_redefined_too() -> None:
    state = redefined(convolution((4, 4, 4), (2, 2)))
    state = state.redefine("y.product", "winograd")
    assert state.stage("y.product.product").op.reduce_axes == (ac.Axis("rc", 2),)
    (packing,) = packings(state)
    assert packing.packed.shape == (4, 4, 4, 2, 2)
    keeps_the_meaning(state)


def test_groups_are_transformed_alike() -> None:
    keeps_the_meaning(redefined(convolution((4, 6), (4, 6), groups=2)))


def test_a_weight_that_is_not_constant_is_transformed_in_each_call() -> None:
    state = redefined(convolution(constant=False))
    assert state.stages[1].name == "y.weight"
    assert packings(state) == ()


def test_a_weight_that_is_read_twice_stays_as_it_is_for_the_other() -> None:
    state = redefined(with_weight_read_twice())
    assert state.stages[0].name == "y.weight"
    assert packings(state) == ()


def test_a_name_that_is_taken_is_not_taken_twice() -> None:
    x, w = ac.placeholder((1, 5, 2), "x"), ac.placeholder((3, 2, 2), "y.weight")
    state = redefined(ac.ComputeDAG([x, w, ops.conv1d(x, w, name="y")]))
    assert state.stages[0].name == "y.weight.1"
    keeps_the_meaning(state)


def test_transformed_weights_are_packed_as_numpy_packs_them() -> None:
    state = redefined(convolution((4, 5), (3, 20)))
    state = state.split("y.product", "c", [16])
    state = state.reorder("y.product", ["rh", "rw", "c.0", "n", "h", "w", "rc", "c.1"])
    state = state.rewrite_layout("y.product", "w")
    (packing,) = packings(state)
    assert packing.packed.shape == (4, 4, 2, 3, 16)  # rh rw c.0 rc c.1
    weight = np.random.default_rng(0).uniform(-1, 1, (3, 3, 3, 20)).astype(np.float32)
    by_hand = np.full(packing.packed.shape, np.nan, np.float32)
    interpret(packing.function("pack"), [weight, by_hand], fresh_outputs=True)
    packed = np.asarray(packing.apply(weight), np.float32)
    np.testing.assert_allclose(packed, by_hand, 1e-6, 1e-6)
    points = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    wanted = np.einsum("ar,bs,rsio->abio", points, points, weight)
    np.testing.assert_allclose(by_hand[:, :, 0], wanted[..., :16], 1e-6, 1e-6)
    np.testing.assert_allclose(by_hand[:, :, 1, :, :4], wanted[..., 16:], 1e-6, 1e-6)
    assert Packing.from_json(json.loads(json.dumps(packing.to_json()))) == packing


def test_a_packing_that_goes_beyond_a_transform_has_zeros_there() -> None:
    source = Buffer("w", (3, 2), FLOAT32, constant=True)
    parts = (PackedPart(0, 3, 2), PackedPart(0, 1, 3), PackedPart(1, 1, 2))
    packing = Packing(source, parts, (0, 0), (Transform(0, F2.weight),))
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    by_hand, packed = (np.full((2, 3, 2), np.nan, np.float32) for _ in range(2))
    interpret(packing.function("pack"), [weight, by_hand], fresh_outputs=True)
    packing.fill(packed, weight)
    np.testing.assert_array_equal(by_hand, packed)
    assert not packed[1, 1:].any()


def doubled() -> ac.ComputeDAG:
    x = ac.placeholder((4, 4), "x")
    return ac.ComputeDAG([x, ac.compute((4, 4), lambda i, j: x[i, j] * 2.0, "y")])


def with_the_name() -> ac.ComputeDAG:
    x, w = ac.placeholder((1, 5, 2), "x"), ac.placeholder((3, 2, 2), "w")
    spread = ac.compute((1, 5, 2), lambda n, h, c: x[n, h, c] + 1.0, "y.spread")
    return ac.ComputeDAG([x, w, ops.conv1d(spread, w, name="y")])


def test_names_that_are_taken_are_numbered() -> None:
    state = schedule(with_the_name()).redefine("y", "winograd")
    names = [stage.name for stage in state.stages]
    assert names == ["y.spread", "y.weight", "y.spread_", "y.product", "y"]
    assert state.stage("y.product").op.reads[0].name == "y.spread_"


REFUSALS = [
    (lambda: schedule(doubled()).redefine("y", "winograd"),
     "'y' has no definition 'winograd': it is no sum of products of floats along windows of 3"),
    (lambda: schedule(convolution(stride=2)).redefine("y", "winograd"), "taps and stride 1"),
    (lambda: schedule(convolution(dtype="int32")).redefine("y", "winograd"), "products of floats"),
    (lambda: schedule(convolution()).redefine("y", "strassen"),
     "there is no definition 'strassen'; use 'winograd', 'winograd4'"),
    (lambda: schedule(convolution()).redefine("q", "winograd"), "there is no stage 'q'"),
    (lambda: schedule(convolution()).split("y", "c", [2]).redefine("y", "winograd"),
     "the loops of 'y' were already changed; use redefine before that"),
    (lambda: schedule(with_reader()).compute_at("y", "z", "h").redefine("y", "winograd"),
     "'y' is computed inside another stage, or stages inside it; use redefine before that"),
    (lambda: schedule(convolution()).compute_at("y.pad", "y", "h").redefine("y", "winograd"),
     "'y' is computed inside another stage, or stages inside it; use redefine before that"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number: int) -> None:
    make, words = REFUSALS[number]
    with pytest.raises(ScheduleError) as caught:
        make()
    assert words in str(caught.value)
