"""Virtual threads are folded into their thread: each has private values of its own."""

from __future__ import annotations

import ansorc as ac
from ansorc.lang import ComputeDAG
from ansorc.schedule import lower, schedule
from tests.codegen.cuda.proof import Experiment, complaint_of


def test_what_is_allocated_under_a_guard_is_a_virtual_threads_own() -> None:
    """The terms of a reduction of tuples are held beside it; here a guard is around both."""
    A = ac.placeholder((11, 8, 5), name="A")
    k = ac.reduce_axis(5, name="k")
    pairs = ac.reducer(lambda a, b: (ac.maximum(a[0], b[0]), a[1] + b[1]), (-1e30, 0))
    largest, total = ac.compute_tuple(
        (11, 8), lambda i, j: pairs(ac.maximum(A[i, j, k], -1.0), A[i, j, k], axis=k), name="T"
    )
    B = ac.compute((11, 4), lambda i, j: largest[i, j * 2] + total[i, j * 2], name="B")
    dag = ComputeDAG([A, B])
    inner = dag.ops[0].name
    state = schedule(dag).compute_at(inner, "B", "i").compute_at(inner, "B", "j")
    state = state.split(inner, "i", (3, 1)).bind(inner, "i.1", "vthread")
    assert complaint_of(lower(state, "kernel"), Experiment.of(dag), ()) == ""
