"""Cost models: what they learn, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorc.errors import RecordError
from ansorc.search.cost_model import Sample
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import FEATURE_NAMES, Features, estimate_cycles
from ansorc.search.model import (
    Growth,
    RandomModel,
    RooflineModel,
    TreeModel,
    what_is_missing,
)  # fmt: skip
from ansorc.search.model.training import metrics
from ansorc.search.model.trees import labels_of
from ansorc.search.options import SearchOptions
from ansorc.search.space import design_space, extract
from tests.search.workloads import ZEN, matmul
from tests.support.nightly import sampled

HIDDEN = FEATURE_NAMES.index("registers.inner_terms")


def programs(count: int, seed: int, size: int = 64) -> Features:
    """Features of programs of the first sketch."""
    sketch = design_space(matmul(size, size, size), ZEN, SearchOptions()).sketches[0]
    rng = np.random.default_rng(seed)
    return extract(sketch, sample(sketch, count, rng, SearchOptions()), ZEN)


def hidden_seconds(features: Features, weight: float = 0.4) -> np.ndarray:
    """A machine on which long sums cost what the estimate does not know."""
    cycles = estimate_cycles(features).sum(axis=1)
    return cycles * 1e-9 * np.exp(weight * features[:, :, HIDDEN].max(axis=1))


def samples_of(features: Features, task: str = "matmul", weight: float = 0.4) -> list[Sample]:
    seconds = hidden_seconds(features, weight)
    return [Sample(task, row, float(s)) for row, s in zip(features, seconds, strict=True)]


def eager(seed: int = 0) -> TreeModel:
    """A model that learns from a single success."""
    return TreeModel(Growth(seed=seed), enough=1)


@pytest.fixture(scope="module")
def trained() -> TreeModel:
    model = eager(1)
    model.update(samples_of(programs(300, 0)))
    return model


def test_trees_learn_what_the_estimate_does_not_know() -> None:
    """What is hidden spreads the programs 1.2 times as far as what the estimate knows.

    That is more on machines of many cores and wide vectors, where a fixed weight would hide little.
    """
    known, test = programs(300, 0), programs(300, 1)
    spread = np.log(estimate_cycles(known).sum(axis=1)).std()
    weight = 1.2 * float(spread / known[:, :, HIDDEN].max(axis=1).std())
    model = eager(1)
    model.update(samples_of(known, weight=weight))
    seconds = hidden_seconds(test, weight)
    actual = seconds.min() / seconds
    learned = metrics(seconds.min() / model.predict_seconds(test), actual)
    guessed = metrics(RooflineModel().predict(test), actual)
    assert learned.pairwise > 0.88
    assert guessed.pairwise < 0.7
    assert learned.r2 > 0.8
    assert learned.peak > 0.95


def test_without_training_trees_rank_as_the_estimate_does() -> None:
    test = programs(50, 2)
    model = TreeModel()
    assert not model.is_trained
    order = np.argsort(model.predict(test))
    np.testing.assert_array_equal(order, np.argsort(RooflineModel().predict(test)))


def test_training_is_deterministic() -> None:
    test, samples = programs(40, 3), samples_of(programs(80, 4))
    first, second, other = eager(5), eager(5), eager(6)
    for model in (first, second, other):
        model.update(samples)
    np.testing.assert_array_equal(first.predict(test), second.predict(test))
    assert not np.array_equal(first.predict(test), other.predict(test))


def test_failed_programs_are_learned_to_be_slow() -> None:
    """Programs with long sums fail; what is learned of them carries over to others with these."""
    features, test = programs(200, 5), programs(100, 11)
    samples = samples_of(features)
    limit = np.median(features[:, :, HIDDEN].max(axis=1))
    knows, naive = eager(), eager()
    long = features[:, :, HIDDEN].max(axis=1) > limit
    knows.update(
        [replace(s, seconds=None) if bad else s for s, bad in zip(samples, long, strict=True)]
    )
    naive.update([s for s, bad in zip(samples, long, strict=True) if not bad])
    ratio = knows.predict_seconds(test) / naive.predict_seconds(test)
    long = test[:, :, HIDDEN].max(axis=1) > limit
    assert np.median(ratio[long]) > 1.3
    assert np.median(ratio[~long]) < 1.2


def test_only_failures_teach_nothing() -> None:
    features = programs(20, 6)
    model = eager()
    model.update([Sample("a", row, None) for row in features])
    assert not model.is_trained
    samples = [*samples_of(features, "a"), *(Sample("b", row, None) for row in features)]
    model.update(samples)
    assert model.is_trained


def test_labels_are_relative_to_the_best_of_each_task() -> None:
    row = programs(1, 7)[0]
    times = [("a", 2.0), ("a", 1.0), ("b", 5.0), ("a", None)]
    labels = labels_of([Sample(task, row, seconds) for task, seconds in times])
    assert labels.tolist() == [0.5, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9, 17, 40])
def test_few_programs_are_enough_to_train(count: int) -> None:
    for seed in range(6):
        features = programs(count, seed)
        model = eager(seed)
        model.update(samples_of(features))
        assert np.isfinite(model.predict(features)).all()


def test_no_programs_give_no_scores(trained: TreeModel) -> None:
    nothing = programs(4, 8)[:0]
    for model in (trained, RooflineModel(), RandomModel(np.random.default_rng(0))):
        assert model.predict(nothing).shape == (0,)


def test_a_saved_model_scores_alike(trained: TreeModel, tmp_path: Path) -> None:
    trained.save(tmp_path / "model.json")
    loaded = TreeModel.load(tmp_path / "model.json")
    test = programs(20, 9)
    np.testing.assert_allclose(loaded.predict(test), trained.predict(test), rtol=1e-9)


def test_a_model_of_other_features_is_refused(trained: TreeModel, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    trained.save(path)
    data = json.loads(path.read_text()) | {"version": 0}
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=r"features of version 0.*train it again"):
        TreeModel.load(path)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', "not json"])
def test_a_damaged_model_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(RecordError, match="is not a saved cost model"):
        TreeModel.load(path)


_BESIDE = """
import sys
from ansorc.search.model.boosting import Growth, grow_trees, import_ahead
if FIRST:
    import lightgbm
