"""The paper-faithful space: sketch counts, structures, derivations; nothing beyond."""

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import replay
from ansorc.schedule.stage import Inlined, Mark
from ansorc.schedule.steps import CacheRead, RFactor
from ansorc.search.evolution.sampling import sample
from ansorc.search.options import DEFAULTS, PAPER
from ansorc.search.paper.space import PAPER_PLACEMENT, paper_rules
from ansorc.search.sketch import Sketch, generate, place_stages
from ansorc.search.space import choice_values, design_space, steps, tiles
from ansorc.target import Target
from tests.search.small_dags import (
    DAGS,
    check_meaning,
    conv_layer,
    matmul,
    max_pool,
    softmax,
    two_matmuls,
)
from tests.support.nightly import also_nightly, amount

CORES4 = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=4")

RULE_NUMBERS = {
    "Skip": 1,
    "AlwaysInline": 2,
    "MultiLevelTiling": 3,
    "MultiLevelTilingWithFusion": 4,
    "AddCacheWrite": 5,
    "AddOpenRfactor": 6,
}
"""The rules of Table 1."""


def row_minima() -> ac.ComputeDAG:
    data, k = ac.placeholder((10, 1024), "A"), ac.reduce_axis(1024, "k")
    found = ac.compute((10,), lambda i: ac.min(data[i, k], axis=k), "M")
    return ac.ComputeDAG([data, found])


def total() -> ac.ComputeDAG:
    data, k = ac.placeholder((128,), "A"), ac.reduce_axis(128, "k")
    return ac.ComputeDAG([data, ac.compute((), lambda: ac.sum(data[k], axis=k), "S")])


def input_1() -> ac.ComputeDAG:
    """The paper's first example: a product and its ReLU."""
    a, b, k = ac.placeholder((512, 512), "A"), ac.placeholder((512, 512), "B"), 512
    axis = ac.reduce_axis(k, "k")
    c = ac.compute((512, 512), lambda i, j: ac.sum(a[i, axis] * b[axis, j], axis=axis), "C")
    return ac.ComputeDAG([a, b, ac.compute((512, 512), lambda i, j: ac.maximum(c[i, j], 0.0), "D")])


def input_2() -> ac.ComputeDAG:
    """The paper's second example: a ReLU, padded, times a matrix with few results."""
    a, d = ac.placeholder((8, 400), "A"), ac.placeholder((512, 4), "D")
    b = ac.compute((8, 400), lambda i, l: ac.maximum(a[i, l], 0.0), "B")  # noqa: E741
    c = ac.compute((8, 512), lambda i, k: ac.if_then_else(k < 400, b[i, k], 0.0), "C")
    k = ac.reduce_axis(512, "k")
    e = ac.compute((8, 4), lambda i, j: ac.sum(c[i, k] * d[k, j], axis=k), "E")
    return ac.ComputeDAG([a, d, e])


