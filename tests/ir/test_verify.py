"""Each rule of a legal program has a program that breaks it, and words that say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ansorc.errors import IRError
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import BOOL, FLOAT32, INT8, INT32, INT64
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Reduce,
    Select,
    Var,
    const,
)
from ansorc.ir.parser import parse
from ansorc.ir.stmt import Allocate, Barrier, For, Function, LoopKind, Seq, Store
from ansorc.ir.verify import verify

A = Buffer("A", (8,), FLOAT32)
I = Buffer("I", (8,), INT64)  # noqa: E741
i, half, four = Var("i"), const(0.5, FLOAT32), Ramp(const(0), const(1), 4)


def loop(body: Store | Allocate | For | Seq | Barrier, var: Var = i) -> For:
    return For(var, 8, LoopKind.SERIAL, body)


def refused(stmt: Store | Allocate | For | Seq | Barrier, words: str) -> None:
    with pytest.raises(IRError, match=f"kernel 'k' is not legal: .*{words}"):
        verify(Function("k", (A, I), stmt))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Var("j"), "j: no loop around it is over 'j'"),
        (Var("i", INT32), "i: it is int32 here, but int64 in its loop"),
        (Const(1, FLOAT32), "1: a literal of float32 holds a Python float; build it with const"),
        (Const(1.0, INT64), "1.0: a literal of int64 holds a Python int; build it with const"),
        (Const(True, INT64), "True: a literal of int64 holds a Python int"),
        (Const(1, BOOL), "1: a literal of bool holds a Python bool"),
        (Const(200, INT8), r"int8\(200\): int8 holds -128 to 127; use a wider dtype"),
        (Const(0.5, FLOAT32.vector(4)), "a literal of float32x4 is no scalar; broadcast a scalar"),
        (Binary(BinaryOp.ADD, half, i), r"0.5 \+ i: its operands are float32 and int64; cast one"),
        (Binary(BinaryOp.DIV, i, i), "'/' on int64 needs floats; use // on integers"),
        (Binary(BinaryOp.FLOORDIV, half, half), "'//' on float32 needs integers; use / on floats"),
        (Binary(BinaryOp.MOD, half, half), "'%' on float32 needs integers"),
        (Binary(BinaryOp.AND, i, i), "'and' on int64 needs bools; compare first"),
        (Binary(BinaryOp.OR, half, half), "'or' on float32 needs bools"),
        (Binary(BinaryOp.MIN, i < 1, i < 2), "'min' on bool needs numbers"),
        (Binary(BinaryOp.ADD, i < 1, i < 2), r"'\+' on bool needs numbers; use 'and', 'or'"),
        (Compare(CompareOp.LT, i, half), "i < 0.5: its operands are int64 and float32"),
        (Not(i), "not i: its condition is int64, not a bool"),
        (Select(i, half, half), "its condition is int64, not a bool; compare it with something"),
        (Select(i < 1, half, i), "its operands are float32 and int64"),
        (Select(four < 1, half, Broadcast(half, 2)), "its parts have 4 and 2 lanes"),
        (Binary(BinaryOp.ADD, four, Ramp(i, i, 2)), "its parts have 4 and 2 lanes; vectors must"),
        (Cast(FLOAT32.vector(4), four), "lanes follow the operand; cast to a scalar dtype"),
        (Call("tan", (half,)), "there is no math function 'tan' of 1 operands"),
        (Call("exp", (half, half)), "there is no math function 'exp' of 2 operands"),
        (Call("exp", (i,)), "exp needs floats, not int64; cast the operand"),
        (Call("pow", (half, i)), "its operands are float32 and int64"),
        (Reduce(BinaryOp.SUB, four), "'-' does not combine lanes; use reduce_sum, reduce_prod"),
        (Reduce(BinaryOp.ADD, four < 1), "its operand is bools; cast it to numbers"),
        (Reduce(BinaryOp.MAX, half), "its operand is float32; halves need 2, 4, 8, … lanes"),
        (Reduce(BinaryOp.MIN, Broadcast(i, 6)), "its operand is int64x6; halves need 2, 4, 8"),
        (Ramp(half, half, 4), "a ramp needs integers, not float32"),
        (Ramp(i, const(1, INT32), 4), "its operands are int64 and int32"),
        (Ramp(four, const(1), 4), "its operand is int64x4; a vector is made of scalars"),
        (Ramp(i, i, 1), "a vector has at least 2 lanes, not 1; use the scalar"),
        (Broadcast(four, 4), "its operand is int64x4; a vector is made of scalars"),
        (Broadcast(half, 0), "a vector has at least 2 lanes, not 0"),
        (Load(replace(A, name="B"), (i,)), r"B\[i\]: no parameter or allocation around it is 'B'"),
        (Load(replace(A, shape=(9,)), (i,)), r"it goes to A: float32\[9\], but declared is A: fl"),
        (Load(A, (i, i)), r"A\[i, i\]: A: float32\[8\] takes 1 indices, not 2"),
        (Load(A, (half,)), r"A\[0.5\]: index 0.5 is float32; cast it to int64"),
        (Load(A, (const(1, INT32),)), "index .* is int32; cast it to int64"),
    ],
)  # fmt: skip
def test_expressions(value: Expr, words: str) -> None:
    refused(loop(Store(A, (i,), value)), words)


def test_the_statement_is_shown() -> None:
    refused(loop(Store(A, (i,), Var("j"))), r"'j'\n    in: A\[i\] = j$")


def test_stores() -> None:
    refused(loop(Store(A, (i,), i)), r"the value is int64, but A: float32\[8\]; cast the value")
    refused(Store(A, (const(0),), Broadcast(half, 4)), "value has 4 lanes, but the indices 1")
    refused(Store(A, (four,), Broadcast(half, 2)), "the value has 2 lanes, but the indices 4")
    refused(Store(A, (), half), r"A\[\]: A: float32\[8\] takes 1 indices, not 0")
    verify(Function("k", (A,), Store(A, (four,), half)))
    weights = replace(A, constant=True)
    function = Function("k", (weights,), Store(weights, (const(0),), half))
    with pytest.raises(IRError, match=r"A: float32\[8\] constant is stored to; a constant is on"):
        verify(function)


def test_conditions() -> None:
    text = "kernel k(A: float32[8]):\n    if {}:\n        A[0] = 1.0\n"
    for condition, dtype in (("1", "int64"), ("ramp(0, 1, 4)", "int64x4")):
        with pytest.raises(IRError, match=f"the condition is {dtype}, not a bool; compare it"):
            verify(parse(text.format(condition)))


def test_masks() -> None:
    text = "kernel k(A: float32[8]):\n    if ramp(0, 1, 4) < 2:\n{}"
    verify(parse(text.format("        A[ramp(0, 1, 4)] = 1.0\n")))
    for body, words in (
        ("        A[0] = 1.0\n", "the condition has 4 lanes, but the store 1"),
        ("        A[ramp(0, 1, 8)] = 1.0\n", "the condition has 4 lanes, but the store 8"),
        ("        A[0] = 1.0\n        A[1] = 1.0\n", "has 4 lanes; such an 'if' guards one store"),
        ("        A[ramp(0, 1, 4)] = 1.0\n    else:\n        A[0] = 1.0\n", "guards one store"),
    ):
        with pytest.raises(IRError, match=words):
            verify(parse(text.format(body)))


def test_names() -> None:
    body = Store(A, (const(0),), half)
    for name in ("", "2i", "i..j", "i.", "a b", "a-b", "ä"):
        refused(loop(body, Var(name)), f"'{name}' is no name; use letters, digits")
    refused(loop(body, Var("not")), "loop variable 'not' is a word of expressions; rename it")
    refused(loop(loop(body)), "two nested loops are over 'i'; rename one")
    refused(Allocate(A, body), "two buffers in one scope are called 'A'; rename one")
    refused(Allocate(replace(A, name="a b"), body), "'a b' is no name")
    verify(Function("k", (A,), Seq((loop(body), loop(body)))))
    with pytest.raises(IRError, match=r"'k\.1' is no C name; use letters, digits and '_'"):
        verify(Function("k.1", (A,), body))


def test_buffers() -> None:
    body = Store(A, (const(0),), half)
    for bad in (0, -1, 2.0, True, np.int64(4)):
        wrong = replace(A, name="B", shape=(bad,))
        refused(Allocate(wrong, body), "has an extent that is no Python int above 0")
    vectors = replace(A, name="B", dtype=FLOAT32.vector(4))
    refused(Allocate(vectors, body), "has vector elements; add a dimension instead")
    refused(Allocate(replace(A, name="B", constant=True), body), "only parameters are constant")
    with pytest.raises(IRError, match=r"parameter A: float32\[8\] local is not in global memory"):
        verify(Function("k", (replace(A, scope=Scope.LOCAL),), body))


def test_loops() -> None:
    body = Store(A, (const(0),), half)
    refused(loop(body, Var("i", INT32)), "loop variable 'i' is int32, not int64")
    serial = For(i, 4, LoopKind.SERIAL, body, "threadIdx.x")
    for extent in (0, -3, np.int64(4)):
        refused(replace(serial, extent=extent, thread=""), "the extent of 'i' is .* above 0")
    refused(serial, "the for loop over 'i' names the thread 'threadIdx.x'")
    refused(For(i, 4, LoopKind.BOUND, body, "lane"), "bound to 'lane'; use blockIdx.x")


def program(lines: str) -> Function:
    return parse("kernel k(A: float32[8]):\n" + lines)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            "    bound threadIdx.x t in 0..4:\n"
            "        bound threadIdx.x u in 0..2:\n            pass\n",
            "nested loops 't' of 4 and 'u' of 2 are both bound to threadIdx.x; make them equal",
        ),
        (
            "    alloc r: float32[2] register\n    prefetch r[0]\n",
            "it asks for a register; a cache line is found by one element in memory",
        ),
        ("    prefetch A[ramp(0, 1, 4)]\n", "it asks for 4 elements; a cache line is found by one"),
        ("    barrier shared\n", "a barrier outside threadIdx loops waits for nobody; remove it"),
        (
            "    bound threadIdx.x t in 0..4:\n        barrier local\n",
            "'barrier local' is of memory that no two threads share",
        ),
        (
            "    alloc L: float32[8] local\n    parallel i in 0..8:\n        A[i] = L[i]\n",
            r"L: float32\[8\] local is not shared by the threads that run here; allocate it",
        ),
        (
            "    alloc L: float32[8] local\n    bound threadIdx.x i in 0..8:\n        L[i] = 1.0\n",
            "is not shared by the threads that run here",
        ),
        (
            "    alloc S: float32[8] shared\n    bound blockIdx.y i in 0..8:\n        S[i] = 1.0\n",
            r"S: float32\[8\] shared is not shared by the threads that run here",
        ),
        (
            "    alloc R: float32[8] register\n    for i in 0..8:\n        R[i] = 1.0\n",
            r"R\[i\]: a register is numbered by 'i', whose loop is neither unrolled nor vector",
        ),
        (
            "    alloc R: float32[8] register\n    alloc T: int64[1]\n    R[T[0]] = 1.0\n",
            "a register is numbered by loaded data",
        ),
        (
            "    alloc R: float32[8, 2] register\n    R[ramp(0, 1, 4), 0] = 1.0\n",
            "lanes run along the last dimension alone",
        ),
    ],
)  # fmt: skip
def test_threads_and_memory(lines: str, words: str) -> None:
    with pytest.raises(IRError, match=words):
        verify(program(lines))


@pytest.mark.parametrize(
    "lines",
    [
        "    parallel i in 0..8:\n        alloc L: float32[8] local\n        A[i] = L[i]\n",
        "    parallel i in 0..2:\n        alloc L: float32[8] local\n"
        "        parallel j in 0..4:\n            L[j] = 1.0\n",
        "    alloc S: float32[8] shared\n    bound threadIdx.x i in 0..8:\n"
        "        S[i] = 1.0\n        barrier shared\n",
        "    bound threadIdx.x i in 0..8:\n        alloc L: float32[8] local\n"
        "        bound threadIdx.x j in 0..8:\n            L[j] = 1.0\n",
        "    alloc R: float32[8, 8] register\n    unrolled i in 0..8:\n"
        "        vectorized j in 0..8:\n            R[i, j] = R[7 - i, j] + 1.0\n"
        "        R[i, ramp(0, 1, 4)] = 2.0\n",
    ],
)
def test_what_threads_may_do(lines: str) -> None:
    verify(program(lines))


def test_atomic_stores() -> None:
    one = Load(A, (i,)) + half
    verify(Function("f", (A,), loop(replace(Store(A, (i,), one), is_atomic=True))))
    local = Buffer("L", (8,), FLOAT32, Scope.LOCAL)
    for indices, value in (((i,), half), ((const(0),), one), ((four,), Load(A, (four,)))):
        store = replace(Store(A, indices, value), is_atomic=True)
        refused(loop(store), "an atomic store changes the one element that its value loads")
    mine = replace(Store(local, (i,), Load(local, (i,)) + half), is_atomic=True)
    refused(loop(Allocate(local, mine)), "an atomic store goes to memory that threads share")
