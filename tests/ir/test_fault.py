"""Checks in the text of programs: read, verified, run, compiled, in parallel loops and in lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.call.build import compile_module
from ansorc.errors import (
    AssertionFailedError,
    DivisionByZeroError,
    FaultError,
    IRError,
    OutOfRangeError,
    ParseError,
)
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Check, Function, statements
from ansorc.ir.verify import verify
from ansorc.target import Target

HALVES = """\
kernel halves(A: int64[64], B: int64[64], C: int64[64]):
    parallel i in 0..64:
        check B[i] != 0, division_by_zero, "B", B[i]
        C[i] = A[i] // B[i]
"""
SMALL = """\
kernel small(A: float32[64], C: float32[64]):
    parallel i in 0..4:
        alloc C.local: float32[16] local
        vectorized j in 0..16:
            C.local[j] = checked(
                A[i * 16 + j], A[i * 16 + j] < 9.0, assertion_failed, "A is small", i, j)
        for j in 0..16:
            C[i * 16 + j] = C.local[j]
"""


def ways(text: str, target: str = "native") -> list[Callable[..., object]]:
    """What runs a program: the interpreter, machine code on one thread and on all."""
    function = parse(text)
    module = compile_module(function, Target.parse(target))
    return [
        lambda *arrays: interpret(function, arrays),
        lambda *arrays: module(*arrays, threads=1),
        lambda *arrays: module(*arrays, threads=0),
    ]


def test_a_check_is_text() -> None:
    for text in (HALVES, SMALL):
        function = parse(text)
        verify(function)
        assert parse(to_text(function)) == function
    assert to_text(parse(HALVES)) == HALVES


@pytest.mark.parametrize("way", range(3))
def test_a_check_of_a_parallel_loop(way: int) -> None:
    run = ways(HALVES)[way]
    a, b, c = np.arange(64), np.arange(1, 65), np.zeros(64, np.int64)
    run(a, b, c)
    assert (c == a // b).all()
    b[41] = 0
    with pytest.raises(DivisionByZeroError, match="divides an integer by zero, in 'B'") as caught:
        run(a, b, c)
    assert caught.value.values == (0,)
    assert isinstance(caught.value, ZeroDivisionError)


@pytest.mark.parametrize("way", range(3))
def test_a_check_in_lanes_tells_the_lane(way: int) -> None:
    run = ways(SMALL)[way]
    a, c = np.arange(64, dtype=np.float32) / 8, np.zeros(64, np.float32)
    run(a, c)
    assert (c == a).all()
    a[37] = np.nan
    with pytest.raises(AssertionFailedError, match=r"found that A is small \(2, 5\) does not hold"):
        run(a, c)


def test_unwanted_lanes_are_not_checked() -> None:
    text = SMALL.replace("0..16", "0..13").replace("[64]", "[52]").replace("* 16", "* 13")
    a, c = np.ones(52, np.float32), np.zeros(52, np.float32)
    for run in ways(text.replace("float32[16]", "float32[13]")):
        run(a, c)


def test_what_is_not_evaluated_is_not_checked() -> None:
    text = """\
