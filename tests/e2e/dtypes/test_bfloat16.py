"""bfloat16 and float16: conversions, arithmetic, sums, and code without scalars."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.package.header import c_type, header_text
from ansorc.codegen.package.manifest import Manifest
from ansorc.codegen.package.signature import Param, Signature
from ansorc.errors import BuildError
from ansorc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, SCALARS, dtype
from ansorc.lang.reference import evaluate
from ansorc.schedule import schedule
from ansorc.search.measure.check import tolerance
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.kernel import load_bench
from ansorc.search.task import Task
from ansorc.target import Target
from tests.support.assumed import executable
from tests.support.narrow_kernels import SPR, ZEN3, Array, assembly_of, body_of, mnemonics, run

COUNT = 64
BF16: Any = np.dtype(ml_dtypes.bfloat16)
EDGES = (
    0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x00000001,
    0x00008000, 0x00008001, 0x00018000, 0x007FFFFF, 0x00800000, 0x3F808000, 0x3F818000, 0x3F807FFF,
    0x7F800001, 0xFFC00000, 0x7FFFFFFF, 0xFF80FFFF,
)  # fmt: skip


def cast_dag(source: str, goal: str) -> ac.ComputeDAG:
    a = ac.placeholder((COUNT,), "A", source)
    return ac.ComputeDAG([a, ac.compute((COUNT,), lambda i: a[i].astype(goal), "B")])


TO_BFLOAT = {
    target: ac.build(cast_dag("float32", "bfloat16"), executable(target))
    for target in ("native", ZEN3, SPR)
}


@pytest.mark.parametrize("target", sorted(TO_BFLOAT))
@given(st.binary(min_size=4 * COUNT, max_size=4 * COUNT), st.integers(0, 0xFFFF))
@settings(deadline=None, max_examples=60)
def test_rounding_is_that_of_ml_dtypes(target: str, bits: bytes, moved: int) -> None:
    data, found = np.frombuffer(bits, np.float32).copy(), np.zeros(COUNT, BF16)
    edges = np.array(EDGES, np.uint32)
    data[: 2 * len(edges)] = np.concatenate([edges, edges ^ np.uint32(moved)]).view(np.float32)
    TO_BFLOAT[target](data, found)
    with np.errstate(invalid="ignore"):  # of signalling NaN
        expected = data.astype(BF16)
    is_nan = np.isnan(data)
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), is_nan)
    np.testing.assert_array_equal(found.view(np.uint16)[~is_nan], expected.view(np.uint16)[~is_nan])


def test_all_bfloat16_become_their_float32_and_come_back() -> None:
    data = np.arange(1 << 16, dtype=np.uint16).view(BF16)
    a = ac.placeholder((1 << 16,), "A", "bfloat16")
    b = ac.compute((1 << 16,), lambda i: a[i].astype("float32"), "B")
    c = ac.compute((1 << 16,), lambda i: b[i].astype("bfloat16"), "C")
    wide, narrow = run(ac.ComputeDAG([a, b, c]), [data])
    np.testing.assert_array_equal(wide, data.astype(np.float32))
    number = ~np.isnan(wide)
    np.testing.assert_array_equal(narrow.view(np.uint16)[number], data.view(np.uint16)[number])
    assert np.isnan(narrow.astype(np.float32)[~number]).all()


@pytest.mark.parametrize("goal", ["bfloat16", "float16"])
@pytest.mark.parametrize("source", ["float64", "int64", "int8", "uint16"])
def test_other_numbers_are_rounded_as_numpy_does(source: str, goal: str) -> None:
    rng = np.random.default_rng(1)
    data = (rng.standard_normal(COUNT) * 1e4).astype(source)
    (found,) = run(cast_dag(source, goal), [data])
    np.testing.assert_array_equal(
        found.astype(np.float64), data.astype(dtype(goal).numpy).astype(np.float64)
    )


def unary(kind: str) -> ac.Schedule:
    a = ac.placeholder((256,), "A", kind)
    b = ac.compute((256,), lambda i: a[i] * 2.0 + ac.maximum(a[i], 0.5), "B")
    state = schedule(ac.ComputeDAG([a, b]))
    return state.vectorize("B", "i")


@pytest.mark.parametrize("target", [ZEN3, SPR])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_vectors_are_converted_without_scalar_code(kind: str, target: str) -> None:
    used = mnemonics(body_of(assembly_of(unary(kind), target)))
    wanted = {"float16": ("vcvtph2ps", "vcvtps2ph"), "bfloat16": ("vpmovzxwd", "vpslld")}[kind]
    assert all(any(name.startswith(word) for name in used) for word in wanted)
    scalar = {"call", "callq", "vpinsrw", "vpextrw", "vmovd", "vcvtss2sd", "vmulss", "vaddss"}
    assert not scalar & used


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_arithmetic_rounds_each_operation(kind: str) -> None:
    data: Any = np.linspace(-3, 3, 256).astype(dtype(kind).numpy)
    (found,) = run(unary(kind), [data])
    numbers: list[Any] = [np.asarray(x, dtype(kind).numpy) for x in (2.0, 0.5)]
    expected: Array = data * numbers[0] + np.maximum(data, numbers[1])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_float16_needs_a_processor_that_converts_it() -> None:
    words = "'kernel' uses float16, which .*-mcpu=x86-64-v2' cannot convert: it lacks f16c"
    with pytest.raises(BuildError, match=words):
        ac.build(unary("float16").dag, "x86_64-linux-gnu -mcpu=x86-64-v2")


def test_bfloat16_needs_nothing() -> None:
    data = np.linspace(-3, 3, 256).astype(BF16)
    (native,) = run(unary("bfloat16"), [data])
    (plain,) = run(unary("bfloat16"), [data], "x86_64-linux-gnu -mcpu=x86-64-v2")
    np.testing.assert_array_equal(native.view(np.uint16), plain.view(np.uint16))


def test_a_sum_is_as_exact_as_the_dtype_it_is_written_in() -> None:
    a, b = ac.placeholder((4, 300), "A", "bfloat16"), ac.placeholder((300, 5), "B", "bfloat16")
    wide = ac.ops.matmul(a, b, "C", sum_dtype="float32")
    narrow = ac.ops.matmul(a, b, "D", sum_dtype="bfloat16")
    dag = ac.ComputeDAG([a, b, wide, narrow])
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(x.shape).astype(BF16) for x in dag.inputs]
    exact = inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)
    found = run(dag, inputs)
    errors = [float(np.abs(x.astype(np.float64) - exact).max()) for x in found]
    assert errors[0] < 1e-5
    assert 0.01 < errors[1] < 5.0
    assert [x.dtype for x in found] == [np.dtype(np.float32), BF16]


def test_the_tolerance_is_that_of_what_is_computed_not_of_the_inputs() -> None:
    a, b = ac.placeholder((4, 16), "A", "bfloat16"), ac.placeholder((16, 5), "B", "bfloat16")
    wide = ac.ComputeDAG([a, b, ac.ops.matmul(a, b, "C", sum_dtype="float32")])
    narrow = ac.ComputeDAG([a, b, ac.ops.matmul(a, b, "C", sum_dtype="bfloat16")])
    ones = np.ones((4, 5))
    assert tolerance(wide, "C", ones).relative < 1e-5
    assert tolerance(narrow, "C", ones).relative == pytest.approx(
        tolerance(wide, "C", ones).relative * 2**16
    )


def test_measuring_hands_bfloat16_to_the_workers() -> None:
    task = Task(unary("bfloat16").dag, "native", "t")
    data = TaskData.create(task, np.random.default_rng(0))
    try:
        bench = load_bench(data.directory)
        arrays = [guarded.array for guarded in bench.arrays()]
        assert [array.dtype for array in arrays] == [BF16, BF16]
        task_module = ac.build(task)
        bench.poison()
        assert np.isnan(arrays[1].astype(np.float32)).all()
        assert bench.check()[1]
        task_module(*(np.array(array) for array in arrays))
        output = np.array(arrays[1])
        task_module(np.array(arrays[0]), output)
        bench.outputs[0].memory.array[...] = output
        assert bench.check()[1] == ""
    finally:
        data.remove()


def test_the_header_says_what_the_bits_are() -> None:
    params = (
        Param("x", (2,), BFLOAT16, is_output=False),
        Param("y", (2,), FLOAT16, is_output=True),
    )
    text = header_text(
        Manifest(Signature("k", params, 0, parallel=False), Target.parse(ZEN3), "1+abc")
    )
    assert "x: bfloat16[2], input, bfloat16 bits: the upper half of a float\n" in text
    assert "const ansorc_bf16 *x" in text
    assert "ansorc_f16 *y" in text
    assert [c_type(kind) for kind in SCALARS.values()] == [
        "uint16_t", "float", "double", "uint16_t", "int8_t", "int16_t", "int32_t", "int64_t",
        "uint8_t", "uint16_t", "uint32_t", "uint64_t", "uint8_t",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [FLOAT16, FLOAT32, FLOAT64, BFLOAT16], ids=str)
def test_limits_of_floats(kind: Any) -> None:
    finfo: Any = ml_dtypes.finfo
    info = finfo(kind.numpy)
    assert kind.epsilon == float(info.eps)
    assert kind.smallest == float(info.smallest_subnormal)


def test_a_reference_takes_bfloat16_inputs_exactly() -> None:
    dag = unary("bfloat16").dag
    data = np.linspace(-3, 3, 256).astype(BF16)
    (found,) = evaluate(dag, [data])
    wide = data.astype(np.float64)
    np.testing.assert_array_equal(found, wide * 2.0 + np.maximum(wide, 0.5))
