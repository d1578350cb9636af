"""Instructions in the loops of a compiled kernel, counted in its assembly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

from ansorc.codegen.inspect.counts import Counts, counts_of
from ansorc.codegen.inspect.flow import Circle, blocks, circles
from ansorc.codegen.inspect.text import AssemblyFunction, AssemblyText, read_assembly


@dataclass(frozen=True)
class Loop:
    """A loop of a function in assembly, with all that is in it counted once."""

    function: str
    label: str
    """The label of the block where the loop is entered."""
    depth: int
    """1 for a loop that is in no other."""
    is_innermost: bool
    lines: tuple[int, ...]
    """The numbers of the lines of its instructions, from 1, ascending."""
    counts: Counts

    @property
    def name(self) -> str:
        """The function and the label."""
        return f"{self.function}:{self.label}"

    @property
    def first_line(self) -> int:
        """The line of its first instruction."""
        return self.lines[0]

    @property
    def title(self) -> str:
        """One line: where the loop is, and what it is made of."""
        return f"{self.name}, depth {self.depth}: {self.summary}"

    @property
    def fma(self) -> int:
        """Vector multiply-adds."""
        return self.counts.fma

    @property
    def loads(self) -> int:
        """Vectors, elements for all lanes, and scalars read from memory, without reloads."""
        return self.counts.loads + self.counts.broadcasts + self.counts.scalar_loads

    @property
    def stores(self) -> int:
        """Vectors and scalars written to memory, without spills."""
        return self.counts.stores + self.counts.scalar_stores

    @property
    def spills(self) -> int:
        """Vectors and scalars that go to the stack or come back for want of registers."""
        return self.counts.spills

    @property
    def summary(self) -> str:
        """One line: multiply-adds, loads, stores, spills, multiply-adds for each load."""
        counts = self.counts
        words = [f"{counts.instructions} instructions", f"{counts.fma} FMA"]
        words += [f"{counts.scalar_fma} scalar FMA"] if counts.scalar_fma else []
        kinds = (
            f"{counts.loads} vector, {counts.broadcasts} broadcast, {counts.scalar_loads} scalar"
        )
        words.append(f"{self.loads} loads ({kinds})")
        words.append(f"{self.stores} stores")
        words.append(
            f"{counts.vector_spills + counts.vector_reloads} vector and "
            f"{counts.scalar_spills + counts.scalar_reloads} scalar spills and reloads"
        )
        words += (
            [f"{counts.fma / self.loads:.2f} FMA per load"] if counts.fma and self.loads else []
        )
        return ", ".join(words)


def loops(assembly: str) -> list[Loop]:
    """Return all loops of an assembly text (x86-64 in AT&T or Intel syntax, or aarch64).

    Function by function, an outer loop before those in it.
    """
    text = read_assembly(assembly)
    return [loop for function in text.functions for loop in _loops_of(function, text)]


def innermost_loops(assembly: str) -> list[Loop]:
    """Return the loops that contain no other, as `loops` does."""
    return [loop for loop in loops(assembly) if loop.is_innermost]


def mark_loops(assembly: str) -> str:
    """Return the text with a bar along each innermost loop and its summary before it."""
    loops = innermost_loops(assembly)
    inside = {line for loop in loops for line in loop.lines}
    heads = {loop.first_line: loop for loop in loops}
    lines: list[str] = []
    for number, line in enumerate(assembly.splitlines(), start=1):
        if (head := heads.get(number)) is not None:
            lines.append(f"| == innermost loop {head.title}")
        lines.append(f"|{line}" if number in inside else line)
    return "\n".join(lines) + "\n"


def _loops_of(function: AssemblyFunction, text: AssemblyText) -> list[Loop]:
    ranges, graph = blocks(function, text.architecture)
    names = {number: label for label, number in function.labels.items()}
    return [_loop(circle, function, ranges, names, text) for circle in circles(graph)]


def _loop(
    circle: Circle,
    function: AssemblyFunction,
    ranges: list[range],
    names: dict[int, str],
    text: AssemblyText,
) -> Loop:
    numbers = sorted(number for node in circle.nodes for number in ranges[node])
    code = [function.instructions[number] for number in numbers]
    counted = [counts_of(each, text.architecture, has_notes=text.has_notes) for each in code]
    label = names.get(ranges[circle.header].start, "entry")
    lines = tuple(instruction.line for instruction in code)
    total = reduce(add, counted, Counts())
    return Loop(function.name, label, circle.depth, circle.is_innermost, lines, total)
