"""The space that a search works with: users' sketches are tried before anything is bred."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ansorc.ir.verify import verify
from ansorc.schedule import lower, replay
from ansorc.search.evolution.crossover import uniform_crossover
from ansorc.search.evolution.mutation import mutate
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import extract
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.generate import RuleFailure, reason_of
from ansorc.search.sketch.rule import rule_name
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.sketch.user_rules import BUILT_IN, user_rule_of
from ansorc.search.space import Space, design_space, phenotype_keys, sketch_rules, steps
from ansorc.search.space.nodes import nodes_of
from ansorc.search.task import Task

_TRIED = 4
"""Programs of each sketch of a user's rule that are tried."""


def sound_space(task: Task, options: SearchOptions) -> Space:
    """Return the space of `task` without the sketches of users' rules that make no programs.

    Of each such sketch a few programs are drawn, bred, described by features, lowered and verified.
    Where one fails, its rule has failed; the sketches that the other rules make without it are
    added, for it may have kept them from being asked.
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
    rules = sketch_rules(options)
    guilty = {failure.rule for failure in failures}.difference(BUILT_IN)
    others = tuple(rule for rule in rules if rule_name(rule) not in guilty)
    if len(others) < len(rules):
        known = {sketch.steps for sketch in sound}
        more = design_space(task.dag, task.target, options, others).sketches
        sound += [sketch for sketch in more if sketch.steps not in known]
    return replace(space, sketches=tuple(sound), failures=tuple(dict.fromkeys(failures)))


def _fault(sketch: Sketch, task: Task, options: SearchOptions) -> str:
    """What is wrong with the programs of `sketch`; "" if nothing is found."""
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
