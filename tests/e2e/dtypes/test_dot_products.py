"""The dot product of the IR: its text, its rules, its meaning, and the instructions it becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorc.codegen.build import prepare
from ansorc.codegen.call.build import compile_module
from ansorc.errors import BuildError, IRError, ParseError
from ansorc.ir.dtype import dtype
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from ansorc.target import Target, detect
from ansorc.target.dot_products import DOT_PRODUCTS, dot_products, missing_features
from bench.dot_limits import DotProbe
from tests.support.assumed import executable
from tests.support.narrow_kernels import SPR, ZEN3, Array, assembly_of, mnemonics, values
from tests.support.nightly import sampled_pairs

AVX2 = f"{ZEN3} -mattr=+avxvnni"
KINDS = {
    "u8s8": (4, "uint8", "int8", "int32"),
    "s8u8": (4, "int8", "uint8", "int32"),
    "s16": (2, "int16", "int16", "int32"),
    "bf16": (2, "bfloat16", "bfloat16", "float32"),
}
TEXT = """kernel kernel(A: {left}[3, {depth}], B: {right}[{groups}, {columns}, {terms}], C: {total}[3, {columns}]):
    for i in 0..3:
        for k in 0..{groups}:
            vectorized j in 0..{columns}:
                C[i, j] = dot{terms}(C[i, j], A[i, k * {terms} + ramp(0, 1, {terms})], B[k, j, ramp(0, 1, {terms})])
