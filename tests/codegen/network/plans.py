"""Small networks, planned by hand: a perceptron of two layers, and others made of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ansorc as ac
from ansorc.codegen.build import compile_function
from ansorc.codegen.network.derived import DerivedBlock, DerivedWeight
from ansorc.codegen.network.plan import (
    BufferSlot,
    KernelCall,
    NetworkPlan,
    PlaceKind,
)
from ansorc.codegen.network.weights import join_weights
from ansorc.codegen.package.runtime_library import runtime_object
from ansorc.codegen.package.signature import Param
from ansorc.codegen.program.compiled import Compiled
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.packing import PackedPart, Packing
from ansorc.ir.parser import parse
from ansorc.target import Target

Floats = NDArray[np.float32]
ROWS, WIDTH = 6, 40
NATIVE = Target.parse("native")
BYTES = ROWS * WIDTH * 4
LAYER = f"""\
kernel layer(
    X: float32[{ROWS}, {WIDTH}],
    W: float32[{WIDTH}, {WIDTH}] constant,
    b: float32[{WIDTH}] constant,
    Y: float32[{ROWS}, {WIDTH}],
):
    alloc sum: float32[{ROWS}, {WIDTH}]
    parallel i in 0..{ROWS}:
        vectorized j in 0..{WIDTH}:
            sum[i, j] = b[j]
        for k in 0..{WIDTH}:
            vectorized j in 0..{WIDTH}:
                sum[i, j] = sum[i, j] + X[i, k] * W[k, j]
    parallel i in 0..{ROWS}:
        vectorized j in 0..{WIDTH}:
            Y[i, j] = max(sum[i, j], 0.0)
