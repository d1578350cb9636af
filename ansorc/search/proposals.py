"""Proposals: which programs of a task to measure next, given the times of those measured so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ansorc.schedule import Step
from ansorc.search.cost_model import CostModel, Sample
from ansorc.search.features import extract
from ansorc.search.model import chosen_model
from ansorc.search.options import SearchOptions
from ansorc.search.pick import Candidate
from ansorc.search.sound_space import sound_space
from ansorc.search.space import Genes, phenotype_keys, recall, steps
from ansorc.search.strategies import STRATEGIES
from ansorc.search.task import Task

_ATTEMPTS = 3
"""Evolutions in a row that may find nothing unknown before the space counts as exhausted."""

Steps = tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class _Measured:
    sketch: int
    genes: Genes
    key: int
    seconds: float | None


class Proposals:
    """The search's side of a tuning run: the space, the cost model, and what is known.

    Everything depends on the task, the options, what was learned and `rng` alone.
    """

    def __init__(self, task: Task, options: SearchOptions, rng: np.random.Generator) -> None:
        self._task, self._options, self._rng = task, options, rng
        self._space = sound_space(task, options)
        self._open: dict[Steps, Candidate] = {}
        self._pending: set[int] = set()
        self._new: list[_Measured] = []
        self._known: list[_Measured] = []
        self._samples: list[Sample] = []
        self.notes: list[str] = [
            f"the rule {failure.rule} failed on '{failure.stage}' ({failure.reason}); "
            "the search goes on without its sketches"
            for failure in self._space.failures
        ]
        """What the user should know; grows while the search goes on."""
        self._model = chosen_model(options.cost_model, rng, self.notes.append)

    def learn(self, program: Steps, seconds: float | None) -> None:
        """Take note that `program` took `seconds`, or None if it failed."""
        proposed = self._open.pop(program, None)
        if proposed is not None:
            found = _Measured(proposed.sketch, proposed.genes, proposed.key, seconds)
            self._pending.discard(proposed.key)
            self._new.append(found)
            return
        for number, sketch in enumerate(self._space.sketches):
            genes = recall(sketch, program)
            if genes is not None:
                key = int(phenotype_keys(sketch, genes[None, :])[0])
                self._new.append(_Measured(number, genes, key, seconds))
                return

    def propose(self, count: int, is_known: Callable[[Steps], bool]) -> list[Steps]:
        """Return up to `count` programs for which `is_known` is false; none if all are known."""
        model = self._updated_model()
        seeds = [
            Candidate(m.sketch, m.genes, m.key, 0.0)
            for m in sorted(self._known, key=_seconds)
            if m.seconds is not None
        ]
        options = replace(self._options, trials_per_round=count)
        skipped = {measured.key for measured in self._known} | self._pending
        strategy = STRATEGIES[options.strategy]
        for _ in range(_ATTEMPTS):
            found = strategy(self._space, model, self._rng, options, skipped, seeds)
            batch = self._unknown(found.candidates, is_known)
            if batch or found.exhausted:
                return batch
            skipped |= {candidate.key for candidate in found.candidates}
        return []

    def _unknown(
        self, candidates: Sequence[Candidate], is_known: Callable[[Steps], bool]
    ) -> list[Steps]:
        batch: list[Steps] = []
        for candidate in candidates:
            program = steps(self._space.sketches[candidate.sketch], candidate.genes)
            if not is_known(program) and program not in batch:
                self._open[program] = candidate
                self._pending.add(candidate.key)
                batch.append(program)
        return batch

    def _updated_model(self) -> CostModel:
        """The cost model, after it has learned from what is new."""
        is_new = bool(self._new)
        for number, sketch in enumerate(self._space.sketches):
            own = [measured for measured in self._new if measured.sketch == number]
            if own:
                genes = np.stack([measured.genes for measured in own])
                features = extract(sketch, genes, self._task.target)
                for measured, row in zip(own, features, strict=True):
                    self._samples.append(Sample(self._task.key, row, measured.seconds))
        self._known += self._new
        self._new = []
        if is_new:
            self._model.update(self._samples)
        return self._model


def _seconds(measured: _Measured) -> float:
    return float("inf") if measured.seconds is None else measured.seconds
