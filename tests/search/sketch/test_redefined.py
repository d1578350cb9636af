"""Other definitions in the search: where they are tried, in blocks too, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.call.build import compile_module
from ansorc.lang import operators as ops
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, packings, replay, schedule
from ansorc.schedule.stage import At
from ansorc.search.cpu.rules import RULES
from ansorc.search.evolution.sampling import sample
from ansorc.search.options import ABLATIONS, DEFAULTS, PAPER, SearchOptions
from ansorc.search.sketch import Sketch, generate
from ansorc.search.sketch.simplify_const_indices import periods
from ansorc.search.space import design_space, steps
from ansorc.target import Target
from bench.paper_cases import case
from tests.search.small_dags import TARGET, ZEN3, given
from tests.support.nightly import also_nightly, amount

"""Weights are packed for a single call."""


def convolution(
    size: int = 8, channels: int = 16, *, kernel: int = 3, stride: int = 1, groups: int = 1
) -> ac.ComputeDAG:
    depth = channels // groups
    x, w = given((1, size, size, channels), (kernel, kernel, depth, channels), constant=True)
    y = ops.conv2d(x, w, padding=kernel // 2, stride=stride, groups=groups, name="y")
    return ac.ComputeDAG([x, w, y])


def layer(size: int = 8, channels: int = 16) -> ac.ComputeDAG:
    kernel = (3, 3, channels, channels)
    x, w, bias = given((1, size, size, channels), kernel, (channels,), constant=True)
    y = ops.conv2d(x, w, padding=1, name="y")
    return ac.ComputeDAG([x, w, bias, ops.relu(ops.bias_add(y, bias, name="z"), name="out")])


def redefined(dag: ac.ComputeDAG, target: Target = TARGET) -> list[Sketch]:
    return [sketch for sketch in generate(dag, target, RULES) if "winograd" in sketch.name]


def test_the_sketches_of_a_convolution() -> None:
    assert [sketch.name for sketch in redefined(convolution())] == [
        "winograd y, unroll h.1 w.1 of y, cache write y.product, tile y.product.local in "
        "y.product at 1, unroll rh rw of y.spread",
        "winograd y, unroll h.1 w.1 of y, cache write y.product, tile y.product.local in "
        "y.product at 2, unroll rh rw of y.spread",
        "winograd y, unroll h.1 w.1 of y, tile y.product, unroll rh rw of y.spread",
        "winograd y, tile y.product in blocks of y",
        "winograd4 y, unroll w.1 of y, unroll h.1 of y.product, cache write y.product.product, "
        "tile y.product.product.local in y.product.product at 1, unroll rh of y.product.spread, "
        "unroll rw of y.spread",
        "winograd4 y, unroll w.1 of y, unroll h.1 of y.product, cache write y.product.product, "
        "tile y.product.product.local in y.product.product at 2, unroll rh of y.product.spread, "
        "unroll rw of y.spread",
        "winograd4 y, unroll w.1 of y, unroll h.1 of y.product, tile y.product.product, "
        "unroll rh of y.product.spread, unroll rw of y.spread",
        "winograd4 y, tile y.product.product in blocks of y",
    ]


def test_larger_tiles_must_save_more_than_the_smaller_ones() -> None:
    """14 results in tiles of 4 are 16, which is hardly less than 14 in tiles of 2."""
    assert not any("winograd4" in sketch.name for sketch in redefined(convolution(14)))


def test_an_element_wise_consumer_takes_the_results_from_their_tiles() -> None:
    blocks = redefined(layer())[3]
    assert blocks.name == "inline z, winograd y, tile y.product in blocks of out"
    state = replay(blocks.dag, blocks.steps)
    assert state.stage("y").is_inlined
    assert state.stage("y.product").attach == At("out", "i2.0")
    assert state.stage("y.spread").attach == At("out", "i2.0")


def test_a_large_weight_must_be_read_for_many_products() -> None:
    assert redefined(convolution(7, 512), ZEN3) == []
    assert redefined(convolution(14, 512), ZEN3) != []
    assert redefined(convolution(7, 64), ZEN3) != []
    many = replace(ZEN3, cores=96)
    assert redefined(convolution(7, 512), many) != [], "their second caches keep it"


def test_all_that_is_transformed_for_a_block_is_computed_in_it() -> None:
    (blocks,) = [s for s in redefined(convolution()) if s.name.startswith("winograd4 y, tile")]
    state = replay(blocks.dag, blocks.steps)
    inside = ("y.spread", "y.product.spread", "y.product.product", "y.product")
    assert {state.stage(name).attach for name in inside} == {At("y", "w.0")}


@pytest.mark.parametrize(
    "dag",
    [
        convolution(kernel=1), convolution(kernel=5), convolution(stride=2), convolution(size=1),
        convolution(channels=8), convolution(groups=16), case("GMM-1-b1").dag(),
        case("DEP-2-b1").dag(),
    ],
    ids=["1x1", "5x5", "strided", "one result", "few channels", "depthwise", "product", "DEP"],
)  # fmt: skip
def test_where_it_does_not_pay_there_are_none(dag: ac.ComputeDAG) -> None:
    assert redefined(dag) == []


@pytest.mark.parametrize("options", [PAPER, ABLATIONS["limited-space"], ABLATIONS["as-defined"]])
def test_spaces_without_other_definitions(options: SearchOptions) -> None:
    space = design_space(convolution(), TARGET, options)
    assert not any("winograd" in sketch.name for sketch in space.sketches)


def test_operators_of_the_paper_that_are_redefined() -> None:
    names = ("C1D-4-b16", "C2D-3-b1", "C3D-3-b1", "GRP-3-b1", "DIL-3-b1", "CAP-2-b1")
    assert all(redefined(case(name).dag(constant=True)) for name in names)


def test_results_of_a_transposed_convolution_are_interleaved_block_by_block() -> None:
    names = [sketch.name for sketch in generate(case("T2D-1-b1").dag(constant=True), TARGET, RULES)]
    assert "tile conv.phases in blocks of conv" in names


def test_what_remainders_decide_is_unrolled() -> None:
    x = ac.placeholder((6, 64), "x")
    y = ac.compute(
        (6, 64), lambda i, j: ac.if_then_else(ac.equal(i % 3, 0), x[i, j], x[i, j] * 2.0), "y"
    )
    dag = ac.ComputeDAG([x, y])
    assert periods(schedule(dag).stage("y").op) == {"i": 3}
    assert [sketch.name for sketch in generate(dag, TARGET, RULES)] == ["unroll i.1 of y", ""]


@also_nightly
@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("make", [convolution, layer])
def test_their_programs_compute_the_convolution(
    make: Callable[[int], ac.ComputeDAG], size: int
) -> None:
    dag, target, rng = make(size), Target.parse("native"), np.random.default_rng(size)
    inputs = [rng.uniform(-1, 1, b.shape).astype(np.float32) for b in dag.inputs]
    (wanted,) = evaluate(dag, inputs)
    options = replace(DEFAULTS, max_locations=8)
    sketches = [s for s in design_space(dag, target, options).sketches if "winograd" in s.name]
    for sketch in sketches[:: amount(3, 1)]:
        (row,) = sample(sketch, 1, rng, options)
        state = replay(dag, steps(sketch, row))
        out = np.full(wanted.shape, np.nan, np.float32)
        compile_module(lower(state), target, "kernel", packings=packings(state))(*inputs, out)
        np.testing.assert_allclose(out, wanted, 1e-4, 1e-4, err_msg=sketch.name)
