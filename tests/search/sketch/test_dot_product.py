"""Products of narrow numbers that are not defined in groups: which instruction computes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.ir.interpret import interpret
from ansorc.lang.hints import FITS
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, packings, replay, schedule
from ansorc.schedule.memory import memory_shape
from ansorc.search.cpu.rules import RULES, complete_on_cpu, rules_of
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch import generate
from ansorc.search.sketch.dot_product import is_tensorized
from ansorc.search.space import steps
from ansorc.target import Target
from tests.support.assumed import executable
from tests.support.narrow_kernels import SPR, ZEN3, Array, assembly_of, mnemonics, run, values
from tests.support.nightly import examples

ARM = "aarch64-linux-gnu -mcpu=cortex-a76"
BYTES = ("int8", "uint8")


def product(
    shape: tuple[int, ...],
    kinds: tuple[str, str] = ("int8", "int8"),
    *,
    is_transposed: bool = False,
    is_constant: bool = False,
    has_relu: bool = False,
) -> ac.ComputeDAG:
    """Return data [..., i, k] times weight [..., k, j] or [..., j, k]; `shape`: [..., i, j, k]."""
    *batch, rows, columns, depth = shape
    a = ac.placeholder((*batch, rows, depth), "A", kinds[0])
    extents = (columns, depth) if is_transposed else (depth, columns)
    w = ac.placeholder((*batch, *extents), "W", kinds[1], constant=is_constant)
    total, k = "float32" if "bfloat16" in kinds else "int32", ac.reduce_axis(depth, "k")

    def body(*i: Any) -> ac.Reduction:
        *b, row, column = i
        weight = w[(*b, column, k)] if is_transposed else w[(*b, k, column)]
        return ac.sum(a[(*b, row, k)].astype(total) * weight.astype(total), axis=k)

    c = ac.compute((*batch, rows, columns), body, "C")
    return ac.ComputeDAG([a, w, ac.ops.relu(c, "D") if has_relu else c])


def hinted(dag: ac.ComputeDAG, hints: tuple[tuple[str, str], ...]) -> ac.ComputeDAG:
    return ac.ComputeDAG.of_ops(dag.params, tuple(replace(op, hints=hints) for op in dag.ops))


def tensorized_names(dag: ac.ComputeDAG, target: str) -> list[str]:
    return [s.name for s in generate(dag, Target.parse(target), RULES) if is_tensorized(s)]


def draw_inputs(dag: ac.ComputeDAG, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [values(buffer, rng) for buffer in dag.inputs]


@st.composite
def products(draw: st.DrawFn) -> ac.ComputeDAG:
    batch = draw(st.sampled_from([(), (), (1,), (3,)]))
    rows, columns = draw(st.sampled_from([8, 9, 13, 16])), draw(st.sampled_from([1, 5, 16, 24]))
    depth = draw(st.sampled_from([2, 4, 6, 12, 20]))
    kinds = draw(st.sampled_from([(a, b) for a in BYTES for b in BYTES] + [("int16", "int8")]))
    flags = {name: draw(st.booleans()) for name in ("is_transposed", "is_constant", "has_relu")}
    return product((*batch, rows, columns, depth), kinds, **flags)


@given(products(), st.sampled_from([ZEN3, SPR, ARM]), st.integers(0, 1000))
@examples(6, nightly=300)
def test_any_tensorized_program_computes_the_product(
    dag: ac.ComputeDAG, target: str, seed: int
) -> None:
    rng, inputs = np.random.default_rng(seed), draw_inputs(dag, seed)
    (expected,) = evaluate(dag, inputs)
    derived = [s for s in generate(dag, Target.parse(target), RULES) if is_tensorized(s)]
    assert derived or target == ARM
    for sketch in (whole for _, each in complete_on_cpu(derived, DEFAULTS) for whole in each):
        program = replay(dag, steps(sketch, sample(sketch, 1, rng)[0]))
        found = np.full(expected.shape, 77, np.int32)
        layouts = {packing.source.name: packing for packing in packings(program)}
        given_ = [
            layouts[b.name].apply(array) if b.name in layouts else array
            for b, array in zip(dag.inputs, inputs, strict=True)
        ]
        interpret(lower(program), [*given_, found], fresh_outputs=True)
        np.testing.assert_array_equal(found, expected)


@given(products(), st.sampled_from(["native", ZEN3, SPR]))
@examples(5, nightly=150)
def test_the_untuned_program_computes_the_product(dag: ac.ComputeDAG, target: str) -> None:
    inputs = draw_inputs(dag, 1)
    (expected,) = evaluate(dag, inputs)
    chosen = target if target == "native" else executable(target)
    np.testing.assert_array_equal(run(dag, inputs, chosen)[0], expected)


@pytest.mark.parametrize(
    ("kinds", "target", "instruction"),
    [
        (("int8", "int8"), ZEN3, "vpmaddwd"),
        (("uint8", "uint8"), ZEN3, "vpmaddwd"),
        (("int16", "int16"), ZEN3, "vpmaddwd"),
        (("uint8", "int8"), SPR, "vpdpbusd"),
        (("int8", "int8"), SPR, "vpdpbusd"),
        (("bfloat16", "bfloat16"), SPR, "vdpbf16ps"),
        (("int8", "int8"), ARM, "sdot"),
    ],
)
@pytest.mark.parametrize("is_constant", [False, True])
def test_the_untuned_default_uses_the_instruction(
    kinds: tuple[str, str], target: str, instruction: str, *, is_constant: bool
) -> None:
    dag = product((32, 64, 64), kinds, is_constant=is_constant)
    program = replay(dag, default_steps(dag, Target.parse(target)))
    assert instruction in mnemonics(assembly_of(program, target))


def test_a_convolution_and_a_sum_of_bfloat16() -> None:
    x, w = ac.placeholder((1, 10, 10, 8), "X", "int8"), ac.placeholder((3, 3, 8, 16), "W", "int8")
    dag = ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, padding=1, sum_dtype="int32", name="Y")])
    assert tensorized_names(dag, ZEN3) == ["dot2 Y, pack W.int16"]
    inputs = draw_inputs(dag)
    np.testing.assert_array_equal(run(dag, inputs)[0], evaluate(dag, inputs)[0])
    dag = product((16, 32, 20), ("bfloat16", "bfloat16"))
    inputs = draw_inputs(dag)
    expected = inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)
    np.testing.assert_allclose(run(dag, inputs, executable(SPR))[0], expected, 1e-4, 1e-4)


@pytest.mark.parametrize(("side", "channels", "stride"), [(7, 128, 1), (13, 10, 2), (3, 6, 1)])
def test_images_with_short_rows_use_the_instruction(side: int, channels: int, stride: int) -> None:
    """The rows of all lines of an image serve to read the weights once; tiles may have tails."""
    x = ac.placeholder((1, side, side, channels), "X", "uint8")
    w = ac.placeholder((3, 3, channels, 24), "W", "int8", constant=True)
    y = ac.ops.conv2d(x, w, padding=1, stride=stride, sum_dtype="int32", name="Y")
    dag = ac.ComputeDAG([x, w, y])
    assert tensorized_names(dag, ZEN3) == ["dot2 Y"]
    inputs = draw_inputs(dag)
    np.testing.assert_array_equal(run(dag, inputs, executable(ZEN3))[0], evaluate(dag, inputs)[0])


@pytest.mark.parametrize(
    ("depth", "pitch"),
    [pytest.param(512, 544, id="few sets"), pytest.param(100, 100, id="many sets")],
)
def test_the_rows_of_a_copy_begin_in_different_sets(depth: int, pitch: int) -> None:
    dag = product((24, 16, depth), ("uint8", "int8"), is_constant=True)
    program = replay(dag, default_steps(dag, Target.parse(ZEN3)))
    assert memory_shape(program.stage("A.int16")) == (24, pitch)
    inputs = draw_inputs(dag)
    np.testing.assert_array_equal(run(program, inputs)[0], evaluate(dag, inputs)[0])


@pytest.mark.parametrize(
    ("target", "name"), [(ZEN3, "dot4_pairs C"), (SPR, "dot4 C")], ids=["AVX2", "VNNI"]
)
def test_pairs_that_fit_are_added_in_int16(target: str, name: str) -> None:
    """The hint promises it; without it, a copy of the data in int16 is multiplied."""
    plain = product((3, 24, 20), ("uint8", "int8"), is_constant=True)
    dag = hinted(plain, ((FITS, "1"),))
    assert name in tensorized_names(dag, target)
    assert "dot4_pairs C" not in tensorized_names(plain, target)
    inputs = [np.full((3, 20), 255, np.uint8), np.full((20, 24), -64, np.int8)]
    inputs[1][::3] = 64
    np.testing.assert_array_equal(run(dag, inputs, executable(target))[0], evaluate(dag, inputs)[0])


@pytest.mark.parametrize(
    ("kinds", "hints", "words"),
    [
        (("uint8", "int8"), (), "two products of 'C' may leave int16; the hint pairs_fit_int16"),
        (("int8", "int8"), ((FITS, "1"),), "the factors of 'C' are not uint8 and int8"),
    ],
)
def test_what_is_not_added_in_int16(
    kinds: tuple[str, str], hints: tuple[tuple[str, str], ...], words: str
) -> None:
    plain = product((8, 16, 4), kinds)
    with pytest.raises(ScheduleError, match=words):
        schedule(hinted(plain, hints)).tensorize("C", "k", "dot4_pairs")


def test_a_constant_is_laid_out_before_the_calls() -> None:
    dag = product((32, 64, 64), ("uint8", "int8"), is_constant=True)
    assert tensorized_names(dag, SPR) == ["dot4 C"]
    unlaid = rules_of(SearchOptions(rewrite_layout=False))
    sketches = [s for s in generate(dag, Target.parse(SPR), unlaid) if is_tensorized(s)]
    assert [s.name for s in sketches] == ["dot4 C, pack W"]


@pytest.mark.parametrize(
    "dag",
    [
        product((4, 64, 64)),
        product((32, 64, 63)),
        ac.ComputeDAG([
            x := ac.placeholder((16, 16), "X", "int8"),
            ac.ops.matmul(x, x, "C", sum_dtype="int32"),
        ]),
    ],
    ids=["few rows", "an odd depth", "one tensor twice"],
)  # fmt: skip
def test_what_no_instruction_computes(dag: ac.ComputeDAG) -> None:
    assert tensorized_names(dag, ZEN3) == []


def test_the_definitions_and_their_refusals() -> None:
    dag = product((8, 16, 12), has_relu=True)
    inputs = draw_inputs(dag)
    (expected,) = evaluate(dag, inputs)
    for definition in ("int16", "shifted"):
        found = np.full(expected.shape, 77, np.int32)
        function = lower(schedule(dag).redefine("C", definition))
        interpret(function, [*inputs, found], fresh_outputs=True)
        np.testing.assert_array_equal(found, expected)
    wide = product((8, 16, 12), ("int16", "int16"))
    with pytest.raises(ScheduleError, match="no sum in int32 of products of bytes, one of which"):
        schedule(wide).redefine("C", "int16")
    with pytest.raises(ScheduleError, match="no sum in int32 of products of int8, one of which"):
        schedule(wide).redefine("C", "shifted")


def test_a_range_that_is_data_has_no_shared_sums() -> None:
    """The sums of the columns would depend on the row."""
    p = ac.placeholder((17,), "P", "int32")
    a, w = ac.placeholder((16, 20), "A", "int8"), ac.placeholder((20, 8), "W", "int8")

    def body(i: Any, j: Any) -> ac.Reduction:
        r = ac.reduce_axis((p[i], p[i + 1]), "r")
        return ac.sum(a[i, r].astype("int32") * w[r, j].astype("int32"), axis=r)

    dag = ac.ComputeDAG([p, a, w, ac.compute((16, 8), body, "C")])
    assert tensorized_names(dag, SPR) == []
    for definition in ("int16", "shifted"):
        with pytest.raises(ScheduleError, match=f"'C' has no definition '{definition}'"):
            schedule(dag).redefine("C", definition)


def test_two_factors_in_groups_are_no_product_of_matrices() -> None:
    w, k = ac.placeholder((8, 32, 2), "W", "int8"), ac.reduce_axis(16, "k")

    def body(i: Any, j: Any) -> ac.Reduction:
        element = w[k // 2, j, k % 2].astype("int32")
        return ac.sum(element * element, axis=k)

    assert tensorized_names(ac.ComputeDAG([w, ac.compute((16, 32), body, "C")]), ZEN3) == []
