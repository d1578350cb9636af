"""Functions that are made of other operations: their errors, special numbers and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from tests.support.everywhere import built, everywhere

ELEMENTS = 4096
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, -1e-40, 3e38, 0.5, -0.5, 2.5, 1.5]
UNARY: dict[str, tuple[Callable[..., Any], float]] = {
    "acos": (np.arccos, 4.0), "acosh": (np.arccosh, 2.5), "asin": (np.arcsin, 4.0),
    "asinh": (np.arcsinh, 2.5), "atan": (np.arctan, 3.0), "atanh": (np.arctanh, 2.5),
    "cbrt": (np.cbrt, 1.0), "cosh": (np.cosh, 4.0), "log10": (np.log10, 2.5),
    "rint": (np.rint, 0.0), "sign": (np.sign, 0.0), "sinh": (np.sinh, 4.0), "tan": (np.tan, 3.0),
    "trunc": (np.trunc, 0.0),
}  # fmt: skip
"""The function of NumPy, and the most units in the last place that ours errs by."""
BINARY: dict[str, tuple[Callable[..., Any], float]] = {
    "atan2": (np.arctan2, 3.0), "copysign": (np.copysign, 0.0), "hypot": (np.hypot, 2.5),
}  # fmt: skip
TESTS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
IN_UNIT = ("acos", "asin", "atanh")


def operands(name: str, dtype: str, count: int) -> list[Array]:
    """Return numbers of many exponents, and special ones; in pairs, each with each."""
    rng = np.random.default_rng(0)
    arrays: list[Array] = []
    for number in range(count):
        values = rng.standard_normal(ELEMENTS) * 10.0 ** rng.uniform(-6, 4, ELEMENTS)
        values = rng.uniform(-1, 1, ELEMENTS) if name in IN_UNIT else values
        grid = np.meshgrid(SPECIAL, SPECIAL)[number].ravel()
        values[: grid.size] = grid
        with np.errstate(over="ignore"):
            arrays.append(values.astype(dtype))
    return arrays


def dag_of(names: list[str], dtype: str, count: int) -> ac.ComputeDAG:
    inputs = [ac.placeholder(ELEMENTS, "XY"[n], dtype) for n in range(count)]

    def body(name: str) -> Callable[[Any], Any]:
        return lambda i: getattr(ac, name)(*(tensor[i] for tensor in inputs))

    return ac.ComputeDAG([*inputs, *(ac.compute(ELEMENTS, body(name), name) for name in names)])


def require(name: str, found: Array, exact: Array, most: float, way: str = "") -> None:
    """Require that `found` errs by at most `most` units, and has the exact special numbers."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~finite], rounded[~finite], f"{name} {way}")
    zero = rounded == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(rounded[zero]), name)
    errors = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(rounded[finite]))
    assert errors.max() <= most, (name, way, float(errors.max()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("table", "count"), [(UNARY, 1), (BINARY, 2)])
def test_errors(table: dict[str, tuple[Callable[..., Any], float]], count: int, dtype: str) -> None:
    for name, (function, most) in table.items():
        given = operands(name, dtype, count)
        with np.errstate(all="ignore"):
            exact = function(*(x.astype(np.longdouble) for x in given))
        (found,) = built(dag_of([name], dtype, count), given)
        require(name, found, exact, most)


def test_every_way_to_run() -> None:
    names = [*UNARY, *TESTS]
    given = operands("", "float32", 1)
    given[0] = np.ascontiguousarray(np.concatenate([given[0][:100]] * 41)[:ELEMENTS])
    for way, found in everywhere(dag_of(names, "float32", 1), given):
        for name, values in zip(names, found, strict=True):
            with np.errstate(all="ignore"):
                if name in TESTS:
                    np.testing.assert_array_equal(values, TESTS[name](given[0]), f"{name} {way}")
                    continue
                exact = UNARY[name][0](given[0].astype(np.longdouble))
            if way != "cuda" or name not in ("tan", "sinh", "cosh"):  # its own sin, cos and exp
                require(name, values, exact, UNARY[name][1] + 1.0, way)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_rounded_once(dtype: str) -> None:
    kind = np.dtype(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
    x = np.linspace(-0.99, 0.99, ELEMENTS).astype(kind)
    names = ["tan", "atan", "asin", "cbrt", "sinh"]
    for name, found in zip(names, built(dag_of(names, dtype, 1), [x]), strict=True):
        exact = UNARY[name][0](x.astype(np.float64)).astype(kind)
        differ = found.view(np.int16).astype(np.int64) - exact.view(np.int16)
        assert np.abs(differ).max() <= 1, name
        assert (differ != 0).mean() < 0.01, name


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_sign_and_clip_of_integers(dtype: str) -> None:
    x = ac.placeholder(8, "X", dtype)
    dag = ac.ComputeDAG([
        x,
        ac.compute(8, lambda i: ac.sign(x[i]), "s"),
        ac.compute(8, lambda i: ac.clip(x[i], 1, 5), "c"),
    ])  # fmt: skip
    values = np.array([0, 1, 2, 5, 6, 100, 3, 7], dtype)
    values[4] = np.iinfo(dtype).min
    for _, found in everywhere(dag, [values], emulates=False):
        np.testing.assert_array_equal(found[0], np.sign(values))
        np.testing.assert_array_equal(found[1], np.clip(values, 1, 5))


def test_clip_keeps_nan() -> None:
    x = ac.placeholder(4, "X")
    dag = ac.ComputeDAG([x, ac.compute(4, lambda i: ac.clip(x[i], -1.0, 1.0), "c")])
    values = np.array([np.nan, 2.0, -np.inf, 0.5], np.float32)
    for _, (found,) in everywhere(dag, [values], emulates=False):
        np.testing.assert_array_equal(found, np.clip(values, -1.0, 1.0))


F: Any = ac.placeholder(4, "F")
D: Any = ac.placeholder(4, "D", "float64")
N: Any = ac.placeholder(4, "N", "int32")
M: Any = ac.placeholder(4, "M", "bool")
REFUSALS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda i: ac.isnan(N[i]), "isnan needs floats of one dtype, not int32"),
    (lambda i: ac.tan(N[i]), "tan needs floats of one dtype, not int32"),
    (lambda i: ac.hypot(N[i], N[i]), "hypot needs floats of one dtype, not int32"),
    (lambda i: ac.atan2(F[i], D[i]), "'atan2' on float32 and float64: cast one operand"),
    (lambda i: ac.copysign(F[i], D[i]), "'copysign' on float32 and float64"),
    (lambda i: ac.sign(M[i]), "sign needs a number, not a bool"),
    (lambda i: np.arctan2(F[i], F[i]), "write ac.atan2"),
    (lambda i: np.isnan(F[i]), "write ac.isnan"),
]


@pytest.mark.parametrize(("body", "words"), REFUSALS)
def test_refusals(body: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(LanguageError) as caught:
        ac.compute(4, body, "c")
    assert words in str(caught.value)
