"""The text of programs: what each construct looks like, and what a mistake is told."""

from __future__ import annotations

import pytest

from ansorc.errors import ParseError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import BOOL, FLOAT32, FLOAT64, INT32, INT64
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
    const,
)
from ansorc.ir.node import structure_text
from ansorc.ir.parser import parse, parse_expr
from ansorc.ir.printer import expr_text, stmt_text, to_text
from ansorc.ir.stmt import Allocate, Seq, Store

TEXT = """\
kernel every_kind(
    A: float32[4, 8],
    weights.of@the.1: float32[8, 4] constant,
    scale: float32[],
    long_enough_to_break_the_line: bool[4],
    C: float32[4, 4],
):
    parallel i.0@j.0 in 0..4:
        alloc C.local: float32[4] local
        vectorized j in 0..4:
            C.local[j] = 0.0
        for k in 0..8:
            alloc T: float64[1]:
                T[0] = float64(1.5)
                T[0] = cast(float64, A[i.0@j.0, k]) - T[0]
            unrolled j in 0..4:
                if long_enough_to_break_the_line[j] and not k * 4 + j >= 10:
                    C.local[j] = fma(A[i.0@j.0, k], weights.of@the.1[k, j], C.local[j])
                else:
                    pass
        seq:
            C[i.0@j.0, ramp(0, 1, 4)] = max(C.local[ramp(0, 1, 4)], broadcast(-0.0, 4)) * scale[]
    bound blockIdx.x b in 0..2:
        alloc S: float32[32] shared
        bound threadIdx.x t in 0..32:
            S[t] = (A[b, t % 8] if t // 8 == 0 or t < 4 else inf)
            barrier shared
            C[b, 0] = S[31 - t] / 2.0
"""
VARS = {name: Var(name) for name in "ijk"} | {"n": Var("n", INT32)}
A = Buffer("A", (8, 8), FLOAT32)
i, j, k = (Var(name) for name in "ijk")


def expr(text: str) -> Expr:
    return parse_expr(text, {"A": A, "if": A, "not": A, "inf": A}, VARS)


def test_a_program_of_every_construct() -> None:
    function = parse(TEXT)
    assert to_text(function) == TEXT
    assert stmt_text(function.body) in TEXT.replace("\n    ", "\n")


def test_comments_and_blank_lines_are_skipped() -> None:
    text = "# a kernel\n\nkernel k(A: int64[1]):  # of one line\n\n  # nothing\n  A[0] = 1 # one\n"
    assert to_text(parse(text)) == "kernel k(A: int64[1]):\n    A[0] = 1\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", const(3)),
        ("-3", const(-3)),
        ("0 - 3", Binary(BinaryOp.SUB, const(0), const(3))),
        ("1.5", const(1.5, FLOAT32)),
        ("1e-05", const(1e-05, FLOAT32)),
        ("1e+16", const(1e16, FLOAT32)),
        ("-inf", const(float("-inf"), FLOAT32)),
        ("float64(inf)", const(float("inf"), FLOAT64)),
        ("float64(-0.1)", const(-0.1, FLOAT64)),
        ("int32(-7)", const(-7, INT32)),
        ("cast(int32, -7)", Cast(INT32, const(-7))),
        ("True", Const(True, BOOL)),
        ("i - (j - k)", i - (j - k)),
        ("i - j - k", i - j - k),
        ("i * (j + k)", i * (j + k)),
        ("i // j * k % 3", i // j * k % const(3)),
        ("i - -1", i - const(-1)),
        ("not i < j", Not(i < j)),
        ("(not i < j) == True", Compare(CompareOp.EQ, Not(i < j), Const(True, BOOL))),
        ("(i if i < j else (j if True else k))", Select(i < j, i, Select(Const(True, BOOL), j, k))),
        ("min(i, max(j, k))", Binary(BinaryOp.MIN, i, Binary(BinaryOp.MAX, j, k))),
        ("A[i, j + 1]", Load(A, (i, j + 1))),
        ("n + int32(1)", Var("n", INT32) + 1),
    ],
)
def test_expressions(text: str, value: Expr) -> None:
    assert structure_text(expr(text)) == structure_text(value)
    assert expr_text(value) == text


