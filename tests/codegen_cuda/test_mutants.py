"""Defects that are seeded into texts are found: by numbers, or by a sanitizer."""

from __future__ import annotations

from collections import Counter

import pytest
from codegen_cuda.mutants import KINDS, Mutant, caught, mutants_of, texts
from codegen_cuda.proof import Experiment

QUICK = ("barrier removed", "index off by one", "tail predicate lost", "wrong swizzle")
MOST_MISSED = 0.06
"""Most that are missed change nothing: what a test of a fast path sends to the slow one, elements
that nobody reads, the largest number of a softmax, whose value does not depend on it."""


def seeded() -> list[tuple[str, Mutant, Experiment]]:
    """All mutants of all texts."""
    return [
        (name, mutant, experiment)
        for name, text, dag in texts()
        for experiment in [Experiment.of(dag)]
        for mutant in mutants_of(text)
    ]


def escaped(chosen: list[tuple[str, Mutant, Experiment]]) -> list[str]:
    return [
        f"{name}, line {mutant.line}: {mutant.kind}: {mutant.changed}"
        for name, mutant, experiment in chosen
        if not caught(mutant, experiment)
    ]


def test_one_of_each_kind_is_found() -> None:
    every = seeded()
    assert {mutant.kind for _, mutant, _ in every} == set(KINDS)
    assert not escaped([next(each for each in every if each[1].kind == kind) for kind in QUICK])


@pytest.mark.nightly
@pytest.mark.timeout(2 * 3600)
def test_mutants_are_found() -> None:
    every = seeded()
    assert len(every) >= 2000, Counter(mutant.kind for _, mutant, _ in every)
    missed = escaped(every)
    assert len(missed) <= MOST_MISSED * len(every), "\n".join(missed)
