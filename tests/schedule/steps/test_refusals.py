"""Each refusal: its words, and the loops that its picture marks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.schedule import Hole, Schedule, schedule
from ansorc.schedule.steps import Split

Case = tuple[Callable[[Schedule], Schedule], str]
"""What is tried, and the marked lines, their indentation left out, joined by " | "."""

I8, J12, K16 = "for i in 0..8", "for j in 0..12", "for k in 0..16"
C, D = "C sum= ...", "D = ..."


def matmul() -> Schedule:
    a, b = ac.placeholder((8, 16), name="A"), ac.placeholder((16, 12), name="B")
    r = ac.reduce_axis(16, name="k")
    c = ac.compute((8, 12), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = ac.compute((8, 12), lambda i, j: ac.maximum(c[i, j], 0.0), name="D")
    return schedule(ac.ComputeDAG([a, b, d]))


def big() -> Schedule:
    a = ac.placeholder((100, 1000), name="A")
    p = ac.compute((100, 1000), lambda i, j: a[i, j] - 1.0, name="P")
    b = ac.compute((100, 1000), lambda i, j: p[i, j] + 1.0, name="B")
    c = ac.compute((100, 1000), lambda i, j: b[i, j] * 2.0, name="C")
    return schedule(ac.ComputeDAG([a, c]))


GENERAL: dict[str, Case] = {
    "there is no stage 'X'; the stages are 'C', 'D'": (lambda s: s.split("X", "i", [2]), ""),
    "stage 'C' has no iterator 'z'; it has 'i', 'j', 'k'": (lambda s: s.split("C", "z", [2]), C),
    "stage 'C' is inlined and has no loops": (
        lambda s: s.cache_write("C").compute_inline("C").split("C", "i", [2]),
        "C = ... (inlined)",
    ),
    "give at least one length, each 1 or more": (lambda s: s.split("C", "i", [0]), I8),
    "the lengths make 1000 iterations, but 'i' runs 8 times; give lengths whose product is at": (
        lambda s: s.split("C", "i", [1000]),
        I8,
    ),
    "2 iterators and 1 lengths; tile needs one for each": (
        lambda s: s.tile("C", ["i", "j"], [4]),
        C,
    ),
    "'j' is already marked vectorize, and a loop has one mark": (
        lambda s: s.vectorize("D", "j").unroll("D", "j"),
        "vectorize j in 0..12",
    ),
    "'i' is already marked parallel; split it before that": (
        lambda s: s.parallel("D", "i").split("D", "i", [2]),
        "parallel i in 0..8",
    ),
    "give two iterators or more": (lambda s: s.fuse("C", ["i"]), I8),
    "not direct neighbours, outermost first; reorder before": (
        lambda s: s.fuse("C", ["j", "i"]),
        f"{I8} | {J12}",
    ),
    "space and reduce iterators cannot be fused": (
        lambda s: s.fuse("C", ["j", "k"]),
        f"{J12} | {K16}",
    ),
    "'C' is computed at 'i', between the two loops": (
        lambda s: s.compute_at("C", "D", "i").fuse("D", ["i", "j"]),
        I8,
    ),
    "an iterator is named twice": (lambda s: s.reorder("C", ["i", "j", "i"]), I8),
}

PLACES: dict[str, Case] = {
    "'D' is an output and must be computed whole": (lambda s: s.compute_at("D", "C", "i"), D),
    "'j' is a loop of 'C' itself; name one of its reader": (
        lambda s: s.compute_at("C", "D", "i").compute_at("C", "C", "j"),
        J12,
    ),
    "'C.local' reads 'C' outside that loop": (
        lambda s: s.cache_read("C", "local", ["D"]).compute_at("C", "D", "i"),
        "C.local = ...",
    ),
    "use compute_at before that": (
        lambda s: s.split("C", "i", [2]).compute_at("C", "D", "i"),
        "for i.0 in 0..4 | for i.1 in 0..2",
    ),
    "'j' is vectorized; choose a loop outside it": (
        lambda s: s.vectorize("D", "j").compute_at("C", "D", "j"),
        "vectorize j in 0..12",
    ),
    "use compute_root before that": (
        lambda s: s.unroll("C", "k").compute_root("C"),
        "unroll k in 0..16",
    ),
    "'C' is a reduction; use compute_at instead": (lambda s: s.compute_inline("C"), C),
    "'D' is an output and must be stored": (lambda s: s.compute_inline("D"), D),
    "inline it before that": (
        lambda s: s.cache_write("C").split("C", "i", [2]).compute_inline("C"),
        "for i.0 in 0..4 | for i.1 in 0..2",
    ),
    "'C.local' is computed inside its loops": (
        lambda s: s.cache_write("C").compute_at("C.local", "C", "i").compute_inline("C"),
        "C.local sum= ...",
    ),
    "would change the region of 'C', whose loops were already changed": (
        lambda s: (
            s.split("D", "i", [4])
            .compute_at("C", "D", "i.0")
            .split("C", "i", [2])
            .reorder("D", ["j", "i.1", "i.0"])
        ),
        "for i.0 in 0..2 | for i.1 in 0..2 | for j in 0..12",
    ),
    "'C.local' reads 'C' outside the loop 'i' of 'D' in which it is computed": (
        lambda s: s.compute_at("C", "D", "i").cache_read("C", "local", ["D"]),
        C,
    ),
}

BUFFERS: dict[str, Case] = {
    "the loops of 'C' were already changed; use cache_write": (
        lambda s: s.split("C", "i", [2]).cache_write("C"),
        "for i.0 in 0..4 | for i.1 in 0..2",
    ),
    "stages are computed inside its loops; use cache_write before": (
        lambda s: s.compute_at("C", "D", "i").cache_write("D"),
        C,
    ),
    "'C' is computed inside another stage; use cache_write before": (
        lambda s: s.compute_at("C", "D", "i").cache_write("C"),
        C,
    ),
    "there is no memory scope 'fast'; use 'local'": (lambda s: s.cache_write("C", "fast"), C),
    "there is no memory scope 'slow'; use 'local'": (lambda s: s.cache_read("A", "slow", ["C"]), C),
    "there is no tensor 'Z' to read": (lambda s: s.cache_read("Z", "local", ["C"]), C),
    "'D' does not read 'A'": (lambda s: s.cache_read("A", "local", ["D"]), D),
    "name one reader or more": (lambda s: s.cache_read("C", "local", []), C),
    "'i' is not a loop of a reduction": (lambda s: s.rfactor("C", "i"), I8),
    "the partial result has no dimension 3; use 0 to 2, or -1": (
        lambda s: s.rfactor("C", "k", 3),
        C,
    ),
    "only the reduce loops may have been changed before; use rfactor first": (
        lambda s: s.split("C", "i", [2]).split("C", "k", [4]).rfactor("C", "k.0"),
        "for i.0 in 0..4 | for i.1 in 0..2",
    ),
    "'D' is an output, whose layout is the caller's": (lambda s: s.storage_align("D", "i", 8), D),
    "'j' is not an axis with a stride to align; there is 'i'": (
        lambda s: s.storage_align("C", "j", 8),
        C,
    ),
    "a factor is 1 to 4096 elements, not 0": (lambda s: s.storage_align("C", "i", 0), C),
    "an offset is 0 or more and below the factor 8, not 8": (
        lambda s: s.storage_align("C", "i", 8, 8),
        C,
    ),
    "'D' is an output, whose layout is the caller's; use cache_write first and hold": (
        lambda s: s.split("D", "j", [4]).panel("D", "j.1"),
        D,
    ),
    "'j' is not the last part of an axis that was split; there is none; split an axis first": (
        lambda s: s.panel("C", "j"),
        C,
    ),
    "'k.1' is not the last part of an axis that was split; there is 'j.1'": (
        lambda s: s.split("C", "j", [4]).split("C", "k", [4]).panel("C", "k.1"),
        C,
    ),
    "'C' is held in panels or aligned already": (
        lambda s: s.split("C", "j", [4]).panel("C", "j.1").panel("C", "j.1"),
        C,
    ),
    "'C' is held in panels, which leave nothing to align": (
        lambda s: s.split("C", "j", [4]).panel("C", "j.1").storage_align("C", "i", 8),
        C,
    ),
    "'C' were already changed; use compute_root": (
        lambda s: s.compute_at("C", "D", "i").storage_align("C", "i", 8).compute_root("C"),
        C,
    ),
}

MARKS: dict[str, Case] = {
    "'k' is a reduction and its steps depend on each other, so it cannot be parallel; rfactor": (
        lambda s: s.parallel("C", "k"),
        K16,
    ),
    "cannot be bound to a thread; rfactor it": (lambda s: s.bind("C", "k", "blockIdx.x"), K16),
    "'i' is already parallel, and threads do not nest": (
        lambda s: s.parallel("C", "i").parallel("C", "j"),
        "parallel i in 0..8",
    ),
    "'j' is already parallel, and threads do not nest": (
        lambda s: s.compute_at("C", "D", "i").parallel("C", "j").parallel("D", "i"),
        "parallel j in 0..12",
    ),
    "there is no sharing 'guided'; use 'static' or 'dynamic'": (
        lambda s: s.parallel("C", "i", sharing="guided"),
        I8,
    ),
    "a chunk is 1 iteration or more, and 1 for static sharing, not 0": (
        lambda s: s.parallel("C", "i", sharing="dynamic", chunk=0),
        I8,
    ),
    "1 for static sharing, not 2": (lambda s: s.parallel("C", "i", chunk=2), I8),
    "'C' is computed inside 'i'; vectorize a loop further inside": (
        lambda s: s.compute_at("C", "D", "j").vectorize("D", "i"),
        J12,
    ),
    "there is no thread index 'warp'; use one of blockIdx.x": (
        lambda s: s.bind("C", "i", "warp"),
        I8,
    ),
    "there is no pragma 'fast'": (lambda s: s.pragma("C", "fast", 1), C),
    "-1 is below 0": (lambda s: s.pragma("C", "auto_unroll_max_step", -1), C),
}

COPIES: dict[str, Case] = {
    "it would make 12500 copies of the statement of 'B'": (
        lambda s: s.unroll("B", "i").vectorize("B", "j"),
        "unroll i in 0..100 | for j in 0..1000",
    ),
    "it would make 5000 copies of the statement of 'C'": (
        lambda s: (
            s.split("C", "i", [50]).unroll("C", "i.1").split("C", "j", [100]).unroll("C", "j.1")
        ),
        "unroll i.1 in 0..50 | for j.1 in 0..100",
    ),
    "it would make 100000 copies of the statement of 'B'": (
        lambda s: s.compute_at("B", "C", "i").unroll("B", "j").unroll("C", "i"),
        "for i in 0..100 | unroll j in 0..1000",
    ),
    "it would make 100000 copies of the statement of 'P'": (
        lambda s: (
            s.compute_at("P", "B", "i").unroll("P", "j").unroll("C", "i").compute_at("B", "C", "i")
        ),
        "unroll j in 0..1000 | unroll i in 0..100",
    ),
}


def marked(error: ScheduleError) -> str:
    """The marked lines of the picture; every line of it is marked or begins with two spaces."""
    picture = str(error).partition("\n\n")[2].splitlines()
    assert all(line.startswith(("> ", "  ")) for line in picture)
    lines = [line for line in picture if line.startswith("> ")]
    assert all(line.endswith("  <-- here") for line in lines)
    return " | ".join(line[2:].removesuffix("<-- here").strip() for line in lines)


def refused(case: Case, state: Schedule) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        case[0](state)
    return caught.value


SMALL = GENERAL | PLACES | BUFFERS | MARKS


@pytest.mark.parametrize("words", SMALL)
def test_a_refusal_says_why_and_marks_the_loop(words: str) -> None:
    error = refused(SMALL[words], matmul())
    assert words in str(error)
    assert marked(error) == SMALL[words][1]


@pytest.mark.parametrize("words", COPIES)
def test_too_many_copies(words: str) -> None:
    error = refused(COPIES[words], big())
    assert words in str(error)
    assert marked(error) == COPIES[words][1]


def test_a_reduction_with_holes_cannot_be_factored() -> None:
    state = matmul().then(Split("C", "k", (Hole("C.k", (1,)),)))
    error = refused((lambda s: s.rfactor("C", "k.1"), ""), state)
    assert "the lengths of the reduction are not chosen yet" in str(error)
    assert marked(error) == "for k.0 in 0..? | for k.1 in 0..?"


def test_a_stride_that_no_padding_reaches() -> None:
    a = ac.placeholder((4, 6, 10), name="A")
    b = ac.compute((4, 6, 10), lambda i, j, k: a[i, j, k] + 1.0, name="B")
    c = ac.compute((4, 6, 10), lambda i, j, k: b[i, j, k] * 2.0, name="C")
    state = schedule(ac.ComputeDAG([a, c]))
    error = refused((lambda s: s.storage_align("B", "i", 4, 1), ""), state)
    assert "no padding makes the stride of 'i' 1 modulo 4" in str(error)
    assert marked(error) == "B = ..."
    assert state.storage_align("B", "i", 4, 0).stage("B").alignments


def test_the_program_shown_is_the_one_before_the_step() -> None:
    state = matmul().compute_at("C", "D", "i")
    error = refused((lambda s: s.cache_read("C", "local", ["D"]), ""), state)
    assert error.state is state
    unmarked = [line.removesuffix("  <-- here") for line in str(error).splitlines()[3:]]
    assert [line[2:].rstrip() for line in unmarked] == str(state).splitlines()
