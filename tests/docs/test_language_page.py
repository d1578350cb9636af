"""The page of the language shows programs that exist."""

from __future__ import annotations

from pathlib import Path

from ansorc.ir.lexer import RESERVED
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.verify import verify
from ansorc.lang import operators as ops

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()


def test_the_example_is_a_program() -> None:
    example = PAGE.split("```\n")[1]
    function = parse(example)
    verify(function)
    assert to_text(function) == example


def test_the_words_are_those_of_the_parser() -> None:
    assert all(f"`{word}`" in PAGE.split("## Names")[1] for word in RESERVED)


def test_every_operator_is_in_the_table() -> None:
    table = PAGE.split("## Operators")[1]
    missing = [name for name in ops.__all__ if f"`{name}`" not in table]
    assert [name for name in missing if not name.startswith(("max_pool", "avg_pool"))] == []
