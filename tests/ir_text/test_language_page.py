"""The page of the language shows programs that exist."""

from __future__ import annotations

from pathlib import Path

from ansorc.ir.lexer import RESERVED
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.verify import verify

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()


def test_the_example_is_a_program() -> None:
    example = PAGE.split("```\n")[1]
    function = parse(example)
    verify(function)
    assert to_text(function) == example


def test_the_words_are_those_of_the_parser() -> None:
    assert all(f"`{word}`" in PAGE.split("## Names")[1] for word in RESERVED)
