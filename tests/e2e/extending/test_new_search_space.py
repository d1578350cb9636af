"""A machine with a search space of its own, in one folder, is searched, measured and built for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang import ComputeDAG
from ansorc.schedule import Step, replay
from ansorc.schedule.steps import Split
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.features import ESTIMATE_COLUMN
from ansorc.search.measure import MeasureOptions, RunOptions
from ansorc.search.options import SearchOptions
from ansorc.search.programs import default_program, program_of_record
from ansorc.search.sketch import rule_name
from ansorc.search.space import (
    are_legal,
    design_space,
    extract,
    extract_state,
    search_space,
    sketch_rules,
    steps,
    tiles,
)
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from tests.e2e import toy_backend
from tests.e2e.extending.toy_machine.space import SCRATCHPAD, SPACE
from tests.support.nightly import sampled

MACHINE = ac.Target.parse("native -backend=tests.e2e.extending.toy_machine.backend")


def product() -> ComputeDAG:
    a, b = ac.placeholder((40, 24), name="A"), ac.placeholder((24, 50), name="B", constant=True)
    return ComputeDAG([a, b, ac.ops.relu(ac.ops.matmul(a, b, name="C"), name="D")])


def sides_of(program: tuple[Step, ...]) -> dict[str, list[int]]:
    sides = dict[str, list[int]]()
    for step in program:
        if isinstance(step, Split):
            (length,) = step.lengths
            assert isinstance(length, int)
            sides.setdefault(step.stage, []).append(length)
    return sides


def assert_its_own(program: tuple[Step, ...]) -> None:
    sides = sides_of(program)
    assert set(sides) == {"C", "D"}
    for one, other in sides.values():
        assert one.bit_count() == other.bit_count() == 1
        assert one * other <= SCRATCHPAD


def assert_right(module: ac.Module) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((40, 24), (24, 50)))
    np.testing.assert_allclose(module(a, b), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


def test_the_back_end_names_its_space() -> None:
    assert search_space(MACHINE) is SPACE
    assert [rule_name(rule) for rule in sketch_rules(target=MACHINE)] == ["InBlocks", "Skip"]
    assert search_space(ac.Target.parse("native")) is not SPACE


def test_its_programs_are_drawn_and_varied() -> None:
    (sketch,) = design_space(product(), MACHINE).sketches
    rng = np.random.default_rng(0)
    genes = sample(sketch, 50, rng)
    children = mutate(sketch, genes, rng)
    assert len(genes) == 50
    assert (children != genes).any()
    assert are_legal(sketch, children).all()
    for row in (*genes[:5], *children[:5]):
        assert_its_own(steps(sketch, row))
    features = extract(sketch, genes, MACHINE)
    place = SPACE.features.names.index("block.iterations")
    lengths = tiles(sketch, genes)
    sides = [lengths[variable.name] for variable in sketch.variables if variable.stage == "D"]
    covered = np.prod(sides, axis=(0, 2))
    np.testing.assert_allclose(np.exp2(features[:, 1, place]) - 1, covered, rtol=1e-5)


def test_its_default_is_the_best_by_its_estimate() -> None:
    program = default_program(ac.Task(product(), MACHINE)).steps
    assert_its_own(program)
    (sketch,) = design_space(product(), MACHINE).sketches
    drawn = sample(sketch, 200, np.random.default_rng(1))
    state = replay(product(), program)
    best = np.exp2(extract_state(state, MACHINE)[0, :, ESTIMATE_COLUMN]).sum()
    assert best <= SPACE.estimate(sketch, drawn).min() * 1.001
    assert_right(ac.build(product(), MACHINE))


@pytest.mark.parametrize("cost_model", sampled(["trees", "roofline"], ["trees"]))
def test_it_is_tuned(cost_model: str, tmp_path: Path) -> None:
    task = ac.Task(product(), MACHINE, "kernel")
    measuring = MeasureOptions(run=RunOptions(min_total_s=0.002), builders=1, batch=4)
    search = SearchOptions(population=64, generations=2, trials_per_round=4, cost_model=cost_model)
    options = TuneOptions(12, tmp_path / "tune.db", threads=1, measuring=measuring, search=search)
    result = tune_task(task, options)
    assert (result.measured_now, result.failures) == (12, {})
    assert result.best is not None
    assert result.best.checked
    assert_its_own(program_of_record(task, result.best).steps)
    module = result.build()
    assert_right(module)
    artifact = module.save(tmp_path / "kernel.so")
    assert toy_backend.MARKER.encode() in artifact.library.read_bytes()
    again = tune_task(task, options)
    assert again.measured_now == 0
