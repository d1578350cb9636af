"""Models from record files, and predictions of what a model has not seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorc.errors import RecordError
from ansorc.search.cost_model import Sample
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import FEATURE_NAMES, estimate_cycles
from ansorc.search.measure import FailureKind, ProgramText
from ansorc.search.model import Growth, TreeModel
from ansorc.search.model.training import predictions, random_folds, train_model, training_set
from ansorc.search.options import SearchOptions
from ansorc.search.record import Record, Records
from ansorc.search.record.record import Environment
from ansorc.search.space import design_space, extract, steps
from ansorc.search.task import Task
from tests.search.workloads import ZEN, matmul

HERE = Environment("some CPU", ("avx2",), 4, 1)
SMALL = Growth(trees=30)


def records_of(task: Task, count: int, environment: Environment = HERE) -> list[Record]:
    """Random programs of the first sketch; each takes a nanosecond for an estimated cycle."""
    target = task.with_threads(environment.running).target
    sketch = design_space(task.dag, target, SearchOptions()).sketches[0]
    genes = sample(sketch, count, np.random.default_rng(0), SearchOptions())
    genes = np.unique(genes, axis=0)
    cycles = estimate_cycles(extract(sketch, genes, target)).sum(axis=1)
    found: list[Record] = []
    for row, seconds in zip(genes, 1e-9 * cycles, strict=True):
        text = ProgramText.encode(steps(sketch, row), sketch.names).steps
        found.append(Record(task.key, text, text, "", environment, float(seconds), checked=True))
    return found


@pytest.fixture
def task() -> Task:
    return Task(matmul(64, 64, 64), ZEN, "product")


def written(path: Path, task: Task, records: list[Record]) -> Path:
    with Records.open(path) as opened:
        opened.add_task(task)
        for record in records:
            opened.add(record)
    return path


def test_records_become_the_samples_of_the_search(task: Task, tmp_path: Path) -> None:
    """A record's features are those that the search saw: the times can be told from them."""
    path = written(tmp_path / "tune.db", task, records_of(task, 20))
    found = training_set([path])
    assert set(found.names.values()) == {"product"}
    for one in found.samples:
        assert one.seconds == pytest.approx(1e-9 * estimate_cycles(one.features).sum(), rel=1e-5)


def test_the_samples_have_the_threads_of_their_records(task: Task, tmp_path: Path) -> None:
    """Times of one thread and of eight are told by features of as many cores."""
    eight = replace(HERE, cores=8, threads=8)
    records = records_of(task, 20) + records_of(task, 20, eight)
    path = written(tmp_path / "tune.db", task, records)
    found = training_set([path])
    assert len(found.samples) == len(records)
    for one in found.samples:
        assert one.seconds == pytest.approx(1e-9 * estimate_cycles(one.features).sum(), rel=1e-5)


def test_what_says_nothing_is_left_out(task: Task, tmp_path: Path) -> None:
    first, second, third, fourth, fifth, *_ = records_of(task, 20)
    path = written(tmp_path / "tune.db", task, [
        first,
        replace(second, median_s=None, failure=FailureKind.UNKNOWN),
        replace(third, median_s=None, failure=FailureKind.CRASH),
        replace(fourth, function="a loop program"),
        replace(fifth, steps='[["Split", {"stage": "nothing"}]]'),
    ])  # fmt: skip
    found = training_set([path])
    assert [one.seconds for one in found.samples] == [first.median_s, None]
    assert found.unreadable == 2


def test_a_task_on_another_machine_is_another_task(task: Task, tmp_path: Path) -> None:
    records = records_of(task, 8)
    faster = replace(HERE, cpu="another CPU")
    there = [replace(one, environment=faster) for one in records]
    files = [
        written(tmp_path / "here.db", task, records), written(tmp_path / "there.db", task, there)
    ]  # fmt: skip
    assert len(training_set(files).names) == 2
    assert len(training_set(files[:1]).names) == 1
    assert len(training_set([files[0], files[0]]).names) == 1


