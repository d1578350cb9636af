"""Kernels for aarch64, linked by a cross toolchain and run under QEMU, against float64."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.inspect.assembly import innermost_loops
from ansorc.codegen.llvm.binding import assembly
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.lang.reference import evaluate
from ansorc.search.default import default_steps
from ansorc.search.measure.check import Expectation, tolerance
from tests.support.arm.emulated import emulated, linked, needs_qemu
from tests.support.nightly import sampled_pairs

CPUS = ("cortex-a53", "neoverse-n1")
SUFFIXES = {"cortex-a53": ".a", "neoverse-n1": ".so"}


def matmul_relu() -> ac.ComputeDAG:
    a, b = ac.placeholder((96, 72), name="A"), ac.placeholder((72, 96), name="B")
    return ac.ComputeDAG([a, b, ac.ops.relu(ac.ops.matmul(a, b, name="C"), name="D")])


def conv2d_bn_relu() -> ac.ComputeDAG:
    x, w = ac.placeholder((1, 14, 14, 24), name="X"), ac.placeholder((3, 3, 24, 32), name="W")
    scale, shift = ac.placeholder((32,), name="scale"), ac.placeholder((32,), name="shift")
    y = ac.ops.conv2d(x, w, stride=1, padding=1, name="conv")
    y = ac.ops.relu(ac.ops.batch_norm(y, scale, shift, name="bn"), name="Y")
    return ac.ComputeDAG([x, w, scale, shift, y])


def softmax() -> ac.ComputeDAG:
    x = ac.placeholder((256, 100), name="X")
    return ac.ComputeDAG([x, ac.ops.softmax(x, name="Y")])


def depthwise() -> ac.ComputeDAG:
    x, w = ac.placeholder((1, 28, 28, 40), name="X"), ac.placeholder((3, 3, 40), name="W")
    return ac.ComputeDAG([x, w, ac.ops.depthwise_conv2d(x, w, padding=1, name="Y")])


def odd_matmul() -> ac.ComputeDAG:
    """No extent is a multiple of the vectors' lanes."""
    a, b = ac.placeholder((131, 61), name="A"), ac.placeholder((61, 107), name="B")
    return ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")])


OPERATORS = (matmul_relu, odd_matmul, conv2d_bn_relu, softmax, depthwise)
Operator = Callable[[], ac.ComputeDAG]


@needs_qemu
@pytest.mark.parametrize(("operator", "cpu"), sampled_pairs(OPERATORS, CPUS))
def test_the_numbers_are_right(operator: Operator, cpu: str, tmp_path: Path) -> None:
    dag, target = operator(), ac.Target.parse(f"aarch64-linux-gnu -mcpu={cpu} -cores=2")
    module = ac.build(dag, target, operator.__name__)
    assert module.signature.parallel
    program = linked(module, tmp_path, SUFFIXES[cpu])
    rng = np.random.default_rng(7)
    inputs = [rng.standard_normal(b.shape).astype(np.float32) for b in dag.inputs]
    (output,) = dag.outputs
    (reference,) = evaluate(dag, inputs)
    expectation = Expectation(reference, tolerance(dag, output.name, reference))
    for threads in (1, 2):
        code, found = emulated(program, inputs, output.shape, threads=threads, cpu=cpu)
        assert code == 0
        assert not expectation.compare(found).complaint


@needs_qemu
def test_an_object_file_links_with_the_runtime(tmp_path: Path) -> None:
    dag = matmul_relu()
    target = ac.Target.parse("aarch64-linux-gnu -mcpu=generic -cores=2")
    program = linked(ac.build(dag, target, "mm"), tmp_path, ".o")
    inputs = [np.ones(b.shape, np.float32) for b in dag.inputs]
    code, found = emulated(program, inputs, (96, 96), threads=2, cpu="cortex-a53")
    assert code == 0
    np.testing.assert_array_equal(found, 72.0)


@needs_qemu
def test_a_processor_without_the_features_is_told(tmp_path: Path) -> None:
    """Cortex-A53 has no half-precision arithmetic and no dot products, Neoverse N1 has."""
    dag = matmul_relu()
    module = ac.build(dag, "aarch64-linux-gnu -mcpu=neoverse-n1", "mm")
    program = linked(module, tmp_path)
    inputs = [np.ones(b.shape, np.float32) for b in dag.inputs]
    lacks_features = 2
    for threads in (1, 2):
        found = emulated(program, inputs, (96, 96), threads=threads, cpu="cortex-a53")
        assert found[0] == lacks_features
    assert emulated(program, inputs, (96, 96), threads=1, cpu="neoverse-n1")[0] == 0


def prepared(state: ac.State, target: ac.Target) -> ac.Function:
    return prepare(ac.lower(state), target)


def assembly_of(dag: ac.ComputeDAG, target: ac.Target) -> str:
    state = ac.replay(dag, default_steps(dag, target))
    return assembly(emit_llvm(prepared(state, target), target), target)


@pytest.mark.parametrize("cpu", [*CPUS, "cortex-a72", "apple-m1"])
def test_only_what_the_guard_asks_for_may_be_used(cpu: str) -> None:
    target = ac.Target.parse(f"aarch64-linux-gnu -mcpu={cpu}")
    text = emit_llvm(prepared(ac.schedule(matmul_relu()), target), target)
    asks = "call i64 @getauxval(i64 16)" in text
    assert asks == (len(target.features) > 1)
    assert '"target-cpu"="generic"' in text
    assert f'"target-features"="{",".join(f"+{name}" for name in target.features)}"' in text
    mac = ac.Target.parse("aarch64-apple-darwin -mcpu=apple-m1")
    text = emit_llvm(prepared(ac.schedule(matmul_relu()), mac), mac)
    assert "getauxval" not in text


@pytest.mark.parametrize(
    ("operator", "cpu"),
    sampled_pairs([matmul_relu, conv2d_bn_relu], [*CPUS, "cortex-a72", "apple-m1"]),
)
def test_the_default_tile_is_in_neon_registers(operator: Operator, cpu: str) -> None:
    target = ac.Target.parse(f"aarch64-linux-gnu -mcpu={cpu}")
    text = assembly_of(operator(), target)
    hottest = max(innermost_loops(text), key=lambda loop: loop.fma)
    lines = text.splitlines()
    code = "\n".join(lines[number - 1] for number in hottest.lines)
    assert re.search(r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.(s\[\d\]|4s)", code)
    assert hottest.counts.scalar_fma == 0
    assert hottest.stores == 0
    assert hottest.spills == 0
    assert hottest.fma / hottest.loads >= 1.5
