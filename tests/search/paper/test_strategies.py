"""The ways to find programs: legal and new ones, the same for a seed, and an end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from ansorc.errors import OptionError
from ansorc.schedule import lower, replay
from ansorc.search.cost_model import Sample
from ansorc.search.evolution.sampling import all_programs
from ansorc.search.features import Features
from ansorc.search.model import NAMES, RandomModel, RooflineModel, TreeModel
from ansorc.search.options import ABLATIONS, DEFAULTS, SearchOptions, StrategyName
from ansorc.search.proposals import STRATEGIES, Proposals
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Space, design_space, extract, phenotype_keys
from ansorc.search.space.genes import are_legal
from ansorc.search.task import Task
from tests.search.workloads import ZEN, matmul, transpose

SMALL = SearchOptions(
    population=128, generations=1, trials_per_round=16, epsilon=0.125, beam_width=16
)
PRODUCT = design_space(matmul(64, 48, 32), ZEN, SMALL)

every = pytest.mark.parametrize("name", STRATEGIES)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@dataclass
class Witness:
    """The analytic model, which keeps the sizes of what it was asked."""

    asked: list[int] = field(default_factory=list[int])

    def predict(self, features: Features) -> np.ndarray:
        self.asked.append(len(features))
        return RooflineModel().predict(features)

    def update(self, samples: Sequence[Sample]) -> None:
        raise AssertionError


@every
def test_programs_are_legal_new_and_different(name: StrategyName) -> None:
    first = STRATEGIES[name](PRODUCT, RooflineModel(), rng(), SMALL).candidates
    measured = {candidate.key for candidate in first}
    assert len(measured) == len(first) == 16
    again = STRATEGIES[name](PRODUCT, RooflineModel(), rng(), SMALL, measured, first)
    assert len(again.candidates) == 16
    assert measured.isdisjoint(candidate.key for candidate in again.candidates)
    for candidate in again.candidates:
        sketch, row = PRODUCT.sketches[candidate.number], candidate.genes[None, :]
        assert are_legal(sketch, row, SMALL).all()
        assert int(phenotype_keys(sketch, row)[0]) == candidate.key
        np.testing.assert_array_equal(candidate.features, extract(sketch, row, ZEN)[0])
    lower(replay(PRODUCT.dag, again.candidates[0].steps))


@every
def test_the_seed_decides(name: StrategyName) -> None:
    runs = [
        STRATEGIES[name](PRODUCT, RooflineModel(), rng(seed), SMALL).candidates
        for seed in (3, 3, 4)
    ]
    keys = [[candidate.key for candidate in run] for run in runs]
    assert keys[0] == keys[1] != keys[2]


@every
def test_a_small_space_is_exhausted(name: StrategyName) -> None:
    space = design_space(transpose(4, 8), ZEN, SMALL)
    everything: set[int] = set()
    for sketch in space.sketches:
        genes = all_programs(sketch, 10_000, SMALL)
        assert genes is not None
        everything |= {int(key) for key in phenotype_keys(sketch, genes)}
    measured: set[int] = set()
    found = STRATEGIES[name](space, RandomModel(rng(2)), rng(), SMALL)
    while not found.exhausted:
        keys = {candidate.key for candidate in found.candidates}
        assert keys
        assert measured.isdisjoint(keys)
        measured |= keys
        found = STRATEGIES[name](space, RandomModel(rng(2)), rng(), SMALL, measured)
    assert measured == everything
    assert found.candidates == ()


def test_random_programs_come_from_all_sketches_and_ask_no_model() -> None:
    model = Witness()
    options = replace(SMALL, trials_per_round=200)
    found = STRATEGIES["random"](PRODUCT, model, rng(), options)
    assert (model.asked, found.scored) == ([], 0)
    assert all(candidate.is_random for candidate in found.candidates)
    assert {c.number for c in found.candidates} == set(range(len(PRODUCT.sketches)))


def single(space: Space) -> Space:
    return replace(space, sketches=space.sketches[:1])


def test_a_beam_scores_incomplete_programs_decision_by_decision() -> None:
    space, model = single(PRODUCT), Witness()
    found = STRATEGIES["beam"](space, model, rng(), SMALL)
    decisions = len(space.sketches[0].columns)
    assert len(model.asked) == 1 + decisions
    assert model.asked[0] == 1, "nothing is decided"
    tries = SMALL.population // SMALL.beam_width
    assert model.asked[1] <= tries
    assert max(model.asked) <= SMALL.beam_width * tries
    assert sum(model.asked) == found.scored
    built = [candidate.score for candidate in found.candidates if not candidate.is_random]
    assert built == sorted(built, reverse=True)
    assert SMALL.beam_width // 2 < len(built) <= SMALL.population


def test_a_beam_that_holds_everything_finds_the_best_program() -> None:
    space = single(design_space(transpose(4, 8), ZEN, SMALL))
    genes = all_programs(space.sketches[0], 10_000, SMALL)
    assert genes is not None
    best = RooflineModel().predict(extract(space.sketches[0], genes, ZEN)).max()
    options = replace(SMALL, population=1000, beam_width=len(genes))
    found = STRATEGIES["beam"](space, RooflineModel(), rng(), options)
    assert found.candidates[0].score == pytest.approx(best)


def statements(sketch: Sketch) -> int:
    return extract(sketch, np.zeros((1, len(sketch.columns)), dtype=np.int64), ZEN).shape[1]


def test_a_beam_drops_what_seems_bad_while_it_is_incomplete() -> None:
    first = statements(PRODUCT.sketches[0])

    @dataclass
    class Misled:
        """Takes the first kind of sketch for bad at the first look, and for best from then on."""

        looks: int = 0

        def predict(self, features: Features) -> np.ndarray:
            self.looks += 1
            is_early = self.looks <= len(PRODUCT.sketches)
            is_first = features.shape[1] == first
            return np.full(len(features), float(is_first != is_early))

        def update(self, samples: Sequence[Sample]) -> None:
            raise AssertionError

    options = replace(SMALL, trials_per_round=1, beam_width=1, epsilon=0.0)
    (chosen,) = STRATEGIES["beam"](PRODUCT, Misled(), rng(), options).candidates
    assert statements(chosen.sketch) != first


@pytest.mark.parametrize("field_name", ["strategy", "space"])
def test_an_unknown_name_is_refused(field_name: str) -> None:
    with pytest.raises(OptionError, match=f"SearchOptions.{field_name} is 'best'; it can be "):
        replace(DEFAULTS, **{field_name: "best"})


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_ablation_differs_from_the_full_search(name: str) -> None:
    assert ABLATIONS[name] != DEFAULTS


@pytest.mark.parametrize("model", NAMES)
def test_the_learned_model_is_asked_only_if_it_is_wanted(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    predict = TreeModel.predict_statements

    def noted(self: TreeModel, features: Features) -> np.ndarray:
        asked.append(len(features))
        return predict(self, features)

    monkeypatch.setattr(TreeModel, "predict_statements", noted)
    task = Task(matmul(64, 64, 64), ZEN)
    search = Proposals(task, replace(SMALL, cost_model=model), rng())
    known: set[str] = set()
    for _ in range(2):
        batch = search.propose(20, known)
        known.update(program.key for program in batch)
        for place, program in enumerate(batch):
            search.learn(program, 1e-3 * (1 + place % 5))
    assert len(known) == 40
    assert bool(asked) == (model == "trees")
