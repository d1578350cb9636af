"""Loops, branches, memory and the kernel's interface: machine code against NumPy."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ansorc.codegen.llvm.binding import assembly, compile_object, load_object_code
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.codegen.llvm.storage import workspace_bytes
from ansorc.errors import BuildError
from ansorc.ir.aligned import aligned_empty
from ansorc.ir.buffer import Scope
from ansorc.ir.dtype import BOOL, FLOAT32, INT64
from ansorc.ir.expr import (
    BinaryOp,
    Broadcast,
    Cast,
    CompareOp,
    Expr,
    Load,
    Ramp,
    Select,
    Var,
    as_expr,
    binary,
    compare,
    const,
)  # fmt: skip
from ansorc.ir.stmt import (
    Allocate,
    Barrier,
    For,
    Function,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
)
from ansorc.target import Target, detect
from ansorc.target.presets import ARM_FEATURES, GUARDED_FEATURES
from tests.codegen.llvm.llvm_harness import buffer, call, lanes, loop, random, run, seq, unrolled

A76 = "aarch64-linux-gnu -mcpu=cortex-a76"


def test_loops_of_every_extent() -> None:
    out = buffer("out", 3, 4)
    for kind in (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.VECTORIZED):
        for extent in (0, 1, 3):

            def body(i: Var, kind: LoopKind = kind) -> Stmt:
                return loop("j", 4, lambda j: Store(out, (i, j), as_expr(1.0)), kind)

            found = np.zeros((3, 4), np.float32)
            run(Function("f", (out,), loop("i", extent, body, kind)), found)
            assert found.sum() == 4 * extent


def test_indices_that_divide_unrolled_and_serial_variables() -> None:
    source, out = buffer("source", 48), buffer("out", 4, 3, 4)

    def body(i: Var) -> Stmt:
        def inner(u: Var) -> Stmt:
            flat = i * 4 + u
            value = Load(source, (flat // 4 * 4 + (flat + 1) % 4,))
            return Store(out, (flat // 12, flat // 4 % 3, flat % 4), value)

        return unrolled("u", 4, inner)

    data, found = random((48,)), np.zeros((4, 3, 4), np.float32)
    run(Function("f", (source, out), loop("i", 12, body)), data, found)
    flat = np.arange(48)
    expected = data[flat // 4 * 4 + (flat + 1) % 4].reshape(4, 3, 4)
    np.testing.assert_array_equal(found, expected)


def test_negative_dividends_and_extremes_in_indices() -> None:
    source, out = buffer("source", 8), buffer("out", 12)

    def body(i: Var) -> Stmt:
        place = binary(BinaryOp.MIN, binary(BinaryOp.MAX, (i - 5) // 2 + 3, 1), 6)
        return Store(out, (i,), Load(source, (place + (i - 7) % 2,)))

    data, found = random((8,)), np.zeros(12, np.float32)
    run(Function("f", (source, out), loop("i", 12, body)), data, found)
    i = np.arange(12)
    np.testing.assert_array_equal(found, data[np.clip((i - 5) // 2 + 3, 1, 6) + (i - 7) % 2])


def test_an_index_read_from_memory() -> None:
    table, source, out = buffer("table", 6, dtype=INT64), buffer("source", 9), buffer("out", 6)

    def body(i: Var) -> Stmt:
        return Store(out, (i,), Load(source, (Load(table, (i,)) + 1,)))

    order = np.array([7, 0, 3, 3, 5, 1], np.int64)
    data, found = random((9,)), np.zeros(6, np.float32)
    run(Function("f", (table, source, out), loop("i", 6, body)), order, data, found)
    np.testing.assert_array_equal(found, data[order + 1])
    vector = Store(out, (lanes(0, 4),), Load(source, (Load(table, (lanes(0, 4),)),)))
    run(Function("f", (table, source, out), vector), order, data, found)
    np.testing.assert_array_equal(found[:4], data[order[:4]])


def test_loads_are_repeated_after_stores() -> None:
    out = buffer("out", 4)
    first = Store(out, (const(0),), Load(out, (const(1),)) + 1.0)
    second = Store(out, (const(1),), Load(out, (const(0),)) + Load(out, (const(1),)))
    body = loop("t", 3, lambda t: seq(first, second))
    found = np.array([5, 2, 0, 0], np.float32)
    run(Function("f", (out,), seq(Store(out, (const(2),), Load(out, (const(1),))), body)), found)
    a, b = 5.0, 2.0
    for _ in range(3):
        a = b + 1
        b = a + b
    np.testing.assert_array_equal(found, [a, b, 2, 0])


def test_branches_choose_one_arm() -> None:
    out = buffer("out", 10)

    def body(i: Var) -> Stmt:
        odd = compare(CompareOp.EQ, i % 2, 1)
        other = If(i < 4, Store(out, (i,), as_expr(3.0)))
        return If(odd, Store(out, (i,), as_expr(1.0)), other)

    found = np.zeros(10, np.float32)
    run(Function("f", (out,), loop("i", 10, body)), found)
    np.testing.assert_array_equal(found, [3, 1, 3, 1, 0, 1, 0, 1, 0, 1])


def test_conditions_on_unrolled_variables_leave_no_branch() -> None:
    out = buffer("out", 8)
    body = unrolled("i", 8, lambda i: If(i < 5, Store(out, (i,), Cast(FLOAT32, i))))
    function = Function("f", (out,), body)
    found = np.zeros(8, np.float32)
    run(function, found)
    np.testing.assert_array_equal(found, [0, 1, 2, 3, 4, 0, 0, 0])
    assert "icmp slt" not in emit_llvm(function, detect())


def _padded(width: int) -> Function:
    """out[i, x] = source[i - 1, x - 1] inside a 4 x 8 image, else 9; memory ends at its edges."""
    source, out = buffer("source", 4, 8), buffer("out", 6, 16)

    def body(i: Var) -> Stmt:
        def inner(j: Var) -> Stmt:
            x: Expr = j if width == 1 else lanes(j * width, width)
            inside = [x >= 1, x <= 8, i >= 1, i <= 4]
            condition = inside[0]
            for more in inside[1:]:
                condition = binary(BinaryOp.AND, condition, more)
            value = Select(condition, Load(source, (i - 1, x - 1)), as_expr(9.0))
            return Store(out, (i, x), value)

        return loop("j", 16 // width, inner)

    return Function("f", (source, out), loop("i", 6, body))


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_select_reads_only_the_chosen_arm(width: int) -> None:
    page = np.zeros(4096 * 3 // 4, np.float32)
    data = page[:32].reshape(4, 8)
    data[:] = random((4, 8))
    found = np.zeros((6, 16), np.float32)
    run(_padded(width), data, found)
    expected = np.full((6, 16), 9, np.float32)
    expected[1:5, 1:9] = data
    np.testing.assert_array_equal(found, expected)


def test_a_lane_that_is_not_wanted_never_touches_memory() -> None:
    """The wild addresses are far outside any mapping: reading one would kill the process."""
    source, out = buffer("source", 8), buffer("out", 8)
    far = 1 << 40
    x = lanes(0, 8)
    cases: dict[str, Expr] = {
        "ramp": Select(x < 4, Load(source, (x,)), Load(source, (x + far,))),
        "gather": Select(x < 4, Load(source, (x * 2,)), Load(source, (x * 2 + far,))),
        "uniform": Select(x < 9, Load(source, (x,)), Broadcast(Load(source, (const(far),)), 8)),
        "nested": Select(
            x < 4, Select(x < 2, Load(source, (x,)), Load(source, (x * far,))), Load(source, (x,))
        ),
    }
    table = buffer("table", 8, dtype=INT64)
    cases["table"] = Select(x < 4, Load(source, (x,)), Load(source, (Load(table, (x,)) * far,)))
    data, numbers = random((8,)), np.arange(8, dtype=np.int64)
    for name, value in cases.items():
        wanted = Select(x < 2, value, as_expr(1.0))
        body = loop("t", 3, lambda _, wanted=wanted: Store(out, (x,), wanted))
        found = np.zeros(8, np.float32)
        run(Function("f", (source, table, out), body), data, numbers, found)
        expected = data[::2][:2] if name == "gather" else data[:2]
        np.testing.assert_array_equal(found[:2], expected, err_msg=name)
        np.testing.assert_array_equal(found[2:], 1)


def test_scalar_select_guards_wild_addresses() -> None:
    source, out = buffer("source", 8), buffer("out", 8)

    def body(i: Var) -> Stmt:
        wild = Load(source, (i * (1 << 40),))
        return Store(out, (i,), Select(i < 1, wild, Select(i < 4, Load(source, (i,)), wild * 0.0)))

    guarded = loop("i", 4, body)
    data, found = random((8,)), np.zeros(8, np.float32)
    run(Function("f", (source, out), guarded), data, found)
    np.testing.assert_array_equal(found[:4], data[:4])


@pytest.mark.parametrize("width", [1, 8])
def test_an_element_or_zero_is_chosen_without_a_branch(width: int) -> None:
    """The address is, so that nothing outside is read: those of i >= 2 are outside any mapping."""
    source, out = buffer("source", 8), buffer("out", 4, 8)

    def body(i: Var) -> Stmt:
        def inner(j: Var) -> Stmt:
            x = j if width == 1 else lanes(0, width)
            far = i // 2 * (1 << 40) + x
            return Store(out, (i, x), Select(i < 2, Load(source, (far,)), as_expr(0.0)))

        return loop("j", 8 // width, inner)

    function = Function("f", (source, out), loop("i", 4, body))
    data, found = random((8,)), np.ones((4, 8), np.float32)
    run(function, data, found)
    np.testing.assert_array_equal(found, [data, data, np.zeros(8), np.zeros(8)])
    text = emit_llvm(function, detect())
    assert re.search(r"select i1 %\w+, ptr %", text)
    assert "phi float" not in text
    assert f"phi <{width} x float>" not in text


@pytest.mark.parametrize("stride", [-1, 0, 1, 2, 3])
def test_vector_loads_and_stores_of_any_stride(stride: int) -> None:
    source, out = buffer("source", 32), buffer("out", 32)
    ramp = lanes(16, 4, stride)
    body = Store(out, (ramp,), Load(source, (ramp,)) + Load(source, (lanes(0, 4),)))
    data, found = random((32,)), np.zeros(32, np.float32)
    run(Function("f", (source, out), body), data, found)
    expected = np.zeros(32, np.float32)
    for lane in range(4):
        place = 16 + stride * lane
        expected[place] = data[place] + data[lane]
    np.testing.assert_array_equal(found, expected)


def test_vector_index_that_folds_to_a_ramp_and_one_that_does_not() -> None:
    source, out = buffer("source", 8, 8), buffer("out", 16, 4)

    def body(i: Var) -> Stmt:
        flat = i * 4 + lanes(0, 4)
        value = Load(source, (flat // 8, flat % 8)) + Load(source, (flat // 8, flat // 3 % 8))
        return Store(out, (i, lanes(0, 4)), value)

    data, found = random((8, 8)), np.zeros((16, 4), np.float32)
    run(Function("f", (source, out), loop("i", 16, body)), data, found)
    flat = np.arange(64)
    expected = data[flat // 8, flat % 8] + data[flat // 8, flat // 3 % 8]
    np.testing.assert_array_equal(found, expected.reshape(16, 4))


def test_bools_in_memory() -> None:
    source, out = buffer("source", 8), buffer("out", 8, dtype=BOOL)
    x = lanes(0, 8)
    body = seq(
        Store(out, (x,), Load(source, (x,)) > 0.0),
        Store(out, (const(3),), Load(out, (const(2),))),
        Store(out, (lanes(4, 4),), Load(out, (lanes(0, 4),))),
    )
    data, found = random((8,)), np.zeros(8, np.bool_)
    run(Function("f", (source, out), body), data, found)
    expected = data > 0
    expected[3] = expected[2]
    expected[4:] = expected[:4]
    np.testing.assert_array_equal(found, expected)
    assert set(found.view(np.uint8)) <= {0, 1}


def _matmul(rows: int, depth: int, parallel: bool = False) -> Function:  # noqa: FBT001, FBT002
    """A 6 x 16 register tile, the depth unrolled by 4, 32 columns."""
    a, b, c = buffer("a", rows, depth), buffer("b", depth, 32), buffer("c", rows, 32)
    tile = buffer("tile", 6, 16, scope=Scope.REGISTER)

    def each(body: Callable[[Var, Var], Stmt]) -> Stmt:
        return unrolled("r", 6, lambda r: unrolled("v", 2, lambda v: body(r, v)))

    def nest(i: Var, j: Var) -> Stmt:
        def at(r: Var, v: Var) -> tuple[Expr, Expr]:
            return (r, lanes(v * 8, 8))

        def column(v: Var) -> Expr:
            return lanes(j * 16 + v * 8, 8)

        def update(k: Expr, r: Var, v: Var) -> Stmt:
            product = Broadcast(Load(a, (i * 6 + r, k)), 8) * Load(b, (k, column(v)))
            return Store(tile, at(r, v), Load(tile, at(r, v)) + product)

        def round_(k: Var) -> Stmt:
            return unrolled("u", 4, lambda u: each(lambda r, v: update(k * 4 + u, r, v)))

        return Allocate(
            tile,
            seq(
                each(lambda r, v: Store(tile, at(r, v), as_expr(0.0))),
                loop("k", depth // 4, round_),
                each(lambda r, v: Store(c, (i * 6 + r, column(v)), Load(tile, at(r, v)))),
            ),
        )

    kind = LoopKind.PARALLEL if parallel else LoopKind.SERIAL
    body = loop("i", rows // 6, lambda i: loop("j", 2, lambda j: nest(i, j)), kind)
    return Function("matmul", (a, b, c), body)


@pytest.mark.parametrize("threads", [0, 1, 4])
@pytest.mark.parametrize("parallel", [False, True])
def test_matmul_with_a_register_tile(parallel: bool, threads: int) -> None:  # noqa: FBT001
    a, b, c = random((24, 16), 1), random((16, 32), 2), np.zeros((24, 32), np.float32)
    status, calls = call(_matmul(24, 16, parallel), (a, b, c), threads)
    assert status == 0
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
    assert calls == ([(4, threads)] if parallel and threads != 1 else [])


def test_the_register_tile_is_not_spilled() -> None:
    text = assembly(
        emit_llvm(_matmul(96, 64), Target.parse("x86_64-linux-gnu -mcpu=znver3")), detect()
    )
    lines = text.splitlines()
    fused = [n for n, line in enumerate(lines) if "vfmadd" in line]
    assert len(fused) == 48
    inner = lines[fused[0] : fused[-1]]
    assert not [line for line in inner if "rsp" in line or "rbp" in line]
    assert len(inner) < 48 + 8 + 24 + 6


def test_serial_values_reach_a_parallel_body() -> None:
    """Outer variables, unrolled constants, and memory of the outer code are captured."""
    out, scratch = buffer("out", 3, 2, 8), buffer("scratch", 8)

    def body(t: Var, u: Var) -> Stmt:
        fill = loop("p", 8, lambda p: Store(scratch, (p,), Cast(FLOAT32, p + t)))
        work = loop(
            "q", 8,
            lambda q: Store(out, (t, u, q), Load(scratch, (q,)) + Cast(FLOAT32, t * 100 + u * 10)),
            LoopKind.PARALLEL,
        )  # fmt: skip
        return seq(fill, work)

    nest = loop("t", 3, lambda t: unrolled("u", 2, lambda u: body(t, u)))
    function = Function("f", (out,), Allocate(scratch, nest))
    found = np.zeros((3, 2, 8), np.float32)
    status, calls = call(function, (found,), threads=2)
    t, u, q = np.ogrid[:3, :2, :8]
    np.testing.assert_array_equal(found, q + t + t * 100 + u * 10)
    assert (status, calls) == (0, [(8, 2)] * 6)
    assert workspace_bytes(function) == 64


def test_a_parallel_body_has_its_own_loops_of_any_name() -> None:
    """The earlier one is in a branch, whose values are not known behind it."""
    x, y = buffer("X", 8), buffer("Y", 2, 8)
    first = loop("i", 8, lambda i: Store(x, (i,), Load(x, (i,)) + 1.0))
    rows = loop("j", 2, lambda j: loop("i", 8, lambda i: Store(y, (j, i), Load(x, (i,)))))
    parallel = replace(rows, kind=LoopKind.PARALLEL)
    body = seq(If(Load(x, (const(0),)) < 9.0, first), parallel)
    found = np.zeros((2, 8), np.float32)
    run(Function("kernel", (x, y), body), np.zeros(8, np.float32), found)
    np.testing.assert_array_equal(found, 1)


def test_memory_of_a_parallel_loop_in_a_parallel_loop() -> None:
    """The inner loop is run by one thread, which has the memory for it."""
    out, local = buffer("out", 3, 4), buffer("local", 8, scope=Scope.LOCAL)

    def row(i: Var) -> Stmt:
        def element(j: Var) -> Stmt:
            fill = loop("p", 8, lambda p: Store(local, (p,), Cast(FLOAT32, i * 10 + j + p)))
            return Allocate(local, seq(fill, Store(out, (i, j), Load(local, (const(7),)))))

        return loop("j", 4, element, LoopKind.PARALLEL)

    found = np.full((3, 4), np.nan, np.float32)
    status, calls = call(Function("f", (out,), loop("i", 3, row, LoopKind.PARALLEL)), (found,), 2)
    np.testing.assert_array_equal(found, [[i * 10 + j + 7 for j in range(4)] for i in range(3)])
    assert (status, calls) == (0, [(3, 2)])


def test_a_prefetch_far_outside_its_buffer_changes_nothing() -> None:
    source, out = buffer("source", 4, 4), buffer("out", 4)

    def body(i: Var) -> Stmt:
        hint = Prefetch(source, (i * (1 << 40) + 1, const(0)))
        return seq(hint, Store(out, (i,), Load(source, (i, i))))

    function = Function("f", (source, out), loop("i", 4, body))
    found = np.full(4, np.nan, np.float32)
    run(function, np.diag(np.arange(4, dtype=np.float32)), found)
    np.testing.assert_array_equal(found, np.arange(4))
    target = Target.parse("x86_64-linux-gnu -mcpu=znver3")
    assert "prefetcht0" in assembly(emit_llvm(function, target), target)


@pytest.mark.parametrize(("begin", "shift"), [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("threads", [1, 2])
def test_streamed_stores_of_arrays_that_begin_anywhere(
    begin: int, shift: int, threads: int
) -> None:
    source, out = buffer("source", 6, 32), buffer("out", 6, 32)

    def row(i: Var) -> Stmt:
        def vector(j: Var) -> Stmt:
            place = (i, Ramp(i * shift + j * 8, const(1), 8))
            return Store(out, place, Load(source, place), is_streamed=True)

        return loop("j", 3, vector)

    function = Function("f", (source, out), loop("i", 6, row, LoopKind.PARALLEL))
    memory = aligned_empty((1 + 6 * 32,), np.float32)
    memory.fill(np.nan)
    found, given = memory[begin:][: 6 * 32].reshape(6, 32), random((6, 32))
    call(function, (given, found), threads)
    for i in range(6):
        row_of = slice(i * shift, i * shift + 24)
        np.testing.assert_array_equal(found[i, row_of], given[i, row_of])
    assert np.isnan(memory).sum() == memory.size - 6 * 24
    x86, arm = (Target.parse(name) for name in ("x86_64-linux-gnu -mcpu=znver3", A76))
    code = assembly(emit_llvm(function, x86), x86)
    assert ("vmovntps" in code, "sfence" in code) == (not shift, not shift)
    assert "sfence" not in emit_llvm(function, arm)


@pytest.mark.parametrize("elements", [100, 1 << 15])
def test_local_memory_of_each_thread(elements: int) -> None:
    """Small local buffers are on the stack, large ones on the heap of each chunk."""
    out, local = buffer("out", 4), buffer("local", elements, scope=Scope.LOCAL)

    def body(i: Var) -> Stmt:
        fill = loop("p", elements, lambda p: Store(local, (p,), Cast(FLOAT32, i)))
        return Allocate(local, seq(fill, Store(out, (i,), Load(local, (const(elements - 1),)))))

    function = Function("f", (out,), loop("i", 4, body, LoopKind.PARALLEL))
    found = np.zeros(4, np.float32)
    assert call(function, (found,), threads=3)[0] == 0
    np.testing.assert_array_equal(found, [0, 1, 2, 3])
    assert workspace_bytes(function) == 0
    assert ("aligned_alloc" in emit_llvm(function, detect())) == (elements > 16384)


def test_memory_that_cannot_be_had_is_reported() -> None:
    out, local = buffer("out", 4), buffer("local", 1 << 50, scope=Scope.LOCAL)

    def body(i: Var) -> Stmt:
        fill = Store(local, (i,), as_expr(1.0))
        return Allocate(local, seq(fill, Store(out, (i,), Load(local, (i * 0,)))))

    found = np.zeros(4, np.float32)
    for threads in (1, 2):
        function = Function("f", (out,), loop("i", 4, body, LoopKind.PARALLEL))
        assert call(function, (found,), threads)[0] == 1
    serial = Function("f", (out,), loop("i", 4, body))
    assert workspace_bytes(serial) == 1 << 52
    assert call(serial, (found,))[0] == 1


def test_workspace_of_the_caller_and_of_the_kernel() -> None:
    source, first, second = buffer("source", 10), buffer("first", 10), buffer("second", 3)
    out = buffer("out", 10)
    body = Allocate(first, Allocate(second, seq(
        loop("i", 3, lambda i: Store(second, (i,), as_expr(1.0))),
        loop("i", 10, lambda i: Store(first, (i,), Load(source, (i,)) * 2.0)),
        loop("i", 10, lambda i: Store(out, (i,), Load(first, (i,)) + Load(second, (i % 3,)))),
    )))  # fmt: skip
    function = Function("f", (source, out), body)
    data, found = random((10,)), np.zeros(10, np.float32)
    run(function, data, found)
    np.testing.assert_array_equal(found, data * 2 + 1)
    assert workspace_bytes(function) == 128
    room = np.zeros(256, np.uint8)
    start = -room.ctypes.data % 64
    workspace = room[start : start + 128]
    found[:] = 0
    assert call(function, (data, found), workspace=workspace)[0] == 0
    np.testing.assert_array_equal(found, data * 2 + 1)
    np.testing.assert_array_equal(workspace[:40].view(np.float32), data * 2)
    assert not room[start + 128 :].any()
    code = load_object_code(compile_object(emit_llvm(function, detect()), detect()), {})
    assert ctypes.CFUNCTYPE(ctypes.c_size_t)(code.address("f_workspace_bytes"))() == 128
    code.close()


def _trivial() -> Function:
    out = buffer("out", 1)
    return Function("f", (out,), Store(out, (const(0),), as_expr(1.0)))


def test_a_processor_without_the_features_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for by a bit that no processor sets."""
    monkeypatch.setitem(GUARDED_FEATURES, "sse3", (1, 0, 2, 16))
    monkeypatch.setitem(ARM_FEATURES, "dotprod", (16, 63))
    found = np.zeros(1, np.float32)
    name = "sse3" if detect().is_x86 else "dotprod"
    target = replace(detect(), features=tuple(sorted({*detect().features, name})))
    assert call(_trivial(), (found,), target=target)[0] == 2
    assert found[0] == 0


