"""Hints of a definition: every program that is drawn or varied obeys them."""

from collections.abc import Sequence

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.schedule import replay
from ansorc.schedule.stage import Mark, Stage
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.options import DEFAULTS, PAPER, SearchOptions
from ansorc.search.space import Space, design_space, steps
from tests.search.small_dags import ZEN3, check_meaning

Hint = str | Sequence[str]


def product(extents: tuple[int, int, int] = (16, 24, 12), **hints: Hint) -> ac.ComputeDAG:
    n, m, terms = extents
    a, b = ac.placeholder((n, terms), "A"), ac.placeholder((terms, m), "B")
    k = ac.reduce_axis(terms, "k")
    c = ac.compute((n, m), lambda i, j: ac.sum(a[i, k] * b[k, j], axis=k), "C", hints)
    return ac.ComputeDAG([a, b, c])


def window(**hints: Hint) -> ac.ComputeDAG:
    x, w = ac.placeholder((1, 10, 10, 4), "X"), ac.placeholder((3, 3, 4, 8), "W")
    rh, rw, rc = (ac.reduce_axis(n, name) for n, name in ((3, "rh"), (3, "rw"), (4, "rc")))
    y = ac.compute(
        (1, 8, 8, 8),
        lambda n, h, v, c: ac.sum(x[n, h + rh, v + rw, rc] * w[rh, rw, rc, c], axis=[rh, rw, rc]),
        "Y",
        hints,
    )
    return ac.ComputeDAG([x, w, y])


def drawn(
    computation: ac.ComputeDAG, stage: str, options: SearchOptions = DEFAULTS, rows: int = 12
) -> list[Stage]:
    """The stage that computes `stage` in programs of every tiled sketch of `computation`."""
    found: list[Stage] = []
    for sketch in design_space(computation, ZEN3, options).sketches:
        names = [tile.stage for tile in sketch.register_tiles if tile.stage.startswith(stage)]
        rng = np.random.default_rng(len(found))
        for row in mutate(sketch, sample(sketch, rows, rng, options), rng, options):
            state = replay(computation, steps(sketch, row)[: len(sketch.steps)])
            found += [state.stage(name) for name in names]
    assert found
    return found


def lengths(stage: Stage, axis: str) -> list[int]:
    """The extents of the loops of an axis, outermost first."""
    loops = [it for it in stage.iterators if f"{it.name}.".startswith(f"{axis}.")]
    return [it.extent for it in loops if isinstance(it.extent, int)]


@pytest.mark.parametrize("options", [DEFAULTS, PAPER], ids=["default", "paper"])
def test_no_split_at_inner(options: SearchOptions) -> None:
    for stage in drawn(product(no_split_at_inner=["i", "k"]), "C", options):
        assert [n for n in lengths(stage, "i") if n > 1] == [16]
        assert lengths(stage, "i")[-1] == 16
        assert lengths(stage, "k") == [1, 12]
        assert len([n for n in lengths(stage, "j") if n >= 1]) > 1


def test_no_split_at_outer() -> None:
    computation = product(no_split_at_outer=["i", "k"])
    for stage in drawn(computation, "C"):
        assert lengths(stage, "k") == [12, 1]
    plain = [s for s in design_space(computation, ZEN3).sketches if s.name == "tile C"]
    for row in sample(plain[0], 20, np.random.default_rng(0)):
        stage = replay(computation, steps(plain[0], row)[: len(plain[0].steps)]).stage("C")
        assert lengths(stage, "i") == [16, 1, 1, 1]


def test_last_split_is_one() -> None:
    for stage in drawn(product(last_split_is_one=["i", "k"]), "C"):
        assert lengths(stage, "i")[-1] == 1
        assert lengths(stage, "k")[-1] == 1


def test_always_unroll_inner_in_tiles() -> None:
    for stage in drawn(window(always_unroll_inner=["rh", "rw"]), "Y"):
        marks = {it.name: it.mark for it in stage.iterators}
        assert (marks["rh.1"], marks["rw.1"]) == (Mark.UNROLL, Mark.UNROLL)
        assert (marks["rh.0"], marks["rc.1"]) == (Mark.NONE, Mark.NONE)


def test_always_unroll_inner_without_tiles() -> None:
    x, k = ac.placeholder((8, 16, 3), "X"), ac.reduce_axis(3, "k")
    hints = {"always_unroll_inner": ["i", "k"]}
    y = ac.compute((8, 16), lambda i, j: ac.max(x[i, j, k], axis=k), "Y", hints)
    computation = ac.ComputeDAG([x, y])
    for sketch in design_space(computation, ZEN3).sketches:
        stage = replay(computation, sketch.steps).stage("Y")
        marks = {it.name: it.mark for it in stage.iterators}
        assert marks["k"] is Mark.UNROLL
        check_meaning(computation, steps(sketch, sample(sketch, 1, np.random.default_rng(0))[0]))


def test_unrolled_tiles_are_never_too_many_copies() -> None:
    computation = product((64, 64, 4096), always_unroll_inner=["k"])
    inner = [lengths(stage, "k")[-1] for stage in drawn(computation, "C", rows=40)]
    assert 1 < max(inner) <= 128
    assert len(set(inner)) > 2


def test_no_cache_read() -> None:
    def packs(space: Space) -> bool:
        return any("pack" in sketch.name for sketch in space.sketches)

    assert packs(design_space(product(), ZEN3))
    assert not packs(design_space(product(no_cache_read="1"), ZEN3))


@pytest.mark.parametrize(
    ("hints", "reason"),
    [
        ({"no_split_at_inner": ["i", "j"]}, "asks for 512 vectors in registers, and there may be"),
        (
            {"no_split_at_inner": ["k"], "always_unroll_inner": ["k"]},
            "ask for all 4096 iterations of 'k' to be unrolled, and 128 are the most",
        ),
    ],
)
def test_hints_that_ask_for_too_much(hints: dict[str, Hint], reason: str) -> None:
    space = design_space(product((64, 64, 4096), **hints), ZEN3)
    assert {failure.rule for failure in space.failures} == {
        "MultiLevelTiling", "MultiLevelTilingWithFusion",
    }  # fmt: skip
    assert all(reason in failure.reason for failure in space.failures)
    assert space.sketches
    assert not any("tile" in sketch.name for sketch in space.sketches)


@pytest.mark.parametrize(
    "hints",
    [
        {"no_split_at_inner": ["i"]},
        {"no_split_at_inner": ["k"], "always_unroll_inner": ["k"]},
        {"no_split_at_outer": ["j"]},
        {"last_split_is_one": ["j"]},
        {"no_cache_write": "1", "no_cache_read": "1"},
    ],
    ids="-".join,
)
def test_hinted_programs_are_right(hints: dict[str, Hint]) -> None:
    computation = product((6, 10, 7), **hints)
    rng = np.random.default_rng(5)
    for sketch in design_space(computation, ZEN3).sketches:
        genes = mutate(sketch, sample(sketch, 2, rng), rng)
        check_meaning(computation, steps(sketch, genes[0]))


def test_a_window_that_is_unrolled_is_right() -> None:
    computation = window(always_unroll_inner=["rh", "rw"], no_split_at_inner=["rh", "rw"])
    rng = np.random.default_rng(1)
    for sketch in design_space(computation, ZEN3).sketches[::3]:
        check_meaning(computation, steps(sketch, sample(sketch, 1, rng)[0]))
