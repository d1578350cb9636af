"""Proposals: which programs of a task to measure next, given the times of those measured so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ansorc.schedule import Step
from ansorc.search.cost_model import SCORED_SECONDS, CostModel, Sample
from ansorc.search.described import remembered
from ansorc.search.model import chosen_model
from ansorc.search.options import SearchOptions
from ansorc.search.pick import Candidate
from ansorc.search.polish import polish
from ansorc.search.sound_space import sound_space
from ansorc.search.space import Genes, adapted, encode, phenotype_keys, steps
from ansorc.search.strategies import STRATEGIES
from ansorc.search.task import Task

_ATTEMPTS = 3
"""Evolutions in a row that may find nothing unknown before the space counts as exhausted."""

Steps = tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class _Result:
    """What was measured of a program of a sketch."""

    sketch: int
    genes: Genes
    seconds: float | None


@dataclass(frozen=True, eq=False)
class _Measured(_Result):
    key: int


class Proposals:
    """The search's side of a tuning run: the space, the cost model, and what is known.

    What it proposes depends on the task, the options, the state of `rng` in the beginning, what was
    learned, in its order, and what it proposed that is not learned yet; not on how often it was
    asked. So a run that is interrupted goes on as it would have, but for rounds chosen ahead.
    """

    def __init__(self, task: Task, options: SearchOptions, rng: np.random.Generator) -> None:
        self._task, self._options = task, options
        self._seed = int(rng.integers(1 << 31))
        self._space = replace(sound_space(task, options), seed=self._seed)
        self._pending: set[int] = set()
        self._new: list[_Result] = []
        self._known: list[_Measured] = []
        self._samples: list[Sample] = []
        self.notes: list[str] = [
            f"the rule {failure.rule} failed on '{failure.stage}' ({failure.reason}); "
            "the search goes on without its sketches"
            for failure in self._space.failures
        ]
        """What the user should know; grows while the search goes on."""
        self._model = chosen_model(
            options.cost_model, np.random.default_rng(self._seed), self.notes.append
        )

    def learn(self, program: Steps, seconds: float | None) -> None:
        """Take note that `program` took `seconds`, or None if it failed."""
        for number, sketch in enumerate(self._space.sketches):
            genes = encode(sketch, program)
            if genes is not None:
                self._new.append(_Result(number, genes, seconds))
                return

    def propose(
        self, count: int, is_known: Callable[[Steps], bool], *, is_polish: bool = False
    ) -> list[Steps]:
        """Return up to `count` programs for which `is_known` is false; none if all are known.

        They are bred, or with `is_polish` the neighbours of the fastest ones, as long as there are
        any that are not known.
        """
        model = self._updated_model()
        rng = np.random.default_rng([self._seed, len(self._known) + len(self._pending)])
        seeds = [
            Candidate(m.sketch, m.genes, m.key, SCORED_SECONDS / _seconds(m))
            for m in sorted(self._known, key=_seconds)
        ]
        options = replace(self._options, trials_per_round=count)
        skipped = {measured.key for measured in self._known} | self._pending
        ways = [polish] if is_polish else []
        strategy = STRATEGIES[options.strategy]
        for way in (*ways, *([strategy] * _ATTEMPTS)):
            found = way(self._space, model, rng, options, skipped, seeds)
            batch = self._unknown(found.candidates, is_known)
            if batch or (found.exhausted and way is strategy):
                return batch
            skipped |= {candidate.key for candidate in found.candidates}
        return []

    def transferred(
        self, programs: Iterable[Steps], is_known: Callable[[Steps], bool]
    ) -> list[Steps]:
        """Return programs for other extents of the same computation, as they would be for these.

        Those that no sketch of this space has are left out.
        """
        candidates: list[Candidate] = []
        for program in programs:
            for number, sketch in enumerate(self._space.sketches):
                genes = adapted(sketch, program, self._options)
                if genes is not None:
                    key = int(phenotype_keys(sketch, genes[None, :])[0])
                    candidates.append(Candidate(number, genes, key, 0.0))
                    break
        return self._unknown(candidates, is_known)

    def _unknown(
        self, candidates: Sequence[Candidate], is_known: Callable[[Steps], bool]
    ) -> list[Steps]:
        batch: list[Steps] = []
        for candidate in candidates:
            program = steps(self._space.sketches[candidate.sketch], candidate.genes)
            if not is_known(program) and program not in batch:
                self._pending.add(candidate.key)
                batch.append(program)
        return batch

    def _updated_model(self) -> CostModel:
        """The cost model, after it has learned from what is new."""
        new, self._new = self._new, []
        samples: dict[int, Sample] = {}
        known: dict[int, _Measured] = {}
        for number, sketch in enumerate(self._space.sketches):
            own = [place for place, found in enumerate(new) if found.sketch == number]
            if not own:
                continue
            genes = np.stack([new[place].genes for place in own])
            features = remembered(self._space, number, genes)
            keys = phenotype_keys(sketch, genes).tolist()
            for place, key, row in zip(own, keys, features, strict=True):
                seconds = new[place].seconds
                samples[place] = Sample(self._task.key, row, seconds)
                known[place] = _Measured(number, new[place].genes, seconds, key)
        self._samples += [samples[place] for place in range(len(new))]
        self._known += [known[place] for place in range(len(new))]
        self._pending -= {measured.key for measured in known.values()}
        if new:
            self._model.update(self._samples)
        return self._model


def _seconds(measured: _Measured) -> float:
    return float("inf") if measured.seconds is None else measured.seconds
