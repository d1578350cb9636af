"""Proposals: which programs of a task to measure next, given the times of those measured so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

import numpy as np

from ansorc.ir.verify import verify
from ansorc.schedule import lower, replay
from ansorc.schedule.names import Steps
from ansorc.search.candidate import Candidate, candidates
from ansorc.search.cost_model import SCORED_SECONDS, CostModel, Sample
from ansorc.search.evolution.evolve import evolve
from ansorc.search.evolution.local_search import local_search
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.selection import Proposal
from ansorc.search.evolution.variation import mutate, uniform_crossover
from ansorc.search.model import chosen_model
from ansorc.search.options import SearchOptions, StrategyName
from ansorc.search.paper.strategies import beam_search, random_search
from ansorc.search.sketch.generate import RuleFailure, reason_of
from ansorc.search.sketch.rule import rule_name
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.sketch.user_rules import UserRule, user_rule_of
from ansorc.search.space import (
    Genes,
    Space,
    adapted,
    design_space,
    encode,
    extract,
    phenotype_keys,
    sketch_rules,
    steps,
)
from ansorc.search.space.nodes import nodes_of
from ansorc.search.task import Task

_ATTEMPTS = 3
"""Evolutions in a row that may find nothing unknown before the space counts as exhausted."""

_TRIED = 4
"""Programs of each sketch of a user's rule that are tried."""


class Strategy(Protocol):
    """Finds programs of a space; a function of its arguments alone."""

    def __call__(
        self,
        space: Space,
        model: CostModel,
        rng: np.random.Generator,
        options: SearchOptions,
        measured: AbstractSet[int] = frozenset(),
        seeds: Sequence[Candidate] = (),
    ) -> Proposal:
        """Return up to `options.trials_per_round` programs whose keys are not in `measured`.

        `seeds` are the measured programs, the fastest first, `score` their speed; that of programs
        that failed, which come last, is 0.
        """
        ...


STRATEGIES: Mapping[StrategyName, Strategy] = MappingProxyType(
    {"evolution": evolve, "random": random_search, "beam": beam_search}
)


@dataclass(frozen=True, eq=False)
class _Measured:
    """What was measured of a candidate."""

    candidate: Candidate
    seconds: float | None


