"""Substitution replaces variables, all at once, and never captures one."""

from __future__ import annotations

import pytest

from ansorc.errors import IRError
from ansorc.ir.expr import Var, const
from ansorc.ir.parser import parse, parse_expr
from ansorc.ir.printer import expr_text, to_text
from ansorc.ir.substitute import free_vars, substitute

i, j = Var("i"), Var("j")
TEXT = """\
kernel k(A: int64[4]):
    for i in 0..4:
        for j in 0..2:
            A[i] = j + i
"""


def test_all_at_once() -> None:
    expr = parse_expr("i + j * i", {}, {"i": i, "j": j})
    assert expr_text(substitute(expr, {"i": j, "j": i + 1})) == "j + (i + 1) * j"


def test_what_does_not_change_is_shared() -> None:
    function = parse(TEXT)
    assert substitute(function, {}) is function
    assert substitute(function, {"x": const(1)}) is function
    assert substitute(function.body, {"x": const(1)}) is function.body


def test_statements() -> None:
    function = parse(TEXT)
    loop = function.body
    body = getattr(loop, "body")  # noqa: B009
    replaced = to_text(parse(TEXT.replace("i", "q").replace("qn", "in").replace("qnt", "int")))
    assert "q" in replaced
    assert free_vars(body) == {"i"}
    assert free_vars(loop) == set()
    new = substitute(body, {"i": Var("q") * 2})
    assert free_vars(new) == {"q"}


def test_a_loop_hides_its_own_variable() -> None:
    function = parse(TEXT)
    assert substitute(function, {"i": const(7), "j": const(8)}) is function


def test_capture_is_refused() -> None:
    inner = getattr(parse(TEXT).body, "body")  # noqa: B009
    with pytest.raises(IRError, match="replacing 'i' inside the loop over 'j' would capture the"):
        substitute(inner, {"i": j + 1})
    assert substitute(inner, {"unused": j + 1}) is inner
