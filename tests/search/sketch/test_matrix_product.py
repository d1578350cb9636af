"""Products by the matrix unit of a CPU: which are, and that any program of them is right.

The machine may have no such unit: its tile instructions are emulated (`tests/support/tiles`).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.errors import ScheduleError
from ansorc.ir.interpret import interpret
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, packings, replay
from ansorc.schedule.state import State
from ansorc.schedule.steps import ComputeInline, Tensorize
from ansorc.search.cpu.rules import RULES, complete_on_cpu, rules_of
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch import generate
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import steps
from ansorc.target import Target
from tests.support.assumed import executable
from tests.support.narrow_kernels import (
    AMX,
    SPR,
    Array,
    assembly_of,
    mnemonics,
    poison,
    run,
    values,
)
from tests.support.nightly import examples
from tests.support.tiles.emulated import AMX as EMULATED
from tests.support.tiles.emulated import run_emulated

GROUPS = (8, 9, 13, 16, 32, 20, 160)
"""Groups of terms, in tiles of 8 to 16; of many there are sketches in blocks."""
FP16 = "x86_64-linux-gnu -mcpu=graniterapids"
BYTES = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]
KINDS = [*BYTES, ("bfloat16", "bfloat16"), ("float16", "float16")]


def product(
    shape: tuple[int, ...],
    kinds: tuple[str, str] = ("bfloat16", "bfloat16"),
    *,
    is_transposed: bool = False,
    is_constant: bool = False,
    is_swapped: bool = False,
    has_bias: bool = False,
) -> ac.ComputeDAG:
    """Return data [..., i, k] times weight [..., k, j] or [..., j, k]; `shape`: [..., i, j, k]."""
    *batch, rows, columns, depth = shape
    a = ac.placeholder((*batch, rows, depth), "A", kinds[0])
    extents = (columns, depth) if is_transposed else (depth, columns)
    w = ac.placeholder((*batch, *extents), "W", kinds[1], constant=is_constant)
    total = "int32" if kinds[0].endswith("int8") else "float32"
    k = ac.reduce_axis(depth, "k")

    def body(*i: Any) -> ac.Reduction:
        *b, row, column = i
        weight = w[(*b, column, k)] if is_transposed else w[(*b, k, column)]
        pair = [a[(*b, row, k)].astype(total), weight.astype(total)]
        return ac.sum(pair[is_swapped] * pair[not is_swapped], axis=k)

    c = ac.compute((*batch, rows, columns), body, "C")
    if not has_bias:
        return ac.ComputeDAG([a, w, c])
    bias = ac.placeholder((columns,), "B", total)
    d = ac.compute(c.shape, lambda *i: ac.maximum(c[i] + bias[i[-1]], 0), "D")
    return ac.ComputeDAG([a, w, bias, d])


def tiled(dag: ac.ComputeDAG, target: str) -> list[Sketch]:
    """Return the sketches whose sums a matrix unit makes."""
    derived = generate(dag, Target.parse(target), RULES)
    return [sketch for sketch in derived if sketch.name.startswith("tile_")]


def uses_unit(program: State) -> bool:
    return any(isinstance(s, Tensorize) and s.function.startswith("tile") for s in program.steps)


def draw_inputs(dag: ac.ComputeDAG, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [values(buffer, rng) for buffer in dag.inputs]


def assert_close(found: Array, expected: Array, depth: int) -> None:
    """Integers are exact; sums of `depth` float32 products are rounded in another order."""
    if found.dtype.kind in "iu":
        np.testing.assert_array_equal(found, expected)
    else:
        bound = 2.0**-23 * depth * 8
        np.testing.assert_allclose(found, expected, rtol=bound, atol=bound * np.sqrt(depth))


def interpreted(program: State, inputs: list[Array], shape: tuple[int, ...]) -> Array:
    """Run the loops that code generation gets, in Python."""
    function = prepare(lower(program), Target.parse(EMULATED))
    found = poison(shape, program.dag.outputs[0].dtype)
    layouts = {packing.source.name: packing for packing in packings(program)}
    given_ = [
        layouts[b.name].apply(array) if b.name in layouts else array
        for b, array in zip(program.dag.inputs, inputs, strict=True)
    ]
    interpret(function, [*given_, found], fresh_outputs=True)
    return found


@st.composite
def products(draw: st.DrawFn, most: int, groups: tuple[int, ...] = GROUPS) -> ac.ComputeDAG:
    """Draw a product with tails of every kind."""
    kinds = draw(st.sampled_from(KINDS))
    group = 4 if kinds[0].endswith("int8") else 2
    batch = draw(st.sampled_from([(), (), (1,), (2,)]))
    depth = group * draw(st.sampled_from(groups))
    side = st.integers(1, most)
    names = ("is_transposed", "is_constant", "is_swapped", "has_bias")
    flags = {name: draw(st.booleans()) for name in names}
    return product((*batch, draw(st.integers(8, most)), draw(side), depth), kinds, **flags)


@given(products(70), st.integers(0, 1000), st.booleans())
@examples(4, nightly=300)
def test_any_program_computes_the_product(
    dag: ac.ComputeDAG,
    seed: int,
    at_end: bool,  # noqa: FBT001
) -> None:
    rng, inputs = np.random.default_rng(seed), draw_inputs(dag, seed)
    (expected,) = evaluate(dag, inputs)
    derived = tiled(dag, EMULATED)
    assert derived
    depth = dag.inputs[0].shape[-1]
    for sketch in (whole for _, each in complete_on_cpu(derived, DEFAULTS) for whole in each):
        program = replay(dag, steps(sketch, sample(sketch, 1, rng)[0]))
        (found,), counts = run_emulated(program, inputs, threads=2, at_end=at_end)
        assert_close(found, expected, depth)
        assert counts.products > 0


@given(products(10, groups=(8,)), st.integers(0, 1000))
@examples(2, nightly=100)
def test_the_interpreter_runs_the_nests(dag: ac.ComputeDAG, seed: int) -> None:
    rng, inputs = np.random.default_rng(seed), draw_inputs(dag, seed)
    (expected,) = evaluate(dag, inputs)
    (sketch,) = tiled(dag, EMULATED)
    whole = next(each for _, made in complete_on_cpu([sketch], DEFAULTS) for each in made)
    program = replay(dag, steps(whole, sample(whole, 1, rng)[0]))
    found = interpreted(program, inputs, expected.shape)
    assert_close(found, expected, dag.inputs[0].shape[-1])
    emulated = run_emulated(program, inputs)[0][0]
    if found.dtype.kind == "i":
        np.testing.assert_array_equal(emulated, found)


@given(products(40), st.integers(0, 1000))
@examples(3, nightly=100)
def test_the_untuned_program_computes_the_product(dag: ac.ComputeDAG, seed: int) -> None:
    """As code of this machine in plain loops, and by tiles."""
    inputs = draw_inputs(dag, seed)
    (expected,) = evaluate(dag, inputs)
    depth = dag.inputs[0].shape[-1]
    program = replay(dag, default_steps(dag, Target.parse(FP16)))
    assert_close(run(program, inputs, executable(FP16))[0], expected, depth)
    if uses_unit(program):
        assert_close(run_emulated(program, inputs)[0][0], expected, depth)


@pytest.mark.parametrize(
    ("kinds", "target", "instruction"),
    [
        (("bfloat16", "bfloat16"), AMX, "tdpbf16ps"),
        (("uint8", "int8"), AMX, "tdpbusd"),
        (("int8", "int8"), AMX, "tdpbssd"),
        (("int8", "uint8"), AMX, "tdpbsud"),
        (("uint8", "uint8"), AMX, "tdpbuud"),
        (("float16", "float16"), FP16, "tdpfp16ps"),
    ],
)
@pytest.mark.parametrize("is_constant", [False, True])
def test_the_untuned_default_uses_the_unit(
    kinds: tuple[str, str], target: str, instruction: str, *, is_constant: bool
) -> None:
    dag = product((64, 64, 128), kinds, is_constant=is_constant)
    program = replay(dag, default_steps(dag, Target.parse(target)))
    assert instruction in mnemonics(assembly_of(program, target))


@pytest.mark.parametrize("is_constant", [False, True])
def test_the_inner_loop_is_four_loads_and_four_products(*, is_constant: bool) -> None:
    """Tiles stay in their registers, and each is loaded once a step."""
    dag = product((512, 512, 256), is_constant=is_constant)
    text = assembly_of(replay(dag, default_steps(dag, Target.parse(AMX))), AMX)
    loops = re.findall(
        r"\n\.LBB\S+:[^\n]*\n(?:(?!\n\.LBB).)*?tdpbf16ps(?:(?!\n\.LBB).)*", text, re.S
    )
    assert len(loops) == 1
    used = [line.split()[0] for line in loops[0].splitlines() if re.match(r"\t[a-z]", line)]
    body = used[: used.index("jne") + 1]
    assert (body.count("tileloadd"), body.count("tdpbf16ps"), body.count("tilestored")) == (4, 4, 0)
    assert len(body) <= 4 + 4 + 7  # what is left moves two addresses and counts
    assert text.count("ldtilecfg") == 1
    assert text.count("tilerelease") == 1


@pytest.mark.parametrize("depth", [32, 128, 1024])
def test_a_tile_is_computed_with_the_fewest_instructions(depth: int) -> None:
    dag = product((64, 96, depth))
    program = replay(dag, default_steps(dag, Target.parse(AMX)))
    _, counts = run_emulated(program, draw_inputs(dag))
    tiles, terms = 4 * 6, depth // 32
    assert counts.products == tiles * terms
    assert counts.zeros == tiles
    again = counts.stores - tiles  # of sums to which other blocks of terms are added
    assert counts.loads == counts.products + again  # 2 + 2 for each 2 x 2 products
    assert again == 0 or depth > 128
    assert counts.configurations == counts.releases == 1


def test_each_part_of_a_parallel_loop_has_its_own_tiles() -> None:
    """Two configurations, of whole tiles and of the last rows, are each loaded when needed."""
    dag = product((70, 256, 64), is_constant=True)
    program = replay(dag, default_steps(dag, Target.parse(AMX)))
    inputs = draw_inputs(dag)
    for threads in (1, 2, 3):
        (found,), counts = run_emulated(program, inputs, threads)
        assert_close(found, evaluate(dag, inputs)[0], 64)
        assert 1 <= counts.releases <= threads


@pytest.mark.parametrize("is_constant", [False, True])
def test_what_a_unit_reads_is_stored(*, is_constant: bool) -> None:
    """Wherever the border of a convolution and a sum's weights are made, they are not inlined."""
    x = ac.placeholder((1, 11, 13, 32), "X", "int8")
    w = ac.placeholder((3, 3, 32, 20), "W", "uint8", constant=is_constant)
    dag = ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, padding=1, sum_dtype="int32", name="Y")])
    inputs, rng = draw_inputs(dag), np.random.default_rng(0)
    (expected,) = evaluate(dag, inputs)
    made = complete_on_cpu(tiled(dag, EMULATED), DEFAULTS)
    wholes = [whole for _, each in made for whole in each]
    assert len(wholes) > 1
    for whole in wholes:
        program = replay(dag, steps(whole, sample(whole, 1, rng)[0]))
        np.testing.assert_array_equal(run_emulated(program, inputs, 2)[0][0], expected)
    with pytest.raises(ScheduleError, match="unit reads the factors of 'Y"):
        ComputeInline("Y.pad").apply(tiled(dag, EMULATED)[0].state)