def test_features_of_this_processor_pass_the_guard() -> None:
    found = np.zeros(1, np.float32)
    assert "check_cpu" in emit_llvm(_trivial(), detect()) or not detect().is_x86
    run(_trivial(), found)
    assert found[0] == 1


def test_code_for_another_processor_is_made() -> None:
    target = Target.parse("aarch64-linux-gnu -mcpu=cortex-a72")
    text = assembly(emit_llvm(_matmul(24, 16), target), target)
    assert "fmla" in text
    assert "cpuid" not in text


def test_what_a_cpu_does_not_have_is_refused() -> None:
    out = buffer("out", 4)
    store = Store(out, (const(0),), as_expr(1.0))
    tile = buffer("tile", 4, scope=Scope.SHARED)
    bound = For(Var("i"), 4, LoopKind.BOUND, store, "threadIdx.x")
    with pytest.raises(BuildError, match=r"'i' is bound to threadIdx\.x, which exists on"):
        emit_llvm(Function("f", (out,), bound), detect())
    with pytest.raises(BuildError, match="barrier for shared memory exists on GPUs only"):
        emit_llvm(Function("f", (out,), Seq((store, Barrier(Scope.SHARED)))), detect())
    with pytest.raises(BuildError, match="'tile' is in shared memory, which exists on GPUs only"):
        emit_llvm(Function("f", (out,), Allocate(tile, store)), detect())
    with pytest.raises(BuildError, match="made for CPUs, not for 'cuda -arch=sm_90'"):
        emit_llvm(_trivial(), Target.parse("cuda -arch=sm_90"))


