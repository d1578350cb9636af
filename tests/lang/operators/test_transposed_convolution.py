"""Transposed convolutions: their values, and that no inserted zero is multiplied."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.ir import interpret_math
from ansorc.ir.expr import Binary, BinaryOp, Call, dtype_of
from ansorc.ir.interpret import interpret
from ansorc.ir.node import Node, rewrite
from ansorc.ir.stmt import Function
from ansorc.lang import operators as ops
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, schedule

Array = NDArray[Any]
CASES = [
    (4, 2, 1), (3, 1, 1), (3, 2, 0), (2, 3, 1), (5, 2, 2), (5, 3, 1), (2, 2, 0), (3, 3, 2),
    (7, 4, 5),
]  # fmt: skip


def scattered(x: Array, w: Array, stride: int, sizes: Sequence[int]) -> Array:
    """Every element of x [n, …, ci] adds its multiple of the kernel w […, ci, co] to the result."""
    rank = x.ndim - 2
    out = np.zeros((x.shape[0], *sizes, w.shape[-1]))
    for place in itertools.product(*(range(extent) for extent in x.shape[1:-1])):
        window = tuple(slice(p * stride, p * stride + w.shape[d]) for d, p in enumerate(place))
        out[(slice(None), *window)] += np.tensordot(x[(slice(None), *place)], w, (1, rank))
    return out


def dag_of(
    rank: int, kernel: int, stride: int, padding: int, extra: int = 0, layout: str = ""
) -> ComputeDAG:
    build = {1: ops.conv1d_transpose, 2: ops.conv2d_transpose, 3: ops.conv3d_transpose}[rank]
    sizes, window = (4, 3, 2)[:rank], (kernel,) * rank
    x = ac.placeholder((2, 2, *sizes) if layout else (2, *sizes, 2), "x")
    w = ac.placeholder((2, 3, *window) if layout else (*window, 2, 3), "w")
    form = layout or {1: "NLC", 2: "NHWC", 3: "NDHWC"}[rank]
    y = build(x, w, stride=stride, padding=padding, output_padding=extra, layout=form, name="y")
    return ComputeDAG([x, w, y])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "extra"),
    [(*case, extra) for case in CASES for extra in sorted({0, case[1] - 1})],
)
def test_values(rank: int, kernel: int, stride: int, padding: int, extra: int) -> None:
    """The result may be longer by what the stride leaves out, which is nothing at stride 1."""
    sizes = (4, 3, 2)[:rank]
    dag = dag_of(rank, kernel, stride, padding, extra)
    rng = np.random.default_rng(rank)
    x, w = (rng.uniform(-1, 1, buffer.shape) for buffer in dag.inputs)
    lengths = [(size - 1) * stride + kernel + extra for size in sizes]
    full = scattered(x, w, stride, lengths)
    inside = tuple(slice(padding, length - padding) for length in lengths)
    np.testing.assert_allclose(evaluate(dag, [x, w])[0], full[(slice(None), *inside)])


def test_channels_first_is_the_same_transposed() -> None:
    last, first = dag_of(2, 5, 2, 1), dag_of(2, 5, 2, 1, layout="NCHW")
    rng = np.random.default_rng(0)
    x, w = (rng.uniform(-1, 1, buffer.shape) for buffer in last.inputs)
    found = evaluate(first, [x.transpose(0, 3, 1, 2), w.transpose(2, 3, 0, 1)])[0]
    np.testing.assert_allclose(found, evaluate(last, [x, w])[0].transpose(0, 3, 1, 2))


def multiplications(function: Function, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many products of floats the interpreter forms while it runs `function`."""
    count = itertools.count()

    def product(left: float, right: float, addend: float) -> float:
        next(count)
        return left * right + addend

    def rule(node: Node) -> Node | None:
        if isinstance(node, Binary) and node.op is BinaryOp.MUL and dtype_of(node).is_float:
            return Call("fma", (node.left, node.right, ac.const(0.0).expr))
        return None

    monkeypatch.setitem(vars(interpret_math)["_FUNCTIONS"], "fma", product)
    arrays = [np.ones(buffer.shape, buffer.dtype.numpy) for buffer in function.params]
    interpret(rewrite(function, rule), arrays, fresh_outputs=True)
    return next(count)


@pytest.mark.parametrize(("kernel", "stride", "padding"), CASES[:7])
def test_no_inserted_zero_is_multiplied(
    kernel: int, stride: int, padding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = dag_of(2, kernel, stride, padding)
    found = multiplications(lower(schedule(dag)), monkeypatch)
    terms = 2 * 2 * 3  # batch, input and output channels
    for extent in dag.outputs[0].shape[1:3]:
        whole = -(-extent // stride) * stride
        taps = range(kernel)
        terms *= sum((o + padding - k) % stride == 0 for o in range(whole) for k in taps)
    assert found == terms
    with_zeros = math.prod(dag.outputs[0].shape) * 2 * kernel**2
    assert found < with_zeros or stride == 1


def test_the_phases_are_dense_convolutions() -> None:
    dag = dag_of(2, 4, 2, 1)
    assert [op.name for op in dag.ops] == ["y.pad", "y.phases", "y"]
    text = dag.to_text()
    assert "y.phases: float32[2, 4, 2, 3, 2, 3]" in text
    assert "rh: 2, rw: 2, rc: 2" in text
    assert " if " not in next(line for line in text.splitlines() if "y.phases:" in line)


def test_refusals() -> None:
    x, w = ac.placeholder((1, 4, 4, 2), "x"), ac.placeholder((3, 3, 2, 5), "w")
    with pytest.raises(LanguageError, match="conv2d_transpose takes no dilation"):
        ops.conv2d_transpose(x, w, dilation=2)
    with pytest.raises(LanguageError, match="output_padding must be less than the stride"):
        ops.conv2d_transpose(x, w, stride=2, output_padding=2)
    with pytest.raises(LanguageError, match="the padding leaves nothing"):
        ops.conv2d_transpose(x, w, padding=3)
    with pytest.raises(LanguageError, match=r"weight must be \[…kernel, ci, co\]"):
        ops.conv2d_transpose(x, ac.placeholder((3, 3, 5, 2), "v"))
    with pytest.raises(LanguageError, match="each must have 3 dimensions"):
        ops.conv1d_transpose(x, w)
