"""Programs for other extents: found in the records, adapted, and measured in the first round."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.ir.verify import verify
from ansorc.schedule import Names, Step, lower, replay
from ansorc.search.evolution.sampling import sample
from ansorc.search.measure import ProgramText
from ansorc.search.options import SearchOptions
from ansorc.search.record import Environment, Record, Records, current_environment
from ansorc.search.space import adapt, design_space, encode, steps, tiles
from ansorc.search.transfer import find_related_programs
from ansorc.search.tune import tune_task
from tests.search.small_tasks import options

Steps = tuple[Step, ...]
HERE = current_environment(1)


def product(n: int, m: int, k: int, name: str = "C") -> ac.Task:
    a, b = ac.placeholder((n, k), name="A"), ac.placeholder((k, m), name="B")
    return ac.Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name=name)]), name="product")


def layer(size: int, channels: int) -> ac.Task:
    x = ac.placeholder((1, size, size, channels), name="x")
    w = ac.placeholder((3, 3, channels, channels), name="w", constant=True)
    return ac.Task(ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, padding=1, name="conv")]), name="layer")


def programs(task: ac.Task, count: int, seed: int = 0) -> list[Steps]:
    sketch = design_space(task.dag, task.target).sketches[0]
    genes = sample(sketch, count, np.random.default_rng(seed))
    return [steps(sketch, row) for row in genes]


def record(
    records: Records, task: ac.Task, program: Steps, seconds: float, where: Environment = HERE
) -> None:
    candidate = ProgramText.encode(program, Names(task.dag))
    records.add_task(task)
    records.add(
        Record(
            task.key, candidate.key, candidate.steps, "", where, seconds, checked=True, repeats=3
        )
    )


def test_the_nearest_extents_come_first(tmp_path: Path) -> None:
    near, far = product(60, 32, 32), product(512, 512, 512)
    own = [programs(near, 3), programs(far, 3)]
    with Records.open(tmp_path / "r.db") as records:
        for task, each in zip((near, far), own, strict=True):
            for place, program in enumerate(each):
                record(records, task, program, 1.0 + place)
        found = find_related_programs(records, product(64, 32, 32), HERE, 4)
        assert found == [*own[0][:2], *own[1][:2]]
        assert find_related_programs(records, product(64, 32, 32), HERE, 0) == []


def test_other_settings_of_the_same_task_and_machine_come_before_other_extents(
    tmp_path: Path,
) -> None:
    task, near = product(64, 32, 32), product(60, 32, 32)
    own, others = programs(task, 6), programs(near, 3)
    threads, cold = replace(HERE, threads=2), replace(HERE, cache="cold")
    with Records.open(tmp_path / "r.db") as records:
        for place, each in enumerate(others):
            record(records, near, each, 1.0 + place)
        record(records, task, own[4], 0.1, replace(HERE, cores=HERE.cores + 1, threads=2))
        for place, each in enumerate(own[:3]):
            record(records, task, each, 0.5 + place, threads)
        assert find_related_programs(records, task, HERE, 4) == [*own[:2], *others[:2]]
        record(records, task, own[0], 0.2, cold)
        record(records, task, own[5], 0.3, cold)
        found = find_related_programs(records, task, HERE, 4)
        assert found == [own[0], own[1], own[5], others[0]]


def test_other_computations_machines_and_the_task_itself_are_not_related(tmp_path: Path) -> None:
    task = product(64, 32, 32)
    elsewhere = replace(HERE, cpu="another CPU")
    with Records.open(tmp_path / "r.db") as records:
        record(records, task, programs(task, 1)[0], 1.0)
        record(records, layer(8, 16), programs(layer(8, 16), 1)[0], 1.0)
        other = product(60, 32, 32)
        record(records, other, programs(other, 1)[0], 1.0, elsewhere)
        renamed = product(56, 32, 32, name="D")
        record(records, renamed, programs(renamed, 1)[0], 1.0)
        assert find_related_programs(records, task, HERE, 4) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(product(64, 64, 64), product(96, 128, 32), marks=pytest.mark.nightly),
        (product(64, 64, 64), product(61, 53, 47)),
        (layer(14, 32), layer(7, 64)),
        pytest.param(layer(7, 64), layer(28, 16), marks=pytest.mark.nightly),
    ],
)
def test_adapted_programs_are_legal_and_near(old: ac.Task, new: ac.Task) -> None:
    """Nearer in their register tiles than what is drawn at random."""
    made = nearer = 0
    spaces = [design_space(task.dag, task.target).sketches for task in (old, new)]
    named = {sketch.name: sketch for sketch in spaces[1]}  # some definitions pay for one only
    pairs = [(sketch, named[sketch.name]) for sketch in spaces[0] if sketch.name in named]
    assert len(pairs) >= 0.6 * max(map(len, spaces))
    for before, after in pairs:
        drawn = sample(after, 40, np.random.default_rng(4))
        for row in sample(before, 6, np.random.default_rng(3)):
            genes = adapt(after, steps(before, row))
            if genes is None:
                continue
            made += 1
            verify(lower(replay(new.dag, steps(after, genes))))
            wanted = tiles(before, row)
            others = distances(wanted, tiles(after, drawn))
            nearer += distances(wanted, tiles(after, genes[None, :]))[0] <= np.quantile(others, 0.2)
    assert made >= 0.5 * 6 * len(pairs)
    assert nearer > 0.9 * made


def distances(wanted: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> np.ndarray:
    """[rows]: how far the innermost lengths are from the wanted ones, over all variables."""
    gaps = [
        np.abs(np.log2(found[name][:, -1] / length[-1]))
        for name, length in wanted.items()
        if name in found
    ]
    return np.sum(gaps, axis=0)


def test_a_program_for_the_same_extents_stays_what_it_is() -> None:
    task = product(48, 64, 40)
    for sketch in design_space(task.dag, task.target).sketches:
        for row in sample(sketch, 5, np.random.default_rng(0)):
            program = steps(sketch, row)
            genes = adapt(sketch, program)
            assert genes is not None
            assert steps(sketch, genes) == program
            assert encode(sketch, program) is not None


def test_a_program_of_another_structure_is_not_adapted() -> None:
    first, second, *_ = design_space(product(48, 64, 40).dag, product(48, 64, 40).target).sketches
    program = steps(second, sample(second, 1, np.random.default_rng(0))[0])
    assert adapt(first, program) is None


def test_a_run_begins_with_what_was_fast_for_other_extents(tmp_path: Path) -> None:
    """Also the first round of a run with seeds is the same for the same records."""
    old, new = product(48, 48, 48), product(32, 32, 32)
    fast = programs(old, 4, seed=2)
    with Records.open(tmp_path / "tune.db") as records:
        for place, program in enumerate(fast):
            record(records, old, program, 1e-6 * (1 + place))
    search = SearchOptions(population=64, generations=1, transferred=3)
    tune_task(new, replace(options(tmp_path, 5), search=search))
    with Records.open(tmp_path / "tune.db") as records:
        measured = [
            r.program.decode(Names(new.dag)) for r in records.all(new.key, current_environment(1))
        ]
    sketch = design_space(new.dag, new.target, search).sketches[0]
    expected = [adapt(sketch, program, search) for program in fast[:2]]  # half of them from one
    wanted = [steps(sketch, genes) for genes in expected if genes is not None]
    assert wanted
    assert measured[1 : 1 + len(wanted)] == list(dict.fromkeys(wanted))
    foreign = [program for program in fast if encode(sketch, program) is None]
    assert foreign  # the others are programs for both extents
    assert all(program not in measured for program in foreign)
