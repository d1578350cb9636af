"""A user's reducer is refused, with numbers, unless its terms may be combined in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.lang.reducer_laws import check_laws

SHAPE = (6, 100)
A = ac.placeholder(SHAPE, "A")
U = ac.placeholder(SHAPE, "U", "uint8")
N = ac.placeholder(SHAPE, "N", "int32")
k = ac.reduce_axis(SHAPE[1], "k")

Combine = Callable[[Any, Any], Sequence[Any]]
Terms = Callable[[Any], tuple[Any, ...]]
INF = float("inf")


def online_softmax(a: Any, b: Any) -> tuple[Any, Any]:
    top = ac.maximum(a[0], b[0])
    return top, a[1] * ac.exp(a[0] - top) + b[1] * ac.exp(b[0] - top)


def log_sum(a: Any, b: Any) -> tuple[Any]:
    return (ac.maximum(a[0], b[0]) + ac.log1p(ac.exp(-abs(a[0] - b[0]))),)


def left_place(a: Any, b: Any) -> tuple[Any, Any]:
    """The usual search, which prefers the left one of two equal ones."""
    is_left = a[0] >= b[0]
    return ac.if_then_else(is_left, a[0], b[0]), ac.if_then_else(is_left, a[1], b[1])


def defined(combine: Combine, identities: Sequence[Any], terms: Terms) -> tuple[ac.Tensor, ...]:
    reduce = ac.reducer(combine, identities, "mine")
    return ac.compute_tuple(SHAPE[0], lambda i: reduce(*terms(i), axis=k), "X")


def element(i: Any) -> tuple[Any, ...]:
    return (A[i, k],)


def number(i: Any) -> tuple[Any, ...]:
    return (N[i, k],)


REFUSED: list[tuple[str, Combine, Sequence[Any], Terms]] = [
    (
        r"'mine' is not commutative: f\(1, 2\) = -1, but f\(2, 1\) = 1",
        lambda a, b: (a[0] - b[0],), (0,), element,
    ),
    (
        r"not associative: f\(f\(1, 2\), 3\) = 2.25, but f\(1, f\(2, 3\)\) = 1.75",
        lambda a, b: ((a[0] + b[0]) / 2.0,), (0,), element,
    ),
    (
        r"not associative: f\(f\(1, 2\), 3\) = 2, but f\(1, f\(2, 3\)\) = 1.*sum and a count",
        lambda a, b: ((a[0] + b[0]) // 2,), (0,), number,
    ),
    (
        r"identity of the reducer 'mine' changes a term: f\(0, -1\) = 0; .*-float\('inf'\)",
        lambda a, b: (ac.maximum(a[0], b[0]),), (0,), element,
    ),
    ("identity.*changes", lambda a, b: (ac.minimum(a[0], b[0]),), (0,), number),
    (r"changes a term: f\(1, 1\) = 2", lambda a, b: (a[0] + b[0],), (1,), element),
    (r"changes a term: f\(0, 1\) = 0", lambda a, b: (a[0] * b[0],), (0,), element),
    ("not commutative", lambda a, b: (a[0],), (0,), element),
    ("not commutative", lambda a, b: (a[0], a[1]), (0, 0), lambda i: (A[i, k], k)),
    ("not commutative", lambda a, b: (a[0] * 0.9 + b[0] * 0.1,), (0,), element),
    ("not associative", lambda a, b: (ac.abs(a[0] - b[0]),), (0,), element),
    ("not associative", lambda a, b: (ac.round(a[0] * 0.5 + b[0] * 0.5),), (0,), element),
    (
        r"not commutative: f\(\(1, 1\), \(2, 2\)\) = \(3, -1\)",
        lambda a, b: (a[0] + b[0], a[1] - b[1]), (0, 0), lambda i: (A[i, k], A[i, k]),
    ),
    (
        "not commutative",  # products of matrices
        lambda a, b: (a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                      a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]),
        (1, 0, 0, 1), lambda i: (A[i, k], A[i, k] + 1.0, A[i, k] * A[i, k], 1.0),
    ),
    (
        r"changes a term: f\(\(0, -1\), \(0, \d+\)\) = \(0, -1\)",  # a row of zeros has no place
        left_place, (0, -1), lambda i: (U[i, k], k),
    ),
    ("identity", lambda a, b: (ac.all_of(a[0], b[0]),), (False,), lambda i: (A[i, k] > 0.0,)),
    (r"changes a term: f\(-100, -\d+\)", lambda a, b: (ac.maximum(a[0], b[0]),), (-100,), element),
    (r"f\(254, 255\) = 254", lambda a, b: (ac.minimum(a[0], b[0]),), (254,), lambda i: (U[i, k],)),
    ("not associative", lambda a, b: (ac.minimum(a[0] + b[0], 100.0),), (0,), element),
]  # fmt: skip
TAKEN: list[tuple[Combine, Sequence[Any], Terms]] = [
    (lambda a, b: (a[0] + b[0],), (0,), element),
    (lambda a, b: (a[0] * b[0],), (1,), number),
    (lambda a, b: (ac.maximum(a[0], b[0]),), (-INF,), element),
    (lambda a, b: (ac.maximum(a[0], b[0]),), (0,), lambda i: (ac.abs(A[i, k]),)),
    (lambda a, b: (ac.maximum(a[0], b[0]),), (0,), lambda i: (U[i, k],)),
    (lambda a, b: (ac.minimum(a[0], b[0]),), (255,), lambda i: (U[i, k],)),
    (log_sum, (-INF,), element),
    (lambda a, b: (a[0] + b[0] - a[0] * b[0],), (0,), element),
    (lambda a, b: ((a[0] + b[0]) % 7,), (0,), lambda i: (N[i, k] % 7,)),
    (lambda a, b: (ac.sqrt(a[0] ** 2 + b[0] ** 2),), (0,), lambda i: (ac.abs(A[i, k]),)),
    (lambda a, b: (ac.log(ac.exp(a[0]) + ac.exp(b[0])),), (-INF,), element),
    (lambda a, b: (a[0] != b[0],), (False,), lambda i: (A[i, k] > 0.0,)),
    (online_softmax, (-1000.0, 0.0), lambda i: (A[i, k], ac.const(1.0))),
    (online_softmax, (-INF, 0.0), lambda i: (A[i, k], ac.const(1.0))),
    (left_place, (-INF, -1), lambda i: (A[i, k], k)),
    (
        lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
        (1, 0), lambda i: (A[i, k], A[i, k] * 2.0),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "combine", "identities", "terms"), REFUSED)
def test_lawless_reducers_are_refused(
    words: str, combine: Combine, identities: Sequence[Any], terms: Terms
) -> None:
    with pytest.raises(LanguageError, match=words):
        defined(combine, identities, terms)


@pytest.mark.parametrize(("combine", "identities", "terms"), TAKEN)
def test_lawful_ones_are_taken(combine: Combine, identities: Sequence[Any], terms: Terms) -> None:
    defined(combine, identities, terms)


def test_what_an_input_promises_counts() -> None:
    above = ac.placeholder(SHAPE, "P")
    promise = replace(above, buffer=replace(above.buffer, promised=(1.0, 9.0)))
    combine: Combine = lambda a, b: (ac.maximum(a[0], b[0]),)  # noqa: E731
    defined(combine, (0,), lambda i: (promise[i, k],))
    with pytest.raises(LanguageError, match="identity"):
        defined(combine, (0,), lambda i: (above[i, k],))


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "int8", "uint8", "int64"])
@pytest.mark.parametrize("find", [ac.argmax, ac.argmin])
def test_those_of_ansorc_are_lawful(find: Callable[..., Any], dtype: str) -> None:
    x = ac.placeholder((4, 5, 7), "x", dtype)
    r, s = ac.reduce_axis(5, "r"), ac.reduce_axis(7, "s")
    value, _ = ac.compute_tuple(4, lambda i: find(x[i, r, s], axis=[r, s]), "y")
    assert value.definition is not None
    check_laws(value.definition, "argmax")


def is_lawful(p: int, q: int, r: int, s: int, e: int) -> bool:
    """Whether f(a, b) = p a + q b + r a b + s is commutative, associative, and has the identity e:
    the coefficients of both sides, compared."""
    return p == q and p * p == p + r * s and p + r * e == 1 and p * e + s == 0


@pytest.mark.parametrize("count", [80, pytest.param(20000, marks=pytest.mark.nightly)])
def test_what_is_refused_is_what_breaks_a_law(count: int) -> None:
    draw = np.random.default_rng(count)
    taken = 0
    for _ in range(count):
        r, e = (int(n) for n in draw.integers(-2, 3, 2))
        if draw.random() < 0.5:
            p = q = 1 - r * e  # a lawful one, of every second
            s = -p * e
        else:
            p, q, s = (int(n) for n in draw.integers(-2, 3, 3))

        def combine(a: Any, b: Any, p: int = p, q: int = q, r: int = r, s: int = s) -> Any:
            return (a[0] * p + b[0] * q + a[0] * b[0] * r + s,)

        terms = number if draw.random() < 0.5 else element
        if is_lawful(p, q, r, s, e):
            defined(combine, (e,), terms)
            taken += 1
        else:
            with pytest.raises(LanguageError, match="mine"):
                defined(combine, (e,), terms)
    assert taken > count / 4


@pytest.mark.parametrize("target", ["native", "cuda-emulated -arch=sm_80"])
def test_identities_may_meet(target: str) -> None:
    top, total = defined(online_softmax, (-INF, 0.0), lambda i: (A[i, k], ac.const(1.0)))
    a = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    found = [np.empty(SHAPE[0], np.float32) for _ in range(2)]
    ac.build(ac.ComputeDAG([A, top, total]), target=target, name="softmax")(a, *found)
    wide = a.astype(np.float64)
    np.testing.assert_array_equal(found[0], a.max(1))
    sums = np.exp(wide - wide.max(1, keepdims=True)).sum(1)
    np.testing.assert_allclose(found[1], sums, rtol=1e-5)
