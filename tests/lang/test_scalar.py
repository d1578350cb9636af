"""What users write for elements and conditions that means nothing, by the words of its refusal."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError

A: Any = ac.placeholder((4, 4), "A")
B: Any = ac.placeholder((4, 4), "B")
H: Any = ac.placeholder(4, "H", "float16")
U: Any = ac.placeholder(4, "U", "uint8")
S: Any = ac.placeholder(4, "S", "int8")
N: Any = ac.placeholder(4, "N", "int32")
L: Any = ac.placeholder(4, "L", "int64")
M: Any = ac.placeholder(4, "M", "bool")
k = ac.reduce_axis(4, "k")


def untyped(value: object) -> Any:
    return value


def choose(condition: object) -> ac.Scalar:
    return ac.if_then_else(untyped(condition), 1.0, 0.0)


Body = Callable[[Any, Any], object]

TRUTH = "has no truth value while the program is being defined"
NO_NUMBER = "is not a number while the program is being defined"
BOOL = "a Python bool is not a condition of the program"

TRUTH_VALUES: list[Body] = [
    lambda i, j: choose(not (i == 0)),  # noqa: SIM201
    lambda i, j: choose(i == 0 and j == 0),
    lambda i, j: choose(i == 0 or j == 0),
    lambda i, j: choose(i in (0, 2)),
    lambda i, j: choose(i not in [1, j]),
    lambda i, j: choose(0 <= i < 3),
    lambda i, j: choose(0 == i == j),
    lambda i, j: A[i, j] if A[i, j] > 0.0 else 0.0,
    lambda i, j: 1.0 if A[i, j] else 0.0,
    lambda i, j: max(A[i, j], 0.0),
    lambda i, j: min(A[i, j], B[i, j]),
    lambda i, j: choose(any(A[i, n] == 0.0 for n in range(4))),
    lambda i, j: choose(all([i == j, i > 0])),
    lambda i, j: sorted([A[i, j], B[i, j]])[0],
    lambda i, j: [A[i, j], B[i, j]].index(B[i, j]),
    lambda i, j: A[i, j] or 1.0,
    lambda i, j: choose(bool(i == j)),
]
PYTHON_BOOLS: list[Body] = [
    lambda i, j: choose(True),
    lambda i, j: choose(np.True_),
    lambda i, j: choose(i is j),
    lambda i, j: choose(ac.all_of(i == 0, untyped(True))),
    lambda i, j: choose(ac.any_of(untyped(False), i == 0)),
    lambda i, j: choose(ac.logical_not(untyped(False))),
    lambda i, j: choose((i == 0) & True),
    lambda i, j: choose(False | (i == 0)),
    lambda i, j: choose((i == 0) ^ True),
    lambda i, j: A[i, j] * True,
    lambda i, j: True + A[i, j],
    lambda i, j: A[i, j] - np.False_,
    lambda i, j: (i == j) * True,
    lambda i, j: choose(A[i, j] == True),  # noqa: E712
    lambda i, j: choose(U[i] != False),  # noqa: E712
    lambda i, j: ac.maximum(A[i, j], True),
    lambda i, j: ac.if_then_else(i == j, True, 0.0),
    lambda i, j: ac.if_then_else(i == j, A[i, j], False),
    lambda i, j: ac.exp(True),
    lambda i, j: ac.abs(True),
    lambda i, j: ac.cast(True, "float32"),
    lambda i, j: A[i, j] ** True,
    lambda i, j: ac.sum(untyped(True), axis=k),
    lambda i, j: ac.any(untyped(True), axis=k),
]
LITERALS: list[tuple[str, Body]] = [
    ('300 does not fit into uint8, which holds 0..255: cast.*"int16"', lambda i, j: U[i] * 300),
    ("-1 does not fit into uint8", lambda i, j: choose(U[i] > -1)),
    ("-1 does not fit into uint8", lambda i, j: choose(U[i] == -1)),
    ("256 does not fit into uint8", lambda i, j: 256 - U[i]),
    ("300 does not fit into uint8", lambda i, j: U[i] * np.int64(300)),
    ("300 does not fit into uint8", lambda i, j: np.int16(300) + U[i]),
    ("200 does not fit into int8", lambda i, j: S[i] + 200),
    ("-129 does not fit into int8", lambda i, j: ac.maximum(S[i], -129)),
    ('1099511627776 does not fit into int32.*"int64"', lambda i, j: N[i] + 2**40),
    ('9223372036854775808 does not fit into int64.*"uint64"', lambda i, j: L[i] + 2**63),
    ('does not fit into int64.*"float64"', lambda i, j: L[i] % 2**70),
    ("300 does not fit into uint8", lambda i, j: ac.const(300, "uint8")),
    ("300 does not fit into uint8", lambda i, j: ac.if_then_else(i == j, U[i], 300)),
    ("1000000.0 is infinite as a float16", lambda i, j: H[i] * 1e6),
    ("70000 is infinite as a float16", lambda i, j: H[i] + 70000),
    ("1e\\+40 is infinite as a float32", lambda i, j: A[i, j] * 1e40),
    ("is infinite as a float32", lambda i, j: A[i, j] * 10**400),
    ("1e\\+39 is infinite as a bfloat16", lambda i, j: ac.const(1e39, "bfloat16")),
    ("'\\*' on int32 and 0.5: cast the int32", lambda i, j: N[i] * 0.5),
    ("'<' on int64 and 2.0: cast the int64", lambda i, j: choose(i < 2.0)),
    ("'==' on uint8 and inf", lambda i, j: choose(U[i] == math.inf)),
    ("'==' on bool and 0.5", lambda i, j: choose(M[i] == 0.5)),
    ("2 on bool: a bool is True or False", lambda i, j: choose(M[i] == 2)),
    ("5 on bool: a bool is True or False", lambda i, j: ac.if_then_else(M[i], M[i], 5)),
    ("7 on bool", lambda i, j: ac.const(7, "bool")),
    ("0.5 on int32", lambda i, j: ac.const(0.5, "int32")),
]
OTHERS: list[tuple[str, Body]] = [
    ("cannot be in a set.*ac.any_of", lambda i, j: 1.0 if i in {0, 2} else 0.0),
    ("cannot be in a set", lambda i, j: 1.0 if j in frozenset((i, 2)) else 0.0),
    ("key of a dict.*ac.if_then_else", lambda i, j: {0: 1.0}.get(i, 0.0)),
    ("key of a dict", lambda i, j: {k: 1.0}.get(j, 0.0)),
    ("is not a number", lambda i, j: float(f"{A[i, j]:.3f}")),
    ("numpy.isnan.*write ac.isnan", lambda i, j: untyped(np.isnan(A[i, j]))),
    ("numpy.isfinite.*write ac.isfinite", lambda i, j: untyped(np.isfinite(A[i, j]))),
    ("are not assigned: define", lambda i, j: A.__setitem__((i, j), 1.0)),
    ("is one element, without parts", lambda i, j: A[i, j].__setitem__(0, 1.0)),
    ("'A == B' compares whole tensors.*A\\[i, j\\] ==", lambda i, j: choose(A == B)),
    ("'A != B' compares whole tensors", lambda i, j: choose(A != B)),
    ("'A == 0.0' compares whole tensors", lambda i, j: choose(A == 0.0)),
    ("'A == 0.0' compares whole tensors", lambda i, j: choose(A == 0.0)),
    ("whole tensor", lambda i, j: choose(np.float32(1.0) == A)),
    ("makes no array.*if_then_else", lambda i, j: np.where(untyped(A[i, j] == 0.0), 1.0, 0.0)),
    ("compares whole tensors", lambda i, j: A == A[i, j]),  # noqa: SIM300
    ("compares whole tensors", lambda i, j: A == np.ones((4, 4))),  # noqa: SIM300
    ("whole tensor", lambda i, j: np.ones((4, 4)) == A),
    ("compares whole tensors", lambda i, j: A == B),
    ("compares whole tensors", lambda i, j: (A == B) * 1.0),
    ("whole tensor", lambda i, j: A[i, j] == A),
    ("whole tensor", lambda i, j: 1.0 if A else 0.0),
    ("whole tensor", lambda i, j: A[i, j] + B),
    ("whole tensor", lambda i, j: untyped(np.exp(A))),
    ("whole tensor", lambda i, j: abs(untyped(A))),
    ("whole tensor", lambda i, j: A),
    ("if_then_else needs a bool, not float32; compare first", lambda i, j: choose(A[i, j])),
    ("if_then_else needs a bool, not int64; compare first", lambda i, j: choose(i & 1)),
    ("'&' needs a bool, not uint8", lambda i, j: M[i] & U[i]),
    ("'\\+' needs numbers, not bools", lambda i, j: (i == 0) + (j == 0)),
    ("'==' on bool and float32: cast", lambda i, j: choose((i == 0) == A[i, j])),
    ("'==' on int64 and float32: cast", lambda i, j: choose(i == A[i, j])),
    (NO_NUMBER, lambda i, j: math.exp(A[i, j])),
    (NO_NUMBER, lambda i, j: float(A[i, j])),
    (NO_NUMBER, lambda i, j: int(i)),
    (NO_NUMBER, lambda i, j: untyped([0.0, 1.0])[i]),
    (NO_NUMBER, lambda i, j: sum(A[i, n] for n in range(i))),
    (NO_NUMBER, lambda i, j: math.floor(A[i, j])),
    ("makes no array", lambda i, j: np.array([1.0, 2.0])[i]),
    ("without parts: give all indices", lambda i, j: A[i, j][0]),
    ("without parts", lambda i, j: len(A[i, j])),
    ("without parts", lambda i, j: list(A[i, j])),
    ("without parts", lambda i, j: A[i, j] @ B[i, j]),
    ("without parts", lambda i, j: A[i, j](0)),
    ("numpy.exp takes arrays.*write ac.exp", lambda i, j: np.exp(A[i, j])),
    ("numpy.maximum takes arrays.*write ac.maximum", lambda i, j: np.maximum(A[i, j], 0)),
    ("numpy.absolute takes arrays.*write ac.abs", lambda i, j: np.abs(A[i, j])),
    ("numpy.spacing takes arrays.*operators of Python", lambda i, j: np.spacing(A[i, j])),
    ("an array of shape \\(4,\\) is not an element", lambda i, j: np.ones(4) * A[i, j]),
    ("an array of shape \\(4,\\) is not an element", lambda i, j: A[i, j] + np.ones(4)),
    ("round\\(x, digits\\)", lambda i, j: round(A[i, j], 2)),
    ("pow takes two operands", lambda i, j: pow(i, 2, 3)),
    ("uint8 to the power -1: integers have whole powers", lambda i, j: U[i] ** -1),
    ("int64 to the power 0.5", lambda i, j: i**0.5),
    ("int64 and uint8 needs floats, or integers of one dtype", lambda i, j: i ** U[i]),
    ("float32 and int64 needs floats, or integers of one", lambda i, j: A[i, j] ** j),
    ("'/' needs floats, not int64", lambda i, j: 1 / (i + 1)),
    ("None \\(NoneType\\) is not a tensor expression", lambda i, j: A[i, j] + None),
    ("None \\(NoneType\\) is not a tensor expression", lambda i, j: choose(A[i, j] == None)),  # noqa: E711
    ("'1.0' \\(str\\) is not a tensor expression", lambda i, j: A[i, j] + "1.0"),
    ("is where a real number is needed", lambda i, j: ac.floor(A[i, j] * 1j)),
    ("timedelta64\\) is not a tensor", lambda i, j: i + np.timedelta64(1, "s")),
    ("'\\[1\\]'|\\[1\\] \\(list\\) is not", lambda i, j: A[i, j] + [1]),
    ("const makes a literal of a number", lambda i, j: ac.const(untyped(A[i, j]))),
    ("indexed by a bool", lambda i, j: A[i == j, j]),
    ("True cannot index", lambda i, j: A[True, j]),
    ("1.5 cannot index", lambda i, j: A[untyped(1.5), j]),
    ("whole tensor", lambda i, j: A[untyped(A), j]),
    (
        "axis= is a reduce axis, or a list.*ac.ops.sum",
        lambda i, j: ac.sum(A[i, j], axis=untyped(1)),
    ),
    ("axis= is a reduce axis, or a list.*ac.ops.max", lambda i, j: ac.max(A[i, j], untyped(None))),
    ("runs over 1, which is not a reduce axis", lambda i, j: ac.sum(A[i, j], axis=untyped([1]))),
    ("which is not a reduce axis", lambda i, j: ac.sum(A[i, j], axis=untyped(i))),
    ("'float3' is not a dtype", lambda i, j: A[i, j].astype("float3")),
    ("complex256.* is not a dtype", lambda i, j: A[i, j].astype("complex256")),
    ("None is not a dtype", lambda i, j: A[i, j].astype(untyped(None))),
    ("'>f4'\\) is not a dtype", lambda i, j: A[i, j].astype(np.dtype(">f4"))),
]


def refused(body: Body, words: str) -> None:
    with pytest.raises(LanguageError, match=f"(?s){words}"):
        ac.compute((4, 4), untyped(body), "X")


@pytest.mark.parametrize("body", TRUTH_VALUES)
def test_nothing_has_a_truth_value(body: Body) -> None:
    refused(body, TRUTH)


@pytest.mark.parametrize("body", PYTHON_BOOLS)
def test_python_bools_are_no_conditions(body: Body) -> None:
    refused(body, BOOL)


@pytest.mark.parametrize(("words", "body"), LITERALS)
def test_literals_fit(words: str, body: Body) -> None:
    refused(body, words)


@pytest.mark.parametrize(("words", "body"), OTHERS)
def test_others_are_refused(words: str, body: Body) -> None:
    refused(body, words)


def test_the_error_shows_the_condition() -> None:
    with pytest.raises(LanguageError, match=r"definition of 'X': 'A\[i, j\] == 0.0' has no truth"):
        ac.compute((4, 4), lambda i, j: 1.0 if A[i, j] == 0.0 else 2.0, "X")


def text_of(body: Body, *inputs: ac.Tensor) -> str:
    dag = ac.ComputeDAG([*inputs, ac.compute((4, 4), untyped(body), "X")])
    return dag.to_text().split(" = ", 1)[1].split("\n")[0]


def test_bools_that_are_values_stay() -> None:
    assert text_of(lambda i, j: True) == "True"
    assert text_of(lambda i, j: ac.const(True, "bool")) == "True"
    assert text_of(lambda i, j: M[i] == True, M) == "M[i] == True"  # noqa: E712
    assert text_of(lambda i, j: ac.if_then_else(i == j, True, False)) == (
        "(True if i == j else False)"
    )
    assert text_of(lambda i, j: ac.if_then_else(i == j, M[i], False), M) == (
        "(M[i] if i == j else False)"
    )


def test_numbers_of_numpy_take_the_dtype_of_the_other_side() -> None:
    twos: list[Any] = [2, np.int8(2), np.int64(2), np.array(2)]
    for two in twos:
        assert text_of(lambda i, j, n=two: U[i] * n, U) == "U[i] * uint8(2)"
        assert text_of(lambda i, j, n=two: n - i) == "2 - i"
    halves: list[Any] = [
        0.5,
        np.float16(0.5),
        np.float64(0.5),
        np.array(0.5),
        ml_dtypes.bfloat16(0.5),
    ]
    for half in halves:
        assert text_of(lambda i, j, n=half: A[i, j] * n, A) == "A[i, j] * 0.5"
        assert text_of(lambda i, j, n=half: n * A[i, j], A) == "0.5 * A[i, j]"
        assert text_of(lambda i, j, n=half: H[i] - n, H) == "H[i] - float16(0.5)"
    assert text_of(lambda i, j: ac.exp(np.float64(2.0))) == "exp(2.0)"
    assert text_of(lambda i, j: A[np.int64(1), np.uint8(2)], A) == "A[1, 2]"
    assert text_of(lambda i, j: np.float32(2.0)) == "2.0"


def test_operators_of_python() -> None:
    assert text_of(lambda i, j: A[i, j] ** 2, A) == "A[i, j] * A[i, j]"
    assert text_of(lambda i, j: A[i, j] ** 0.5, A) == "pow(A[i, j], 0.5)"
    assert text_of(lambda i, j: N[i] ** 5, N) == "N[i] * (N[i] * N[i] * (N[i] * N[i]))"
    assert text_of(lambda i, j: N[i] ** 0, N) == "int32(1)"
    assert text_of(lambda i, j: 2.0 ** A[i, j], A) == "pow(2.0, A[i, j])"
    assert text_of(lambda i, j: abs(A[i, j]), A) == "abs(A[i, j])"
    assert text_of(lambda i, j: ac.abs(U[i]), U) == "U[i]"
    assert text_of(lambda i, j: +A[i, j], A) == "A[i, j]"
    assert text_of(lambda i, j: round(A[i, j]), A) == "round(A[i, j])"
    assert text_of(lambda i, j: 7 // (i + 1)) == "7 // (i + 1)"
    assert text_of(lambda i, j: 7 % (i + 1)) == "7 % (i + 1)"
    assert text_of(lambda i, j: divmod(i, 3)[1]) == "i % 3"
    assert text_of(lambda i, j: sum(A[i, n] for n in range(2)), A) == "0.0 + A[i, 0] + A[i, 1]"
    assert text_of(lambda i, j: (i == j) * 2.5) == "cast(float32, i == j) * 2.5"
    assert text_of(lambda i, j: 1 - (i == j)) == "1 - cast(int64, i == j)"
    assert text_of(lambda i, j: (i == j) * H[i], H) == "cast(float16, i == j) * H[i]"
    assert text_of(lambda i, j: ~((i == 0) & (j != 1) | (i > j))) == (
        "not (i == 0 and j != 1 or i > j)"
    )


def test_tensors_and_elements_are_found_in_lists_and_dicts() -> None:
    assert A in [B, A]
    assert B not in [A]
    assert [B, A].index(A) == 1
    assert {A: 1, B: 2}[B] == 2
    assert len({A, B, A}) == 2
    element, same = A[0, 0], A
    assert element in (element,)
    assert bool(same == A)
    assert not A == B  # noqa: SIM201
    assert not same != A  # noqa: SIM202
