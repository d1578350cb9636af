"""Short innermost loops are joined where that fills vectors, and nowhere else."""

# The elements are lambdas of axes.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc.lang as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import Schedule, lower, replay, schedule
from ansorc.schedule.stage import Mark
from ansorc.search.cpu.rules import RULES
from ansorc.search.cpu.sampling import sample_on_cpu
from ansorc.search.default import default_steps
from ansorc.search.paper.space import PAPER_PLACEMENT
from ansorc.search.sketch import generate, place_stages
from ansorc.search.space.genes import steps
from tests.schedule.meaning import keeps_the_meaning
from tests.search.small_dags import ZEN3
from tests.support.nightly import examples

Element = Callable[..., Scalar]


def vectorized(state: Schedule, name: str) -> tuple[str, int]:
    """Return the vectorised loop of a stage, and its iterations."""
    (loop,) = [it for it in state.stage(name).iterators if it.mark is Mark.VECTORIZE]
    assert isinstance(loop.extent, int)
    return loop.name, loop.extent


def plain(shape: tuple[int, ...], element: Element, *data: ac.Tensor) -> Schedule:
    """Return the untuned program of one stage."""
    dag = ComputeDAG([*data, ac.compute(shape, element, name="Y")]).plain
    return replay(dag, default_steps(dag, ZEN3))


X = ac.placeholder((64, 10, 14, 2), name="X")
W = ac.placeholder((12, 2), name="W")
P = ac.placeholder((64, 10), name="P")
DENSE = ac.placeholder((64, 10, 3), name="D")
WIDE = ac.placeholder((64, 10, 4), name="V")


@pytest.mark.parametrize(
    ("element", "data", "joined"),
    [
        (lambda y, x, z, c: X[y, x, z, c] + X[y, x, z + 2, c] * 2.0, (X,), ("z@c", 24)),
        (lambda y, x, z, c: X[y, x, z, c] * P[y, x], (X, P), ("z@c", 24)),
        (lambda y, x, z, c: X[y, x, z, c] * W[z, c], (X, W), ("z@c", 24)),
        (lambda y, x, z, c: ac.if_then_else(c == 0, P[y, x], 1.0) + z.astype("float32"), (P,),
         ("z@c", 24)),
        (lambda y, x, z, c: X[y, x, z, c] + X[y, x, z, 1 - c], (X,), ("c", 2)),
        (lambda y, x, z, c: X[y, x, z, c] * W[0, c], (X, W), ("c", 2)),
        (lambda y, x, z, c: X[y, x, z + c, 0], (X,), ("c", 2)),
    ],
)  # fmt: skip
def test_loops_are_joined_where_they_move_along_memory(
    element: Element, data: tuple[ac.Tensor, ...], joined: tuple[str, int]
) -> None:
    assert vectorized(plain((64, 10, 12, 2), element, *data), "Y") == joined


def test_channels_of_pixels_make_long_rows() -> None:
    state = plain((64, 10, 3), lambda y, x, c: DENSE[y, x, c] * 2.0, DENSE)
    assert vectorized(state, "Y") == ("x@c", 30)
    state = plain((64, 10, 3), lambda y, x, c: WIDE[y, x, c] * 2.0, WIDE)
    assert vectorized(state, "Y") == ("c", 3), "one of four channels is left out"


def test_a_root_stage_keeps_loops_to_run_in_parallel() -> None:
    few = ac.placeholder((8, 200, 3), name="F")
    state = plain((8, 200, 3), lambda y, x, c: few[y, x, c] * 2.0, few)
    assert vectorized(state, "Y") == ("c", 3)


