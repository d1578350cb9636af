"""Numbers of whole populations, computed by an analysis of the State that is recorded once.

An analysis is a function of arrays, one number for each program in each. It runs for a population
as for one program: it asks NumPy for elementwise results, `formula.apply` for others, and whether
something holds for all programs by `np.all`. Python then drives it once for each sketch, not once
for each population; what it cannot be recorded for is computed directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ansorc.schedule.extent import Extent
from ansorc.schedule.state import State
from ansorc.search.memo import memoize
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.formula import Array, Program
from ansorc.search.space.genes import choice_values, numbers_of, population_state, skeleton_of_genes
from ansorc.search.space.protocol import Genes


@dataclass(frozen=True, eq=False)
class Population:
    """The programs of a sketch, or formulas that stand for those of any population."""

    sketch: Sketch
    state: State
    choices: Mapping[str, Extent]
    """The numbers that the state does not hold, by the names of the choices."""
    rows: int
    """Programs; 1 for formulas, as arrays of one element are constants."""


Analysis: TypeAlias = Callable[[Population], Sequence[Array]]


MANY_ROWS = 128
"""Programs for which recording an analysis pays; it is recorded when it was asked for so many."""


def analyse(analysis: Analysis, sketch: Sketch, genes: Genes) -> list[Array]:
    """Return the results of `analysis` for the programs `genes` [rows, columns]: arrays [rows]."""
    record, rows = _record_of(sketch, analysis), len(genes)
    results: Sequence[Array] | None = None
    record.rows += rows
    if record.rows >= MANY_ROWS:
        program = record.program
        if program is not None:
            results = program.run(numbers_of(sketch, genes, program.inputs))
    if results is None:
        state, choices = population_state(sketch, genes), choice_values(sketch, genes)
        results = analysis(Population(sketch, state, choices, rows))
    return [np.broadcast_to(each, (rows,)) for each in results]


@dataclass(eq=False)
class _Record:
    """An analysis of the programs of a sketch."""

    sketch: Sketch
    analysis: Analysis
    rows: int = 0
    """Programs for which it was asked."""

    @cached_property
    def program(self) -> Program | None:
        """The recorded analysis; None if it asks for more than formulas can tell."""
        skeleton = skeleton_of_genes(self.sketch)
        if skeleton is None:
            return None
        replays = skeleton.replays
        try:
            results = self.analysis(Population(self.sketch, skeleton.state, replays.choices, 1))
        except TypeError:
            return None
        return replays.tape.program(results)


@memoize
def _record_of(sketch: Sketch, analysis: Analysis) -> _Record:
    return _Record(sketch, analysis)
