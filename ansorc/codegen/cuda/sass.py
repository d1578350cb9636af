"""The instructions of the hottest loop of a kernel, counted in what NVIDIA's assembler made."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_SECTION = re.compile(r"^\.text\.(?P<name>\w+):", re.M)
_LABEL = re.compile(r"^(?P<label>\.L_x_\d+):")
_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(?P<op>[A-Z][\w.]*)(?P<rest>[^;]*);"
)
_TARGET = re.compile(r"\.L_x_\d+")
_FLOAT = ("FFMA", "HFMA2", "DFMA", "HMMA", "IMMA", "DMMA", "FADD", "FMUL", "IDP", "MUFU", "IMAD")
"""Instructions whose counts tell the hottest loop, the first one before the second."""


@dataclass(frozen=True)
class SassLoop:
    """The instructions of the hottest loop of a kernel, or of all of it if it has no loop."""

    kernel: str
    is_loop: bool
    operations: Counter[str]
    """By name with the width, as in LDS.128; other modifiers are left out."""

    @property
    def total(self) -> int:
        """All instructions."""
        return self.operations.total()

    def share(self, name: str) -> float:
        """Return the share of the instructions whose name begins so."""
        return self.count(name) / max(1, self.total)

    def count(self, name: str) -> int:
        """Return how many instructions have this name, of all widths."""
        return sum(n for op, n in self.operations.items() if op.partition(".")[0] == name)


def hottest_loops(sass: str) -> tuple[SassLoop, ...]:
    """Return the hottest loop of each kernel in what `nvdisasm -c` printed.

    Of the loops that hold no other, it is the one with the most multiply-adds.
    """
    starts = list(_SECTION.finditer(sass))
    ends = [*(start.start() for start in starts[1:]), len(sass)]
    return tuple(
        _hottest(start["name"], sass[start.end() : end])
        for start, end in zip(starts, ends, strict=True)
    )


def _hottest(name: str, section: str) -> SassLoop:
    operations: list[str] = []
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for line in section.splitlines():
        if label := _LABEL.match(line):
            labels[label["label"]] = len(operations)
        elif match := _INSTRUCTION.match(line):
            operations.append(_plain(match["op"]))
            target = _TARGET.search(match["rest"])
            if match["op"].startswith("BRA") and target and target[0] in labels:
                loops.append((labels[target[0]], len(operations)))
    loops = [
        loop for loop in loops if loop[1] - loop[0] > 1
    ]  # what follows the end jumps to itself
    inner = [
        loop
        for loop in loops
        if not any(o != loop and loop[0] <= o[0] and o[1] <= loop[1] for o in loops)
    ]
    counted = [Counter(operations[begin:end]) for begin, end in inner]
    whole = SassLoop(name, is_loop=False, operations=Counter(operations))
    if not counted:
        return whole
    best = max((SassLoop(name, is_loop=True, operations=each) for each in counted), key=_heat)
    return best if 4 * sum(_heat(best)) > sum(_heat(whole)) else whole


def _heat(loop: SassLoop) -> tuple[int, ...]:
    return tuple(map(loop.count, _FLOAT))


def _plain(op: str) -> str:
    """The name, and the width in bits of what is loaded or stored."""
    head, *modifiers = op.split(".")
    width = next(
        (each for each in modifiers if each in ("64", "128", "U16", "S16", "U8", "S8")), ""
    )
    return f"{head}.{width}" if width and head[:2] in ("LD", "ST") else head
