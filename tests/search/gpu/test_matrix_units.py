"""Programs of the search that use matrix units: what they compute, and what the default is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.cuda.emit import emit_cuda
from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.cuda.requests import requests_of
from ansorc.codegen.cuda.sass import hottest_loops
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin, disassemble
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.buffer import Scope
from ansorc.ir.dtype import DType
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.pipeline import run_passes
from ansorc.ir.stmt import Function
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reduction import Reduction
from ansorc.lang.reference import evaluate
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import Step, replay
from ansorc.schedule.steps import Split, Tensorize
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.gpu.default import best_on_gpu
from ansorc.search.gpu.description import descriptions
from ansorc.search.gpu.kernels import kernels_of
from ansorc.search.gpu.rules import gpu_rules
from ansorc.search.sketch.generate import RuleFailure, generate
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import design_space, encode, population_state, steps
from ansorc.search.space.genes import are_legal, choice_values
from ansorc.target import Target
from tests.codegen.cuda.hand_schedules import matrix_dag
from tests.codegen.cuda.wheels import needs_wheels
from tests.support.nightly import also_nightly, is_nightly, sampled_pairs

A100, H100 = Target.parse("cuda -arch=sm_80"), Target.parse("cuda -arch=sm_90")


def batched(count: int, m: int, n: int, k: int) -> ComputeDAG:
    a = ac.placeholder((count, m, k), name="A", dtype="float16")
    b = ac.placeholder((count, k, n), name="B", dtype="float16")
    return ComputeDAG([a, b, ac.ops.batch_matmul(a, b, sum_dtype="float32", name="C")])


def dense(rows: int, units: int, k: int) -> ComputeDAG:
    """A layer: the sum is in float32, the result in float16."""
    x = ac.placeholder((rows, k), name="X", dtype="float16")
    w = ac.placeholder((units, k), name="W", dtype="float16")
    bias = ac.placeholder((units,), name="bias")
    r = ac.reduce_axis(k, name="k")

    def total(i: Scalar, j: Scalar) -> Reduction:
        return ac.sum(x[i, r].astype("float32") * w[j, r].astype("float32"), axis=r)

    y = ac.compute((rows, units), total, name="Y")
    z = ac.compute(
        (rows, units), lambda i, j: ac.maximum(y[i, j] + bias[j], 0.0).astype("float16"), name="Z"
    )
    return ComputeDAG([x, w, bias, z])


def conv2d(size: int, inputs: int, outputs: int) -> ComputeDAG:
    """A 3 x 3 convolution, padded while it is copied to shared memory."""
    x = ac.placeholder((1, size, size, inputs), name="X", dtype="float16")
    w = ac.placeholder((3, 3, inputs, outputs), name="W", dtype="float16")
    p = ac.ops.pad(x, (0, 1, 1, 0), (0, 1, 1, 0), name="P")
    u, v, c = (ac.reduce_axis(n, name=x) for n, x in ((3, "u"), (3, "v"), (inputs, "c")))

    def total(n: Scalar, i: Scalar, j: Scalar, o: Scalar) -> Reduction:
        left = p[n, i + u, j + v, c].astype("float32")
        return ac.sum(left * w[u, v, c, o].astype("float32"), axis=(u, v, c))

    return ComputeDAG([x, w, ac.compute((1, size, size, outputs), total, name="Y")])


DAGS: dict[str, Callable[[], ComputeDAG]] = {
    "product": lambda: matrix_dag(96, 64, 64, "float16"),
    "product of columns": lambda: matrix_dag(64, 96, 64, "bfloat16", "mk,nk"),
    "product of int8": lambda: matrix_dag(64, 64, 64, "int8", "mk,nk", "int32"),
    "sums of float16": lambda: matrix_dag(96, 64, 64, "float16", sums="float16"),
    "sums of bfloat16": lambda: matrix_dag(100, 64, 64, "bfloat16", sums="bfloat16"),
    "ragged": lambda: matrix_dag(100, 90, 64, "float16"),
    "odd": lambda: matrix_dag(77, 45, 48, "float16", "mk,nk"),
    "batched": lambda: batched(3, 50, 40, 32),
    "dense": lambda: dense(64, 96, 64),
    "conv2d": lambda: conv2d(17, 32, 48),
}


def by_units(dag: ComputeDAG, target: Target = A100) -> list[Sketch]:
    found = design_space(dag, target).sketches
    return [s for s in found if any(isinstance(step, Tensorize) for step in s.steps)]


def prepared(dag: ComputeDAG, program: tuple[Step, ...], target: Target = A100) -> Function:
    return run_passes(CUDA_PASSES, ac.lower(replay(dag, program), "kernel"), target)


def _filled(shape: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> Array:
    count = int(np.prod(shape)) * dtype.bytes
    array = aligned_empty(count, np.uint8).view(dtype.numpy).reshape(shape)
    values = rng.uniform(-1, 1, shape) if dtype.is_float else rng.integers(-128, 128, shape)
    array[...] = values.astype(np.float32) if dtype.is_float else values
    return array


def check(dag: ComputeDAG, program: tuple[Step, ...]) -> None:
    """The program, emulated, must compute what is defined."""
    rng = np.random.default_rng(3)
    source = emit_cuda(prepared(dag, program), A100)
    assert "mma_" in cuda_text(source)
    arrays = {b.name: _filled(b.shape, b.dtype, rng) for b in dag.params}
    wanted = evaluate(dag, [arrays[b.name] for b in dag.inputs])
    run = EmulatedProgram(compile_library(source)).run([arrays[b.name] for b in dag.params], None)
    assert run == 0
    for buffer, each in zip(dag.outputs, wanted, strict=True):
        worst = np.abs(arrays[buffer.name].astype(np.float64) - each).max()
        allowed = {1: 0, 2: 0.02, 4: 1e-5 if buffer.dtype.is_float else 0}[buffer.dtype.bytes]
        assert worst <= (0.1 if buffer.dtype.is_bfloat else allowed)


@also_nightly
@pytest.mark.parametrize("name", DAGS)
def test_programs_compute_what_is_defined(name: str) -> None:
    """Of every sketch; by default of one of each computation, not always the first."""
    dag = DAGS[name]()
    sketches = list(enumerate(by_units(dag)))
    place = list(DAGS).index(name) % len(sketches)
    for number, sketch in sketches if is_nightly() else sketches[place : place + 1]:
        genes = sample(sketch, 1, np.random.default_rng(number))
        genes = mutate(sketch, genes, np.random.default_rng(4)) if number else genes
        assert are_legal(sketch, genes).all()
        found = encode(sketch, steps(sketch, genes[0]))
        assert found is not None
        assert steps(sketch, found) == steps(sketch, genes[0])
        check(dag, steps(sketch, genes[0]))


def test_every_row_of_many_is_a_program() -> None:
    """What is drawn and mutated is lowered, and matrix units make all of its sums."""
    for m, n, k in ((1024, 768, 1024), (100, 90, 96), (17, 300, 32)):
        dag = matrix_dag(m, n, k, "float16")
        sketch = by_units(dag)[-1]
        genes = sample(sketch, 5, np.random.default_rng(0))
        for row in np.concatenate([genes, mutate(sketch, genes, np.random.default_rng(1))]):
            source = emit_cuda(prepared(dag, steps(sketch, row)), A100)
            assert "mma_f16" in cuda_text(source)


def test_a_row_of_a_population_is_the_program_alone() -> None:
    dag = matrix_dag(100, 192, 96, "float16")
    sketch = by_units(dag)[0]
    genes = sample(sketch, 16, np.random.default_rng(0))
    state = population_state(sketch, genes)
    (kernel,) = kernels_of(state)
    (found,) = descriptions(state, len(genes), choice_values(sketch, genes))
    for place, row in enumerate(genes):
        own = replay(dag, steps(sketch, row))
        (alone,), (described,) = kernels_of(own), descriptions(own, 1)
        for name in ("blocks", "threads", "vthreads", "shared_bytes", "registers"):
            assert np.broadcast_to(getattr(kernel, name), len(genes))[place] == getattr(alone, name)
        for name in ("matrix_multiply_adds", "integer_operations", "code_bytes"):
            one, all_of_them = (np.broadcast_to(getattr(x, name), n) for x, n in
                                ((described, 1), (found, len(genes))))  # fmt: skip
            assert np.isclose(all_of_them[place], one[0])


def test_what_the_model_is_told() -> None:
    """Four warps of 64 x 64: their multiply-adds, and loads of four matrices."""
    dag = matrix_dag(4096, 4096, 4096, "float16")
    sketch = by_units(dag)[-1]
    program = tuple(
        replay_split(step, {"i": (2, 4, 2, 8), "j": (8, 2, 4, 2, 4, 2), "k": (2, 16)})
        for step in steps(sketch, sample(sketch, 1, np.random.default_rng(0))[0])
    )
    (found,) = descriptions(replay(dag, program), 1)
    assert np.asarray(found.matrix_multiply_adds).item() == 64 * 64 * 4096
    assert found.matrix_dtype == "float16"
    assert np.asarray(found.multiply_adds).item() == 0
    loads = [access for access in found.shared_accesses if not access.is_store]
    assert [np.asarray(access.requests).item() for access in loads] == [4 * 256, 4 * 256]


def test_the_model_knows_what_threads_exchange() -> None:
    """16 bytes of results a thread, in whole sectors: 64 x 96 results by warps of 32 threads."""
    dag = dense(64, 96, 64)
    program = default_steps(dag, A100)
    (found,) = descriptions(replay(dag, program), 1)
    (stored,) = (access for access in found.global_accesses if access.is_store)
    (counted,) = (r for _, r in requests_of(prepared(dag, program)) if r.buffer.name == "Z")
    assert np.asarray(stored.sectors).item() == counted.pieces == counted.least == 16
    threads = prod(np.asarray(each).item() for each in (found.threads, *found.grid))
    assert np.asarray(stored.requests).item() * threads * 8 == 64 * 96


def replay_split(step: Step, lengths: dict[str, tuple[int, ...]]) -> Step:
    """The step with other lengths, of the splits of these axes; 4 warps copy."""
    if isinstance(step, Split) and step.iterator in lengths:
        return replace(step, lengths=lengths[step.iterator])
    if isinstance(step, Split) and step.lengths[-1] == 32:
        return replace(step, lengths=(4, 32))
    return step


def test_the_best_programs_differ() -> None:
    found = best_on_gpu(matrix_dag(256, 256, 256, "float16"), A100, 6)
    assert len(set(found)) == 6
    assert all(any(isinstance(step, Tensorize) for step in program) for program in found[:2])


def test_other_gpus_and_sums_go_without() -> None:
    dag = matrix_dag(64, 64, 64, "float16")
    assert by_units(dag)
    assert not by_units(dag, Target.parse("cuda -arch=sm_75"))
    assert not by_units(matrix_dag(64, 64, 64, "float32"))
    assert not by_units(matrix_dag(8, 64, 64, "float16"))
    notes: list[RuleFailure] = []
    generate(matrix_dag(64, 64, 40, "float16"), A100, gpu_rules(), notes)
    (note,) = notes
    assert "16 products at a time, and 40 terms of 'C' along 'k' are no multiple" in note.reason


SHARES = {
    ("sm_80", 1024): 0.42,
    ("sm_80", 4096): 0.60,
    ("sm_90", 1024): 0.40,
    ("sm_90", 4096): 0.59,
}
"""Of HMMA among the instructions of the loop, at least; on an H200 the eight warps of 1024 are
faster than four with 0.49."""
STEP_INSTRUCTIONS = 14
"""What a step cannot do without, beside products, loads and copies: a barrier, a group, its wait,
the loop's count, test and jump, and the addresses of both factors in both memories."""


@needs_wheels
@pytest.mark.parametrize(("arch", "size"), sampled_pairs(("sm_80", "sm_90"), (1024, 4096)))
def test_the_default_of_a_product(arch: str, size: int) -> None:
    target = Target.parse(f"cuda -arch={arch}")
    dag = matrix_dag(size, size, size, "float16")
    function = prepared(dag, default_steps(dag, target), target)
    cubin = compile_cubin(cuda_text(emit_cuda(function, target)), arch)
    (resources,) = cubin.resources
    assert (resources.spill_store_bytes, resources.stack_bytes) == (0, 0)
    (loop,) = hottest_loops(disassemble(cubin.image))
    assert loop.share("HMMA") >= SHARES[arch, size]
    assert loop.count("LDSM") > 0
    assert loop.count("LDGSTS") > 0
    needed = sum(map(loop.count, ("HMMA", "LDSM", "LDGSTS")))
    assert needed + STEP_INSTRUCTIONS * loop.count("BAR") >= 0.78 * loop.total
    shared = [r for _, r in requests_of(function) if r.buffer.scope is Scope.SHARED]
    assert len(shared) >= 4
    for request in shared:  # what some threads leave out has no conflict either
        assert request.pieces <= 4
