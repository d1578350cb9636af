"""Reductions of rows, by the untuned default schedule, which is what one would write by hand."""

from __future__ import annotations

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule, replay
from ansorc.search.default import default_steps
from ansorc.target import Target


def norm(n: int, m: int) -> ComputeDAG:
    """Return the square root of the sum of the squares of an n × m matrix."""
    x = ac.placeholder((1, n, m), name="X")
    return ac.ComputeDAG([x, ac.ops.norm2(x)])


def softmax(n: int, m: int) -> ComputeDAG:
    """Return the softmax of each row of an n × m matrix."""
    x = ac.placeholder((n, m), name="X")
    return ac.ComputeDAG([x, ac.ops.softmax(x)])


def layer_norm(n: int, m: int) -> ComputeDAG:
    """Return each row of an n × m matrix normalised, scaled and shifted."""
    x = ac.placeholder((n, m), name="X")
    scale, shift = ac.placeholder((m,), name="scale"), ac.placeholder((m,), name="shift")
    return ac.ComputeDAG([x, scale, shift, ac.ops.layer_norm(x, scale, shift)])


def by_default(dag: ComputeDAG, target: Target, _threads: int) -> Schedule:
    """Return the untuned default schedule."""
    return replay(dag, default_steps(dag, target))
