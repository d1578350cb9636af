"""Public functions refuse too few, too many and unknown arguments, and say how they are called."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import AnsorcError, ArgumentError, CallError, LanguageError, RecordError

public: Any = ac
A = ac.placeholder((3, 4), "A")
NAMES = [
    name
    for name in ac.__all__
    if inspect.isfunction(getattr(ac, name)) and name not in ("load_library", "aligned_empty")
]
"""All but two that know nothing of the language."""


@pytest.mark.parametrize("name", [name for name in NAMES if "register" not in name])
def test_unknown_arguments(name: str) -> None:
    with pytest.raises(AnsorcError, match=r"unexpected keyword|it is called as|no setting|needs"):
        getattr(public, name)(nothing_is_called_so=1)


@pytest.mark.parametrize("name", ac.ops.__all__)
def test_operators_without_arguments(name: str) -> None:
    with pytest.raises(LanguageError, match=rf"missing.*; it is called as {name}_?\(\w+"):
        getattr(public.ops, name)()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: public.sum(A[0, 0]), r"missing .*'axis'; it is called as sum\(expr, axis\)$"),
        (lambda: public.exp(A[0, 0], 2), r"but 2 were given; it is called as exp\(x\)$"),
        (lambda: public.placeholder((3,), shape_of=A), r"'shape_of'; .*dtype='float32', \*"),
        (lambda: public.compute((3,)), r"missing .*'fn'; it is called as compute\(shape, fn"),
        (lambda: public.ops.softmax(A, axes=1), r"'axes'; it is called as softmax\(data, axis=-1"),
    ],
)  # fmt: skip
def test_what_is_said(call: Callable[[], object], words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        call()


def test_type_errors_of_the_user_are_left_as_they_are() -> None:
    def body(i: ac.Scalar) -> ac.Scalar:
        return A[i, 0] + untyped_length(3)

    def untyped_length(value: Any) -> int:
        return len(value)

    with pytest.raises(TypeError, match="has no len"):
        ac.compute((3,), body)


@pytest.mark.parametrize("name", NAMES)
def test_functions_can_be_pickled(name: str) -> None:
    function = getattr(public, name)
    assert pickle.loads(pickle.dumps(function)) is function


def test_other_objects_instead_of_ansorcs() -> None:
    with pytest.raises(RecordError, match=r"opened by Records.open\(path\), not Records\('t.db'\)"):
        public.Records("t.db")
    with pytest.raises(ArgumentError, match="sketch_rules: options is 3"):
        public.sketch_rules(3)
    module: Any = ac.build(ac.ComputeDAG([A, ac.compute((3,), lambda i: A[i, 0], "B")]), name="b")
    with pytest.raises(CallError, match="no weight"):
        module.pack(np.zeros(3), np.zeros(3))
