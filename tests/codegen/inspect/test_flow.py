"""Loops are found wherever their blocks are placed: random nests with shuffled blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ansorc.codegen.inspect.assembly import Loop, loops


@dataclass
class Nest:
    """A loop whose body does `work` multiply-adds and then runs `inner`, in order."""

    work: int
    skips: bool
    """Whether the work can be jumped over, and the loop be continued early."""
    inner: list[Nest]
    label: str = field(default="", compare=False)

    def fma(self) -> int:
        return self.work + sum(nest.fma() for nest in self.inner)

    def walk(self, depth: int = 1) -> list[tuple[Nest, int]]:
        return [(self, depth), *(pair for nest in self.inner for pair in nest.walk(depth + 1))]


nests = st.recursive(
    st.builds(Nest, st.integers(0, 3), st.booleans(), st.just([])),
    lambda inner: st.builds(Nest, st.integers(0, 3), st.booleans(), st.lists(inner, max_size=3)),
    max_leaves=8,
)


class Blocks:
    """Blocks that each end in a jump, so that they may lie in any order."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers = count(1)

    def label(self) -> str:
        return f".L{next(self._numbers)}"

    def add(self, label: str, *lines: str) -> None:
        self.texts.append("\n".join([f"{label}:", *(f"\t{line}" for line in lines)]))

    def nest(self, nest: Nest, begin: str, after: str) -> None:
        """Add a loop that is entered at `begin` and left to `after`."""
        nest.label = begin
        work, latch = self.label(), self.label()
        skip = (f"je\t{latch}",) if nest.skips else ()
        self.add(begin, "movl\t%eax, %ecx", *skip, f"jmp\t{work}")
        following = self.label() if nest.inner else latch
        self.add(work, *["vfmadd231ps\t%ymm0, %ymm1, %ymm2"] * nest.work, f"jmp\t{following}")
        for number, inner in enumerate(nest.inner, start=1):
            done = latch if number == len(nest.inner) else self.label()
            self.nest(inner, following, done)
            following = done
        early = (f"jg\t{begin}",) if nest.skips else ()
        self.add(latch, "decl\t%eax", *early, f"jne\t{begin}", f"jmp\t{after}")


@given(st.lists(nests, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_loops_of_random_nests_in_any_order_of_blocks(outer: list[Nest], random: Random) -> None:
    blocks = Blocks()
    end = blocks.label()
    begin = blocks.label()
    entry = f"f:\n\tjmp\t{begin}"
    for number, nest in enumerate(outer, start=1):
        done = end if number == len(outer) else blocks.label()
        blocks.nest(nest, begin, done)
        begin = done
    blocks.add(end, "retq")
    random.shuffle(blocks.texts)
    found = loops("\n".join([entry, *blocks.texts]) + "\n")
    expected = {
        nest.label: (depth, not nest.inner, nest.fma())
        for top in outer
        for nest, depth in top.walk()
    }
    assert {loop.label: (loop.depth, loop.is_innermost, loop.fma) for loop in found} == expected
    assert len(found) == len(expected)


def labels(text: str) -> list[tuple[str, int, bool]]:
    def row(loop: Loop) -> tuple[str, int, bool]:
        return loop.label, loop.depth, loop.is_innermost

    return [row(loop) for loop in loops(text)]


def test_a_test_at_the_end_that_is_entered_in_the_middle() -> None:
    text = "f:\n\tjmp\t.L2\n.L1:\n\tincl\t%eax\n.L2:\n\tcmpl\t%eax, %ecx\n\tjne\t.L1\n\tretq\n"
    assert labels(text) == [(".L2", 1, True)]


def test_two_entries_are_one_loop() -> None:
    text = "f:\n\tje\t.L2\n.L1:\n\tincl\t%eax\n.L2:\n\tcmpl\t%eax, %ecx\n\tjne\t.L1\n\tretq\n"
    assert labels(text) == [(".L1", 1, True)]


def test_code_without_loops_and_jumps_to_other_functions() -> None:
    assert labels("f:\n\tje\t.L1\n\tincl\t%eax\n.L1:\n\tjmp\tg\n") == []
    assert labels("f:\n\tjmpq\t*%rax\ng:\n.L1:\n\tjmp\t.L1\n") == [(".L1", 1, True)]
    assert labels("") == []
