"""What scoring a program consists of: the functions that the table names are there."""

from __future__ import annotations

import ansorc as ac
from ansorc.search.space import design_space
from ansorc.target import Target
from bench.search.scoring import PARTS, report


def test_the_parts_make_up_the_features() -> None:
    a, b = ac.placeholder((64, 64), "A"), ac.placeholder((64, 64), "B")
    dag = ac.ComputeDAG([a, b, ac.ops.matmul(a, b, "C")])
    target = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=2")
    whole, inside = report({"matmul": dag}, target, 8)
    assert list(whole.columns[1].cells) == [str(len(design_space(dag, target).sketches))]
    cells = [str(cell) for column in inside.columns[1:] for cell in column.cells]
    shares = [int(cell.rstrip("%")) for cell in cells]
    assert len(shares) == len(PARTS) + 1
    assert all(shares)
    assert 95 <= sum(shares) <= 105
