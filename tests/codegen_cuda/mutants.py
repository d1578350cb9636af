"""Defects seeded into CUDA texts that are right: what a wrong pass would write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from codegen_cuda.hand_schedules import (
    argmax,
    matmul_dag,
    row_sums,
    softmax,
    tiled_matmul,
    transpose,
)
from codegen_cuda.proof import Experiment, sanitize, text_of_function

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule, lower

SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "matmul": lambda: tiled_matmul(matmul_dag(32, 32, 16), (2, 2, 2), (2, 2, 4), 8, 4),
    "matmul with tails": lambda: tiled_matmul(matmul_dag(30, 29, 13), (2, 2, 2), (2, 2, 4), 8, 1),
    "transpose": lambda: transpose(24, 16),
    "transpose with tails": lambda: transpose(23, 13),
    "softmax": lambda: softmax(3, 70, 32),
    "wide softmax": lambda: softmax(3, 300, 128),
    "argmax": lambda: argmax(5, 150, 64),
    "row sums": lambda: row_sums(40, 10),
}
_ACCESS = re.compile(r"(?<=[A-Za-z0-9_])\[(?P<index>[^\[\]]*[A-Za-z][^\[\]]*)\]")
_TAIL = re.compile(r"\bif \((?P<test>[^{}]*<[^{}]*)\) \{")
_STRIDE = re.compile(r"(?<=\* )(?P<factor>\d+)(?= \+)")


@dataclass(frozen=True)
class Mutant:
    """A text with one defect."""

    kind: str
    line: int
    text: str


def mutants_of(text: str) -> Iterator[Mutant]:
    """Every text that differs from `text` in one barrier, index, layout or guard of a tail."""
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if "__global__" in line)
    shared = set(re.findall(r"__shared__.* (\w+)\[", text))
    is_used = False
    for place, line in enumerate(lines[start:], start):
        is_used = is_used or (
            "__shared__" not in line and not shared.isdisjoint(re.findall(r"\w+", line))
        )
        if line == "  __syncthreads();" and not is_used:
            continue  # nobody has anything to wait for yet
        for kind, changed in _changes(line):
            yield Mutant(kind, place + 1, "\n".join([*lines[:place], changed, *lines[place + 1 :]]))


def _changes(line: str) -> Iterator[tuple[str, str]]:
    if "__syncthreads();" in line:
        yield "barrier removed", line.replace("__syncthreads();", ";")
    is_kernel = "__global__" in line or line.lstrip().startswith(("__shared__", "float ", "for"))
    accesses: list[re.Match[str]] = [] if is_kernel else list(_ACCESS.finditer(line))
    for found in accesses:
        moved = f"[{found['index']} + 1]"
        yield "index off by one", line[: found.start()] + moved + line[found.end() :]
        for factor in _STRIDE.finditer(line, found.start(), found.end()):
            other = str(int(factor["factor"]) ^ 1)
            yield "wrong swizzle", line[: factor.start()] + other + line[factor.end() :]
    for found in _TAIL.finditer(line):
        yield "tail predicate lost", line[: found.start()] + "if (true) {" + line[found.end() :]


def texts() -> Iterator[tuple[str, str, ComputeDAG]]:
    """The texts to be changed: name, text, definition."""
    for name, make in SCHEDULES.items():
        schedule = make()
        yield name, text_of_function(lower(schedule, "kernel")), schedule.dag


def caught(mutant: Mutant, experiment: Experiment) -> str:
    """How the mutant was found out, in other processes: it may write anywhere; "" if it was not."""
    return sanitize(mutant.text, experiment, "address") or sanitize(
        mutant.text, experiment, "thread"
    )
