from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.base import CountingBackend, ResourceBackend, backend_of
from ansorc.codegen.build import prepare
from ansorc.codegen.cuda.requests import MemoryRequest, requests_of
from ansorc.codegen.cuda.sass import hottest_loops
from ansorc.ir.buffer import Scope
from ansorc.ir.parser import parse
from ansorc.lang import ComputeDAG
from ansorc.schedule import Schedule, lower, replay
from ansorc.search.default import default_steps
from ansorc.target import Target
from tests.codegen.cuda.hand_schedules import elementwise, matmul_dag, tiled_matmul, transpose
from tests.codegen.cuda.wheels import needs_wheels
from tests.support.nightly import sampled_pairs

TARGET = Target.parse("cuda -arch=sm_80")
SASS = """\
.text.one:
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_1:
        /*0010*/                   LDG.E.128.CONSTANT R4, [R2.64] ;
.L_x_0:
        /*0020*/                   LDS.U.128 R4, [R2] ;
        /*0030*/                   FFMA R0, R1, R2, R3 ;
        /*0040*/                   FFMA R0, R1, R2, R3 ;
        /*0050*/              @!P0 BRA `(.L_x_0) ;
        /*0060*/               @P1 BRA `(.L_x_1) ;
        /*0070*/                   EXIT ;
.L_x_2:
        /*0080*/                   BRA `(.L_x_2);
.text.two:
        /*0000*/                   STG.E [R2.64], R0 ;
"""


def requests(schedule: Schedule) -> dict[tuple[str, bool], MemoryRequest]:
    found = requests_of(prepare(lower(schedule, "kernel"), TARGET))
    return {(request.buffer.name, request.is_store): request for _, request in found}


def test_the_hottest_loop_is_the_innermost_one() -> None:
    one, two = hottest_loops(SASS)
    assert one.kernel == "one"
    assert one.is_loop
    assert dict(one.operations) == {"LDS.128": 1, "FFMA": 2, "BRA": 1}
    assert (one.total, one.share("FFMA"), one.count("LDS")) == (4, 0.5, 1)
    assert not two.is_loop
    assert dict(two.operations) == {"STG": 1}


def test_requests_of_neighbours_are_full_sectors() -> None:
    found = requests(elementwise(1024, 64, lanes=4))
    for name, is_store in (("A", False), ("B", False), ("C", True)):
        request = found[name, is_store]
        assert (request.width, request.pieces, request.least) == (16, 16.0, 16.0)


@pytest.mark.parametrize(("tile", "cycles"), [(8, 2.0), (32, 1.0)])
def test_padding_keeps_banks_apart(tile: int, cycles: float) -> None:
    found = requests(transpose(64, 64, tile))
    assert found["A.shared", False].pieces <= cycles


def test_strides_are_seen() -> None:
    text = """
kernel f(A: float32[4096], B: float32[32]):
    bound blockIdx.x b in 0..1:
        alloc S: float32[1024] shared
        bound threadIdx.x t in 0..32:
            S[t * 32] = A[t * 128]
            B[t] = S[t * 32]
"""
    found = {(r.buffer.name, r.is_store): r.pieces for _, r in requests_of(parse(text))}
    assert found == {
        ("A", False): 32.0, ("S", True): 32.0, ("S", False): 32.0, ("B", True): 4.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("extent", "start", "row", "width", "cycles"),
    [
        (4, 0, 4, 16, 4.0),  # neighbours in straight code are one load
        (4, 0, 32, 16, 32.0),
        (4, 0, 36, 16, 4.0),
        (2, 0, 4, 8, 4.0),
        (6, 0, 8, 8, 8.0),
        (3, 0, 4, 4, 4.0),
        (4, 1, 8, 4, 8.0),
        (4, 2, 8, 8, 8.0),
    ],
)
def test_neighbours_in_straight_code_are_joined(
    extent: int, start: int, row: int, width: int, cycles: float
) -> None:
    text = f"""
kernel f(B: float32[32, {extent}]):
    bound blockIdx.x b in 0..1:
        alloc S: float32[32, {row}] shared
        bound threadIdx.x t in 0..32:
            unrolled k in 0..{extent}:
                B[t, k] = S[t, k + {start}]
"""
    (request,) = (r for _, r in requests_of(parse(text)) if r.buffer.name == "S")
    assert (request.width, request.pieces) == (width, cycles)
    assert request.least == min(cycles, width / 4)


DEFAULTS = {
    "product of 1024": lambda: matmul_dag(1024, 1024, 1024),
    "product of 4096": lambda: matmul_dag(4096, 4096, 4096),
    "convolution": lambda: ComputeDAG(
        [
            x := ac.placeholder((1, 56, 56, 64), "X"),
            w := ac.placeholder((3, 3, 64, 64), "W"),
            ac.ops.conv2d(x, w, stride=1, padding=1),
        ]
    ),
}


@pytest.mark.parametrize(("name", "arch"), sampled_pairs(list(DEFAULTS), ["sm_80", "sm_90"]))
def test_defaults_have_no_bank_conflicts(name: str, arch: str) -> None:
    target, dag = Target.parse(f"cuda -arch={arch}"), DEFAULTS[name]()
    function = prepare(lower(replay(dag, default_steps(dag, target)), "kernel"), target)
    shared = [r for _, r in requests_of(function) if r.buffer.scope is Scope.SHARED]
    assert len(shared) >= 4
    assert {r.width for r in shared if not r.is_store} == {16}
    for request in shared:
        assert request.pieces == request.least, request


@needs_wheels
def test_what_is_told_of_a_matrix_product() -> None:
    backend = backend_of(TARGET)
    assert isinstance(backend, CountingBackend)
    schedule = tiled_matmul(matmul_dag(1024, 1024, 1024), (2, 16, 4), (2, 16, 4), 8, 4)
    function = prepare(lower(schedule, "product"), TARGET)
    told = backend.counts(function, backend.emit(function, TARGET), TARGET)
    assert "product_0: 64 blocks of 256 threads on a100" in told
    assert "spilled 0 bytes stored, 0 loaded" in told
    assert "FFMA 512" in told
    assert "LDS.128 32" in told
    assert "loads A (global), 16 bytes a thread: 16 sectors a request, 16 at least" in told
    shares = [word for word in told.split() if word.endswith("%;")]
    assert any(np.float64(share.strip("%;")) >= 85 for share in shares)


@needs_wheels
def test_the_kernel_that_clears_faults_is_not_counted() -> None:
    table = ac.placeholder((50, 8), name="T")
    places = ac.placeholder((40,), "I", "int64")
    dag = ComputeDAG([table, places, ac.ops.take(table, places, axis=0)])
    state = replay(dag, default_steps(dag, TARGET))
    function = prepare(lower(state, "picks"), TARGET)
    backend = backend_of(TARGET)
    assert isinstance(backend, CountingBackend)
    assert isinstance(backend, ResourceBackend)
    source = backend.emit(function, TARGET)
    assert len(backend.resources(source, TARGET)) == 1
    told = backend.counts(function, source, TARGET)
    assert "clear_faults" not in told
    assert "loads I (global)" in told
