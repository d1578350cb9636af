"""Layers of narrow numbers: their numbers, their instructions, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.ir.interpret import interpret
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, replay
from ansorc.search.cpu.rules import RULES
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.sketch import generate
from ansorc.search.sketch.dot_product import is_tensorized
from ansorc.search.space import design_space, encode, extract, steps
from ansorc.target import Target
from tests.support.assumed import executable
from tests.support.narrow_kernels import SPR, ZEN3, Array, assembly_of, mnemonics, run, values
from tests.support.nightly import sampled_pairs

AVX2_VNNI = f"{ZEN3} -mattr=+avxvnni"
FORMS = {
    "u8s8": ("uint8", "int8", 4, False),
    "s8 shifted": ("int8", "int8", 4, True),
    "s8 as s16": ("int8", "int8", 2, False),
    "u8s8 as s16": ("uint8", "int8", 2, False),
    "s16": ("int16", "int16", 2, False),
    "bf16": ("bfloat16", "bfloat16", 2, False),
}


def layer(form: str, rows: int, units: int, depth: int, *, is_relu: bool = False) -> ac.ComputeDAG:
    left, right, terms, is_shifted = FORMS[form]
    a = ac.placeholder((rows, depth), "A", left)
    w = ac.placeholder((depth // terms, units, terms), "W", right, constant=True)
    c = ac.ops.dense_packed(a, w, is_shifted=is_shifted, name="C")
    return ac.ComputeDAG([a, w, ac.ops.relu(c, "D") if is_relu else c])


def product(dag: ac.ComputeDAG, inputs: list[Array]) -> Array:
    units = dag.inputs[1].shape[1]
    rows = inputs[1].transpose(0, 2, 1).reshape(-1, units)
    return inputs[0].astype(np.float64) @ rows.astype(np.float64)


def check(dag: ac.ComputeDAG, target: Target | str, *, is_relu: bool = False) -> None:
    inputs = [values(buffer, np.random.default_rng(0)) for buffer in dag.inputs]
    (found,) = run(dag, inputs, target)
    expected = product(dag, inputs)
    if found.dtype == np.int32:
        expected = expected.astype(np.int64).astype(np.int32)  # sums wrap
    expected = np.maximum(expected, 0) if is_relu else expected
    if found.dtype == np.int32:
        np.testing.assert_array_equal(found, expected)
    else:
        assert np.abs(found - expected).max() < 1e-3


@pytest.mark.parametrize(
    ("form", "target"), sampled_pairs(list(FORMS), ["native", ZEN3, AVX2_VNNI, SPR])
)
def test_numbers(form: str, target: str) -> None:
    check(layer(form, 24, 48, 64), executable(target))
    check(layer(form, 5, 7, 8, is_relu=True), executable(target), is_relu=True)


@given(
    st.sampled_from(sorted(FORMS)), st.integers(1, 20), st.integers(1, 70), st.integers(1, 9),
    st.booleans(),
)  # fmt: skip
@settings(deadline=None, max_examples=8)
def test_numbers_of_any_shape(form: str, rows: int, units: int, groups: int, is_relu: bool) -> None:  # noqa: FBT001
    check(layer(form, rows, units, groups * FORMS[form][2], is_relu=is_relu), "native",
          is_relu=is_relu)  # fmt: skip


@pytest.mark.parametrize(
    ("form", "target", "instruction"),
    [
        ("u8s8", SPR, "vpdpbusd"),
        ("u8s8", AVX2_VNNI, "vpdpbusd"),
        ("s8 shifted", SPR, "vpdpbusd"),
        ("s8 as s16", SPR, "vpdpwssd"),
        ("s8 as s16", ZEN3, "vpmaddwd"),
        ("bf16", SPR, "vdpbf16ps"),
        ("s16", "x86_64-linux-gnu -mcpu=cascadelake", "vpdpwssd"),
    ],
)
def test_the_untuned_default_uses_the_instruction(form: str, target: str, instruction: str) -> None:
    dag = layer(form, 64, 64, 64)
    program = replay(dag, default_steps(dag, Target.parse(target)))
    text = assembly_of(program, target)
    assert any(name.endswith(instruction) for name in mnemonics(text))
    loop = max(text.split(".LBB"), key=lambda part: part.count(instruction))
    assert loop.count(instruction) >= 8
    assert "(%rsp)" not in loop.partition("jne")[0], "a register tile was spilled"


def test_without_an_instruction_the_ordinary_default_is_used() -> None:
    dag = layer("u8s8", 16, 32, 32)
    assert "tensorize" not in str(replay(dag, default_steps(dag, Target.parse(ZEN3))))
    check(dag, executable(ZEN3))


def test_the_search_knows_the_instruction() -> None:
    dag, target = layer("u8s8", 32, 64, 32, is_relu=True), Target.parse(SPR)
    sketches = [s for s in design_space(dag, target).sketches if "dot4" in s.name]
    assert [("pack W" in sketch.name) for sketch in sketches].count(True) >= 1
    rng = np.random.default_rng(0)
    inputs = [values(buffer, rng) for buffer in dag.inputs]
    (expected,) = evaluate(dag, inputs)
    for sketch in sketches:
        genes = sample(sketch, 3, rng)
        assert np.isfinite(extract(sketch, genes, target)).all()
        for row in genes:
            program = steps(sketch, row)
            encoded = encode(sketch, program)
            assert encoded is not None
            assert steps(sketch, encoded) == program
        out = np.full(expected.shape, 77, np.int32)
        interpret(lower(replay(dag, steps(sketch, genes[0]))), [*inputs, out], fresh_outputs=True)
        np.testing.assert_array_equal(out, expected)


def test_weights_are_packed_in_groups() -> None:
    w = ac.placeholder((6, 8), "W", "int8")
    dag = ac.ComputeDAG([w, ac.ops.pack_groups(w, 4, "P")])
    data = np.arange(48, dtype=np.int8).reshape(6, 8)
    (found,) = run(dag, [data])
    np.testing.assert_array_equal(found, data.reshape(6, 2, 4).transpose(1, 0, 2))


def test_weights_packed_by_the_program_itself() -> None:
    a, w = ac.placeholder((8, 16), "A", "uint8"), ac.placeholder((32, 16), "W", "int8")
    dag = ac.ComputeDAG([a, w, ac.ops.dense_packed(a, ac.ops.pack_groups(w, 4), name="C")])
    inputs = [values(buffer, np.random.default_rng(1)) for buffer in dag.inputs]
    (found,) = run(dag, inputs)
    np.testing.assert_array_equal(found, inputs[0].astype(np.int32) @ inputs[1].astype(np.int32).T)


def tensor(dtype: str, *shape: int) -> ac.Tensor:
    return ac.placeholder(shape, "T", dtype)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ac.ops.dense_packed(tensor("uint8", 4, 8), tensor("int8", 2, 5, 2)), "pad k with"),
        (lambda: ac.ops.dense_packed(tensor("uint8", 4, 6), tensor("int8", 2, 5, 3)), "t 2 or 4"),
        (
            lambda: ac.ops.dense_packed(tensor("int16", 4, 8), tensor("int8", 2, 5, 4)),
            "they are int16 and int8; groups of 4 are of int8, uint8",
        ),
        (
            lambda: ac.ops.dense_packed(tensor("bfloat16", 4, 8), tensor("int8", 4, 5, 2)),
            "groups of 2 are of int16, int8, uint8, or both bfloat16",
        ),
        (
            lambda: ac.ops.dense_packed(
                tensor("uint8", 4, 8), tensor("int8", 2, 5, 4), is_shifted=True
            ),
            "is_shifted is for int8 data and int8 weights in groups of 4",
        ),
        (lambda: ac.ops.pack_groups(tensor("int8", 5, 6), 4), "4 must divide the last extent"),
    ],
)
def test_refusals(make: Callable[[], ac.Tensor], words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        make()


def test_the_instruction_is_a_rule_like_the_others() -> None:
    dag, target = layer("u8s8", 32, 64, 32, is_relu=True), Target.parse(SPR)
    found = [s for s in generate(dag, target, RULES) if is_tensorized(s)]
    assert [sketch.derivation[-1].rule for sketch in found] == [
        "TensorizeDotProduct",
        "TensorizeDotProduct",
    ]
    assert not [s for s in generate(dag, Target.parse(ZEN3), RULES) if is_tensorized(s)]
    others = [s.name for s in generate(dag, target, RULES) if not is_tensorized(s)]
    assert others == [s.name for s in generate(dag, Target.parse(ZEN3), RULES)]
