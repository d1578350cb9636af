"""Defects that are seeded into texts are found: by numbers, or by a sanitizer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from codegen_cuda.mutants import Mutant, caught, mutants_of, texts
from codegen_cuda.proof import Experiment

KINDS = ("barrier removed", "index off by one", "tail predicate lost", "wrong swizzle")
MOST_OF_ONE_TEXT = 200


def drawn() -> list[tuple[str, Mutant, Experiment]]:
    """Mutants of all texts, all kinds of each."""
    rng = np.random.default_rng(0)
    found: list[tuple[str, Mutant, Experiment]] = []
    for name, text, dag in texts():
        every, experiment = list(mutants_of(text)), Experiment.of(dag)
        for kind in KINDS:
            own = [mutant for mutant in every if mutant.kind == kind]
            places = sorted(rng.permutation(len(own))[: MOST_OF_ONE_TEXT // len(KINDS)].tolist())
            found += [(name, own[place], experiment) for place in places]
    return found


def escaped(chosen: list[tuple[str, Mutant, Experiment]]) -> list[str]:
    return [
        f"{name}, line {mutant.line}: {mutant.kind}: {mutant.text.splitlines()[mutant.line - 1]}"
        for name, mutant, experiment in chosen
        if not caught(mutant, experiment)
    ]


def test_one_of_each_kind_is_found() -> None:
    every = drawn()
    first = [next(each for each in every if each[1].kind == kind) for kind in KINDS]
    assert not escaped(first)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_mutants_are_found() -> None:
    every = drawn()
    assert len(every) >= 200, Counter(mutant.kind for _, mutant, _ in every)
    missed = escaped(every)
    assert len(missed) <= len(every) // 100, "\n".join(missed)
