"""Regions that a state keeps from the state before are those that it would compute anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.bounds import IndexBounds, region
from ansorc.schedule.extent import same
from ansorc.schedule.schedule import schedule
from ansorc.schedule.state import State
from ansorc.schedule.steps import Step
from tests.search.sketch.test_windows import chain, pipelines, whole_sketches
from tests.support.nightly import examples


def states_after(dag: ComputeDAG, steps: tuple[Step, ...]) -> Iterator[State]:
    """Yield the state after each step."""
    state: State = schedule(dag)
    for step in steps:
        state = state.then(step)
        yield state


def assert_known_are_right(state: State) -> int:
    """Check the regions that a state knows against those of one that knows nothing."""
    new = replace(state)
    for (name, target, depth, is_shared), known in dict(state.regions).items():
        wanted = region(new, name, new.stage(target), depth, is_shared=is_shared)
        for one, other in zip(cast("tuple[IndexBounds, ...]", known), wanted, strict=True):
            assert (one.low is None) == (other.low is None)
            if one.low is not None and other.low is not None:
                assert one.low.terms == other.low.terms
            pairs = ((one.width, other.width), (one.step, other.step), (one.start, other.start))
            assert all(same(a, b) for a, b in pairs)
    return len(state.regions)


@examples(4, nightly=100)
@given(pipelines(), st.data())
def test_kept_regions_are_those_of_a_new_state(dag: ComputeDAG, data: st.DataObject) -> None:
    sketch = data.draw(st.sampled_from(whole_sketches(dag, 2)))
    for state in states_after(sketch.dag, sketch.steps):
        assert_known_are_right(state)


def test_a_step_keeps_what_does_not_depend_on_its_stage() -> None:
    sketch = whole_sketches(chain(8))[2]
    known = [assert_known_are_right(s) for s in states_after(sketch.dag, sketch.steps)]
    assert max(known) >= 4
