"""Pipelines in strips of rows: which stages keep their rows, what that counts, and rightly."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import ansorc.lang as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import replay, schedule
from ansorc.schedule.stage import Mark
from ansorc.schedule.state import State
from ansorc.search.cpu.default import UNTILED
from ansorc.search.cpu.sampling import sample_on_cpu
from ansorc.search.default import default_steps
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.sketch import Sketch, generate, place_stages
from ansorc.search.space.genes import steps
from tests.schedule.meaning import keeps_the_meaning
from tests.search.sketch.test_windows import chain, pipelines, whole_sketches
from tests.search.small_dags import ZEN3
from tests.support.nightly import examples


def blur(rows: int = 1536, columns: int = 2560) -> ComputeDAG:
    image = ac.placeholder((rows + 2, columns + 2), "A")
    across = ac.compute(
        (rows + 2, columns),
        lambda y, x: (image[y, x] + image[y, x + 1] + image[y, x + 2]) / 3, "across",
    )  # fmt: skip
    down = ac.compute(
        (rows, columns), lambda y, x: (across[y, x] + across[y + 1, x] + across[y + 2, x]) / 3,
        "down",
    )  # fmt: skip
    return ComputeDAG([image, down])


def sharpened(rows: int = 40, columns: int = 64) -> ComputeDAG:
    """Three channels, multiplied by what follows from a window of their first one."""
    image = ac.placeholder((3, rows + 6, columns), "A")
    gray = ac.compute((rows + 6, columns), lambda y, x: ac.exp(image[0, y, x]), "gray")

    def ratio(y: Scalar, x: Scalar) -> Scalar:
        return reduce(add, [gray[y + n, x] for n in range(7)]) / gray[y + 3, x]

    ratios = ac.compute((rows, columns), ratio, "ratio")
    result = ac.compute((3, rows, columns), lambda c, y, x: ratios[y, x] * image[c, y + 3, x], "C")
    return ComputeDAG([image, result])


def weighted(rows: int = 20, columns: int = 40) -> ComputeDAG:
    """Sums of windows over nine shifts for each of two channels, as in non-local means."""
    image = ac.placeholder((2, rows + 4, columns + 2), "A")
    dy, dx = ac.reduce_axis(3, "dy"), ac.reduce_axis(3, "dx")
    apart = ac.compute(
        (3, 3, rows + 2, columns),
        lambda v, u, y, x: ac.exp(image[0, y, x] - image[0, y + v, x + u]), "apart",
    )  # fmt: skip
    weight = ac.compute(
        (3, 3, rows, columns),
        lambda v, u, y, x: ac.exp(reduce(add, [apart[v, u, y + n, x] for n in range(3)])),
        "weight",
    )  # fmt: skip
    total = ac.compute(
        (2, rows, columns),
        lambda c, y, x: ac.sum(weight[dy, dx, y, x] * image[c, y + dy, x + dx], axis=(dy, dx)),
        "total",
    )  # fmt: skip
    return ComputeDAG([image, ac.compute((2, rows, columns), lambda c, y, x: total[c, y, x] * 0.5)])


def skewed(rows: int = 40, columns: int = 64) -> ComputeDAG:
    """Of the two stages that are read the one that is placed first moves along both axes."""
    image = ac.placeholder((rows + 1, columns + rows + 1), "A")
    fine, skew = (
        ac.compute(
            (rows + 1, columns + rows), lambda y, x: ac.exp(image[y, x]) + image[y, x + 1], name
        )
        for name in ("fine", "skew")
    )

    def joined(y: Scalar, x: Scalar) -> Scalar:
        return (fine[y, x] + fine[y + 1, x]) * (skew[y, x + y] + skew[y + 1, x + y])

    return ComputeDAG([image, ac.compute((rows, columns), joined, "C")])


def kept(state: State) -> set[str]:
    return {stage.name for stage in state.stages if stage.ring is not None}


def in_strips(dag: ComputeDAG) -> list[Sketch]:
    return [sketch for sketch in whole_sketches(dag, 1) if kept(sketch.state)]


def test_the_default_of_a_blur_keeps_rows_in_a_strip_for_each_core() -> None:
    dag = blur().plain
    state = replay(dag, default_steps(dag, ZEN3))
    assert kept(state) == {"across"}
    strips, rows, columns = state.stage("down").iterators
    assert strips.mark is Mark.PARALLEL
    assert rows.mark is Mark.NONE
    assert columns.extent == 2560, "rows are whole"


def test_all_stages_of_a_short_chain_keep_rows() -> None:
    (one, every) = in_strips(chain(6))
    assert kept(every.state) == {f"S{n}" for n in range(5)}
    assert kept(one.state) < kept(every.state)


def test_rows_are_divided_where_a_cache_does_not_hold_what_is_kept() -> None:
    _, every = in_strips(chain(12, extent=4096))
    assert every.state.stage("S11").position("j.1") is not None
    assert not in_strips(chain(40)), "of long chains there is no time to compare it"


def test_a_stage_keeps_rows_beside_one_that_cannot() -> None:
    assert [kept(sketch.state) for sketch in in_strips(skewed())] == [{"fine"}]


def test_what_all_channels_share_is_computed_once() -> None:
    """It follows from a window, and is not inlined three times."""
    for sketch in in_strips(sharpened()):
        ratio = sketch.state.stage("ratio")
        assert not ratio.is_inlined
        assert ratio.ring is None, "each row is read once"
        assert "gray" in kept(sketch.state)


def test_the_warm_up_counts() -> None:
    """Strips of 8 rows compute 10 rows of the first stage, of 16 rows 18."""
    for rows in (8, 16):
        state = schedule(blur(64, 32)).split("down", "y", [rows])
        state = state.compute_at("across", "down", "y.1").store_at("across", "down", "y.0")
        nests = LoopNests(state, 1)
        counted = nests.nest(state.stage("across")).extents.prod()
        assert counted == 64 // rows * (rows + 2) * 32
        assert nests.nest(state.stage("down")).extents.prod() == 64 * 32


@pytest.mark.parametrize("dag", [blur(13, 40), sharpened(12), chain(4, extent=30), skewed(12, 20)])
def test_strips_are_right(dag: ComputeDAG) -> None:
    rng = np.random.default_rng(0)
    sketches = in_strips(dag)
    assert sketches
    for sketch in sketches:
        for genes in sample_on_cpu(sketch, 2, rng):
            keeps_the_meaning(replay(sketch.dag, steps(sketch, genes)))


def test_sums_in_strips_stay_in_registers() -> None:
    (plain, *_) = generate(weighted().plain, ZEN3, UNTILED)
    (sketch, *_) = [s for s in place_stages(plain, 1) if "apart" in kept(s.state)]
    loops = [loop.name for loop in sketch.state.stage("total").iterators]
    assert loops == ["y", "x.0", "dy", "dx", "c", "x.1"]
    for genes in sample_on_cpu(sketch, 2, np.random.default_rng(0)):
        keeps_the_meaning(replay(sketch.dag, steps(sketch, genes)))


@examples(4, nightly=100)
@given(pipelines(), st.integers(0, 1 << 16))
def test_random_strips_are_right(dag: ComputeDAG, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sketches = in_strips(dag)
    assume(sketches)
    sketch = sketches[int(rng.integers(len(sketches)))]
    for genes in sample_on_cpu(sketch, 1, rng):
        keeps_the_meaning(replay(sketch.dag, steps(sketch, genes)))
