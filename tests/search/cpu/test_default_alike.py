"""A default program that lays its constants out as another one does, for other extents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import packings, replay
from ansorc.schedule.names import Steps
from ansorc.search.default import default_steps
from ansorc.target import Target
from tests.support.nightly import also_nightly, is_nightly

TARGET = Target.parse("x86_64-linux-gnu -mcpu=znver4")


def product(rows: int, width: int = 512) -> ComputeDAG:
    x = ac.placeholder((rows, width), "x")
    w = ac.placeholder((width, width), "w", constant=True)
    return ac.ComputeDAG([x, w, ac.ops.relu(ac.ops.matmul(x, w, name="y"))])


def convolution(batch: int, channels: int = 64) -> ComputeDAG:
    x = ac.placeholder((batch, 14, 14, channels), "x")
    w = ac.placeholder((3, 3, channels, channels), "w", constant=True)
    return ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, stride=2, padding=1, name="y")])


def layouts(dag: ComputeDAG, steps: Steps) -> object:
    return tuple(one.merged for one in packings(replay(dag, steps)))


@also_nightly
@pytest.mark.parametrize("make", [product, convolution])
def test_constants_lie_in_two_layouts_at_most(make: Callable[[int], ComputeDAG]) -> None:
    like: list[Steps] = []
    found: set[object] = set()
    for extent in (4, 1, 2, 3, 7, 16, 33) if is_nightly() else (4, 1, 7, 33):
        dag = make(extent)
        steps = default_steps(dag, TARGET, like=like)
        replay(dag, steps)
        found.add(layouts(dag, steps))
        if steps not in like:
            like = [steps, *like][:4]
    assert len(found) <= 2


def test_a_program_of_another_structure_is_no_pattern() -> None:
    dag = product(8)
    alone = default_steps(dag, TARGET)
    other = convolution(2)
    assert default_steps(dag, TARGET, like=[default_steps(other, TARGET)]) == alone
    assert default_steps(dag, TARGET, like=[()]) == alone