def winograd(size: int = 8, ci: int = 8, co: int = 16) -> ac.ComputeDAG:
    """F(2 × 2, 3 × 3) over small constant matrices, as TVM's operator library writes it.

    The weights are transformed before.
    """
    tiles_a_row = size // 2
    count = tiles_a_row**2
    data = ac.placeholder((size + 2, size + 2, ci), "data")
    weight = ac.placeholder((4, 4, ci, co), "weight")
    b = _constant("B", [[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]])
    a = _constant("A", [[1, 0], [1, 1], [1, -1], [0, -1]])
    unrolled = {"simplify_const_tensor_indices": ["e", "n", "r", "s"]}
    r, s = ac.reduce_axis(4, "r"), ac.reduce_axis(4, "s")
    tile = ac.compute(
        (4, 4, count, ci),
        lambda e, n, p, c: data[p // tiles_a_row * 2 + e, p % tiles_a_row * 2 + n, c],
        "tile",
    )
    pack = ac.compute(
        (4, 4, count, ci),
        lambda e, n, p, c: ac.sum(tile[r, s, p, c] * b[r, e] * b[s, n], axis=[r, s]),
        "pack",
        unrolled,
    )
    k = ac.reduce_axis(ci, "k")
    product = ac.compute(
        (4, 4, count, co),
        lambda e, n, p, f: ac.sum(pack[e, n, p, k] * weight[e, n, k, f], axis=k),
        "product",
    )
    x, y = ac.reduce_axis(4, "r"), ac.reduce_axis(4, "s")
    inverse = ac.compute(
        (2, 2, count, co),
        lambda e, n, p, f: ac.sum(product[x, y, p, f] * a[x, e] * a[y, n], axis=[x, y]),
        "inverse",
        unrolled,
    )
    return ac.ComputeDAG([data, weight, _untiled(inverse, size, tiles_a_row, co)])


def _untiled(inverse: ac.Tensor, size: int, tiles_a_row: int, co: int) -> ac.Tensor:
    return ac.compute(
        (size, size, co),
        lambda h, w, f: inverse[h % 2, w % 2, h // 2 * tiles_a_row + w // 2, f],
        "out",
    )


def _constant(name: str, rows: list[list[int]]) -> ac.Tensor:
    def element(i: Scalar, j: Scalar) -> Scalar:
        value = ac.const(0.0)
        for y, row in enumerate(rows):
            for x, number in enumerate(row):
                if number:
                    value = ac.if_then_else(
                        ac.all_of(ac.equal(i, y), ac.equal(j, x)), float(number), value
                    )
        return value

    return ac.compute((len(rows), len(rows[0])), element, name)


ORACLES = {
    "matmul 512": (matmul(512, 512, 512), 3),
    "matmul 8x8x512": (matmul(8, 8, 512), 5),
    "two matmuls": (two_matmuls(512), 9),
    "conv, batch norm, relu": (conv_layer(56, 64, 64), 3),
    "max-pool 2x2": (max_pool(56, 64), 1),
    "minima of 10 rows of 1024": (row_minima(), 3),
    "softmax": (softmax(1, 1024), 9),
    "Winograd": (winograd(), 3),
    "sum of 128": (total(), 3),
}


def derived(computation: ac.ComputeDAG) -> tuple[Sketch, ...]:
    return generate(computation, CORES4, paper_rules())


def loops(sketch: Sketch, count: int | None = None) -> list[str]:
    """The names of the loops after `count` steps, inner ones indented, and what is computed."""
    lines = str(replay(sketch.dag, sketch.steps[:count])).splitlines()
    return [line.split(" in ")[0].removesuffix(" ...") for line in lines]


def flat(sketch: Sketch, count: int | None = None) -> str:
    found = [line.strip().replace("for ", "") for line in loops(sketch, count)]
    return " ".join(found)


def rules_of(sketch: Sketch) -> list[tuple[int, str]]:
    return [(RULE_NUMBERS[applied.rule], applied.stage) for applied in sketch.derivation]


@pytest.mark.parametrize("name", ORACLES)
def test_counts(name: str) -> None:
    computation, count = ORACLES[name]
    assert len(derived(computation)) == count


def test_structures_of_a_matmul() -> None:
    at_1, at_2, whole = derived(matmul(512, 512, 512))
    assert flat(at_1) == (
        "i.0 j.0 i.0 j.0 k.0 i.1 j.1 k.1 i.2 j.2 C.local sum= i.1 j.1 C ="
    )  # the tile's own loops: levels 1, 2, 3 of the space axes
    assert flat(at_2) == "i.0 j.0 i.1 j.1 k.0 i.0 j.0 k.1 i.1 j.1 C.local sum= i.2 j.2 C ="
    assert flat(whole) == "i.0 j.0 i.1 j.1 k.0 i.2 j.2 k.1 i.3 j.3 C sum="


def test_structures_of_a_matmul_with_few_results() -> None:
    outer, inner, *others = derived(matmul(8, 8, 512))
    assert flat(outer) == "i j k.0 k.1 C.rf sum= i j k.0 C sum="
    assert flat(inner) == "i j k.0 k.1 C.rf sum= i j k.1 C sum="
    assert [it.kind.value for it in replay(outer.dag, outer.steps).stage("C.rf").iterators] == [
        "space", "space", "space", "reduce",
    ]  # fmt: skip
    assert [it.kind.value for it in replay(inner.dag, inner.steps).stage("C.rf").iterators] == [
        "space", "space", "reduce", "space",
    ]  # fmt: skip
    assert [flat(s) for s in others] == [flat(s) for s in derived(matmul(512, 512, 512))]


def test_structures_of_two_matmuls() -> None:
    single = [flat(s) for s in derived(matmul(512, 512, 512))]
    pairs = [flat(s) for s in derived(two_matmuls(512))]
    renamed = [text.replace("C", "E") for text in single]
    assert sorted(pairs) == sorted(f"{of_c} {of_e}" for of_c in single for of_e in renamed)


def test_structures_of_a_layer() -> None:
    at_1, at_2, whole = (flat(s) for s in derived(conv_layer(56, 64, 64)))
    pad, reduce_0, reduce_1 = "n h w c conv.pad =", "rh.0 rw.0 rc.0", "rh.1 rw.1 rc.1"
    own = [f"h.{n} w.{n} c.{n}" for n in range(4)]
    relu = [f"i1.{n} i2.{n} i3.{n}" for n in range(3)]
    assert whole == (
        f"{pad} n {own[0]} {own[1]} {reduce_0} {own[2]} {reduce_1} {own[3]} conv sum= "
        "i0 i1 i2 i3 relu ="
    )
    assert at_1 == (
        f"{pad} i0 {relu[0]} n {own[0]} {reduce_0} {own[1]} {reduce_1} {own[2]} conv sum= "
        f"{relu[1]} relu ="
    )
    assert at_2 == (
        f"{pad} i0 {relu[0]} {relu[1]} {reduce_0} n {own[0]} {reduce_1} {own[1]} conv sum= "
        f"{relu[2]} relu ="
    )


def test_structures_of_reductions() -> None:
    outer, inner, plain = derived(row_minima())
    assert [flat(s) for s in (outer, inner, plain)] == [
        "i k.0 k.1 M.rf min= i k.0 M min=",
        "i k.0 k.1 M.rf min= i k.1 M min=",
        "i k M min=",
    ]
    scalar = [flat(s) for s in derived(total())]
    assert scalar == ["k.0 k.1 S.rf sum= k.0 S sum=", "k.0 k.1 S.rf sum= k.1 S sum=", "k S sum="]
    assert derived(max_pool(56, 64))[0].steps == ()
    factored = [
        tuple(step.stage for step in sketch.steps if isinstance(step, RFactor))
        for sketch in derived(softmax(1, 1024))
    ]
    both = [("soft.sum", "soft.max")] * 4
    assert sorted(factored) == sorted([(), *[("soft.max",)] * 2, *[("soft.sum",)] * 2, *both])


def test_structures_of_winograd() -> None:
    names = [sketch.name for sketch in derived(winograd())]
    transforms = "unroll e n r s of inverse, inline A, {}, unroll e n r s of pack, inline B"
    assert names == [
        transforms.format("cache write product, tile product.local in product at 1"),
        transforms.format("cache write product, tile product.local in product at 2"),
        transforms.format("tile product"),
    ]
    pack = "p.0 c.0 p.1 unroll e unroll n unroll r unroll s vectorize c.1 pack sum="
    assert pack in flat(derived(winograd())[2])


def test_derivation_of_sketch_1() -> None:
    """Input 1 -> rule 1 on D, rule 4 on C (then rule 1 on the inputs B and A)."""
    sketch = derived(input_1())[0]
    assert rules_of(sketch) == [(1, "D"), (4, "C")]
    states = [flat(sketch, applied.step_count) for applied in sketch.derivation]
    assert states == [
        "i j k C sum= i j D =",
        "i.0 j.0 i.0 j.0 k.0 i.1 j.1 k.1 i.2 j.2 C sum= i.1 j.1 D =",
    ]


def test_derivation_of_sketch_2() -> None:
    """Input 2 -> rules 5 and 4 on E, rule 1 on C, rule 2 on B (rule 1 on the inputs)."""
    sketch = derived(input_2())[2]
    assert rules_of(sketch) == [(5, "E"), (4, "E.local"), (1, "C"), (2, "B")]
    states = [flat(sketch, applied.step_count) for applied in sketch.derivation]
    tile = "i.0 j.0 i.0 j.0 k.0 i.1 j.1 k.1 i.2 j.2 E.local sum= i.1 j.1 E ="
    assert states == [
        "i l B = i k C = i j k E.local sum= i j E =",
        f"i l B = i k C = {tile}",
        f"i l B = i k C = {tile}",
        f"i k C = {tile}",
    ]


def test_derivation_of_sketch_3() -> None:
    """Input 2 -> rule 6 on E, rule 1 on C, rule 2 on B (rule 1 on the inputs)."""
    sketch = derived(input_2())[1]
    assert rules_of(sketch) == [(6, "E"), (1, "C"), (2, "B")]
    states = [flat(sketch, applied.step_count) for applied in sketch.derivation]
    shares = "i k C = i j k.0 k.1 E.rf sum= i j k.1 E sum="
    assert states == [f"i l B = {shares}", f"i l B = {shares}", shares]


def test_all_rules_of_the_examples() -> None:
    assert [rules_of(s) for s in derived(input_1())] == [
        [(1, "D"), (4, "C")], [(1, "D"), (4, "C")], [(1, "D"), (3, "C")],
    ]  # fmt: skip
    assert [rules_of(s)[0] for s in derived(input_2())] == [
        (6, "E"), (6, "E"), (5, "E"), (5, "E"), (3, "E"),
    ]  # fmt: skip


def test_the_paper_space_has_no_extensions() -> None:
    every = [s for d, _ in ORACLES.values() for s in design_space(d, CORES4, PAPER).sketches]
    assert not any(isinstance(step, CacheRead) for s in every for step in s.steps)
    assert not any(variable.ragged for sketch in every for variable in sketch.variables)
    assert not any("dot" in sketch.name for sketch in every)


def test_lengths_divide() -> None:
    for sketch in design_space(matmul(30, 42, 36), CORES4, PAPER).sketches:
        for name, rows in tiles(
            sketch, sample(sketch, 300, np.random.default_rng(0), PAPER)
        ).items():
            extent = {"i": 30, "j": 42, "k": 36}[name[-1]]
            assert (rows.prod(axis=1) == extent).all()


def test_a_factored_reduction_is_tried_with_all_its_lengths() -> None:
    sketches = design_space(matmul(8, 8, 512), CORES4, PAPER).sketches
    lengths = [s.name.split(" of ")[1] for s in sketches if "C by k.0" in s.name]
    assert lengths == ["1", "2", "4", "8", "16", "32", "64"]
    for sketch in sketches:
        partial = replay(sketch.dag, sketch.steps).find("C.rf")
        if partial is not None:
            length = int(sketch.name.split(" of ")[1])
            own = 512 // length if "C by k.0" in sketch.name else length
            assert partial.op.axes[-1].extent == own


def test_pads_are_computed_wherever_the_paper_may_and_never_inlined() -> None:
    sketches = design_space(conv_layer(56, 64, 64), CORES4, PAPER).sketches
    found = [s.name.split(", ")[-1] for s in sketches if "tile conv," in s.name]
    assert found == [
        "conv.pad at root", "conv.pad at conv.h.0", "conv.pad at conv.w.0", "conv.pad at conv.c.0",
        "conv.pad at conv.h.1", "conv.pad at conv.w.1", "conv.pad at conv.c.1",
        "conv.pad at conv.rh.0", "conv.pad at conv.rw.0", "conv.pad at conv.rc.0",
    ]  # fmt: skip
    for sketch in sketches:
        pad = replay(sketch.dag, sketch.steps).stage("conv.pad")
        assert not isinstance(pad.attach, Inlined)


def test_untiled_stages_keep_their_loops() -> None:
    for sketch in design_space(softmax(32, 64), CORES4, PAPER).sketches:
        for stage in replay(sketch.dag, sketch.steps).stages:
            marks = {it.name: it.mark for it in stage.iterators if it.mark is not Mark.NONE}
            reduce = {axis.name for axis in stage.op.reduce_axes}
            assert set(marks.values()) <= {Mark.VECTORIZE}
            assert not reduce & set(marks)


def test_too_many_places_are_thinned_out_evenly() -> None:
    whole = derived(conv_layer(56, 64, 64))[2]
    names = [s.name.split(" at ")[-1] for s in place_stages(whole, 5, placement=PAPER_PLACEMENT)]
    assert names == ["root", "conv.w.0", "conv.h.1", "conv.c.1", "conv.rw.0"]


def test_parallel_loops_are_as_many_as_upstream_takes() -> None:
    sketch = design_space(matmul(64, 64, 64), CORES4, PAPER).sketches[2]
    genes = sample(sketch, 500, np.random.default_rng(1), PAPER)
    counts = choice_values(sketch, genes)["parallel:C"]
    assert counts.min() >= 1


@also_nightly
@pytest.mark.parametrize("name", DAGS)
def test_programs_of_the_paper_space_are_right(name: str) -> None:
    rng = np.random.default_rng(3)
    sketches = design_space(DAGS[name], CORES4, PAPER).sketches
    for place in rng.choice(len(sketches), min(amount(1, 2), len(sketches)), replace=False):
        sketch = sketches[int(place)]
        row = sample(sketch, 1, rng, PAPER)[0]
        check_meaning(DAGS[name], steps(sketch, row))


def test_programs_of_winograd_are_right() -> None:
    computation = winograd(4, 3, 5)
    rng = np.random.default_rng(0)
    for options in (PAPER, DEFAULTS):
        space = design_space(computation, CORES4, options)
        assert not space.failures
        sketch = space.sketches[int(rng.integers(len(space.sketches)))]
        check_meaning(computation, steps(sketch, sample(sketch, 1, rng)[0]))


def test_constants_are_laid_out_and_not_packed() -> None:
    sketches = design_space(matmul(8, 24, 6, constant=True), CORES4, PAPER).sketches
    assert all("lay out in1" in sketch.name for sketch in sketches)
