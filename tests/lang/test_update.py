"""Updates of inputs as definitions: texts, keys, references, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError, OutOfRangeError, ParseError
from ansorc.lang.rounding import evaluate_with_rounding
from ansorc.lang.wanted_values import find_wanted_values

A, G = ac.placeholder((6, 4), "A"), ac.placeholder((6, 4), "G")
RATE = ac.placeholder((1,), "rate")
ROW, PLACE = ac.placeholder((4,), "row"), ac.placeholder((1,), "pos", "int32")


def descent(name: str = "A2") -> ac.Tensor:
    value = ac.compute(A.shape, lambda i, j: A[i, j] - RATE[0] * G[i, j])
    return ac.update(A, value, name=name)


def appended() -> ac.ComputeDAG:
    return ac.ComputeDAG([A, ROW, PLACE, ac.update(A, ROW, at=PLACE[0], name="A2")])


TEXT = """input A: float32[6, 4] updated
input row: float32[4]
input pos: int32[1]
compute A2: float32[6, 4] (i1: 4) = row[i1]
    overwrites A[cast(int64, pos[0]), i1]
params A, row, pos, A2
"""


def test_the_text_and_the_key() -> None:
    dag = appended()
    assert dag.to_text() == TEXT
    assert ac.ComputeDAG.from_text(TEXT) == dag
    assert dag.updates == {"A2": "A"}
    assert [buffer.name for buffer in dag.arguments] == ["A", "row", "pos"]
    whole = ac.ComputeDAG([A, G, RATE, descent("A2")])
    assert whole.key == ac.ComputeDAG([A, G, RATE, descent("other")]).key
    plain = ac.compute(A.shape, lambda i, j: A[i, j] - RATE[0] * G[i, j], "A2")
    assert whole.key != ac.ComputeDAG([A, G, RATE, plain]).key


def test_values() -> None:
    rng = np.random.default_rng(0)
    a, g, rate = (rng.random(s, np.float32) for s in ((6, 4), (6, 4), (1,)))
    dag = ac.ComputeDAG([A, G, RATE, descent()])
    for found in (dag.evaluate(a, g, rate), dag.interpret(a, g, rate)):
        np.testing.assert_allclose(found, a - rate * g, rtol=1e-6)


@pytest.mark.parametrize("place", [0, 5])
def test_values_of_a_part(place: int) -> None:
    rng = np.random.default_rng(place)
    a, row = rng.random((6, 4), np.float32), rng.random(4, np.float32)
    expected, dag = a.copy(), appended()
    expected[place] = row
    inputs = [a, row, np.array([place], np.int32)]
    for found in (dag.evaluate(*inputs), dag.interpret(*inputs)):
        np.testing.assert_array_equal(found, expected)
    assert evaluate_with_rounding(dag, inputs)[1] == [None]
    assert find_wanted_values(dag) == {"pos": (0, 5)}
    for wrong in (-1, 6):
        inputs[2][0] = wrong
        for run in (dag.evaluate, dag.interpret):
            with pytest.raises(OutOfRangeError, match=f"index {wrong}"):
                run(*inputs)


def test_only_what_is_written_is_rounded() -> None:
    value = ac.compute(4, lambda j: ROW[j] / 3.0)
    dag = ac.ComputeDAG([A, ROW, PLACE, ac.update(A, value, at=PLACE[0])])
    inputs = [np.ones((6, 4), np.float32), np.ones(4, np.float32), np.array([2], np.int32)]
    (bound,) = evaluate_with_rounding(dag, inputs)[1]
    assert bound is not None
    assert (bound[2] > 0).all()
    assert not np.delete(bound, 2, 0).any()


PARTS: list[tuple[tuple[int, ...], Any, tuple[slice | int, ...]]] = [
    ((4,), 3, (3,)),
    ((), (3, 2), (3, 2)),
    ((6,), (slice(None), 1), (slice(None), 1)),
    ((2, 4), slice(3, 5), (slice(3, 5),)),
    ((2, 4), slice(4, None), (slice(4, 6),)),
    ((2, 3), (slice(1, None), slice(1, None)), (slice(1, 3), slice(1, 4))),
    ((2, 4), slice(PLACE[0], None), (slice(2, 4),)),
    ((2, 4), slice(PLACE[0] * 2, None), (slice(4, 6),)),
]


@pytest.mark.parametrize(("shape", "at", "expected"), PARTS)
def test_places(shape: tuple[int, ...], at: Any, expected: tuple[slice | int, ...]) -> None:
    part = ac.placeholder(shape, "part")
    dag = ac.ComputeDAG([A, part, PLACE, ac.update(A, part, at)])
    assert ac.ComputeDAG.from_text(dag.to_text()) == dag
    a = np.zeros((6, 4), np.float32)
    values = np.asarray(np.random.default_rng(0).random(shape), np.float32)
    wanted = a.copy()
    wanted[expected] = values
    inputs = [a, values, np.array([2], np.int32)]
    np.testing.assert_array_equal(dag.evaluate(*inputs), wanted)
    np.testing.assert_array_equal(dag.interpret(*inputs), wanted)
    ac.build(dag)(*inputs)
    np.testing.assert_array_equal(a, wanted)


def test_several_at_the_same_time() -> None:
    values = ac.compute_tuple(A.shape, lambda i, j: (G[i, j], A[i, j]))
    made = ac.update((A, G), values, name=["A2", "G2"])
    a, g = np.zeros((6, 4), np.float32), np.ones((6, 4), np.float32)
    found = ac.ComputeDAG([A, G, *made]).evaluate(a, g)
    np.testing.assert_array_equal(found, [g, a])


def listed(*tensors: ac.Tensor) -> Callable[[], ac.ComputeDAG]:
    return lambda: ac.ComputeDAG(list(tensors))


WEIGHT = ac.placeholder((4,), "W", constant=True)
SMALL = ac.placeholder((4,), "small", range=(0.0, 1.0))
ORDERED = ac.placeholder((4,), "ordered", sorted=True)
DOUBLE = ac.placeholder((4,), "double", "float64")
TABLE = ac.placeholder((4,), "T", "int32")
COMPUTED = ac.compute(4, lambda i: ROW[i] * 2.0, "C")
READER = ac.compute(A.shape, lambda i, j: descent()[i, j] * 2.0, "Z")

REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: ac.update(COMPUTED, ROW), "updates 'C', which is computed and no input"),
    (lambda: ac.update(WEIGHT, ROW), "'W', which is declared constant: .* leave out constant=True"),
    (lambda: ac.update(SMALL, ROW), "'small', which is declared with a range or as sorted"),
    (lambda: ac.update(ORDERED, ROW), "'ordered', which is declared with a range or as sorted"),
    (lambda: ac.update((ROW, ROW), (COMPUTED, COMPUTED)), "updates 'row' twice"),
    (lambda: ac.update((ROW, A), (COMPUTED, G)), "which need one shape; use an update for each"),
    (
        lambda: ac.update(A, ROW),
        r"by row: .*; there the value has the shape \[6, 4\]",
    ),
    (lambda: ac.update(A, A, 3), r"there the value has the shape \[4\]"),
    (lambda: ac.update(A, ROW, (1, 2, 3)), "at 3 places, but that has 2 dimensions"),
    (lambda: ac.update(DOUBLE, ROW), "which is float64, by float32s; convert them by .astype"),
    (lambda: ac.update(A, cast(Any, 3.0)), "update writes 3.0; give a tensor"),
    (lambda: ac.update(A, G, slice(0, 6, 2)), "a slice with the step 2; it must be 1"),
    (lambda: ac.update(A, ac.placeholder((2, 4))), "say where they begin: at=slice"),
    (lambda: ac.update(A, G, slice(0, 5)), "writes 6 elements to a slice up to 5"),
    (lambda: ac.update(A, G, slice(PLACE[0], PLACE[0] + 6)), "leave its end out"),
    (
        lambda: ac.update(A, ROW, cast(Any, 1.5)),
        "at 1.5; give an integer, an element of an integer tensor",
    ),
    (lambda: ac.update(A, ROW, cast(Any, (..., 1))), "at Ellipsis; give an integer"),
    (
        lambda: ac.update(A, ROW, 1, name=cast(Any, [])),
        r"1 results, but the names are \[\]; give a name",
    ),
    (lambda: ac.update(A, ROW, -1), "index 0 is -1, .* or give places inside of it"),
    (lambda: ac.update(A, ROW, ROW[0]), "give an integer, an element of an integer tensor"),
    (lambda: ac.update(A, ROW, 6), "writes to 'A' outside of it: index 0 is 6"),
    (lambda: ac.update(A, G, slice(1, None)), "writes to 'A' outside of it"),
    (
        lambda: ac.update(A, cast(Any, (ROW, ROW))),
        "1 tensors by 2 values; give one for each",
    ),
    (listed(A, G, RATE, READER), "'A2' updates 'A', so the kernel writes to it: list 'A2' among"),
    (listed(A, G, RATE, descent("X"), descent("Y")), "'A' is updated by 'X' and by 'Y'"),
    (
        lambda: ac.update(TABLE, ac.compute((1,), lambda i: TABLE[i]), slice(TABLE[0], None)),
        "writes to places that 'T' says, which it overwrites",
    ),
    (lambda: ac.gradient(ac.ops.sum(descent()), [A]), "which updates an input; differentiate by"),
]


@pytest.mark.parametrize(("make", "words"), REFUSALS)
def test_refusals(make: Callable[[], object], words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        make()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (" updated", "", "declared updated .none. are not those that are .A."),
        ("    overwrites A[cast(int64, pos[0]), i1]\n", "", "do not match the shape"),
        ("pos[0]), i1]", "pos[0]), i1 * 2]", "each axis moves along one dimension"),
        ("cast(int64, pos[0]), i1]", "i1, i1]", "each axis moves along one dimension"),
        ("cast(int64, pos[0]), i1]", "3, 1]", "each axis moves along one dimension"),
        ("A[cast(int64, pos[0]), i1]", "row[i1]", "an input of its shape and dtype"),
        ("A[cast(int64, pos[0]), i1]", "1.0", "is no element of a tensor; name one"),
    ],
)
def test_texts_that_are_refused(old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises((LanguageError, ParseError), match=words):
        ac.ComputeDAG.from_text(TEXT.replace(old, new))
