"""Gradients of reads at affine indices, quotients, remainders and borders, without scatters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor
from ansorc.lang.trace import list_tensors
from tests.lang.gradient.finite_differences import check_gradient
from tests.support.nightly import examples

Draw = st.DrawFn


@st.composite
def _indices(draw: Draw, most: int = 3) -> Callable[[list[Scalar]], Scalar]:
    """Draw an index: a sum of axes, its quotient or remainder, cut off or mirrored."""
    factors = [draw(st.sampled_from([0, 1, 1, 2, 3, -1, -2, 4])) for _ in range(most)]
    constant, divisor = draw(st.integers(-4, 6)), draw(st.integers(2, 5))
    kind = draw(st.sampled_from(["sum", "sum", "//", "%", "// + %", "choice", "abs"]))
    other = draw(st.integers(0, most - 1))

    def index(axes: list[Scalar]) -> Scalar:
        total = ac.const(constant, "int64")
        for axis, factor in zip(axes, factors, strict=True):
            total = total + axis * factor
        match kind:
            case "//":
                return total // divisor
            case "%":
                return total % divisor
            case "// + %":
                return total // divisor + axes[other] % 2
            case "choice":
                return ac.if_then_else(axes[other] % 2 == 0, total, total // 2)
            case "abs":
                return ac.abs(total)
            case _:
                return total

    return index


@st.composite
def _reads(draw: Draw) -> tuple[Tensor, list[Tensor]]:
    """Draw a computation of reads at drawn indices, which borders keep inside."""
    extents = [draw(st.integers(1, 6)) for _ in range(3)]
    shape = [draw(st.integers(1, 9)) for _ in range(draw(st.integers(1, 2)))]
    data = ac.placeholder(shape, "A", "float64")
    indices = [draw(_indices()) for _ in shape]
    border = draw(st.sampled_from(["clip", "pad", "wrap"]))
    is_sum = draw(st.booleans())
    factor = ac.placeholder(extents, "F", "float64")

    def element(axes: list[Scalar]) -> Scalar:
        places = [index(axes) for index in indices]
        pairs = list(zip(places, shape, strict=True))
        weight = factor[tuple(axes)]
        if border == "clip":
            cut = [ac.minimum(ac.maximum(place, 0), extent - 1) for place, extent in pairs]
            return data[tuple(cut)] * weight
        if border == "wrap":
            return data[tuple(place % extent for place, extent in pairs)] * weight
        inside = [test for place, extent in pairs for test in (place >= 0, place < extent)]
        value = data[tuple(places)]
        return ac.if_then_else(ac.all_of(*inside), value * value * weight, weight)

    if not is_sum:
        return ac.compute(extents, lambda i, j, k: element([i, j, k]), "Y"), [data, factor]
    r = ac.reduce_axis(extents[2], "r")
    loss = ac.compute(extents[:2], lambda i, j: ac.sum(element([i, j, r]), axis=r), "Y")
    return loss, [data, factor]


@examples(24, nightly=3000)
@given(_reads(), st.integers(0, 1 << 30))
def test_random_reads(case: tuple[Tensor, list[Tensor]], seed: int) -> None:
    loss, inputs = case
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-1, 1, tensor.shape) for tensor in inputs]
    check_gradient(loss, inputs, arrays, rng=rng)


def _text(loss: Tensor, *inputs: Tensor) -> list[str]:
    """Return the lines of the gradients of `loss` by float inputs."""
    seed = ac.placeholder(loss.shape, "g")
    gradients = ac.gradient(loss, inputs, seed=seed)
    given = [t for t in list_tensors([loss]) if t.definition is None]
    lines = ac.ComputeDAG([*given, seed, *gradients]).to_text().splitlines()
    return [line for line in lines if line.startswith("compute")]


def test_products_become_products() -> None:
    a, b = ac.placeholder((5, 7), "A"), ac.placeholder((7, 4), "B")
    assert _text(ac.ops.matmul(a, b), a, b) == [
        "compute A.gradient: float32[5, 7] (i0: 5, i1: 7) sum over (j: 4) = g[i0, j] * B[i1, j]",
        "compute B.gradient: float32[7, 4] (i0: 7, i1: 4) sum over (i: 5) = g[i, i1] * A[i, i0]",
    ]


def test_convolutions_become_convolutions() -> None:
    x, w = ac.placeholder((1, 9, 3), "x"), ac.placeholder((3, 3, 4), "w")
    assert _text(ac.ops.conv1d(x, w, name="y"), x, w) == [
        "compute g.pad: float32[1, 11, 4] (i0: 1, i1: 11, i2: 4) = "
        "(g[i0, i1 - 2, i2] if i1 >= 2 and i1 < 9 else 0.0)",
        "compute x.gradient: float32[1, 9, 3] (i0: 1, i1: 9, i2: 3) sum over (c: 4, rl: 3) = "
        "g.pad[0, i1 - rl + 2, c] * w[rl, i2, c]",
        "compute w.gradient: float32[3, 3, 4] (i0: 3, i1: 3, i2: 4) sum over (l: 7) = "
        "g[0, l, i2] * x[0, l + i0, i1]",
    ]


def test_strides_become_phases() -> None:
    x, w = ac.placeholder((1, 9, 3), "x"), ac.placeholder((4, 3, 4), "w")
    lines = _text(ac.ops.conv1d(x, w, stride=2, padding=1, name="y"), x)
    assert lines[1] == (
        "compute x.gradient.phases: float32[1, 5, 2, 3] (i0: 1, i1: 5, i1_phase: 2, i2: 3) "
        "sum over (c: 4, rl1: 2) = g.pad[0, i1 - rl1 + 1, c] * w[i1_phase + rl1 * 2, i2, c]"
    )
    assert lines[2] == (
        "compute x.gradient: float32[1, 9, 3] (i0: 1, i1: 9, i2: 3) = "
        "x.gradient.phases[i0, (i1 + 1) // 2, (i1 + 1) % 2, i2]"
    )


VIEWS: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (lambda a: ac.ops.reshape(a, (4, 6)), "g[i0 * 2 + i1 // 2, i1 % 2 * 3 + i2]"),
    (lambda a: ac.ops.transpose(a, (2, 0, 1)), "g[i2, i0, i1]"),
    (lambda a: ac.ops.pad(a, (0, 1, 2), (1, 0, 1)), "g[i0, i1 + 1, i2 + 2]"),
    (lambda a: ac.ops.flip(a, 1), "g[i0, 3 - i1, i2]"),
    (lambda a: ac.ops.slice(a, (0, 1, 0), (2, 4, 3)), "(g[i0, i1 - 1, i2] if i1 >= 1 else 0.0)"),
]


@pytest.mark.parametrize(("define", "expected"), VIEWS)
def test_views_become_views(define: Callable[[Tensor], Tensor], expected: str) -> None:
    a = ac.placeholder((2, 4, 3), "A")
    (line,) = _text(define(a), a)
    assert line == f"compute A.gradient: float32[2, 4, 3] (i0: 2, i1: 4, i2: 3) = {expected}"