"""


@cache
def layer(target: Target = NATIVE) -> Compiled:
    """Y = max(X · W + b, 0), parallel, with a workspace."""
    return compile_function(parse(LAYER), target)


@cache
def softmax(target: Target = NATIVE) -> Compiled:
    a = ac.placeholder((ROWS, WIDTH), name="A")
    return compile_function(ac.lower(ac.schedule(ac.ComputeDAG([a, ac.ops.softmax(a)]))), target)


def runtime() -> Path:
    return runtime_object(NATIVE)


def array(name: str, *shape: int, is_output: bool = False) -> Param:
    return Param(name, shape, FLOAT32, is_output)


def source(index: int = 0) -> BufferSlot:
    return BufferSlot(PlaceKind.INPUT, index)


def result(index: int = 0) -> BufferSlot:
    return BufferSlot(PlaceKind.OUTPUT, index)


def arena(offset: int) -> BufferSlot:
    return BufferSlot(PlaceKind.ARENA, offset)


def constant(offset: int) -> BufferSlot:
    return BufferSlot(PlaceKind.WEIGHTS, offset)


def draw(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def weights(seed: int = 1) -> list[Floats]:
    """Of two layers: W, b, W, b."""
    shapes = ((WIDTH, WIDTH), (WIDTH,)) * 2
    return [draw(*shape, seed=seed + n) for n, shape in enumerate(shapes)]


def perceptron(
    name: str = "perceptron", seed: int = 1, threads: int = 0, target: Target = NATIVE
) -> NetworkPlan:
    """x → layer → layer → softmax: the first kernel is called twice, on weights of its own."""
    memory, (w1, b1, w2, b2) = join_weights(weights(seed))
    calls = (
        KernelCall(0, (source(), constant(w1), constant(b1), arena(0)), "first + relu", threads),
        KernelCall(0, (arena(0), constant(w2), constant(b2), arena(BYTES)), "second", threads),
        KernelCall(1, (arena(BYTES), result()), "softmax"),
    )
    params = array("x", ROWS, WIDTH), array("y", ROWS, WIDTH, is_output=True)
    kernels = layer(target), softmax(target)
    return NetworkPlan(name, params[:1], params[1:], kernels, calls, 2 * BYTES, memory)


def derived_perceptron(name: str = "perceptron", seed: int = 1) -> NetworkPlan:
    """The perceptron, whose first W is stored transposed; its columns are made rows at load."""
    w1, *others = weights(seed)
    source = Buffer("", w1.shape, FLOAT32, constant=True)
    packing = Packing(source, (PackedPart(1, 1, WIDTH), PackedPart(0, 1, WIDTH)), (0, 0))
    memory, (start, *rest) = join_weights([np.ascontiguousarray(w1.T), *others])
    packer = compile_function(packing.function("pack"), NATIVE, is_part=True)
    plan = perceptron(name, seed)
    first, second, last = plan.calls
    b1, w2, b2 = map(constant, rest)
    made = BufferSlot(PlaceKind.DERIVED, 0)
    calls = (
        replace(first, arguments=(first.arguments[0], made, b1, arena(0))),
        replace(second, arguments=(arena(0), w2, b2, arena(BYTES))),
        last,
    )
    derived = DerivedBlock([DerivedWeight(packing, packer, start)])
    return replace(plan, calls=calls, weights=memory, derived=derived)


def perceptron_reference(x: Floats, seed: int = 1) -> NDArray[np.float64]:
    w1, b1, w2, b2 = (each.astype(np.float64) for each in weights(seed))
    hidden = np.maximum(np.maximum(x @ w1 + b1, 0) @ w2 + b2, 0)
    grown = np.exp(hidden - hidden.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def two_outputs() -> NetworkPlan:
    """x, z → softmax(x), softmax(z), and softmax of the first again."""
    names = ("x", "z"), ("a", "b", "c")
    inputs = tuple(array(name, ROWS, WIDTH) for name in names[0])
    outputs = tuple(array(name, ROWS, WIDTH, is_output=True) for name in names[1])
    pairs: Sequence[tuple[BufferSlot, BufferSlot]] = (
        (source(0), result(0)), (source(1), result(1)), (result(0), result(2)),
    )  # fmt: skip
    calls = tuple(KernelCall(0, pair, f"step {n}") for n, pair in enumerate(pairs))
    return NetworkPlan("three", inputs, outputs, (softmax(),), calls, 0)


def doubled() -> NetworkPlan:
    """y = 2 · x, in one call that needs no memory."""
    text = f"kernel f(A: float32[{ROWS}, {WIDTH}], B: float32[{ROWS}, {WIDTH}]):\n"
    text += f"    for i in 0..{ROWS}:\n        for j in 0..{WIDTH}:\n"
    kernel = compile_function(parse(f"{text}            B[i, j] = A[i, j] * 2.0\n"), NATIVE)
    params = array("x", ROWS, WIDTH), array("y", ROWS, WIDTH, is_output=True)
    call = KernelCall(0, (source(), result()), 'doubled "ü"')
    return NetworkPlan("doubled", params[:1], params[1:], (kernel,), (call,), 0)


def added(w: Floats) -> NetworkPlan:
    """y = x + w, of weights of any size."""
    one = f"float32[{w.size}]"
    text = f"kernel f(A: {one}, W: {one}, B: {one}):\n    for i in 0..{w.size}:\n"
    kernel = compile_function(parse(f"{text}        B[i] = A[i] + W[i]\n"), NATIVE)
    memory, (offset,) = join_weights([w])
    call = KernelCall(0, (source(), constant(offset), result()), "added")
    params = array("x", w.size), array("y", w.size, is_output=True)
    return NetworkPlan("added", params[:1], params[1:], (kernel,), (call,), 0, memory)


def with_call(plan: NetworkPlan, number: int, **changes: object) -> NetworkPlan:
    """`plan` with one call changed."""
    calls = list(plan.calls)
    calls[number] = replace(calls[number], **changes)  # pyright: ignore[reportArgumentType]
    return replace(plan, calls=tuple(calls))