import_ahead()
print("sklearn" in sys.modules)
import lightgbm, sklearn.base, numpy
matrix = numpy.arange(40, dtype=numpy.float32).reshape(20, 2)
trees = grow_trees(matrix, lambda said, data: (said - matrix[:, 0], numpy.ones(20)), Growth())
error = numpy.abs(trees.predict(matrix, raw_score=True, num_threads=1) - matrix[:, 0]).max()
model = lightgbm.LGBMRegressor(min_child_samples=1, verbose=-1).fit(matrix, matrix[:, 0])
print(error < 5, isinstance(model, sklearn.base.BaseEstimator))
"""


@pytest.mark.parametrize("first", sampled([False, True], [False]))
def test_lightgbm_is_whole_for_others_in_the_process(*, first: bool) -> None:
    """Its parts for scikit-learn are left out here, and there for who imports it elsewhere."""
    words = _BESIDE.replace("FIRST", str(first))
    found = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=False
    )
    assert found.stdout.split() == [str(first), "True", "True"], found.stderr


def test_lightgbm_is_found() -> None:
    assert not what_is_missing()


_LENT = """
from pathlib import Path
from ansorc.search.model import boosting
print(boosting.lend_openmp())
boosting.import_ahead()
loaded = {line.split(None, 5)[5] for line in Path("/proc/self/maps").read_text().splitlines()
          if "libgomp" in line}
print(*sorted(Path(name).name for name in loaded))
"""


def test_openmp_is_lent_where_the_system_has_none() -> None:
    """Slim images have no libgomp.so.1; LightGBM is loaded with the copy and looks for no other."""
    found = subprocess.run(
        [sys.executable, "-c", _LENT], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == ["True", "memfd:libgomp.so.1 (deleted)"]


_LACKED = """
from ansorc.errors import OptionError
from ansorc.search.model import boosting
boosting._has_openmp = lambda: False
print(boosting.what_is_missing())
try:
    boosting.trees_of("tree\\nend of parameters")
except OptionError as error:
    print(error)
"""


def test_without_openmp_it_is_said_what_to_install() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _LACKED], capture_output=True, text=True, check=True
    )
    reason, error = found.stdout.splitlines()
    assert "cannot be loaded without libgomp.so.1" in reason
    assert "apt install libgomp1" in reason
    assert error == f"{reason}; learned cost models need it"


def test_random_scores_follow_the_generator() -> None:
    features = programs(10, 10)
    first, second = (RandomModel(np.random.default_rng(4)).predict(features) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert ((first >= 0) & (first < 1)).all()


def test_a_few_samples_more_correct_the_trees_that_are_there() -> None:
    samples = samples_of(programs(130, 12))
    model, anew = eager(), eager()
    model.update(samples[:100])
    first = model._own[0]  # pyright: ignore[reportPrivateUsage]
    slower = [replace(s, seconds=3 * (s.seconds or 0)) for s in samples[100:120]]
    model.update([*samples[:100], *slower])
    kept, more = model._own  # pyright: ignore[reportPrivateUsage]
    assert kept is first
    assert more.trees.model_to_string().count("\nTree=") == 16
    anew.update([*samples[:100], *slower])
    test = programs(100, 13)
    assert np.corrcoef(model.predict(test), anew.predict(test))[0, 1] > 0.93
    model.update(samples)
    assert len(model._own) == 1  # pyright: ignore[reportPrivateUsage]


def test_a_model_is_of_all_tasks_that_it_was_told_of() -> None:
    """Samples of one task say something of the next; an update need not repeat them."""
    small, large = programs(200, 14), programs(40, 15, size=128)
    apart, joint = eager(), eager()
    joint.update(samples_of(small, "small"))
    joint.update(samples_of(large[:5], "large"))
    apart.update(samples_of(large[:5], "large"))
    seconds = hidden_seconds(large[5:])
    actual = seconds.min() / seconds
    scores = [metrics(model.predict(large[5:]), actual).pairwise for model in (joint, apart)]
    assert scores[0] > scores[1] + 0.05


def test_few_successes_teach_nothing_yet() -> None:
    samples = samples_of(programs(20, 16))
    model = TreeModel(enough=10)
    model.update([*samples[:9], *(replace(s, seconds=None) for s in samples[9:])])
    assert not model.is_trained
    model.update([*samples[:10], *(replace(s, seconds=None) for s in samples[10:])])
    assert model.is_trained