kernel chosen(A: int64[40], C: int64[40]):
    vectorized i in 0..40:
        C[i] = (100 // checked(A[i], A[i] != 0, division_by_zero, "A", A[i]) if A[i] > 0 else -1)
"""
    a, c = np.arange(-20, 20), np.zeros(40, np.int64)
    for run in ways(text):
        run(a, c)
        assert (c == np.where(a > 0, 100 // np.maximum(a, 1), -1)).all()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('check B[i], assertion_failed, "B"', "its condition is int64, not a bool"),
        ('check B[i] != 0, assertion_failed, "B", 0.5', "it tells 0.5, a float32"),
        ('check B[i] != 0, assertion_failed, "B", i, i, i, i, i', "the most are 4"),
    ],
)
def test_the_rules_of_checks(line: str, words: str) -> None:
    text = HALVES.replace('check B[i] != 0, division_by_zero, "B", B[i]', line)
    with pytest.raises(IRError, match=words):
        verify(parse(text))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('check B[i] != 0, forgotten, "B"', "'forgotten' is no kind of fault; use index_out"),
        ("check B[i] != 0, division_by_zero, B", "expected words in quotes"),
    ],
)
def test_mistakes_in_checks(line: str, words: str) -> None:
    text = HALVES.replace('check B[i] != 0, division_by_zero, "B", B[i]', line)
    with pytest.raises(ParseError, match=words):
        parse(text)


def checks(function: Function) -> list[Check]:
    return [part for part in statements(function.body) if isinstance(part, Check)]


def prepared(dag: ac.ComputeDAG) -> Function:
    return prepare(ac.lower(ac.schedule(dag)), Target.parse("native"))


def test_a_row_is_checked_once() -> None:
    t, i = ac.placeholder((50, 64), "T"), ac.placeholder((32,), "I", "int64")
    c = ac.compute((32, 64), lambda a, b: t[i[a], b], "C")
    text = to_text(prepared(ac.ComputeDAG([t, i, c])))
    assert text.index("check cast(uint64, I[a]) < uint64(50)") < text.index("for b in 0..64")


def test_updates_are_checked_before_all_loops() -> None:
    """What each of 100 results looks through, 7 updates, is checked 7 times."""
    i, u = ac.placeholder((7,), "I", "int64"), ac.placeholder((7,), "U")
    k = ac.reduce_axis(7, "k")

    def found(a: ac.Scalar) -> ac.Reduction:
        place = ac.checked(i[k], ac.all_of(i[k] >= 0, i[k] < 100), "I is a place", i[k])
        return ac.sum(ac.if_then_else(ac.equal(place, a), u[k], 0.0), axis=k)

    c = ac.compute((100,), found, "C")
    text = to_text(prepared(ac.ComputeDAG([i, u, c])))
    assert text.index("check ") < text.index("in 0..100")


INSIDE: list[Callable[[ac.Tensor, ac.Tensor, ac.Scalar], ac.Scalar]] = [
    lambda t, i, a: t[i[a] % 8],
    lambda t, i, a: t[ac.minimum(ac.maximum(i[a], 0), 7)],
    lambda t, i, a: t[a % 8],
    lambda t, i, a: t[ac.if_then_else(i[a] > 0, a % 8, 3)],
]


@pytest.mark.parametrize("body", INSIDE)
def test_what_is_inside_is_not_checked(
    body: Callable[[ac.Tensor, ac.Tensor, ac.Scalar], ac.Scalar],
) -> None:
    t, i = ac.placeholder((8,), "T"), ac.placeholder((32,), "I", "int64")
    c = ac.compute((32,), lambda a: body(t, i, a), "C")
    assert checks(prepared(ac.ComputeDAG([t, i, c]))) == []


def test_a_byte_is_a_place_among_256() -> None:
    for rows, count in ((256, 0), (255, 1)):
        t, i = ac.placeholder((rows,), "T"), ac.placeholder((32,), "I", "uint8")
        c = ac.compute((32,), lambda a, t=t, i=i: t[i[a]], "C")
        assert len(checks(prepared(ac.ComputeDAG([t, i, c])))) == count


def test_checks_are_left_out_on_demand() -> None:
    t, i = ac.placeholder((50,), "T"), ac.placeholder((32,), "I", "int64")
    c = ac.compute((32,), lambda a: t[i[a]], "C")
    dag = ac.ComputeDAG([t, i, c])
    assert ac.build(dag).signature.faults
    assert ac.build(dag, check_indices=False).signature.faults == ()
    assert ac.build(dag, check_indices=False).signature.workspace_bytes == 0


def test_the_error_says_tensor_index_and_extent() -> None:
    t, i = ac.placeholder((3, 50), "T"), ac.placeholder((32,), "I", "int64")
    c = ac.compute((32,), lambda a: t[1, i[a]], "C")
    module = ac.build(ac.ComputeDAG([t, i, c]), name="pick")
    places = np.full(32, 7)
    places[3] = 10**12
    with pytest.raises(IndexError) as caught:
        module(np.zeros((3, 50), np.float32), places)
    error = caught.value
    assert isinstance(error, OutOfRangeError | FaultError)
    assert str(error) == (
        "pick got the index 1000000000000 for dimension 1 of 'T', which has the extent 50 and "
        "takes 0 to 49"
    )
    assert (error.about, error.values) == ("T", (10**12, 0, 49, 1))  # pyright: ignore[reportArgumentType]
    bound = module.bind(np.zeros((3, 50), np.float32), places, np.zeros(32, np.float32))
    with pytest.raises(IndexError, match="got the index 1000000000000 for dimension 1"):
        bound()


def test_a_key_does_not_see_checks() -> None:
    t, i = ac.placeholder((50,), "T"), ac.placeholder((32,), "I", "int64")
    plain = ac.compute((32,), lambda a: t[i[a]], "C")
    checked = ac.compute((32,), lambda a: t[ac.checked(i[a], i[a] > 2, "I is large")], "C")
    one, other = ac.ComputeDAG([t, i, plain]), ac.ComputeDAG([t, i, checked])
    assert one.key == other.key
    assert other.plain.key == one.key
    assert ac.ComputeDAG.from_text(other.to_text()) == other


MISTAKES: list[tuple[Callable[[ac.Scalar], ac.Scalar], str]] = [
    (lambda a: ac.checked(a, True, "x"), "a Python bool is not a condition of the program"),
    (lambda a: ac.checked(a, a, "x"), "checked needs a bool, not"),
    (lambda a: ac.checked(a, a > 0.0, "x", a), r"reports up to 4 integers; cast the others"),
]


@pytest.mark.parametrize(("make", "words"), MISTAKES)
def test_mistakes_of_users(make: Callable[[ac.Scalar], ac.Scalar], words: str) -> None:
    x = ac.placeholder((8,), "x")
    with pytest.raises(ac.AnsorcError, match=words):
        ac.compute((8,), lambda i: make(x[i]), "C")
