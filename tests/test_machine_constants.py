"""Numbers about machines outside of `target/` and the options: few, and each says why."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "ansorc"
ELSEWHERE = ("target/", "search/options.py")
"""Where such numbers belong."""
WORDS = (
    "ALIGNMENT CACHE CODE_LIMIT CYCLES? LANES LATENCY LINES? LINE_BYTES NOMINAL PANEL "
    "PER_CORE PORTS REGISTERS? ROW_BYTES SPILL STACK STREAM SUMS VECTORS WINDOW L1_BYTES"
)
"""Words of machines in the name of a constant: units of time and size inside a processor."""
NAMED = re.compile(rf"(?:^|_)(?:{'|'.join(WORDS.split())})(?:$|_)")
FEWER_THAN = 60


def is_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.BinOp(left, _, right):
            return is_number(left) and is_number(right)
        case ast.UnaryOp(_, operand):
            return is_number(operand)
        case ast.Tuple(elements):
            return bool(elements) and all(map(is_number, elements))
        case _:
            return False


def constants(body: list[ast.stmt]) -> dict[str, str]:
    """Names of numeric constants of machines, and the docstrings that follow them."""
    found: dict[str, str] = {}
    for statement, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        match statement:
            case ast.Assign([target], value) if is_number(value):
                match after:
                    case ast.Expr(ast.Constant(str(text))):
                        reason = text
                    case _:
                        reason = ""
                for name in ast.unparse(target).strip("()").split(", "):
                    if name.isupper() and NAMED.search(name):
                        found[name] = reason
            case _:
                pass
    return found


def all_constants() -> dict[str, str]:
    return {
        f"{path.relative_to(PACKAGE)}: {name}": reason
        for path in sorted(PACKAGE.rglob("*.py"))
        if not str(path.relative_to(PACKAGE)).startswith(ELSEWHERE)
        for name, reason in constants(ast.parse(path.read_text()).body).items()
    }


def test_the_list_finds_them() -> None:
    body = ast.parse('FORK_CYCLES = 15e3\n"""Why."""\nLINE_BYTES, LEAST = 64, 2\nTRIES = 3\n').body
    assert constants(body) == {"FORK_CYCLES": "Why.", "LINE_BYTES": ""}


def test_numbers_of_machines_are_few_and_say_why() -> None:
    found = all_constants()
    assert len(found) < FEWER_THAN, "\n".join(found)
    silent = [name for name, reason in found.items() if len(reason.split()) < 3]
    assert not silent, silent
