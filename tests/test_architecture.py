"""The structure of ansorc, checked: imports point down one ladder, no circles, small rooms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ansorc"
LADDER = (
    "errors",
    "target",
    "ir",
    "lang",
    "schedule",
    "codegen",
    "search",
    "fleet",
    "graph",
    "report",
    "compare",
    "cli",
    "__main__",
)
CODEGEN_MAY_IMPORT = {"errors", "target", "ir", "codegen"}
BACK_ENDS = ("ansorc.codegen.llvm", "ansorc.codegen.cuda")
"""Reached through the protocol in `ansorc.codegen.base` alone, which finds them by name."""
SINGLE_IMPORTERS = {
    "llvmlite": "ansorc.codegen.llvm.binding",
    "cuda": "ansorc.codegen.cuda.toolkit",
    "dask": "ansorc.fleet.engine",
    "distributed": "ansorc.fleet.engine",
    "lightgbm": "ansorc.search.model.boosting",
    "onnx": "ansorc.graph.onnx.model",
    "pycuda": "ansorc.codegen.cuda.binding",
    "sqlalchemy": "ansorc.search.record.server_store",
    "torch": "ansorc.graph.torch.model",
    "vl_convert": "ansorc.report.page",
}
PAPER = "ansorc.search.paper"
PAPER_LOOKUPS = {"ansorc.search.proposals", "ansorc.search.space.design"}
"""What stands for the paper, to be compared with, and the tables that look its parts up by name."""
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 500, 50, 8


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in sorted(PACKAGE.rglob("*.py"))
    }


MODULES = modules()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imported(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path)):  # imports inside functions count too
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: import by full name"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module


def rung(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def own_imports(name: str) -> set[str]:
    return {found for found in imported(MODULES[name]) if found in MODULES and found != name}


def test_no_import_circle() -> None:
    TopologicalSorter({name: own_imports(name) for name in MODULES}).prepare()


@pytest.mark.parametrize("name", [name for name in MODULES if rung(name)])
def test_imports_point_down_the_ladder(name: str) -> None:
    for found in own_imports(name):
        if not rung(found):
            assert rung(name) == "cli", f"{name} imports the whole package"
            continue
        assert LADDER.index(rung(found)) <= LADDER.index(rung(name)), f"{name} imports {found}"
        if rung(name) == "codegen":
            assert rung(found) in CODEGEN_MAY_IMPORT, f"{name} imports {found}"
        if not name.startswith(BACK_ENDS):
            assert not found.startswith(BACK_ENDS), f"{name} imports {found}; use backend_of"


@pytest.mark.parametrize("name", MODULES)
def test_untyped_libraries_have_one_importer(name: str) -> None:
    for found in imported(MODULES[name]):
        owner = SINGLE_IMPORTERS.get(found.partition(".")[0])
        assert owner in (None, name), f"{name} imports {found}; only {owner} may"


def test_only_lookups_reach_what_stands_for_the_paper() -> None:
    for name in MODULES:
        if not name.startswith(PAPER) and name not in PAPER_LOOKUPS:
            found = [other for other in own_imports(name) if other.startswith(PAPER)]
            assert not found, f"{name} imports {found}"


@pytest.mark.parametrize("name", MODULES)
def test_rooms_are_small(name: str) -> None:
    text = MODULES[name].read_text()
    assert text.count("\n") <= MAX_FILE_LINES, f"{name} has {text.count(chr(10))} lines"
    for node in ast.walk(parse(MODULES[name])):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{name}.{node.name} has {length} lines"
            count = len(node.args.args) + len(node.args.kwonlyargs)
            is_method = bool(node.args.args) and node.args.args[0].arg in ("self", "cls")
            assert count - is_method <= MAX_PARAMETERS, f"{name}.{node.name} takes {count}"


@pytest.mark.parametrize("name", [name for name in MODULES if MODULES[name].stem == "__init__"])
def test_a_package_lists_rooms_that_it_has(name: str) -> None:
    listed = re.findall(r"^\* `(\w+)`:", MODULES[name].read_text(), re.MULTILINE)
    assert {f"{name}.{room}" for room in listed} <= MODULES.keys()


def test_a_module_says_what_it_is() -> None:
    for name, path in MODULES.items():
        assert ast.get_docstring(parse(path)), f"{name} has no docstring"