def levels(rows: int = 40, most: int = 6, channels: int = 2) -> ComputeDAG:
    """Return sums of pixels by their level, and how many there are."""
    image = ac.placeholder((rows * 3, 12), name="I")
    dy, dx = ac.reduce_axis(3, name="dy"), ac.reduce_axis(4, name="dx")

    def element(y: Scalar, x: Scalar, z: Scalar, c: Scalar) -> Scalar:
        value = ac.minimum(ac.maximum(image[y * 3 + dy, x * 4 + dx], 0.0), 1.0)
        is_here = (value * most).astype("int32") == z.astype("int32")
        weight = ac.if_then_else(c == 0, value, 1.0)
        return ac.sum(ac.if_then_else(is_here, weight, 0.0), axis=(dy, dx))

    return ComputeDAG([image, ac.compute((rows, 3, most, channels), element, name="G")]).plain


def test_the_sums_of_short_rows_stay_in_registers_together() -> None:
    state = replay(levels(), default_steps(levels(), ZEN3))
    (sums,) = [stage for stage in state.stages if stage.op.reduce_axes]
    name, _ = vectorized(state, sums.name)
    assert "@" in name
    keeps_the_meaning(state)


def test_the_paper_joins_no_rows() -> None:
    dag = ComputeDAG([X, ac.compute(X.shape, lambda *at: X[at] * 2.0, name="Y")]).plain
    for derived in generate(dag, ZEN3, RULES):
        for whole in place_stages(derived, 2, placement=PAPER_PLACEMENT):
            assert all("@" not in it.name for it in whole.state.stage("Y").iterators)


def test_a_fused_reduction_is_vectorised_by_hand() -> None:
    """Elements are apart although each of the two indices comes again."""
    data = ac.placeholder((5, 6, 2), name="A")
    k = ac.reduce_axis(5, name="k")
    total = ac.compute((6, 2), lambda z, c: ac.sum(data[k, z, c] * 2.0, axis=k), name="S")
    state = schedule(ComputeDAG([data, total])).reorder("S", ("k", "z", "c"))
    state = state.fuse("S", ("z", "c")).vectorize("S", "z@c")
    keeps_the_meaning(state)
    assert "vectorized z@c" in str(lower(state))


@st.composite
def programs(draw: st.DrawFn) -> Schedule:
    """Return a random program of a chain of stages with short rows, and maybe a masked sum."""
    rows, columns = draw(st.integers(32, 36)), draw(st.integers(1, 4))
    depth, width = draw(st.integers(2, 6)), draw(st.integers(2, 7))
    reach = draw(st.integers(0, 2))
    data = ac.placeholder((rows, columns, depth + reach, width), name="A")
    by_place = ac.placeholder((rows, columns), name="B")

    def first(y: Scalar, x: Scalar, z: Scalar, c: Scalar) -> Scalar:
        return data[y, x, z, c] * data[y, x, z + reach, c] + by_place[y, x]

    last = ac.compute((rows, columns, depth, width), first, name="F")
    tensors = [data, by_place]
    if draw(st.booleans()):
        level = draw(st.integers(0, 3))
        last = ac.compute(
            (rows, max(columns - 1, 1), depth, width),
            lambda y, x, z, c, p=last: ac.if_then_else(
                z * width + c > level, p[y, x, z, c] - p[y, columns - 1, z, c], 0.5
            ),
            name="G",
        )  # fmt: skip
    if draw(st.booleans()):
        k = ac.reduce_axis(columns, name="k")
        last = ac.compute(
            (rows, depth, width),
            lambda y, z, c, p=last: ac.sum(
                ac.if_then_else(by_place[y, k] > z.astype("float32") * 0.3, by_place[y, k], 0.0)
                + p[y, 0, z, c], axis=k,
            ),
            name="H",
        )  # fmt: skip
    dag = ComputeDAG([*tensors, last]).plain
    derived = draw(st.sampled_from(generate(dag, ZEN3, RULES)))
    whole = draw(st.sampled_from(place_stages(derived, 3)))
    genes = sample_on_cpu(whole, 1, np.random.default_rng(draw(st.integers(0, 99))))
    return replay(dag, steps(whole, genes[0]))


@examples(8, nightly=120)
@given(programs())
def test_random_programs_with_short_rows_keep_their_meaning(state: Schedule) -> None:
    keeps_the_meaning(state)
