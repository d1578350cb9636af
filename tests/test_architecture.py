"""The structure of ansorc, checked: imports point down one ladder, no circles, small rooms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

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
PAPER_LOOKUPS = {"ansorc.search.proposals", "ansorc.search.cpu.rules"}
"""What stands for the paper, to be compared with, and the tables that look its parts up by name."""
SPACES = ("ansorc.search.cpu", "ansorc.search.gpu")
"""Reached through the protocol in `ansorc.search.space` alone, which finds them by name."""
SPACE_USERS = {"ansorc.cli.no_device"}
"""What is about one kind of machine by its name."""
PASSES = "ansorc.ir.passes"
REGISTRY = "ansorc.target.platforms"
PLATFORM_NAMES = {"cpu", "cuda"}
ASKS_FOR_GPUS = ("ansorc.target", "ansorc.codegen", "ansorc.cli", "ansorc.fleet")
"""Where programs are not searched."""
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
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module, itself first."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imported(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in nodes(path):  # imports inside functions count too
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


@cache
def own_imports(name: str) -> set[str]:
    return {found for found in imported(MODULES[name]) if found in MODULES and found != name}


def test_no_import_circle() -> None:
    TopologicalSorter({name: own_imports(name) for name in MODULES}).prepare()


def _rooms(folder: str) -> dict[str, set[str]]:
    """Which modules and folders in `folder` each of them imports."""
    depth = folder.count(".") + 1
    rooms: dict[str, set[str]] = {}
    for name in (name for name in MODULES if name.startswith(f"{folder}.")):
        room = name.split(".")[depth]
        inside = {found for found in own_imports(name) if found.startswith(f"{folder}.")}
        rooms.setdefault(room, set()).update(found.split(".")[depth] for found in inside)
    return {room: others - {room} for room, others in rooms.items()}


def _circles(rooms: dict[str, set[str]]) -> set[frozenset[str]]:
    """The groups of rooms each of which reaches all others of the group."""
    reach = {room: {room} for room in rooms}
    for _ in rooms:
        for reached in reach.values():
            reached |= {found for one in set(reached) for found in rooms.get(one, ())}
    groups = {frozenset(one for one in reach[room] if room in reach.get(one, ())) for room in rooms}
    return {group for group in groups if len(group) > 1}


def test_no_circle_of_packages() -> None:
    folders = [name for name, path in MODULES.items() if path.stem == "__init__"]
    circles = set[frozenset[str]]().union(*(_circles(_rooms(folder)) for folder in folders))
    assert not circles


def _names_a_platform(node: ast.AST) -> bool:
    """Whether `node` compares the kind of a machine, or anything with "cuda"."""
    if not isinstance(node, ast.Compare):
        return False
    parts = (node.left, *node.comparators)
    texts = {part.value for part in parts if isinstance(part, ast.Constant)}
    is_of_kind = any(isinstance(part, ast.Attribute) and part.attr == "kind" for part in parts)
    return "cuda" in texts or (is_of_kind and not texts.isdisjoint(PLATFORM_NAMES))


def test_only_the_registry_tells_kinds_of_machines_apart() -> None:
    """The rest asks a target's platform, its back end, or the search space of its programs."""
    for name in (name for name in MODULES if name != REGISTRY):
        for node in nodes(MODULES[name]):
            assert not _names_a_platform(node), f"{name} compares with the name of a platform"
            is_asked = isinstance(node, ast.Attribute) and node.attr == "is_gpu"
            assert not is_asked or name.startswith(ASKS_FOR_GPUS), (
                f"{name} asks whether it is a GPU"
            )


def test_constants_of_passes_are_read_by_passes() -> None:
    """What schedules, estimates and code generation count on is in `ansorc.target`."""
    for name in (name for name in MODULES if not name.startswith(PASSES)):
        for node in nodes(MODULES[name]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PASSES):
                read = [one.name for one in node.names if one.name.isupper()]
                is_allowed = name.startswith("ansorc.codegen")
                assert is_allowed or not read, f"{name} reads {read} of {node.module}"


def test_a_search_space_is_reached_through_its_protocol() -> None:
    for name in (name for name in MODULES if not name.startswith(SPACES)):
        found = {one for one in own_imports(name) if one.startswith(SPACES)}
        assert not found or name in SPACE_USERS, f"{name} imports {found}; use search_space"


def test_imports_point_down_the_ladder() -> None:
    for name in (name for name in MODULES if rung(name)):
        for found in own_imports(name):
            if not rung(found):
                assert rung(name) == "cli", f"{name} imports the whole package"
                continue
            assert LADDER.index(rung(found)) <= LADDER.index(rung(name)), f"{name} imports {found}"
            if rung(name) == "codegen":
                assert rung(found) in CODEGEN_MAY_IMPORT, f"{name} imports {found}"
            if not name.startswith(BACK_ENDS):
                assert not found.startswith(BACK_ENDS), f"{name} imports {found}; use backend_of"


def test_untyped_libraries_have_one_importer() -> None:
    for name in MODULES:
        for found in imported(MODULES[name]):
            owner = SINGLE_IMPORTERS.get(found.partition(".")[0])
            assert owner in (None, name), f"{name} imports {found}; only {owner} may"


def test_only_lookups_reach_what_stands_for_the_paper() -> None:
    for name in MODULES:
        if not name.startswith(PAPER) and name not in PAPER_LOOKUPS:
            found = [other for other in own_imports(name) if other.startswith(PAPER)]
            assert not found, f"{name} imports {found}"


def test_rooms_are_small() -> None:
    for name in MODULES:
        text = MODULES[name].read_text()
        assert text.count("\n") <= MAX_FILE_LINES, f"{name} has {text.count(chr(10))} lines"
        for node in nodes(MODULES[name]):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= MAX_FUNCTION_LINES, f"{name}.{node.name} has {length} lines"
                count = len(node.args.args) + len(node.args.kwonlyargs)
                is_method = bool(node.args.args) and node.args.args[0].arg in ("self", "cls")
                assert count - is_method <= MAX_PARAMETERS, f"{name}.{node.name} takes {count}"


def test_a_package_lists_rooms_that_it_has() -> None:
    for name in (name for name in MODULES if MODULES[name].stem == "__init__"):
        listed = re.findall(r"^\* `(\w+)`:", MODULES[name].read_text(), re.MULTILINE)
        assert {f"{name}.{room}" for room in listed} <= MODULES.keys()


def test_a_module_says_what_it_is() -> None:
    for name, path in MODULES.items():
        module = nodes(path)[0]
        assert isinstance(module, ast.Module)
        assert ast.get_docstring(module), f"{name} has no docstring"