"""  # noqa: E501


def product(kind: str, columns: int, groups: int = 3) -> Function:
    terms, left, right, total = KINDS[kind]
    return parse(TEXT.format(left=left, right=right, total=total, terms=terms, groups=groups,
                             depth=groups * terms, columns=columns))  # fmt: skip


def arrays_of(function: Function, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [values(buffer, rng) for buffer in function.params]


def interpreted(function: Function, arrays: list[Array]) -> Array:
    copies = [array.copy() for array in arrays]
    interpret(function, copies)
    return copies[-1]


def test_it_prints_and_parses() -> None:
    function = product("u8s8", 5)
    assert "dot4(C[i, j], A[i, k * 4 + ramp(0, 1, 4)], B[k, j, ramp(0, 1, 4)])" in to_text(function)
    assert parse(to_text(function)) == function
    with pytest.raises(ParseError, match="dot4 takes 3 operands, not 2"):
        parse(to_text(function).replace("dot4(C[i, j], ", "dot4("))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "A: uint8",
            "A: int16",
            "multiplies int16 and int8 into int32, but can only int8 or uint8",
        ),
        ("C: int32", "C: float32", "into float32, but can only int8 or uint8 into int32"),
        ("dot4", "dot2", "it multiplies uint8 and int8 into int32, but can only int16 into int32"),
        ("k * 4 + ramp(0, 1, 4)", "k", "an operand has 1 lanes; use 4 for each of the 1 sums"),
        ("B[k, j, ramp(0, 1, 4)]", "B[k, j, ramp(0, 1, 3)]", "an operand has 3 lanes"),
    ],
)
def test_rules(old: str, new: str, words: str) -> None:
    text = to_text(product("u8s8", 5)).replace(old, new)
    with pytest.raises(IRError, match=words):
        verify(parse(text))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bf16"])
def test_its_meaning_in_integers(kind: str) -> None:
    function = product(kind, 7)
    a, b, c = arrays_of(function, 1)
    rows = b.transpose(0, 2, 1).reshape(-1, 7)
    exact = c.astype(np.int64) + a.astype(np.int64) @ rows.astype(np.int64)
    np.testing.assert_array_equal(interpreted(function, [a, b, c]), exact.astype(np.int32))


def test_its_meaning_in_bfloat16() -> None:
    function = product("bf16", 7)
    a, b, c = arrays_of(function, 1)
    expected = c.copy()
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    for k in range(3):
        for term in (1, 0):
            expected += wide_a[:, 2 * k + term, None] * wide_b[None, k, :, term]
    np.testing.assert_array_equal(interpreted(function, [a, b, c]), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_widening_keeps_the_meaning(kind: str, vector_bytes: int) -> None:
    function = product(kind, 23)
    target = replace(Target.parse(SPR), vector_bytes=vector_bytes)
    arrays = arrays_of(function, 2)
    prepared = prepare(function, target)
    assert f"ramp(0, 1, {vector_bytes // 4 * KINDS[kind][0]})" in to_text(prepared)
    np.testing.assert_array_equal(interpreted(prepared, arrays), interpreted(function, arrays))


def has(kind: str, target: str) -> bool:
    terms, left, right, _ = KINDS[kind]
    return bool(dot_products(Target.parse(target), terms, left, right))


def machine(kind: str, target: str, columns: int) -> tuple[Function, Any]:
    function = product(kind, columns)
    return function, compile_module(function, executable(target))


MACHINES = [(kind, text) for kind in KINDS for text in (SPR, AVX2, ZEN3) if has(kind, text)]


@pytest.mark.parametrize(
    ("machine_code", "columns"), sampled_pairs(MACHINES, [1, 2, 3, 4, 7, 8, 16, 31, 64])
)
def test_machine_code_means_the_same(machine_code: tuple[str, str], columns: int) -> None:
    kind, target = machine_code
    function, module = machine(kind, target, columns)
    for seed in range(3):
        arrays = arrays_of(function, seed)
        expected = interpreted(function, arrays)
        module(*arrays)
        np.testing.assert_array_equal(arrays[-1], expected)


@pytest.mark.parametrize("lanes", [(16, 16), (16, 24), (8, 16), (4, 12), (2, 2)])
def test_sums_wider_than_an_instruction(lanes: tuple[int, int]) -> None:
    """One Dot of more lanes than a vector has, of a part that is none, with an uneven operand."""
    count, columns = lanes
    text = f"""kernel kernel(A: uint8[4], B: int8[{columns}, 4], C: int32[{columns}]):
    C[ramp(0, 1, {count})] = dot4(int32(5), A[ramp(0, 1, 4)], B[ramp(0, 1, {4 * count}) // 4, ramp(0, 1, {4 * count}) % 4])
"""  # noqa: E501
    text = text.replace("dot4(int32(5)", f"dot4(broadcast(int32(5), {count})")
    function = parse(text)
    arrays = arrays_of(function, 4)
    expected = interpreted(function, arrays)
    compile_module(function, executable(SPR))(*arrays)
    np.testing.assert_array_equal(arrays[-1][:count], expected[:count])


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_extreme_bytes_are_exact(data: st.DataObject) -> None:
    """Where `vpmaddubsw` would saturate: 255 * 127 twice, and -128 * 255."""
    function, module = BYTES
    a = np.array([data.draw(st.sampled_from([0, 1, 127, 128, 255])) for _ in range(12)], np.uint8)
    b = np.frombuffer(data.draw(st.binary(min_size=12 * 16, max_size=12 * 16)), np.int8).copy()
    b[::3] = data.draw(st.sampled_from([-128, 127]))
    arrays: list[Array] = [
        np.tile(a, (3, 1)),
        b.reshape(3, 16, 4),
        np.full((3, 16), 2**31 - 9, np.int32),
    ]
    expected = interpreted(function, arrays)
    module(*arrays)
    np.testing.assert_array_equal(arrays[-1], expected)


BYTES = machine("u8s8", SPR, 16)


def test_bfloat16_of_any_normal_numbers_is_exact() -> None:
    """Also of infinities and NaN; what is subnormal may be taken for 0."""
    function, module = machine("bf16", SPR, 16)
    rng = np.random.default_rng(0)
    for _ in range(20):
        arrays = arrays_of(function, 0)
        for array in arrays[:2]:
            exponents = rng.integers(64, 191, array.shape) << 7
            bits = (
                exponents
                | rng.integers(0, 128, array.shape)
                | rng.integers(0, 2, array.shape) << 15
            )
            array.view(np.uint16)[...] = bits
        arrays[0].view(np.uint16)[0, :2] = [0x7F80, 0x7FC0]
        expected = interpreted(function, arrays)
        module(*arrays)
        normal = (np.abs(expected) > 1e-30) | ~np.isfinite(expected)
        np.testing.assert_array_equal(arrays[-1][normal], expected[normal])
        assert normal.mean() > 0.5


@pytest.mark.parametrize(
    ("kind", "target", "instruction"),
    [
        ("u8s8", SPR, "vpdpbusd"),
        ("u8s8", AVX2, "vpdpbusd"),
        ("s16", SPR, "vpdpwssd"),
        ("s16", ZEN3, "vpmaddwd"),
        ("bf16", SPR, "vdpbf16ps"),
    ],
)
def test_instructions(kind: str, target: str, instruction: str) -> None:
    used = mnemonics(assembly_of(product(kind, 64), target))
    assert any(name.endswith(instruction) for name in used), used
    assert not any("maddubs" in name for name in used)
    assumed = f"x86_64-linux-gnu as {target}"
    assert not any(
        instruction in name for name in mnemonics(assembly_of(product(kind, 64), assumed))
    )


@pytest.mark.parametrize(
    ("kind", "target", "words"),
    [
        (
            "u8s8",
            ZEN3,
            "uses dot4 of uint8 and int8, for which .* lacks avx512vnni or avxvnni; add",
        ),
        ("bf16", ZEN3, "dot2 of bfloat16 and bfloat16, .* lacks avx512bf16; add it with -mattr"),
        ("s16", "aarch64-linux-gnu -mcpu=cortex-a76", "no ARM processor known .* use dot4 on oper"),
        ("u8s8", "aarch64-linux-gnu -mcpu=cortex-a76", "lacks i8mm"),
    ],
)
def test_refusals(kind: str, target: str, words: str) -> None:
    with pytest.raises(BuildError, match=words):
        compile_module(product(kind, 16), Target.parse(target))


def test_signed_bytes_have_no_instruction_of_x86() -> None:
    text = to_text(product("u8s8", 16)).replace("A: uint8", "A: int8")
    words = "dot4 of int8 and int8, for which no x86 processor known .* use dot2, which is exact"
    with pytest.raises(BuildError, match=words):
        compile_module(parse(text), Target.parse(SPR))


def test_the_table_of_instructions() -> None:
    for one in DOT_PRODUCTS:
        assert dtype(one.left).bits * one.terms == 32 == dtype(one.right).bits * one.terms
    widths = [one.lanes for one in dot_products(Target.parse(SPR), 4, "int8", "uint8")]
    assert widths == [16, 8, 4]
    assert missing_features(Target.parse(ZEN3), 4, "uint8", "int8") == ("avx512vnni", "avxvnni")
    assert missing_features(Target.parse(SPR), 4, "int8", "int8") == ()


def test_the_probe_counts_what_it_does() -> None:
    probe = DotProbe(detect(), 1, 2, "int16", "int16")
    median, best = probe.time(0.01)
    assert 1e9 < median <= best < 1e13
