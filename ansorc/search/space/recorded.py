"""Numbers of whole populations, computed by an analysis of the State that is recorded once.

An analysis is a function of arrays, one number for each program in each. It runs for a population
as for one program: it asks NumPy for elementwise results, `formula.apply` for others, and whether
something holds for all programs by `np.all`. Python then drives it once for each sketch, not once
for each population; what it cannot be recorded for is computed directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


def analyse(analysis: Analysis, sketch: Sketch, genes: Genes) -> list[Array]:
    """Return the results of `analysis` for the programs `genes` [rows, columns]: arrays [rows]."""
    program, rows = _record(sketch, analysis), len(genes)
    results: Sequence[Array] | None = None
    if program is not None:
        results = program.run(numbers_of(sketch, genes, program.inputs))
    if results is None:
        state, choices = population_state(sketch, genes), choice_values(sketch, genes)
        results = analysis(Population(sketch, state, choices, rows))
    return [np.broadcast_to(each, (rows,)) for each in results]


@memoize
def _record(sketch: Sketch, analysis: Analysis) -> Program | None:
    """Return the recorded `analysis`; None if it asks for more than formulas can tell."""
    skeleton = skeleton_of_genes(sketch)
    if skeleton is None:
        return None
    try:
        results = analysis(Population(sketch, skeleton.state, skeleton.replays.choices, 1))
    except TypeError:
        return None
    return skeleton.replays.tape.program(results)