def test_the_shortest_time_of_a_program_counts(task: Task, tmp_path: Path) -> None:
    """In each file another one was disturbed."""
    records = records_of(task, 9)
    right = [one.median_s for one in records]
    lost = replace(records[2], median_s=None, failure=FailureKind.RUN_TIMEOUT, checked=False)
    first = [replace(records[0], median_s=9.0), records[1], lost, *records[3:-1]]
    second = [records[0], replace(records[1], median_s=9.0), *records[2:]]
    files = [written(tmp_path / "1.db", task, first), written(tmp_path / "2.db", task, second)]
    found = training_set(files)
    by_estimate = sorted(found.samples, key=lambda one: estimate_cycles(one.features).sum())
    assert [one.seconds for one in by_estimate] == pytest.approx(sorted(filter(None, right)))
    assert len(found.samples) == len(records)


def test_files_with_nothing_to_learn_are_refused(task: Task, tmp_path: Path) -> None:
    one = records_of(task, 1)[0]
    failed = replace(one, median_s=None, failure=FailureKind.CRASH, checked=False)
    path = written(tmp_path / "tune.db", task, [failed])
    with pytest.raises(RecordError, match=r"tune\.db: no program with a time to learn from"):
        training_set([path])
    with pytest.raises(RecordError, match="there is no record file"):
        training_set([tmp_path / "missing.db"])


def test_predictions_know_nothing_of_what_they_predict(task: Task, tmp_path: Path) -> None:
    samples = training_set([written(tmp_path / "tune.db", task, records_of(task, 60))]).samples
    folds = random_folds(len(samples), 0)
    found = predictions(samples, folds, ["test"], SMALL)
    assert len(found.actual) == folds.count("test") == -(-len(samples) // 5)
    best = min(s.seconds for s in samples if s.seconds is not None)
    changed = [
        replace(s, seconds=3 * s.seconds) if fold == "test" and s.seconds not in (None, best) else s
        for s, fold in zip(samples, folds, strict=True)
    ]
    again = predictions(changed, folds, ["test"], SMALL)
    np.testing.assert_array_equal(again.predicted, found.predicted)
    assert (again.actual <= found.actual).all()
    assert (again.actual < found.actual).sum() >= len(found.actual) - 1


def test_an_unseen_task_is_predicted_in_units_of_its_best(task: Task, tmp_path: Path) -> None:
    samples = training_set([written(tmp_path / "tune.db", task, records_of(task, 40))]).samples
    slow = [Sample("slow", one.features, 100 * (one.seconds or 0)) for one in samples]
    both = [*samples, *slow, Sample("failed", samples[0].features, None)]
    found = predictions(both, [one.task for one in both], ["slow", "failed"], SMALL)
    assert set(found.tasks) == {"slow"}
    assert found.predicted.max() == 1
    assert np.corrcoef(found.predicted, found.actual)[0, 1] > 0.99


def test_a_split_is_a_matter_of_its_seed() -> None:
    assert random_folds(100, 1) == random_folds(100, 1)
    assert random_folds(100, 1) != random_folds(100, 2)
    assert random_folds(100, 1).count("test") == 20


def test_a_pretrained_model_knows_the_task_at_once(task: Task, tmp_path: Path) -> None:
    """The times of a machine on which long sums are slow, learned in one run for the next."""
    samples = list(
        training_set([written(tmp_path / "tune.db", task, records_of(task, 80))]).samples
    )
    long = FEATURE_NAMES.index("registers.inner_terms")
    strange = [
        replace(one, seconds=(one.seconds or 0) * float(np.exp(one.features[:, long].max())))
        for one in samples
    ]
    train_model(strange, Growth()).save(tmp_path / "model.json")
    loaded = TreeModel.load(tmp_path / "model.json")
    features = np.stack([one.features for one in strange])
    times = np.array([one.seconds for one in strange])
    fresh = np.corrcoef(np.log(TreeModel().predict_seconds(features)), np.log(times))[0, 1]
    known = np.corrcoef(np.log(loaded.predict_seconds(features)), np.log(times))[0, 1]
    assert known > 0.9 > fresh
    loaded.update([replace(one, seconds=2 * (one.seconds or 0)) for one in strange[:20]])
    ratio = loaded.predict_seconds(features[:20]) / times[:20]
    assert np.median(ratio) == pytest.approx(2, rel=0.1)
