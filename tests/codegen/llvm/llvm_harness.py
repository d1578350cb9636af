"""Run functions of the IR as machine code, with a runtime that is a Python function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ansorc.codegen.llvm.binding import compile_object, load_object_code
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import FLOAT32, INT64, DType
from ansorc.ir.expr import Expr, ExprLike, Ramp, Var, as_expr, const
from ansorc.ir.stmt import For, Function, LoopKind, Seq, Stmt
from ansorc.target import Target, detect

Array = NDArray[Any]
CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
)
DYNAMIC_FOR = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32
)


def buffer(name: str, *shape: int, dtype: DType = FLOAT32, scope: Scope = Scope.GLOBAL) -> Buffer:
    return Buffer(name, shape, dtype, scope)


def loop(
    name: str, extent: int, body: Callable[[Var], Stmt], kind: LoopKind = LoopKind.SERIAL
) -> For:
    variable = Var(name)
    return For(variable, extent, kind, body(variable))


def unrolled(name: str, extent: int, body: Callable[[Var], Stmt]) -> For:
    return loop(name, extent, body, LoopKind.UNROLLED)


def seq(*stmts: Stmt) -> Seq:
    return Seq(stmts)


def lanes(base: ExprLike, count: int, stride: int = 1) -> Expr:
    return Ramp(as_expr(base, INT64), const(stride), count)


def call(
    function: Function,
    arrays: Sequence[Array],
    threads: int = 1,
    workspace: Array | None = None,
    target: Target | None = None,
    *,
    has_contraction: bool = True,
) -> tuple[int, list[tuple[int, int]]]:
    """Return the kernel's status, and the (extent, threads) of each call of the runtime.

    Without contraction, sums of products round twice, as in the interpreter.
    """
    target = target or detect()
    calls: list[tuple[int, int]] = []

    def parallel_for(chunk: int, closure: int, extent: int, threads: int) -> int:
        calls.append((extent, threads))
        middle = extent // 2
        for begin, end in ((middle, extent), (0, middle)):
            if begin < end:
                CHUNK(chunk)(closure, begin, end)
        return 0

    def in_chunks(part: int, closure: int, extent: int, chunk: int, threads: int) -> int:
        calls.append((extent, threads))
        for begin in reversed(range(0, extent, chunk)):
            CHUNK(part)(closure, begin, min(begin + chunk, extent))
        return 0

    callbacks = {
        "ansorc_parallel_for": PARALLEL_FOR(parallel_for),
        "ansorc_parallel_for_dynamic": DYNAMIC_FOR(in_chunks),
    }
    symbols = {n: ctypes.cast(c, ctypes.c_void_p).value or 0 for n, c in callbacks.items()}
    text = emit_llvm(function, target)
    if not has_contraction:
        text = text.replace(" contract ", " ")
    code = load_object_code(compile_object(text, target), symbols)
    pointers = [ctypes.c_void_p] * (len(arrays) + 1)
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, ctypes.c_int32)(
        code.address(function.name)
    )
    memory = workspace.ctypes.data if workspace is not None else None
    status = kernel(*(array.ctypes.data for array in arrays), memory, threads)
    code.close()
    return status, calls


def run(function: Function, *arrays: Array) -> None:
    """Run the kernel on `arrays`, in place."""
    status, _ = call(function, arrays)
    assert status == 0


def random(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_same(found: Array, expected: Array) -> None:
    """Require equal dtypes and numbers, NaN equal to NaN (which NumPy misses in bfloat16)."""
    assert found.dtype == expected.dtype
    if found.dtype.kind == "V":
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(found, expected)
