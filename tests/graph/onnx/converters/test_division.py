"""Quotients, remainders and powers of ONNX: exact, whatever their size and sign."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import ansorc as ac
from ansorc.ir.aligned import Array


def run(operator: str, a: Array, b: Array, *, known: bool = False, **attributes: Any) -> Array:
    """Return what one node computes of its inputs, the second one a constant if it is `known`."""
    kinds = [helper.np_dtype_to_tensor_dtype(one.dtype) for one in (a, b)]
    pairs = zip("ab", kinds, (a, b), strict=True)
    infos = [helper.make_tensor_value_info(name, kind, one.shape) for name, kind, one in pairs]
    graph = helper.make_graph(
        [helper.make_node(operator, ["a", "b"], ["y"], **attributes)],
        "net",
        infos[: 1 if known else 2],
        [helper.make_tensor_value_info("y", kinds[0], None)],
        [onnx.numpy_helper.from_array(b, "b")] if known else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    feeds = {"a": a} if known else {"a": a, "b": b}
    return ac.build(ac.from_onnx(model)).run(feeds)["y"]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_mod_of_floats(kind: str) -> None:
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(500) * 10.0 ** rng.integers(-3, 30, 500)).astype(kind)
    b = rng.standard_normal(500).astype(kind)
    a[:6], b[:6] = [5, -5, np.inf, np.nan, 7, -0.0], [np.inf, np.inf, 2, 1, 0, 3]
    with np.errstate(all="ignore"):
        wanted = np.fmod(a, b)
    found = run("Mod", a, b, fmod=1)
    np.testing.assert_array_equal(found, wanted)
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])


@pytest.mark.parametrize("kind", ["int8", "int64", "uint64"])
def test_div_and_mod_of_integers(kind: str) -> None:
    ends, rng = np.iinfo(kind), np.random.default_rng(1)
    a = rng.integers(ends.min, ends.max, 400, kind, endpoint=True)
    b = rng.integers(ends.min, ends.max, 400, kind, endpoint=True)
    b >>= rng.integers(0, ends.bits - 1, 400).astype(kind)
    b[b == 0] = 3
    a[:4] = ends.min
    exact = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    cut = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in exact]
    is_held = np.array([ends.min <= one <= ends.max for one in cut])
    wanted = np.array([one if ends.min <= one <= ends.max else 0 for one in cut], kind)
    np.testing.assert_array_equal(run("Div", a, b)[is_held], wanted[is_held])
    np.testing.assert_array_equal(run("Mod", a, b), [x % y for x, y in exact])
    rests = [x - q * y for (x, y), q in zip(exact, cut, strict=True)]
    np.testing.assert_array_equal(run("Mod", a, b, fmod=1), np.array(rests, kind))


@pytest.mark.parametrize("known", [False, True])
def test_powers_take_no_way_through_floats(*, known: bool) -> None:
    rng = np.random.default_rng(2)
    a = rng.integers(-3037000499, 3037000499, 200)
    two = np.array(2) if known else np.full(200, 2)
    np.testing.assert_array_equal(run("Pow", a, two, known=known), a * a)
    small = rng.integers(-9, 10, 200)
    many = np.array(19) if known else np.full(200, 19)
    np.testing.assert_array_equal(run("Pow", small, many, known=known), small**19)
    unit = rng.choice([-1.0, 1.0], 50).astype(np.float32)
    odd = np.array(2**24 + 1) if known else np.full(50, 2**24 + 1)
    np.testing.assert_array_equal(run("Pow", unit, odd, known=known), unit)


def test_whole_powers_that_are_floats() -> None:
    a = np.array([3037000499, -1234567891, 5])
    found = run("Pow", a, np.array(5.0, np.float32), known=True)
    wrapped = [(int(x) ** 5 + 2**63) % 2**64 - 2**63 for x in a]
    np.testing.assert_array_equal(found, wrapped)