def test_few_rows_have_three_tiles_of_columns() -> None:
    dag = product((16, 144, 64), is_constant=True)
    program = replay(dag, default_steps(dag, Target.parse(AMX)))
    inputs = draw_inputs(dag)
    (found,), counts = run_emulated(program, inputs)
    assert_close(found, evaluate(dag, inputs)[0], 64)
    assert counts.products == 9 * 2
    assert counts.loads == (9 + 3) * 2


def test_a_convolution_and_weights_in_groups() -> None:
    x, w = ac.placeholder((1, 9, 9, 32), "X", "uint8"), ac.placeholder((3, 3, 32, 24), "W", "int8")
    dag = ac.ComputeDAG([
        x, w, ac.ops.conv2d(x, w, padding=1, stride=2, sum_dtype="int32", name="Y")
    ])  # fmt: skip
    assert not tiled(dag, AMX)  # 5 rows do not pay for packing
    x, w = (
        ac.placeholder((2, 20, 20, 64), "X", "uint8"),
        ac.placeholder((3, 3, 64, 24), "W", "int8"),
    )
    dag = ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, padding=1, sum_dtype="int32", name="Y")])
    inputs = draw_inputs(dag)
    program = replay(dag, default_steps(dag, Target.parse(AMX)))
    (found,), counts = run_emulated(program, inputs, 2)
    assert counts.products
    np.testing.assert_array_equal(found, evaluate(dag, inputs)[0])


