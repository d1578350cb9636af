"""Nests for matrix units of CPUs: their form, their borders, and what is refused."""

from __future__ import annotations

import re

import pytest

from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.errors import BuildError
from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.parser import parse
from ansorc.ir.passes.form_matrix_nests import form_matrix_nests
from ansorc.ir.passes.pipeline import CPU_PASSES, run_passes
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.target import Target
from tests.support.narrow_kernels import AMX, SPR

ARM = "aarch64-linux-gnu -mcpu=neoverse-n2"
PARAMS = "A: int8[64, 64], B: int8[16, 64, 4], C: int32[64, 64]"
LOOPS = "i 16, j 16, k 16, *t 4"
SUM = "C[i, j] = C[i, j] + cast(int32, A[i, k * 4 + t]) * cast(int32, B[k, j, t])"  # of i, j, k, t


OF_BLOCKS = SUM.replace("[i", "[b * 16 + i"), "b 4, i 16, j 16, k 16, *t 4"
"""The sums and loops of several tiles."""


def nest(statement: str = SUM, loops: str = LOOPS, params: str = PARAMS) -> Function:
    """Return a kernel of `loops`, names and extents, the marked one for a unit."""
    lines = [f"kernel f({params}):"]
    for each in loops.split(", "):
        name, extent = each.lstrip("*").split()
        word = "matrix" if each.startswith("*") else "for"
        lines.append("    " * len(lines) + f"{word} {name} in 0..{extent}:")
    for part in statement.split("; "):
        lines.append("    " * len(lines) + part)
    return parse("\n".join(lines) + "\n")


def formed(function: Function) -> str:
    return to_text(form_matrix_nests(simplify_stmt(function)))


def test_all_loops_of_a_tile_are_its_unit_s() -> None:
    text = formed(nest(*OF_BLOCKS))
    loops = re.findall(r"(for|matrix) ([a-z.]+) in", text)
    assert loops == [("for", "b"), *(("matrix", name) for name in ("i", "j", "k", "t"))]


def test_a_border_makes_smaller_tiles() -> None:
    statement, loops = OF_BLOCKS
    text = formed(nest(f"if b * 16 + i < 40 and j < 5:; {statement}", loops))
    assert re.findall(r"(if .*|else|matrix [ij] .*):", text) == [
        "if b * 16 < 25", "matrix i in 0..16", "matrix j in 0..5",
        "else", "if b * 16 < 33", "matrix i in 0..8", "matrix j in 0..5",
    ]  # fmt: skip


def test_a_condition_on_the_whole_tile_stays_around_it() -> None:
    statement, loops = OF_BLOCKS
    text = formed(nest(f"if b < 3:; {statement}", loops))
    assert "        if b < 3:\n            matrix i in 0..16:" in text


def test_sums_begin_with_zeros_at_the_first_block() -> None:
    """Before another one they are loaded; a fill that is more than the nest's is in lanes."""
    text = """kernel f(A: int8[64, 64], B: int8[16, 64, 4], C: int32[64, 64]):
    for b in 0..4:
        for i.0 in 0..4:
            seq:
                if b == 0:
                    for x in 0..16:
                        for y in 0..16:
                            C[i.0 * 16 + x, y] = int32(0)
                for k in 0..4:
                    for i in 0..16:
                        for j in 0..16:
                            matrix t in 0..4:
                                C[i.0 * 16 + i, j] = C[i.0 * 16 + i, j] + SUM
""".replace(
        "SUM", SUM.partition("] + ")[2].replace("A[i", "A[i.0 * 16 + i").replace("k", "(b * 4 + k)")
    )
    made = formed(parse(text))
    assert re.findall(r"(if .*|else|matrix [ij] .*|vectorized .*):", made) == [
        "if b == 0", *["matrix i in 0..16", "matrix j in 0..16"] * 2,
        "else", "matrix i in 0..16", "matrix j in 0..16",
    ]  # fmt: skip
    whole = text.replace("x in 0..16", "x in 0..64").replace("C[i.0 * 16 + x, y]", "C[x, y]")
    made = formed(parse(whole))
    assert "vectorized y in 0..16" in made
    assert made.count("matrix i in") == 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (nest(SUM.replace(" * cast", " - cast")), "does not add a product of two elements"),
        (nest(SUM.replace("A[i,", "A[i * i // 16,")), "an index of 'A' is not a sum of its loops"),
        (
            nest(SUM.replace("B[k, j, t]", "B[k, 0, t]").replace("A[i", "A[i + j")),
            "a tile has one loop over its rows, not 2",
        ),
        (nest(SUM.replace("A[i,", "A[0,")), "moves both factors, or neither"),
        (
            nest(
                "C[i, j] = C[i, j] + A[i, k * 4 + t] * B[k, j, t]",
                params=PARAMS.replace("int8", "int32"),
            ),
            "no unit multiplies int32 and int32",
        ),
        (
            nest(SUM.replace("k * 4 + t", "k + t * 16")),
            "4 terms of a row that adjoin are no loop of it",
        ),
        (
            nest(SUM.replace("B[k, j, t]", "B[j, k, t]"), params=PARAMS),
            "columns do not adjoin in groups of 4 terms: pack them, or lay them out",
        ),
        (
            nest(SUM.replace("B[k, j, t]", "B[k, j, 3 - t]")),
            "the terms of a group do not adjoin in the columns",
        ),
        (
            nest(loops="i 33, j 32, k 16, *t 4"),
            "33 x 32 sums are more than its 8 tile registers hold",
        ),
        (nest(f"if k < 3:; {SUM}"), "a condition on its terms keeps some of them from a tile"),
        (nest(f"if i < 3 and i < j + 9:; {SUM}"), "a condition on its terms keeps some"),
        (
            nest(f"if 16 * b + i < 9 and 32 * b + i < 9:; {OF_BLOCKS[0]}", OF_BLOCKS[1]),
            "several conditions on 'i' keep sums",
        ),
        (nest(f"if 2 < i:; {SUM}"), "a condition on 'i' is no border of its tiles"),
        (
            nest(f"if b * 8 + i < 20:; {OF_BLOCKS[0]}", OF_BLOCKS[1]),
            "its tiles begin at multiples of 8, and have 16 iterations of 'i'",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(function: Function, words: str) -> None:
    with pytest.raises(BuildError, match=f"kernel 'f' cannot use a matrix unit of a CPU.*{words}"):
        formed(function)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            SPR,
            "'f' uses tile_i8 of int8 and int8, for which .* lacks amx-tile and amx-int8; add it",
        ),
        (
            ARM,
            "'f' uses tile_i8 of int8 and int8, for which no ARM processor known here has a unit",
        ),
    ],
)
def test_a_machine_without_the_unit_is_refused(target: str, words: str) -> None:
    chosen = Target.parse(target)
    function = run_passes(CPU_PASSES, nest(), chosen)
    with pytest.raises(BuildError, match=words):
        emit_llvm(function, chosen)
    assert "tdpbssd" in emit_llvm(function, Target.parse(AMX))
