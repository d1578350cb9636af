"""Scans in blocks compute what the scans do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import ScheduleError
from ansorc.lang.definitions import scan_in_blocks
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import schedule
from tests.schedule.meaning import keeps_the_meaning
from tests.support.nightly import examples

STEPS: dict[str, Callable[[Scalar, Scalar, Scalar], Scalar]] = {
    "sum": lambda s, x, g: s + x * g,
    "difference": lambda s, x, g: s - x,
    "counter": lambda s, x, g: s + 1,
    "largest": lambda s, x, g: ac.maximum(x, s),
    "smallest": lambda s, x, g: ac.minimum(s, x + g),
    "decay": lambda s, x, g: 0.5 * s + x,
    "linear": lambda s, x, g: (s + x) * g * 0.5,
}


def define(
    rows: int, steps: int, step: str, *, reverse: bool, exclusive: bool = False
) -> ac.ComputeDAG:
    x, g = ac.placeholder((rows, steps), "x"), ac.placeholder((steps,), "g")
    first = ac.placeholder((rows,), "first")
    y = ac.compute(
        (rows, steps),
        lambda i, t: ac.scan(
            first[i], lambda s: STEPS[step](s, x[i, t], g[t]), axis=t,
            reverse=reverse, exclusive=exclusive,
        ),
        "y",
    )  # fmt: skip
    reads = {buffer.name for buffer in ac.ComputeDAG([x, g, first, y]).op("y").reads}
    return ac.ComputeDAG([tensor for tensor in (x, g, first) if tensor.name in reads] + [y])


@examples(6, nightly=150)
@given(
    rows=st.integers(1, 3), steps=st.integers(64, 200), step=st.sampled_from(sorted(STEPS)),
    reverse=st.booleans(), exclusive=st.booleans(),
)  # fmt: skip
def test_any_associative_scan(
    rows: int, steps: int, step: str, *, reverse: bool, exclusive: bool
) -> None:
    is_sum = step not in ("decay", "linear")
    dag = define(rows, steps, step, reverse=reverse, exclusive=exclusive and is_sum)
    keeps_the_meaning(schedule(dag).redefine("y", "blocks"))


def test_the_stages_of_blocks() -> None:
    made = scan_in_blocks(define(2, 100, "sum", reverse=False).op("y"))
    assert made is not None
    total, start, blocks, result = made.ops
    assert [op.name for op in made.ops] == ["y.total", "y.start", "y.blocks", "y"]
    assert [total.buffer.shape, blocks.buffer.shape] == [(2, 7), (2, 7, 16)]
    assert (start.scan_axis, blocks.scan_axis, result.scan) == ("block", "step", None)


OTHERS: list[tuple[int, Callable[[Scalar, Scalar], Scalar]]] = [
    (63, lambda s, x: s + x),
    (100, lambda s, x: ac.tanh(s) + x),
]


@pytest.mark.parametrize(("steps", "step"), OTHERS)
def test_other_scans_have_no_blocks(steps: int, step: Callable[[Scalar, Scalar], Scalar]) -> None:
    x = ac.placeholder((steps,), "x")
    y = ac.compute(steps, lambda t: ac.scan(0.0, lambda s: step(s, x[t]), axis=t), "y")
    words = "it is no scan of 64 steps or more that adds to its state, multiplies it"
    with pytest.raises(ScheduleError, match=words):
        schedule(ac.ComputeDAG([x, y])).redefine("y", "blocks")
