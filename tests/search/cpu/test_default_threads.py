"""Which loops of the untuned default run in parallel: few long rows in all stages, or in none."""

import numpy as np
import pytest

import ansorc as ac
from ansorc import ops
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import replay, schedule
from ansorc.schedule.stage import Mark
from ansorc.schedule.state import State
from ansorc.search.cpu.default import RootLoops, parallel_loops, root_of
from ansorc.search.default import default_steps
from ansorc.target import Target
from tests.search.small_dags import check_meaning

TWO = Target.parse("x86_64-linux-gnu -mcpu=znver4 -cores=2")
MANY = Target.parse("x86_64-linux-gnu -mcpu=znver4 -cores=16")


def chosen(target: Target, *tensors: ac.Tensor) -> State:
    dag = ComputeDAG(tensors)
    return replay(dag, default_steps(dag, target))


def serial(state: State, least: int) -> list[str]:
    """The stages of `least` iterations that run on one core."""
    found: list[str] = []
    for stage in state.stages:
        loops = state.stage(root_of(state, stage.name)).iterators
        work = [axis.extent for axis in (*stage.op.axes, *stage.op.reduce_axes)]
        is_long = not stage.is_inlined and np.prod(work) >= least
        if is_long and not any(loop.mark is Mark.PARALLEL for loop in loops):
            found.append(stage.name)
    return found


@pytest.mark.parametrize("target", [TWO, MANY])
@pytest.mark.parametrize("operator", ["softmax", "log_softmax", "argmax"])
def test_one_long_row_is_shared_out_in_all_its_stages(operator: str, target: Target) -> None:
    x = ac.placeholder((1, 131_072), "x")
    state = chosen(target, x, getattr(ops, operator)(x, axis=1, name="y"))
    assert serial(state, 1000) == []


@pytest.mark.parametrize("extent", [1000, 4096])
def test_a_short_row_stays_on_one_core(extent: int) -> None:
    x = ac.placeholder((1, extent), "x")
    state = chosen(TWO, x, ops.softmax(x, name="y"))
    assert not [it for s in state.stages for it in s.iterators if it.mark is Mark.PARALLEL]


@pytest.mark.parametrize("extent", [4096, 5003, 16_384])
def test_shares_of_a_row_are_right(extent: int) -> None:
    x = ac.placeholder((2, extent), "x")
    dag = ComputeDAG([x, ops.softmax(x, name="y")])
    check_meaning(dag, default_steps(dag, MANY))


def chain() -> State:
    """b[i] = a[i] + 1, c = sum of b: two root stages, of which the second reads the first."""
    a, k = ac.placeholder((1 << 16,), "a"), ac.reduce_axis(1 << 16, "k")
    b = ac.compute(a.shape, lambda i: a[i] + 1.0, "b")
    return schedule(ComputeDAG([a, ac.compute((1,), lambda _: ac.sum(b[k], axis=k), "c")]))


def test_what_threads_have_made_has_to_reach_the_one_that_reads_it() -> None:
    state, size = chain(), (1 << 16) * 4
    moved = size / 2 / TWO.costs.handed_bytes
    gain = moved + TWO.costs.fork
    for cycles, count in ((2.1 * gain, 1), (1.9 * gain, 0)):
        roots = {
            "b": RootLoops([1 << 16], np.array([cycles])),
            "c": RootLoops([1], np.array([1000.0])),
        }
        counts, total = parallel_loops(state, roots, TWO)
        assert (counts["b"], counts["c"]) == (count, 0)
        assert total[0] == pytest.approx(1000 + (cycles / 2 + gain if count else cycles))


def test_stages_that_gain_nothing_alone_are_shared_out_with_the_others() -> None:
    state = chain()
    roots = {
        "b": RootLoops([8], np.array([40_000.0])),
        "c": RootLoops([8], np.array([1.9 * TWO.costs.fork])),
    }
    counts, total = parallel_loops(state, roots, TWO)
    assert (counts["b"], counts["c"]) == (1, 1)
    assert total[0] == pytest.approx(20_000 + (0.95 + 2) * TWO.costs.fork)


def test_each_row_of_a_population_has_its_own_choice() -> None:
    roots = {
        "b": RootLoops([np.array([1, 8, 3]), 2], np.array([1e6, 1e6, 1e2])),
        "c": RootLoops([], np.zeros(3)),
    }
    counts, total = parallel_loops(chain(), roots, MANY)
    assert counts["b"].tolist() == [2, 2, 0]
    assert (total < [1e6, 1e6 / 8, 101]).all()
