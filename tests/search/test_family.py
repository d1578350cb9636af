"""Families: which sizes are compared, how a range is divided, what is estimated."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import BuildError
from ansorc.ir.dim import Dim
from ansorc.schedule.steps import Split
from ansorc.search.family import (
    MOST_MEMBERS,
    choose_family,
    divide_range,
    estimate_at,
    sample_sizes,
)
from ansorc.target import Target

TARGET = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=2")


def _product() -> ac.ComputeDAG:
    n = ac.dim("n", 1, 200)
    x = ac.placeholder((n, 64), name="x")
    w = ac.placeholder((64, 96), name="w", constant=True)
    k = ac.reduce_axis(64, name="k")
    y = ac.compute((n, 96), lambda i, j: ac.sum(x[i, k] * w[k, j], axis=k), name="y")
    return ac.ComputeDAG([x, w, y])


def test_sizes_are_powers_of_two_and_the_ends() -> None:
    assert [row["n"] for row in sample_sizes([Dim("n", 3, 40)])] == [3, 4, 8, 16, 32, 40]
    assert [row["h"] for row in sample_sizes([Dim("h", 32, 160, 32)])] == [32, 64, 128, 160]
    both = sample_sizes([Dim("m", 1, 2), Dim("n", 1, 8)])
    assert both[0] == {"m": 1, "n": 1}
    assert both[-1] == {"m": 2, "n": 8}


def test_a_range_is_divided_where_that_saves_time() -> None:
    small, large = np.log([[1.0, 1.0, 1.0, 2.0, 3.0, 3.0], [3.0, 2.0, 1.0, 1.0, 1.0, 1.0]])
    assert divide_range(np.array([small, large])) in ([(0, 0), (2, 1)], [(0, 0), (3, 1)])
    assert divide_range(np.array([small * 0.01, large])) == [(0, 0)]
    many = np.where(np.eye(9, dtype=bool), 0.0, 1.0)
    assert len(divide_range(many)) == MOST_MEMBERS


def test_programs_of_a_family_share_the_layout_of_the_weights() -> None:
    family = choose_family(_product(), TARGET)
    branches = family.branches()
    assert 1 <= len(family.programs) <= MOST_MEMBERS
    assert len(family.limits) == len(family.programs) - 1
    assert sorted(family.limits) == list(family.limits)
    packed = [next(b for b in f.params if b.name == "w") for f in branches.functions]
    assert len({(b.shape, b.dtype) for b in packed}) == 1
    ranges = [f.dims for f in branches.functions if f.dims]
    assert len(set(ranges)) == len(ranges)  # each is made for its own part


def test_measured_programs_that_hold_for_no_size_are_refused() -> None:
    known = (Split("y", "nothing", (4,)),)
    with pytest.raises(BuildError, match="none of the 1 measured programs holds for all sizes of"):
        choose_family(_product(), TARGET, [known])


@pytest.mark.parametrize("n", [1, 7, 200])
def test_more_rows_take_longer(n: int) -> None:
    dag, family = _product(), choose_family(_product(), TARGET)
    steps = family.programs[-1]
    assert estimate_at(dag, steps, {"n": n}, TARGET) > 0
    assert estimate_at(dag, steps, {"n": n}, TARGET) <= estimate_at(dag, steps, {"n": 200}, TARGET)
