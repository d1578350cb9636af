"""Defects that are seeded into programs are found: by numbers, or by a sanitizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import pytest

from ansorc.codegen.program.device_program import DeviceProgram
from tests.codegen.cuda.mutants import KINDS, Mutant, caught, is_equivalent, mutants_of, programs
from tests.codegen.cuda.proof import Experiment

QUICK = ("barrier removed", "index off by one", "tail predicate lost", "wrong swizzle")
LEAST_FOUND = 0.99


@dataclass(frozen=True)
class Seeded:
    """A mutant, the right program that it was made of, and what both are run on."""

    name: str
    program: DeviceProgram
    mutant: Mutant
    experiments: tuple[Experiment, Experiment]

    def __str__(self) -> str:
        return f"{self.name}, line {self.mutant.line}: {self.mutant.kind}: {self.mutant.changed}"


@cache
def seeded() -> tuple[Seeded, ...]:
    """All mutants of all programs."""
    return tuple(
        Seeded(name, program, mutant, experiments)
        for name, program, dag in programs()
        for experiments in [(Experiment.of(dag), Experiment.of(dag, 1, is_wide=True))]
        for mutant in mutants_of(program)
    )


def escaped(chosen: Sequence[Seeded]) -> list[Seeded]:
    return [each for each in chosen if not caught(each.mutant, each.experiments)]


def test_one_of_each_kind_is_found() -> None:
    every = seeded()
    assert {each.mutant.kind for each in every} == set(KINDS)
    chosen = [next(each for each in every if each.mutant.kind == kind) for kind in QUICK]
    assert not list(map(str, escaped(chosen)))


def test_a_loss_that_changes_nothing_is_told_from_one_that_does() -> None:
    """What is stored in shared memory beyond the last column is in no result."""
    every = [each for each in seeded() if each.name == "copies ahead in registers"]
    harmless = next(
        each for each in every
        if each.mutant.changed.endswith("i_2_j_2 < 30) {")
        and "B_shared[" in each.mutant.lines[each.mutant.line]
    )  # fmt: skip
    assert escaped([harmless])
    assert is_equivalent(harmless.mutant, harmless.program, harmless.experiments)
    lost = next(each for each in every if each.mutant.kind == "wrong start")
    assert not is_equivalent(lost.mutant, lost.program, lost.experiments)


@pytest.mark.nightly
@pytest.mark.timeout(3 * 3600)
def test_mutants_are_found() -> None:
    every = seeded()
    assert len(every) >= 2000, Counter(each.mutant.kind for each in every)
    survivors = escaped(every)
    missed = [
        each for each in survivors if not is_equivalent(each.mutant, each.program, each.experiments)
    ]
    counted = len(every) - len(survivors) + len(missed)
    assert counted - len(missed) >= LEAST_FOUND * counted, "\n".join(map(str, missed))
