"""The code of math functions: no calls of the C library, one copy a module, small emission."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.llvm.binding import assembly
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.ir.dtype import DType, dtype
from ansorc.ir.expr import Cast, Load
from ansorc.ir.math_call import call
from ansorc.ir.operator import MATH_FUNCTIONS
from ansorc.ir.stmt import Function, Store
from ansorc.target import Target
from tests.codegen.llvm.llvm_harness import buffer, lanes, seq
from tests.codegen.llvm.vector_math.math_kernels import REMAINDERS, WRITTEN
from tests.support.nightly import sampled_pairs

WITHOUT_FMA = "x86_64-linux-gnu -mcpu=x86-64-v2"
MACHINES = (
    WITHOUT_FMA, "x86_64-linux-gnu -mcpu=znver3",
    "x86_64-linux-gnu -mcpu=znver4", "aarch64-linux-gnu -mcpu=cortex-a53",
)  # fmt: skip


def called(function: Function, target: Target) -> set[str]:
    """Return the names that the kernel's machine code calls, besides its own functions."""
    text = assembly(emit_llvm(function, target), target)
    names = re.findall(r"^\s+(?:callq?|bl)\s+([A-Za-z_][\w.]*)", text, re.MULTILINE)
    own = re.findall(r"^([A-Za-z_][\w.]*):", text, re.MULTILINE)
    return set(names) - set(own)


def on_vectors(name: str, kind: DType, target: Target, copies: int = 1) -> Function:
    """Return a kernel of `copies` calls on a vector each."""
    width = target.vector_bytes // kind.bytes
    operands = [buffer(f"x{n}", copies * width, dtype=kind) for n in range(MATH_FUNCTIONS[name])]
    out = buffer("out", copies * width, dtype=kind)
    places = [lanes(width * copy, width) for copy in range(copies)]
    stores = [Store(out, (i,), call(name, *(Load(x, (i,)) for x in operands))) for i in places]
    return Function("f", (*operands, out), seq(*stores))


@pytest.mark.parametrize(("name", "machine"), sampled_pairs(list(WRITTEN), MACHINES))
def test_only_large_operands_call_the_c_library(name: str, machine: str) -> None:
    target = Target.parse(machine)
    for kind in (dtype("float32"), dtype("float64")):
        symbol = name if kind.bits == 64 else f"{name}f"
        allowed = {symbol} if name in ("sin", "cos") else set[str]()
        if name in REMAINDERS and kind.bits == 64 and machine == WITHOUT_FMA:
            allowed = {"fmod"}
        for copies in (1, 12):  # in place; in place and as functions
            assert called(on_vectors(name, kind, target, copies), target) == allowed


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32"])
def test_floats_become_integers_in_whole_vectors(kind: str, machine: str) -> None:
    target = Target.parse(machine)
    data, out = buffer("x", 16), buffer("out", 16, dtype=dtype(kind))
    store = Store(out, (lanes(0, 16),), Cast(dtype(kind), Load(data, (lanes(0, 16),))))
    text = assembly(emit_llvm(Function("f", (data, out), store), target), target)
    assert not re.search(r"cvttss2si|fcvtz[su]\s+w", text)


OPERATORS: dict[str, Callable[[ac.Tensor], ac.Tensor]] = {
    "gelu": ac.ops.gelu,
    "sigmoid": ac.ops.sigmoid,
    "tanh": ac.ops.tanh,
    "softmax": ac.ops.softmax,
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_call_nothing(name: str, machine: str) -> None:
    target, operator = Target.parse(machine), OPERATORS[name]
    x = ac.placeholder((8, 64), name="x")
    state = ac.schedule(ac.ComputeDAG([x, operator(x)]))
    for stage in state.stages:
        if len(stage.iterators) == 2 and not stage.op.reduce_axes:
            state = state.vectorize(stage.name, stage.iterators[-1].name)
    function = prepare(ac.lower(state), target)
    vectors = rf"fmul (contract )?<{target.interleaved * target.vector_bytes // 4} x float>"
    assert re.search(vectors, emit_llvm(function, target))
    assert called(function, target) <= {"malloc", "free", "aligned_alloc"}


def test_a_module_holds_one_copy_of_each_function() -> None:
    target = Target.parse("x86_64-linux-gnu -mcpu=znver3")
    text = emit_llvm(on_vectors("exp", dtype("float32"), target, copies=30), target)
    assert text.count("define internal <8 x float> @ansorc.exp.v8f32(") == 1
    in_place = 30 - text.count("call <8 x float> @ansorc.exp.v8f32(")
    assert 1 <= in_place < 30


def test_one_call_is_written_in_place() -> None:
    target = Target.parse("x86_64-linux-gnu -mcpu=znver3")
    text = emit_llvm(on_vectors("exp", dtype("float32"), target), target)
    assert "@ansorc.exp" not in text


def test_fma_is_used_only_where_there_is_one() -> None:
    for cpu, has_fma in (("x86-64-v2", False), ("x86-64-v3", True)):
        target = Target.parse(f"x86_64-linux-gnu -mcpu={cpu}")
        text = emit_llvm(on_vectors("log", dtype("float32"), target), target)
        assert ("@llvm.fma." in text) is has_fma


LOOKUPS = {
    ("x86-64-v2", "float32"): [],
    ("znver1", "float32"): [],
    ("znver3", "float32"): ["permps"],
    ("znver3", "float64"): [],
    ("znver4", "float32"): ["permvar.sf.512", "range.ps.512", "scalef.ps.512"],
    ("znver4", "float64"): ["vpermi2var.pd.512", "range.pd.512", "scalef.pd.512"],
}


@pytest.mark.parametrize(("cpu", "kind"), LOOKUPS)
def test_exp_looks_up_what_a_register_holds(cpu: str, kind: str) -> None:
    target = Target.parse(f"x86_64-linux-gnu -mcpu={cpu}")
    text = emit_llvm(on_vectors("exp", dtype(kind), target), target)
    called = re.findall(r"= call .*@llvm\.x86\.(?:avx2|avx512)\.(?:mask\.)?([\w.]+)", text)
    assert sorted(called) == sorted(LOOKUPS[cpu, kind])
    assert "shufflevector" not in text, "a whole register needs no cutting"


def test_expm1_and_tanh_keep_their_digits_near_zero_without_a_table() -> None:
    target = Target.parse("x86_64-linux-gnu -mcpu=znver4")
    for name in ("expm1", "tanh"):
        assert "perm" not in emit_llvm(on_vectors(name, dtype("float32"), target), target)
