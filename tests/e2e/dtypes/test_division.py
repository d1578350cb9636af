"""`//`, `%`, fmod, truncated_divide and powers of every dtype: exact, on both back ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc.ir.dtype import SCALARS, DType

Array = NDArray[Any]
PAIRS = 512
"""Of each dtype in one call."""
TARGETS = ("native", "cuda-emulated")
FLOATS = tuple(kind for kind in SCALARS.values() if kind.is_float)
INTEGERS = tuple(kind for kind in SCALARS.values() if kind.is_integer)
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "fmod": ac.fmod,
    "truncated_divide": ac.truncated_divide,
    "**": lambda a, b: a**b,
}


def _operations(kind: DType) -> tuple[str, ...]:
    return tuple(OPERATIONS)[:3] if kind.is_float else tuple(OPERATIONS)


def _computed(a: ac.Tensor, b: ac.Tensor, operation: str, name: str) -> ac.Tensor:
    function = OPERATIONS[operation]
    return ac.compute((PAIRS,), lambda i: function(a[i], b[i]), name)


@cache
def _module(target: str) -> ac.Module:
    """Return one kernel with every operation on every dtype."""
    tensors: list[ac.Tensor] = []
    for kind in (*FLOATS, *INTEGERS):
        tensors += [ac.placeholder((PAIRS,), f"{side}.{kind}", str(kind)) for side in "ab"]
    for a, b in zip(tensors[::2], tensors[1::2], strict=True):
        for place, name in enumerate(_operations(a.dtype)):
            tensors.append(_computed(a, b, name, f"{a.name}.{place}"))
    state = ac.schedule(ac.ComputeDAG(tensors))
    for op in state.dag.ops:
        state = state.split(op.name, "i", [64])
        if target == "native":
            state = state.vectorize(op.name, "i.1")
        else:
            state = state.bind(op.name, "i.0", "blockIdx.x").bind(op.name, "i.1", "threadIdx.x")
    return ac.build(state, target=target)


def _run(target: str, pairs: dict[DType, tuple[Array, Array]]) -> dict[tuple[DType, str], Array]:
    """Return the results of every operation on the pairs of every dtype."""
    inputs = [side for kind in (*FLOATS, *INTEGERS) for side in pairs[kind]]
    wanted = [(kind, name) for kind in (*FLOATS, *INTEGERS) for name in _operations(kind)]
    outputs = [np.empty(PAIRS, kind.numpy) for kind, _ in wanted]
    _module(target)(*inputs, *outputs)
    return dict(zip(wanted, outputs, strict=True))


def _drawn_floats(kind: DType, rng: np.random.Generator) -> tuple[Array, Array]:
    """Any bits, numbers of one size, whole numbers, near multiples, and special numbers."""
    bits = np.dtype(f"uint{kind.bits}")
    count = PAIRS // 4
    high = np.iinfo(bits).max
    a, b = (
        np.frombuffer(
            rng.integers(0, high, PAIRS, bits, endpoint=True).tobytes(), kind.numpy
        ).copy()
        for _ in "ab"
    )
    with np.errstate(all="ignore"):
        small = rng.standard_normal((2, count)) * 10.0 ** rng.integers(-3, 4, (2, count))
        a[:count], b[:count] = small.astype(kind.numpy)
        whole = rng.integers(-30, 31, (2, count))
        a[count : 2 * count], b[count : 2 * count] = whole.astype(kind.numpy)
        near = b[2 * count : 3 * count].astype(np.float64) * rng.integers(-3000, 3000, count)
        a[2 * count : 3 * count] = near.astype(kind.numpy)
        special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -3.0, kind.smallest, 1e4]
        a[-40:], b[-40:] = (rng.choice(special, 40).astype(kind.numpy) for _ in "ab")
    return a, b


def _drawn_integers(kind: DType, rng: np.random.Generator) -> tuple[Array, Array]:
    """Any bits, small ones and the ends; no divisor is 0."""
    ends = np.iinfo(str(kind))
    sides: list[Array] = []
    for _ in "ab":
        side = rng.integers(ends.min, ends.max, PAIRS, kind.numpy, endpoint=True)
        side >>= rng.integers(0, kind.bits, PAIRS).astype(kind.numpy)
        side[-40:] = rng.choice(
            np.array([ends.min, ends.max, 0, 1, ends.max - 1, ends.min + 1], kind.numpy), 40
        )
        sides.append(side)
    sides[1][sides[1] == 0] = 3
    if ends.min:
        sides[1][::37] = -1
    return sides[0], sides[1]


def _draw(seed: int) -> dict[DType, tuple[Array, Array]]:
    rng = np.random.default_rng(seed)
    found = {kind: _drawn_floats(kind, rng) for kind in FLOATS}
    return found | {kind: _drawn_integers(kind, rng) for kind in INTEGERS}


def _wrapped(value: int, kind: DType) -> int:
    ends = np.iinfo(str(kind))
    return (value - int(ends.min)) % 2**kind.bits + int(ends.min)


def _exact_integer(name: str, a: int, b: int) -> int:
    if name == "**":
        return pow(a, b, 2**64) if b >= 0 else a ** (b % 2) if a in (1, -1) else 0
    quotient = a // b if name in ("//", "%") else abs(a) // abs(b) * (1 if a * b >= 0 else -1)
    return quotient if name in ("//", "truncated_divide") else a - quotient * b


def _complaints_of_floats(
    name: str, kind: DType, a: Array, b: Array, found: Array
) -> Iterator[str]:
    """Yield what differs from NumPy's bits, and what is too far from the exact result."""
    wide = np.float64 if kind.bits == 64 else np.float32
    function = {"//": np.floor_divide, "%": np.mod, "fmod": np.fmod}[name]
    with np.errstate(all="ignore"):
        as_numpy = function(a.astype(wide), b.astype(wide)).astype(kind.numpy)
        columns = [side.astype(np.float64).tolist() for side in (a, b, found, as_numpy)]
    for x, y, z, n in zip(*columns, strict=True):
        text = f"{x!r} {name} {y!r} of {kind} is {z!r}"
        is_same = z == n and math.copysign(1, z) == math.copysign(1, n)
        if not is_same and not (math.isnan(z) and math.isnan(n)):
            yield f"{text}; NumPy has {n!r}"
        if y == 0 or not math.isfinite(x) or not math.isfinite(y) or not math.isfinite(z):
            continue
        unit = float(np.spacing(np.asarray(abs(z), kind.numpy)))
        rest = math.fmod(x, y)
        if name == "fmod" and z != rest:
            yield f"{text}; exactly {rest!r}"
        if name == "%":
            exact = Fraction(rest) + (Fraction(y) if rest and (rest < 0) != (y < 0) else 0)
            if abs(Fraction(z) - exact) > Fraction(unit):
                yield f"{text}; exactly {float(exact)!r}"
        if name == "//":
            exact = Fraction(x) / Fraction(y)
            whole = exact.numerator // exact.denominator
            is_short = abs(whole) < 1 / kind.epsilon / 4
            if abs(z - whole) > (0 if is_short else 2 * unit):
                yield f"{text}; exactly {whole}"


def check(target: str, seed: int) -> int:
    """Check every operation on every dtype; return how many pairs there were."""
    pairs = _draw(seed)
    results = _run(target, pairs)
    for (kind, name), found in results.items():
        a, b = pairs[kind]
        if kind.is_float:
            assert not list(_complaints_of_floats(name, kind, a, b, found))[:4]
            continue
        exact = [
            _wrapped(_exact_integer(name, int(x), int(y)), kind) for x, y in zip(a, b, strict=True)
        ]
        wrong = np.flatnonzero(found != np.array(exact, kind.numpy))
        assert not wrong.size, (kind, name, a[wrong[0]], b[wrong[0]], found[wrong[0]])
    return PAIRS * len(results)


@pytest.mark.parametrize("target", TARGETS)
def test_every_dtype_against_exact_arithmetic(target: str) -> None:
    check(target, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
def test_many_pairs_against_exact_arithmetic(target: str) -> None:
    assert sum(check(target, seed) for seed in range(1, 41)) >= 20_000