def test_broken_code_is_refused_with_the_words_of_llvm() -> None:
    with pytest.raises(BuildError, match=r"(?s)LLVM refuses the generated code.*expected"):
        compile_object("define nonsense", detect())
    with pytest.raises(BuildError, match="the object code cannot be loaded"):
        load_object_code(b"nothing", {})


def test_loaded_code_names_what_it_lacks() -> None:
    code = load_object_code(compile_object(emit_llvm(_trivial(), detect()), detect()), {})
    with pytest.raises(BuildError, match="no usable 'g'"):
        code.address("g")
    code.close()
    with pytest.raises(BuildError, match="'f' has been closed"):
        code.address("f")
    parallel = compile_object(emit_llvm(_matmul(12, 4, parallel=True), detect()), detect())
    code = load_object_code(parallel, {})
    with pytest.raises(BuildError, match="no usable 'matmul'"):
        code.address("matmul")
    code.close()


def test_a_parallel_loop_inside_another_has_memory_of_its_own() -> None:
    out, scratch = buffer("out", 3, 2), buffer("scratch", 1, scope=Scope.LOCAL)

    def body(i: Var, j: Var) -> Stmt:
        first = Store(scratch, (const(0),), Cast(FLOAT32, i * 10 + j))
        return Allocate(scratch, seq(first, Store(out, (i, j), Load(scratch, (const(0),)))))

    inner = LoopKind.PARALLEL
    nest = loop("i", 3, lambda i: loop("j", 2, lambda j: body(i, j), inner), LoopKind.PARALLEL)
    found = np.zeros((3, 2), np.float32)
    status, calls = call(Function("f", (out,), nest), (found,), threads=2)
    i, j = np.ogrid[:3, :2]
    np.testing.assert_array_equal(found, i * 10 + j)
    assert (status, calls) == (0, [(3, 2)])