def test_words_may_name_buffers() -> None:
    loads = (Load(A, (i, j)),) * 3
    condition = loads[1] < loads[2]
    assert expr("(if[i, j] if not[i, j] < inf[i, j] else A[i, j])") == Select(condition, *loads[:2])


def test_spaces_and_parentheses_are_free() -> None:
    assert expr("((i)+j*( k ))") == i + j * k
    assert expr("min(i,\n  j)") == Binary(BinaryOp.MIN, i, j)


def test_sequences_are_kept_apart() -> None:
    store = Store(Buffer("S", (), INT64), (), const(1))
    for stmt in (Seq((store,)), Seq((Seq(()),)), Seq((store, Seq((store, store))))):
        assert parse_body(stmt_text(stmt)) == stmt
    local = Buffer("L", (), INT64)
    first = Allocate(local, Seq((store, store)))
    for stmt in (first, Seq((first, store)), Seq((store, first)), Allocate(local, Seq((first,)))):
        assert parse_body(stmt_text(stmt)) == stmt


def parse_body(text: str) -> object:
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    return parse(f"kernel k(S: int64[]):\n{lines}").body


@pytest.mark.parametrize(
    ("text", "words", "caret"),
    [
        ("i +", "expected a name, found the end of the line", 3),
        ("i + q", "there is no variable 'q' here; there is i, j, k, n", 4),
        ("Q[i]", "there is no buffer 'Q' here; there is A, if, not, inf", 0),
        ("tan(i)", "there is no function 'tan'; there is min, max, cast, checked, ramp", 0),
        ("exp(i, j)", "exp takes 1 operands, not 2", 0),
        ("i < j < k", "expected the end of the line, found '<'", 6),
        ("A[i, j", "expected ',', found the end of the text", 6),
        ("(i if j)", "expected 'else', found '\\)'", 7),
        ("i $ j", "'\\$' has no meaning here", 2),
        ("int32(1.5)", "1.5 is no literal of int32", 6),
        ("bool(1)", "1 is no literal of bool", 5),
        ("float64(1)", "1 is no literal of float64", 8),
        ("cast(float, i)", "'float' is no dtype; use float16, float32", 5),
        ("- i", "expected a number", 2),
        ("ramp(i, 1, j)", "expected an integer, found 'j'", 11),
    ],
)
def test_mistakes_in_expressions(text: str, words: str, caret: int) -> None:
    with pytest.raises(ParseError, match=f"line 1: {words}") as caught:
        expr(text)
    assert str(caught.value).endswith(f"\n    {text}\n    {' ' * caret}^")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    A[0] = B[0]\n", "line 2: there is no buffer 'B' here; there is A"),
        ("    while i in 0..4:\n", "line 2: 'while' begins no statement; expected for, parallel"),
        ("    for i in 1..4:\n        pass\n", "line 2: loops start at 0"),
        ("    for i in 0..n:\n        pass\n", "line 2: expected an integer, found 'n'"),
        ("    for i in 0..4:\n    pass\n", "line 3: expected an indented block, found 'pass'"),
        ("    pass\n      pass\n", "line 3: expected a name, found an indented block"),
        ("        pass\n    pass\n", "line 3: this indentation matches no block above"),
        ("    bound warp w in 0..4:\n", "line 2: expected one of blockIdx.x, blockIdx.y"),
        ("    alloc T: float[4]\n    pass\n", "line 2: expected one of float16, float32"),
        (
            "    alloc T: int8[4] far\n    pass\n",
            "line 2: expected the end of the line, found 'far'",
        ),
        ("    alloc T: int8[4]\n", "line 2: expected a statement; write 'pass' for none"),
        ("    barrier everywhere\n", "line 2: expected one of global, local, register, shared"),
        ("    A[0] 1\n", "line 2: expected '=', found '1'"),
        ("    if True:\n        pass\n    else\n", "line 4: 'else' begins no statement"),
        ("    for i in 0..4:\n        pass\n    A[i] = 1\n", "line 4: there is no variable 'i'"),
        ("    pass\nkernel", "line 3: expected the end of the text, found 'kernel'"),
        ("\tpass\n", "line 2: '\t' has no meaning here"),
    ],
)
def test_mistakes_in_statements(body: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse("kernel k(A: int64[4]):\n" + body)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "function f():\n    pass\n"])
def test_what_is_no_program(text: str) -> None:
    with pytest.raises(ParseError, match="expected 'kernel'"):
        parse(text)
