"""Every public name says what it is; what raises errors says which, operators say their shapes."""

from __future__ import annotations

import ast
import inspect
import re
from types import FunctionType

import pytest

import ansorc as ac

NAMES = sorted(ac.__all__)
RAISED = re.compile(r"\b(?:[Rr]aise|refuse)s?\b")


def own_raises(function: FunctionType) -> bool:
    """Whether the body of `function` itself raises an error, or requires something."""
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)).replace("\n    @", "\n@"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            return True
        match node:
            case ast.Call(func=ast.Name(id="require" | "require_rank")):
                return True
            case _:
                pass
    return False


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring(name: str) -> None:
    value = getattr(ac, name)
    text = inspect.getdoc(value) or ""
    assert len(text.split()) >= 4, name
    if isinstance(value, FunctionType) and own_raises(value):
        assert RAISED.search(text), f"{name} raises errors and does not say so"
    if inspect.isclass(value) and value.__module__.startswith("ansorc."):
        for member, function in vars(value).items():
            if isinstance(function, FunctionType) and not member.startswith("_"):
                assert inspect.getdoc(function), f"{name}.{member}"


@pytest.mark.parametrize("name", ac.ops.__all__)
def test_an_operator_says_what_it_computes_of_which_shapes(name: str) -> None:
    function = getattr(ac.ops, name)
    text = inspect.getdoc(function) or ""
    assert text.startswith("Return "), name
    assert re.search(r"\[|shape|element|broadcast|see `|like", text), f"{name}: {text}"
    if own_raises(function):
        assert RAISED.search(text), f"{name} raises errors and does not say so"
