"""The page docs/features.md, made from the docstrings of the fields.

Write it with `python -m tests.search.features.feature_table` after a feature was added or changed.
"""

from __future__ import annotations

import ast
from dataclasses import fields
from inspect import getdoc, getsource
from pathlib import Path
from textwrap import dedent

from ansorc.search.features import MACHINE_FEATURES
from ansorc.search.features.columns import Group
from ansorc.search.features.estimate import EstimateFeatures
from ansorc.search.features.loops import LoopFeatures
from ansorc.search.features.memory import BUFFERS, BufferFeatures, CacheFeatures
from ansorc.search.features.operations import OperationFeatures
from ansorc.search.features.registers import RegisterFeatures
from bench.search.paper_accesses import BUFFERS as PAPER_BUFFERS
from bench.search.paper_accesses import AccessFeatures, PaperOperations
from bench.search.paper_features import (
    PAPER_FEATURES,
    CurveFeatures,
    MarkFeatures,
    NestFeatures,
    StorageFeatures,
    ThreadFeatures,
)

PAGE = Path(__file__).parents[3] / "docs" / "features.md"

Rows = list[tuple[tuple[str, ...], type[Group]]]
"""The names of a group's columns begin with one of the names given."""

MACHINE: Rows = [
    (("operations",), OperationFeatures),
    (("loops",), LoopFeatures),
    (("registers",), RegisterFeatures),
    (("caches",), CacheFeatures),
    (("estimate",), EstimateFeatures),
    (tuple(f"buffer{place}" for place in range(BUFFERS)), BufferFeatures),
]
PAPER: Rows = [
    (("operations",), PaperOperations),
    (("vectorised", "unrolled", "parallel"), MarkFeatures),
    (("threads",), ThreadFeatures),
    (tuple(f"access{place}" for place in range(PAPER_BUFFERS)), AccessFeatures),
    (("curve",), CurveFeatures),
    (("storage",), StorageFeatures),
    (("nest",), NestFeatures),
]

INTRODUCTION = """\
# Features

What the cost model knows of a program: a row of numbers for each statement, that is for each stage
that is not inlined. They are computed from the tile lengths in closed form, for a whole population
at once (`ansorc/search/features/`). Numbers with the scale *log* are stored as log2(x + 1). This
page is made from the docstrings of the fields by `python -m tests.search.features.feature_table`.
"""


def page() -> str:
    """Return the text of docs/features.md."""
    sets = (
        (
            MACHINE_FEATURES,
            MACHINE,
            "What the search uses. Vectors, registers, caches and cores are those of the target.",
        ),
        (
            PAPER_FEATURES,
            PAPER,
            "The list of the paper's appendix B, for comparisons, in the order of its first "
            "implementation. Loops of one iteration do not count.",
        ),
    )
    parts = [INTRODUCTION]
    for features, rows, text in sets:
        title = f"## {features.name}: version {features.version}, {len(features.columns)} numbers"
        parts.append(f"{title}\n\n{text}\n")
        parts += [_group(names, group) for names, group in rows]
    return "\n".join(parts)


def _group(names: tuple[str, ...], group: type[Group]) -> str:
    title = ", ".join(f"`{name}`" for name in names)
    described = _described(group)
    lines = [
        f"| {each.name} | {each.metadata.get('scale', '')} | {described[each.name]} |"
        for each in fields(group)  # pyright: ignore[reportArgumentType]
    ]
    about = " ".join((getdoc(group) or "").split())
    return "\n".join(
        [f"### {title}\n", about, "", "| field | scale | |", "|---|---|---|", *lines, ""]
    )


def _described(group: type[Group]) -> dict[str, str]:
    """The docstring of each field."""
    body = ast.parse(dedent(getsource(group))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for node, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(node.target, ast.Name)
            assert isinstance(after.value, ast.Constant)
            found[node.target.id] = " ".join(str(after.value.value).split())
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
