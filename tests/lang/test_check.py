"""What the language refuses, by its words."""

from collections.abc import Callable
from typing import Any

import pytest

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.ir.expr import Load, Var
from ansorc.lang import operators as ops
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.scalar_type import Scalar

A = ac.placeholder((8, 4), "A")
V = ac.placeholder(8, "V")
D = ac.placeholder(8, "D", "float64")
W = ac.placeholder(8, "V")
N = ac.placeholder(8, "N", "int32")
k = ac.reduce_axis(4, "k")


def untyped(value: object) -> Any:
    return value


def of(fn: Callable[[ac.Scalar], object]) -> Callable[[], object]:
    return lambda: ac.compute(8, untyped(fn), "X")


def nested(i: ac.Scalar) -> ac.Scalar:
    found = V[i]
    for _ in range(2000):
        found = found + V[i]
    return found


WHOLE = ac.compute(8, lambda i: V[i] + 1.0, "W")

CASES: list[tuple[str, Callable[[], object]]] = [
    ("'V' of .*|whole tensor.*index it inside a compute", lambda: V + 1),
    ("whole tensor.*like V\\[i\\]", lambda: V * V),
    ("definition of 'X': .* nested deeper than Python.*join terms in halves", of(nested)),
    ("whole tensor", lambda: list(V)),
    ("whole tensor", lambda: bool(V)),
    ("whole tensor, not a number", lambda: V[0] + V),
    ("has 2 dimensions, but was given 1", lambda: A[0]),
    ("slice.*cannot index", lambda: V[untyped(slice(0, 2))]),
    ("indexed by a float32; cast the index", lambda: V[V[0]]),
    ("needs axis=", lambda: ac.sum(V[k], axis=[])),
    ("the axis 'k' twice", lambda: ac.sum(V[k], axis=[k, k])),
    ("axis= is a reduce axis, or a list", lambda: ac.sum(V[0], axis=untyped(Var("i")))),
    ("runs over <j: int64>, which is no", lambda: ac.sum(V[0], axis=untyped(Scalar(Var("j"))))),
    ("sum of bools; cast them", lambda: ac.sum(V[k] > 0.0, axis=k)),
    ("'k' is empty: 0..0", lambda: ac.reduce_axis(0, "k")),
    ("'k' is empty: 3..2", lambda: ac.reduce_axis((3, 2), "k")),
    ("an end of the reduce axis 'k' is True", lambda: ac.reduce_axis(True)),
    ("'k' runs to 0..1180591620717411303424, beyond", lambda: ac.reduce_axis(2**70)),
    ("'k' runs to -9.*, beyond", lambda: ac.reduce_axis((-(2**63), 0))),
    (
        r"more than 2\*\*62 terms: i: 4, k: 1099511627776, k1: 10995",
        lambda: ac.compute(
            4,
            lambda i: ac.sum(i, axis=[ac.reduce_axis(2**40), ac.reduce_axis(2**40)]),
        ),
    ),
    ("'a b' cannot name an axis", lambda: ac.reduce_axis(3, "a b")),
    ("'2x' cannot name a tensor", lambda: ac.placeholder(4, "2x")),
    ("'inf' cannot name a tensor", lambda: ac.placeholder(4, "inf")),
    ("'float' is not a dtype", lambda: ac.placeholder(4, "X", "float")),
    ("holds scalars, not float32x8", lambda: ac.placeholder(4, "X", "float32x8")),
    ("\\(4, 0\\) of 'X' is empty", lambda: ac.placeholder((4, 0), "X")),
    ("does not consist of integers", lambda: ac.placeholder(untyped((4, 2.5)), "X")),
    ("2 dimensions, but its function takes 1", lambda: ac.compute((8, 4), lambda i: V[i], "X")),
    ("returned 'text' \\(str\\); return one", of(lambda i: "text")),
    ("definition of 'X': '\\+' on float32 and float64", of(lambda i: V[i] + D[i])),
    ("'\\*' on int32 and 0.5: cast", of(lambda i: N[i] * 0.5)),
    ("'X' uses the reduce axis 'k' but does not reduce", of(lambda i: A[i, k])),
    ("uses the variable 'q', which is none", of(lambda i: A[i, Var("q")])),
    ("no truth value", of(lambda i: V[i] if untyped(i > 2) else 0.0)),
    ("is i, that is 0..8 for i in 0..8, but 'V' has extent 8",
     lambda: ac.compute(9, lambda i: V[i])),
    ("index 0 is i - 1, that is -1..6", of(lambda i: V[i - 1])),
    ("index 1 is 4, that is 4", of(lambda i: A[i, 4])),
    ("that is 9 for i = 6", of(lambda i: V[i * i // 4])),
    (
        "that is -1 for i = 1.*guard the read",
        of(lambda i: ac.if_then_else(i >= 1, V[i - 2], 0.0)),
    ),
    (
        "unknown hint 'unroll'; known are always_unroll",
        lambda: ac.compute(8, lambda i: V[i], hints={"unroll": ""}),
    ),
    (
        "always_unroll_inner of 'X' names 'j', which is none",
        lambda: ac.compute(8, lambda i: V[i], "X", {"always_unroll_inner": "j"}),
    ),
    (
        "simplify_const_tensor_indices of 'X' names 'a', which is none of its axes .i.",
        lambda: ac.compute(8, lambda i: V[i], "X", {"simplify_const_tensor_indices": ["a"]}),
    ),
    (
        "'X' has 'i' in no_split_at_inner and in no_split_at_outer; choose one",
        lambda: ac.compute(
            8, lambda i: V[i], "X", {"no_split_at_inner": "i", "no_split_at_outer": "i"}
        ),
    ),
    ("as many different axes", lambda: ac.compute(8, lambda i: V[i], "X", axes=["i", "j"])),
    ("needs a bool, not float32", lambda: ac.if_then_else(V[0], 1.0, 0.0)),
    ("chooses between float32 and float64", lambda: ac.if_then_else(V[0] > 0.0, V[0], D[0])),
    ("chooses between int32 and 0.5", lambda: ac.if_then_else(V[0] > 0.0, N[0], 0.5)),
    ("needs one condition or more", ac.all_of),
    ("any_of needs a bool", lambda: ac.any_of(V[0])),
    ("'V' is read by 'W' but not listed", lambda: ComputeDAG([WHOLE])),
    ("'V' is listed twice; list it once", lambda: ComputeDAG([V, V, WHOLE])),
    ("there is no output", lambda: ComputeDAG([V])),
    ("takes a list of tensors, not 3", lambda: ComputeDAG([V, untyped(3)])),
    ("nothing computes 'V'; there are 'W'", lambda: ComputeDAG([V, WHOLE]).op("V")),
    (
        "two tensors are called 'V'",
        lambda: ComputeDAG([V, W, ops.add(V, W)]),
    ),
    (
        "belongs to no tensor; index a tensor",
        lambda: ComputeDAG([V, ac.compute(8, lambda i: Load(V.buffer, (i.expr,)), "X")]),
    ),
    (
        "300 does not fit into int8, which holds -128..127",
        lambda: ComputeDAG([ac.compute(8, lambda i: ac.const(300, "int8"), "X")]),
    ),
    ("matmul of A \\[8, 4\\] and A \\[8, 4\\]: columns of one", lambda: ops.matmul(A, A)),
    ("matmul of A \\[8, 4\\] and V \\[8\\]: each must have 2", lambda: ops.matmul(A, V)),
    ("bias_add of A \\[8, 4\\] and V \\[8\\].*4 channels", lambda: ops.bias_add(A, V)),
    ("add of A \\[8, 4\\] and V \\[8\\]: extents must be equal", lambda: ops.add(A, V)),
    ("softmax of V \\[8\\]: there is no axis 1", lambda: ops.softmax(V, axis=1)),
    ("transpose of A .* must list each dimension", lambda: ops.transpose(A, (0, 0))),
    ("pad: before is", lambda: ops.pad(A, [1], [1])),
    ("conv2d has no layout 'HWNC'; use NHWC or NCHW", lambda: conv(layout="HWNC")),
    ("conv2d of x .* and w .*with 3 groups weight needs 4/3", lambda: conv(groups=3)),
    ("stride and dilation are 1 or more", lambda: conv(stride=0)),
    ("stride is \\(1, 2, 3\\); give one number, or 2", lambda: conv(stride=(1, 2, 3))),
    ("window \\(3, 3\\) is larger than the padded input", lambda: conv(dilation=4)),
]  # fmt: skip


def conv(
    stride: int | tuple[int, ...] = 1, dilation: int = 1, groups: int = 1, layout: str = "NHWC"
) -> ac.Tensor:
    x, w = ac.placeholder((1, 6, 6, 4), "x"), ac.placeholder((3, 3, 4, 6), "w")
    return ops.conv2d(x, w, stride=stride, dilation=dilation, groups=groups, layout=layout)


@pytest.mark.parametrize(("words", "build"), CASES, ids=[words[:40] for words, _ in CASES])
def test_refused_with_words(words: str, build: Callable[[], object]) -> None:
    with pytest.raises(LanguageError, match=f"(?s){words}"):
        build()


def test_what_is_allowed_nearby() -> None:
    guarded = ac.compute(8, lambda i: ac.if_then_else(i >= 2, V[i - 2], 0.0), "G")
    dead = ac.compute(8, lambda i: ac.if_then_else(i >= 0, V[i], V[-1]), "H")
    gathered = ac.compute(8, lambda i: V[N[i]], "I")
    ComputeDAG([V, N, guarded, dead, gathered])
