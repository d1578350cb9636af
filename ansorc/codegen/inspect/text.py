"""Read the text of an assembly file: its functions, their instructions, labels and operands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Architecture = Literal["x86", "arm"]

_LABEL = re.compile(r'^("[^"]+"|[\w.$]+):')
_LOCAL = re.compile(r"^\.?L")
_COMMENT = {"x86": re.compile(r"#"), "arm": re.compile(r"//|;")}
_NOTES = re.compile(r"(#|//|;) *(%bb\.\d|-- Begin function)")
_PERCENT = re.compile(r"%([re]?[abcd]x|[re]?[sb]p|[re]?[sd]i|r\d|[xyz]mm\d)")
_ARM = re.compile(r"^\s+[a-z][\w.]*\s+({ *)?([xwvqsd]\d+|sp)\b", re.MULTILINE)


@dataclass(frozen=True)
class Instruction:
    """One instruction; its result comes first among `operands`, whatever the syntax."""

    line: int
    """The number of its line, from 1."""
    mnemonic: str
    operands: tuple[str, ...]
    comment: str


@dataclass
class AssemblyFunction:
    """The instructions of one function, and where its labels are."""

    name: str
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    """The number of the instruction that follows each label."""


@dataclass(frozen=True)
class AssemblyText:
    """An assembly file, in the syntax of AT&T, Intel or Arm."""

    architecture: Architecture
    functions: tuple[AssemblyFunction, ...]
    has_notes: bool
    """Whether its comments say which accesses are spills, as LLVM's do."""


def read_assembly(text: str) -> AssemblyText:
    """Return the functions in `text`; what precedes the first label that is not local is left out.

    Directives are skipped. AT&T syntax is known by its `%rax`, Arm's by its `x0`.
    """
    results_last = _PERCENT.search(text) is not None
    architecture: Architecture = "arm" if not results_last and _ARM.search(text) else "x86"
    functions: list[AssemblyFunction] = []
    for number, full in enumerate(text.splitlines(), start=1):
        code, comment = _without_comment(full, architecture)
        if label := _LABEL.match(code):
            name, code = label[1].strip('"'), code[label.end() :]
            if not _LOCAL.match(name):
                functions.append(AssemblyFunction(name))
            elif functions:
                functions[-1].labels[name] = len(functions[-1].instructions)
        words = code.split(maxsplit=1)
        if not words or words[0].startswith(".") or not functions:
            continue
        operands = _operands(words[1] if len(words) > 1 else "")
        shown = tuple(reversed(operands)) if results_last else tuple(operands)
        instruction = Instruction(number, words[0].lower(), shown, comment)
        functions[-1].instructions.append(instruction)
    used = tuple(function for function in functions if function.instructions)
    return AssemblyText(architecture, used, _NOTES.search(text) is not None)


def _without_comment(line: str, architecture: Architecture) -> tuple[str, str]:
    match = _COMMENT[architecture].search(line)
    return (line[: match.start()], line[match.end() :].strip()) if match else (line, "")


def _operands(text: str) -> list[str]:
    """Cut at the commas that are not inside brackets."""
    operands: list[str] = []
    depth, begin = 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            operands.append(text[begin:position].strip())
            begin = position + 1
    last = text[begin:].strip()
    return [*operands, last] if last else operands
