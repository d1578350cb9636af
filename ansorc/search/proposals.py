"""Proposals: which programs of a task to measure next, given the times of those measured so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

import numpy as np

from ansorc.errors import ScheduleError
from ansorc.ir.verify import verify
from ansorc.schedule import Names, lower, replay
from ansorc.schedule.names import Steps
from ansorc.search.candidate import Candidate, candidates
from ansorc.search.cost_model import SCORED_SECONDS, CostModel, Sample
from ansorc.search.evolution.evolve import evolve
from ansorc.search.evolution.local_search import local_search
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.selection import Proposal
from ansorc.search.evolution.variation import mutate, uniform_crossover
from ansorc.search.measure import ProgramText
from ansorc.search.model import choose_model
from ansorc.search.options import SearchOptions, StrategyName
from ansorc.search.paper.strategies import beam_search, random_search
from ansorc.search.sketch.generate import RuleFailure, reason_of
from ansorc.search.sketch.rule import rule_name
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.sketch.user_rules import UserRule, user_rule_of
from ansorc.search.space import (
    Genes,
    Space,
    adapt,
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
        self._space = replace(make_checked_space(task, options), seed=self._seed)
        self._names = Names(task.dag)
        self._candidates: dict[str, Candidate | None] = {}
        """The programs proposed or expected, by the keys of their texts; None: no sketch has it."""
        self._pending: set[int] = set()
        self._new: list[tuple[Candidate, float | None]] = []
        self._known: list[Candidate] = []
        self._samples: list[Sample] = []
        """The samples of `_known`, in this order."""
        self.notes: list[str] = [
            f"the rule {failure.rule} failed on '{failure.stage}' ({failure.reason}); "
            "the search goes on without its sketches"
            for failure in self._space.failures
        ]
        """Notes for the user; more come while the search goes on."""
        self._model = choose_model(
            options.cost_model, np.random.default_rng(self._seed), self.notes.append
        )

    def expect(self, programs: Iterable[ProgramText]) -> None:
        """Find in the space what was not proposed here, and extract its features, all at once.

        `learn` would, one by one. So come the records of earlier runs, and the untuned default.
        """
        rows = {program.key: self._row(self._decode(program)) for program in programs}
        described = iter(candidates(self._space, [row for row in rows.values() if row is not None]))
        for key, row in rows.items():
            self._candidates[key] = None if row is None else next(described)

    def _decode(self, program: ProgramText) -> Steps:
        """Return the steps in the names of the definition; none if they name what it has not."""
        try:
            return program.decode(self._names)
        except ScheduleError:
            return ()

    def _row(self, program: Steps) -> tuple[int, Genes] | None:
        """Return the number of the first sketch that has `program`, and its genes there."""
        for number in self._space.sketches_like(program):
            genes = encode(self._space.sketches[number], program)
            if genes is not None:
                return number, genes
        return None

    def learn(self, program: ProgramText, seconds: float | None) -> None:
        """Take note that `program` took `seconds`, or None if it failed.

        The cost model learns of it, with all others, when programs are next proposed. Nothing is
        learned of a program that no sketch has.
        """
        if program.key not in self._candidates:
            self.expect([program])
        candidate = self._candidates.pop(program.key)
        if candidate is not None:
            self._new.append((candidate, seconds))

    def propose(
        self, count: int, known: AbstractSet[str], *, is_local_search: bool = False
    ) -> list[ProgramText]:
        """Return up to `count` programs whose keys are not in `known`; none if all are.

        They are those of the strategy, or with `is_local_search` the neighbours of the fastest
        ones, as long as there are any that are not known.
        """
        model = self.update()
        rng = np.random.default_rng([self._seed, len(self._known) + len(self._pending)])
        times = [math.inf if sample.seconds is None else sample.seconds for sample in self._samples]
        seeds = [
            replace(self._known[position], score=SCORED_SECONDS / times[position])
            for position in sorted(range(len(times)), key=times.__getitem__)
        ]
        options = replace(self._options, trials_per_round=count)
        skipped = {candidate.key for candidate in self._known} | self._pending
        ways = [local_search] if is_local_search else []
        strategy = STRATEGIES[options.strategy]
        for way in (*ways, *([strategy] * _ATTEMPTS)):
            proposal = way(self._space, model, rng, options, skipped, seeds)
            batch = self._take_unknown(proposal.candidates, known)
            if batch or (proposal.exhausted and way is strategy):
                return batch
            skipped |= {candidate.key for candidate in proposal.candidates}
        return []

    def transfer(self, programs: Iterable[Steps], known: AbstractSet[str]) -> list[ProgramText]:
        """Return programs for other extents of the same computation, as they would be for these.

        Those that no sketch of this space has are left out, and those of `known`.
        """
        rows: list[tuple[int, Genes]] = []
        for program in programs:
            for number in self._space.sketches_like(program):
                genes = adapt(self._space.sketches[number], program, self._options)
                if genes is not None:
                    rows.append((number, genes))
                    break
        return self._take_unknown(candidates(self._space, rows), known)

    def _take_unknown(
        self, proposed: Sequence[Candidate], known: AbstractSet[str]
    ) -> list[ProgramText]:
        """Return those of `proposed` that are not `known`, none twice; they are pending now."""
        batch: dict[str, ProgramText] = {}
        for candidate in proposed:
            program = candidate.program
            if program.key not in known and program.key not in batch:
                self._pending.add(candidate.key)
                batch[program.key] = program
                self._candidates[program.key] = self._first_alike(candidate)
        return list(batch.values())

    def _first_alike(self, candidate: Candidate) -> Candidate:
        """Return the candidate as it is found from its record in a run that goes on.

        Of several rows of genes that make one program, that of the first sketch counts.
        """
        row = self._row(candidate.steps)
        if row is None:
            return candidate
        if row[0] == candidate.number:
            return replace(candidate, genes=row[1])  # of the same steps
        return candidates(self._space, [row])[0]

    def update(self) -> CostModel:
        """Let the cost model learn what is new; return it."""
        new, self._new = self._new, []
        for candidate, seconds in new:
            self._known.append(candidate)
            self._samples.append(Sample(self._task.key, candidate.features, seconds))
        self._pending -= {candidate.key for candidate, _ in new}
        if new:
            self._model.update(self._samples)
        return self._model


def make_checked_space(task: Task, options: SearchOptions) -> Space:
    """Return the space of `task` without the sketches of users' rules that make no programs.

    A few programs of each such sketch are drawn, varied, described by features, lowered and
    verified. Where one fails, its rule has failed; the sketches that the other rules make
    without it are added, for it may have kept them from being asked.
    """
    space = design_space(task.dag, task.target, options)
    failures = list(space.failures)
    sound: list[Sketch] = []
    for sketch in space.sketches:
        applied = user_rule_of(sketch)
        fault = _fault(sketch, task, options) if applied else ""
        if applied and fault:
            failures.append(RuleFailure(*applied, fault))
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
