"""The table of docs/onnx.md, made of the converters; run this to write it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from typing import Any, cast

from ansorc.graph.onnx import converters

PAGE = Path(__file__).parents[3] / "docs" / "onnx.md"
BEGIN, END = "<!-- operators -->\n", "<!-- end of operators -->\n"


def table() -> str:
    """One row a module of converters: what it is, and the operators that it has."""
    rows = ["| family | operators |", "|---|---|"]
    for found in pkgutil.iter_modules(converters.__path__):
        module = importlib.import_module(f"{converters.__name__}.{found.name}")
        tables = [getattr(module, name) for name in vars(module) if name.isupper()]
        names = {one for each in tables if isinstance(each, dict) for one in cast("Any", each)}
        own = sorted(names & converters.CONVERTERS.keys())
        title = (ast.get_docstring(ast.parse(Path(str(module.__file__)).read_text())) or "").strip()
        words = title.split("\n")[0].removeprefix("ONNX ").rstrip(".")
        if own:
            rows.append(f"| {words} | {', '.join(f'`{name}`' for name in own)} |")
    return "\n".join(rows) + "\n"


def page_with(rows: str) -> str:
    """The page with its table replaced."""
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return before + BEGIN + rows + END + after


if __name__ == "__main__":
    PAGE.write_text(page_with(table()))