def test_which_sketches_there_are() -> None:
    def names(dag: ac.ComputeDAG, target: str = AMX) -> list[str]:
        return [sketch.name for sketch in tiled(dag, target)]

    assert names(product((64, 64, 64))) == ["tile_bf16 C, pack W"]
    assert names(product((64, 64, 64), is_constant=True)) == ["tile_bf16 C"]
    assert names(product((64, 64, 64), ("uint8", "int8"))) == ["tile_i8 C, pack W"]
    assert names(product((64, 64, 64), ("float16", "float16")), FP16) == ["tile_f16 C, pack W"]
    assert names(product((64, 64, 1024))) == [
        "tile_bf16 C, pack W", "tile_bf16 C, pack W, in blocks of terms"
    ]  # fmt: skip
    unlaid = rules_of(SearchOptions(rewrite_layout=False))
    dag = product((64, 64, 64), is_constant=True)
    made = [sketch.name for sketch in generate(dag, Target.parse(AMX), unlaid)]
    assert made[0] == "tile_bf16 C, pack W"


@pytest.mark.parametrize(
    ("dag", "target"),
    [
        (product((64, 64, 64)), SPR),
        (product((64, 64, 64), ("float16", "float16")), AMX),
        (product((64, 64, 63)), AMX),
        (product((64, 64, 62)), AMX),
        (product((64, 64, 12)), AMX),
        (product((4, 64, 64)), AMX),
        (product((1, 64, 64), is_constant=True), AMX),
    ],
    ids=[
        "no unit", "no unit for float16", "an odd depth", "a depth of 2 times 31", "a short depth",
        "few rows", "one row",
    ],
)  # fmt: skip
def test_what_no_unit_computes(dag: ac.ComputeDAG, target: str) -> None:
    assert not tiled(dag, target)
