"""Random programs whose sizes the caller gives: interpreter, machine code and NumPy agree."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc.errors import ArgumentError, ScheduleError
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.specialize import specialize
from ansorc.schedule import State, lower, packings, replay
from ansorc.schedule.names import Steps
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.generate import generate
from ansorc.search.space import search_space
from ansorc.search.space.genes import steps
from ansorc.target import Target
from tests.e2e.sizes.sized_dags import draw_inputs, draw_sized_dag, draw_sizes
from tests.schedule.fenced import Fenced
from tests.support.nightly import also_nightly, amount

Arrays = Sequence[NDArray[np.float32]]
SIZES = 4


def _random_steps(dag: ac.ComputeDAG, rng: random.Random, target: Target) -> Steps:
    """Return a random program of the search space for random sizes."""
    known = dag.at(draw_sizes(dag.dims, rng, rng.randint(0, 5)))
    space, options = search_space(target), SearchOptions()
    derived = generate(known, target, space.rules(options))
    _, whole = rng.choice(list(space.complete(derived[:4], options)))
    sketch = rng.choice(list(islice(whole, 4)))
    genes = space.sample(sketch, 4, np.random.default_rng(rng.randrange(1 << 30)), options)
    return steps(sketch, genes[rng.randrange(len(genes))]) if len(genes) else ()


def _random_state(dag: ac.ComputeDAG, rng: random.Random, target: Target) -> State:
    """Return a random schedule that holds for all sizes; the plain loops if there is none."""
    try:
        state = replay(dag, _random_steps(dag, rng, target))
        lower(state)
    except (ScheduleError, ArgumentError):
        return ac.schedule(dag)
    return state


def _close(results: Arrays, expected: Sequence[NDArray[np.float64]], words: str) -> None:
    for result, wanted in zip(results, expected, strict=True):
        scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
        assert float(np.abs(result - wanted).max(initial=0.0)) <= 2e-4 * scale, words


def _expected(known: ac.ComputeDAG, inputs: Arrays) -> Sequence[NDArray[np.float64]]:
    results = known.evaluate(*inputs)
    return results if isinstance(results, tuple) else (results,)


@also_nightly
@pytest.mark.parametrize("seed", range(amount(8, 300)))
def test_the_interpreter_runs_what_was_defined(seed: int) -> None:
    rng = random.Random(seed)
    dag = draw_sized_dag(rng, most=11)
    state = _random_state(dag, rng, Target.parse("native"))
    function, layouts = lower(state), {each.source.name: each for each in packings(state)}
    assert parse(to_text(function)) == function
    for number in range(3):
        sizes = draw_sizes(dag.dims, rng, number)
        known, exact = dag.at(sizes), specialize(function, sizes)
        inputs = draw_inputs(known, seed)
        outputs = [np.full(b.shape, np.nan, np.float32) for b in known.outputs]
        given = [
            layouts[b.name].apply(array) if b.name in layouts else array
            for b, array in zip(known.inputs, inputs, strict=True)
        ]
        interpret(exact, [*given, *outputs], fresh_outputs=True)
        _close(outputs, _expected(known, inputs), f"{sizes}\n{dag}\n{function}")


@also_nightly
@pytest.mark.parametrize("seed", range(amount(24, 3000)))
def test_machine_code_stays_inside_and_is_right(seed: int) -> None:
    """Arrays lie before or behind a page that cannot be touched; outputs hold NaN before."""
    rng = random.Random(seed)
    dag = draw_sized_dag(rng)
    state = _random_state(dag, rng, Target.parse("native"))
    module = ac.build(state, name="k")
    for number in range(amount(SIZES, 8)):
        sizes = draw_sizes(dag.dims, rng, number)
        known = dag.at(sizes)
        inputs = draw_inputs(known, seed)
        at_end = bool(number % 2)
        kind = np.dtype(np.float32)
        fenced = [Fenced(b.shape, kind, at_end=at_end) for b in (*known.inputs, *known.outputs)]
        for place, array in zip(fenced, inputs, strict=False):
            place.array[...] = array
        for place in fenced[len(inputs) :]:
            place.array[...] = np.nan
        module(*(place.array for place in fenced), threads=rng.choice([1, 2]))
        assert all(place.is_intact() for place in fenced)
        results = [place.array for place in fenced[len(inputs) :]]
        _close(results, _expected(known, inputs), f"{sizes}\n{dag}\n{state}")


@also_nightly
@pytest.mark.parametrize("seed", range(amount(3, 100)))
def test_families_are_right_at_every_size(seed: int) -> None:
    rng = random.Random(seed)
    dag = draw_sized_dag(rng, most=40)
    module = ac.build(dag, name="k")
    for number in range(6):
        known = dag.at(draw_sizes(dag.dims, rng, number))
        inputs = draw_inputs(known, seed)
        outputs = [np.full(b.shape, np.nan, np.float32) for b in known.outputs]
        module(*inputs, *outputs)
        _close(outputs, _expected(known, inputs), f"{dag}")