class Proposals:
    """The search's side of a tuning run: the space, the cost model, and what is known.

    What it proposes depends on the task, the options, the state of `rng` in the beginning, what was
    learned, in its order and by rounds, and what it proposed that is not learned yet; not on how
    often it was asked. So a run that is interrupted goes on as it would have, but for rounds chosen
    ahead. All of its memory goes with it.
    """

    def __init__(self, task: Task, options: SearchOptions, rng: np.random.Generator) -> None:
        self._task, self._options = task, options
        self._seed = int(rng.integers(1 << 31))
        self._space = replace(checked_space(task, options), seed=self._seed)
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
        self._model = chosen_model(
            options.cost_model, np.random.default_rng(self._seed), self.notes.append
        )

    def encoded(self, programs: Sequence[Steps]) -> list[Candidate | None]:
        """Return programs given as steps as candidates; None where no sketch has one.

        So come the records of earlier runs: what was proposed here is a candidate already.
        """
        rows = [self._row(program) for program in programs]
        found = iter(candidates(self._space, [row for row in rows if row is not None]))
        return [None if row is None else next(found) for row in rows]

    def _row(self, program: Steps) -> tuple[int, Genes] | None:
        for number, sketch in enumerate(self._space.sketches):
            genes = encode(sketch, program)
            if genes is not None:
                return number, genes
        return None

    def learn(self, candidate: Candidate, seconds: float | None) -> None:
        """Take note that `candidate` took `seconds`, or None if it failed.

        The cost model learns of it, with all others, when programs are next proposed. Of several
        rows of genes that make one program, the first sketch's counts, as it does in a run that
        goes on from records.
        """
        row = self._row(candidate.steps)
        if row is not None and row[0] == candidate.number:
            candidate = replace(candidate, genes=row[1])  # of the same steps
        elif row is not None:
            (candidate,) = candidates(self._space, [row])
        self._new.append(_Measured(candidate, seconds))

    def propose(
        self, count: int, known: AbstractSet[str], *, is_local_search: bool = False
    ) -> list[Candidate]:
        """Return up to `count` programs whose `source.key` is not in `known`; none if all are.

        They are those of the strategy, or with `is_local_search` the neighbours of the fastest
        ones, as long as there are any that are not known.
        """
        model = self.update()
        rng = np.random.default_rng([self._seed, len(self._known) + len(self._pending)])
        seeds = [
            replace(one.candidate, score=SCORED_SECONDS / _seconds(one))
            for one in sorted(self._known, key=_seconds)
        ]
        options = replace(self._options, trials_per_round=count)
        skipped = {one.candidate.key for one in self._known} | self._pending
        ways = [local_search] if is_local_search else []
        strategy = STRATEGIES[options.strategy]
        for way in (*ways, *([strategy] * _ATTEMPTS)):
            found = way(self._space, model, rng, options, skipped, seeds)
            batch = self._unknown(found.candidates, known)
            if batch or (found.exhausted and way is strategy):
                return batch
            skipped |= {candidate.key for candidate in found.candidates}
        return []

    def transferred(self, programs: Iterable[Steps], known: AbstractSet[str]) -> list[Candidate]:
        """Return programs for other extents of the same computation, as they would be for these.

        Those that no sketch of this space has are left out, and those of `known`.
        """
        rows: list[tuple[int, Genes]] = []
        for program in programs:
            for number, sketch in enumerate(self._space.sketches):
                genes = adapted(sketch, program, self._options)
                if genes is not None:
                    rows.append((number, genes))
                    break
        return self._unknown(candidates(self._space, rows), known)

    def _unknown(self, proposed: Sequence[Candidate], known: AbstractSet[str]) -> list[Candidate]:
        batch: dict[str, Candidate] = {}
        for one in proposed:
            if one.program.key not in known and one.program.key not in batch:
                self._pending.add(one.key)
                batch[one.program.key] = one
        return list(batch.values())

    def update(self) -> CostModel:
        """Let the cost model learn what is new; return it."""
        new, self._new = self._new, []
        self._known += new
        self._samples += [
            Sample(self._task.key, one.candidate.features, one.seconds) for one in new
        ]
        self._pending -= {one.candidate.key for one in new}
        if new:
            self._model.update(self._samples)
        return self._model


def _seconds(measured: _Measured) -> float:
    return float("inf") if measured.seconds is None else measured.seconds


def checked_space(task: Task, options: SearchOptions) -> Space:
    """Return the space of `task` without the sketches of users' rules that make no programs.

    A few programs of each such sketch are drawn, varied, described by features, lowered and
    verified. Where one fails, its rule has failed; the sketches that the other rules make
    without it are added, for it may have kept them from being asked.
    """
    space = design_space(task.dag, task.target, options)
    failures = list(space.failures)
    sound: list[Sketch] = []
    for sketch in space.sketches:
        own = user_rule_of(sketch)
        fault = _fault(sketch, task, options) if own else ""
        if own and fault:
            failures.append(RuleFailure(*own, fault))
        else:
            sound.append(sketch)
    rules = sketch_rules(options, task.target)
    guilty = {failure.rule for failure in failures}
    others = tuple(
        rule for rule in rules if not (isinstance(rule, UserRule) and rule_name(rule) in guilty)
    )
    if len(others) < len(rules):
        known = {sketch.steps for sketch in sound}
        more = design_space(task.dag, task.target, options, others).sketches
        sound += [sketch for sketch in more if sketch.steps not in known]
    return replace(space, sketches=tuple(sound), failures=tuple(dict.fromkeys(failures)))


def _fault(sketch: Sketch, task: Task, options: SearchOptions) -> str:
    """Return what is wrong with the programs of `sketch`; "" if nothing is found."""
    rng = np.random.default_rng(0)
    try:
        genes = sample(sketch, _TRIED, rng, options)
        genes = np.concatenate([genes, mutate(sketch, genes, rng, options)])
        genes = np.concatenate([genes, uniform_crossover(sketch, genes, genes[::-1], rng, options)])
        phenotype_keys(sketch, genes)
        nodes_of(sketch)
        extract(sketch, genes, task.target)
        for row in (genes[0], genes[-1]):
            verify(lower(replay(task.dag, steps(sketch, row)), task.name))
    except Exception as error:  # noqa: BLE001 - of a user's rule: any fault costs its sketches
        return reason_of(error)
    return ""
