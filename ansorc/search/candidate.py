"""Candidate: a program within the search, which is proposed and learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ansorc.schedule import Step
from ansorc.search.features import Features
from ansorc.search.measure import ProgramText
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space import Genes, Space, extract, phenotype_keys, steps


@dataclass(frozen=True, eq=False)
class Candidate:
    """A program of a space, with all that the search alone knows of it: genes, features, score.

    What is measured and recorded of it is its `program`. The search keeps the candidate until that
    has an outcome, and learns from its features.
    """

    sketch: Sketch
    number: int
    """The place of the sketch in `Space.sketches`."""
    genes: Genes
    """[columns]."""
    key: int
    """Equal for programs that are the same (`phenotype_keys`)."""
    features: Features
    """[statements, features]: what a cost model is asked about, and learns from."""
    score: float = 0.0
    """The model's score; for a measured program, its speed in the same unit."""
    is_random: bool = False
    """Whether it was picked by chance, not by score."""

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The schedule, made when it is first asked for."""
        return steps(self.sketch, self.genes)

    @cached_property
    def program(self) -> ProgramText:
        """The text by which it is measured and recorded."""
        return ProgramText.encode(self.steps, self.sketch.names)


def candidates(space: Space, rows: Sequence[tuple[int, Genes]]) -> list[Candidate]:
    """Return (number of a sketch, genes [columns]) as candidates, in order."""
    made: dict[int, Candidate] = {}
    for number, sketch in enumerate(space.sketches):
        members = [position for position, row in enumerate(rows) if row[0] == number]
        if not members:
            continue
        genes = np.stack([rows[position][1] for position in members])
        keys: list[int] = phenotype_keys(sketch, genes).tolist()
        features = extract(sketch, genes, space.target)
        for position, row, key, each in zip(members, genes, keys, features, strict=True):
            made[position] = Candidate(sketch, number, row, key, each)
    return [made[position] for position in range(len(rows))]
