"""What the signature of a loop program says."""

from __future__ import annotations

from ansorc.codegen.llvm.storage import workspace_bytes
from ansorc.codegen.package.signature import Param, signature_of
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.packing import Packing
from ansorc.ir.parser import parse
from tests.codegen import kernels

B = Buffer("B", (9, 20), FLOAT32, constant=True)


def test_outputs_are_what_is_stored_to() -> None:
    signature = signature_of(parse(kernels.MATMUL_RELU), 0, flops=4320.0)
    assert signature.name == "matmul_relu"
    assert signature.params == (
        Param("A", (12, 9), FLOAT32, is_output=False),
        Param("B", (9, 20), FLOAT32, False, True, Packing.plain(B)),
        Param("D", (12, 20), FLOAT32, is_output=True),
    )
    assert (signature.workspace_bytes, signature.parallel, signature.flops) == (0, True, 4320.0)


def test_a_workspace_is_rounded_to_cache_lines() -> None:
    assert workspace_bytes(parse(kernels.CONV2D_BN_RELU)) == 1472  # 11 · 11 · 3 · 4
    assert workspace_bytes(parse(kernels.TWICE)) == 0


def test_a_parallel_loop_of_one_iteration_needs_no_pool() -> None:
    assert not signature_of(parse(kernels.TWICE), 0).parallel
    one = kernels.PARALLEL_TWICE.replace("24", "1")
    assert not signature_of(parse(one), 0).parallel
    parallel = parse(kernels.PARALLEL_TWICE)
    assert signature_of(parallel, 0).parallel
    assert not signature_of(parallel, 0, has_threads=False).parallel
