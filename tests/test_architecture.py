"""The structure of ansorc, checked: imports point down one ladder, no circles, small rooms."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
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
PRIVATE_WORDS = {
    "bred", "brood", "broods", "calm", "carried", "carry", "described", "doubt", "draft",
    "drafts", "flocks", "founder", "founders", "hope", "hoped", "hopeless", "hopes", "judge",
    "judged", "judgement", "look", "mate", "mating", "patience", "polish", "polished", "recalled",
    "relatives", "saying", "trust", "trusted", "visiting", "witness",
}  # fmt: skip
"""What populations, islands, upper confidence bounds and the like were once called here."""
PUBLIC_NAMES = {"polish_share"}
"""Options of users, which keep their names."""
MAX_LINES, MAX_SEARCH_FILES = 50_300, 90
BEING_BUILT = (
    "ansorc.graph", "ansorc.codegen.cuda", "ansorc.search.gpu", "ansorc.ir.passes.gpu",
    "ansorc.target.gpu", "ansorc.ir.thread_races", "ansorc.ir.matrix_units",
    "ansorc.schedule.thread_reduction", "ansorc.codegen.device_array",
    "ansorc.codegen.call.device_caller", "ansorc.search.measure.device_kernel",
    "ansorc.report", "ansorc.cli.report_command", "ansorc.cli.records_command",
    "ansorc.search.record.salvage", "ansorc.search.record.upkeep",
    "ansorc.codegen.llvm.python_call", "ansorc.codegen.llvm.python_call_llvm",
    "ansorc.ir.notebook", "ansorc.fleet", "ansorc.search.machines", "ansorc.cli.worker_command",
    "ansorc.cli.fleet_command", "ansorc.compare", "ansorc.codegen.call.call_times",
    "ansorc.search.call_threads", "ansorc.search.live_line", "ansorc.cli.bench_command",
)  # fmt: skip
"""Networks, CUDA, reports, calls, notebooks, fleets, comparing: not growth of what there was."""
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 500, 50, 8


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in sorted(PACKAGE.rglob("*.py"))
    }


MODULES = modules()


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):  # imports inside functions count too
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
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{name}.{node.name} has {length} lines"
            count = len(node.args.args) + len(node.args.kwonlyargs)
            is_method = bool(node.args.args) and node.args.args[0].arg in ("self", "cls")
            assert count - is_method <= MAX_PARAMETERS, f"{name}.{node.name} takes {count}"


def test_one_class_one_name() -> None:
    """A name means one thing in ansorc: no two modules define a class or an alias of that name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        for node in ast.parse(path.read_text()).body:
            for name in _defined_types(node):
                found[name.lstrip("_")].add(module)
    shared = {name: sorted(owners) for name, owners in found.items() if len(owners) > 1}
    assert not shared, shared


def _defined_types(node: ast.stmt) -> Iterator[str]:
    """The classes and the aliases of types, in CamelCase, that a statement of a module defines."""
    match node:
        case ast.ClassDef(name=name):
            yield name
        case (
            ast.Assign(targets=[ast.Name(id=name)])
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr())
        ) if name.lstrip("_")[:1].isupper() and not name.isupper():
            yield name
        case _:
            pass


def test_the_package_does_not_grow() -> None:
    counted = {name: path for name, path in MODULES.items() if not name.startswith(BEING_BUILT)}
    assert sum(path.read_text().count("\n") for path in counted.values()) <= MAX_LINES
    found = [name for name in counted if name.startswith("ansorc.search")]
    assert len(found) <= MAX_SEARCH_FILES


@pytest.mark.parametrize("name", [name for name in MODULES if MODULES[name].stem == "__init__"])
def test_a_package_lists_rooms_that_it_has(name: str) -> None:
    listed = re.findall(r"^\* `(\w+)`:", MODULES[name].read_text(), re.MULTILINE)
    assert {f"{name}.{room}" for room in listed} <= MODULES.keys()


def _words(identifier: str) -> set[str]:
    """The words of an identifier: of `best_ofFlocks` "best", "of" and "flocks"."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)}


@pytest.mark.parametrize("name", [name for name in MODULES if rung(name) == "search"])
def test_the_search_has_the_words_of_its_field(name: str) -> None:
    found = {name.rpartition(".")[2]}
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        match node:
            case ast.FunctionDef(name=identifier) | ast.ClassDef(name=identifier):
                found.add(identifier)
            case ast.arg(arg=identifier) | ast.Attribute(attr=identifier) | ast.Name(id=identifier):
                found.add(identifier)
            case _:
                pass
    private = {each for each in found - PUBLIC_NAMES if _words(each) & PRIVATE_WORDS}
    assert not private, f"{name}: say it in a word of compilers or evolutionary search: {private}"


def test_a_module_says_what_it_is() -> None:
    for name, path in MODULES.items():
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), f"{name} has no docstring"
