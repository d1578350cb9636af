"""Which model a search asks, and what becomes of a model that fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from ansorc.errors import OptionError
from ansorc.search.cost_model import CostModel, Sample
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import Features
from ansorc.search.model import (
    FallbackModel,
    RandomModel,
    RooflineModel,
    TreeModel,
    boosting,
    choose_model,
)
from ansorc.search.options import SearchOptions
from ansorc.search.proposals import Proposals
from ansorc.search.space import design_space, extract
from ansorc.search.task import Task
from tests.search.workloads import ZEN, matmul

Answer = Callable[[int], object]


@dataclass
class Own:
    """A user's model that answers with whatever `answer` makes of the number of programs."""

    answer: Answer
    learned: int = 0

    def predict(self, features: Features) -> np.ndarray:
        return self.answer(len(features))  # pyright: ignore[reportReturnType]

    def update(self, samples: Sequence[Sample]) -> None:
        self.learned = len(samples)


class Forgetful(Own):
    def update(self, samples: Sequence[Sample]) -> None:
        raise KeyError("no such program")


def programs() -> Features:
    sketch = design_space(matmul(64, 64, 64), ZEN, SearchOptions()).sketches[0]
    return extract(sketch, sample(sketch, 8, np.random.default_rng(0), SearchOptions()), ZEN)


def fails(rows: int) -> object:
    raise RuntimeError("out of order")


NONSENSE: list[tuple[Answer, str]] = [
    (fails, r"the cost model Own failed in predict \(RuntimeError: out of order\)"),
    (lambda rows: np.zeros((rows, 2)), r"8 scores were asked for.*shape \(8, 2\) came"),
    (lambda rows: 0.0, r"8 scores were asked for"),
    (lambda rows: [np.nan] + [1.0] * (rows - 1), r"1 of 8 scores are not finite"),
    (lambda rows: np.full(rows, -np.inf), r"8 of 8 scores are not finite"),
    (lambda rows: None, r"failed in predict"),
    (lambda rows: ["fast"] * rows, r"could not convert"),
]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("trees", TreeModel), ("roofline", RooflineModel), ("random", RandomModel)],
)
def test_a_model_is_chosen_by_name(name: str, kind: type) -> None:
    notes: list[str] = []
    assert isinstance(choose_model(name, np.random.default_rng(0), notes.append), kind)
    assert not notes


def test_a_model_of_the_user_is_asked() -> None:
    own = Own(np.arange)
    model = choose_model(own, np.random.default_rng(0), pytest.fail)
    np.testing.assert_array_equal(model.predict(programs()), np.arange(8.0))
    model.update([Sample("a", programs()[0], 1.0)])
    assert own.learned == 1


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("tree", r"no cost model 'tree'; it is one of trees, roofline, random"),
        (3, r"int cannot be used as a cost model, it has no predict and no update"),
        (TreeModel, r"TreeModel cannot be used as a cost model, it is a class"),
    ],
)
def test_what_is_no_model_is_refused(wanted: CostModel, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        choose_model(wanted, np.random.default_rng(0), pytest.fail)


@pytest.mark.parametrize(("answer", "words"), NONSENSE)
def test_a_model_that_fails_is_replaced_and_the_user_is_told(answer: Answer, words: str) -> None:
    notes: list[str] = []
    model, features = FallbackModel(Own(answer), notes.append), programs()
    for _ in range(2):
        np.testing.assert_array_equal(model.predict(features), RooflineModel().predict(features))
    assert len(notes) == 1
    assert re.search(words, notes[0])
    assert notes[0].endswith("; the search went on with the analytic model")


def test_a_model_that_cannot_learn_is_replaced() -> None:
    notes: list[str] = []
    model, features = FallbackModel(Forgetful(np.arange), notes.append), programs()
    model.update([Sample("a", features[0], 1.0)])
    model.update([Sample("a", features[0], 1.0)])
    np.testing.assert_array_equal(model.predict(features), RooflineModel().predict(features))
    assert len(notes) == 1
    assert re.search(r"Forgetful failed in update \(KeyError: 'no such program'\)", notes[0])


def test_a_search_goes_on_without_the_model_that_failed() -> None:
    """Its proposals are then those of the analytic model."""
    task = Task(matmul(64, 64, 64), ZEN, "product")

    def proposed(model: str | CostModel) -> tuple[list[str], list[str]]:
        options = SearchOptions(population=128, generations=2, cost_model=model)
        search = Proposals(task, options, np.random.default_rng(1))
        first = search.propose(8, set())
        for program in first:
            search.learn(program, 1e-3)
        both = [*first, *search.propose(8, set())]
        return [program.key for program in both], search.notes

    programs, notes = proposed(Own(fails))
    assert [words.partition(" (")[0] for words in notes] == ["the cost model Own failed in predict"]
    assert (programs, []) == proposed("roofline")


def test_a_missing_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []

    def found(_name: str) -> None: ...

    monkeypatch.setattr(boosting.util, "find_spec", found)
    model = choose_model("trees", np.random.default_rng(0), notes.append)
    assert isinstance(model, RooflineModel)
    assert len(notes) == 1
    assert "LightGBM is not installed" in notes[0]
