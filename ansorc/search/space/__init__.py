"""The design space of a computation as integer arrays: one row of genes is one program.

In: a ComputeDAG and a target. Out: sketches; for each of them rows to draw, mutate, cross, compare,
and to turn into tile lengths, whole populations of States, or the steps of one program.
"""

from ansorc.search.space.design import Space, design_space, sketch_rules
from ansorc.search.space.genes import (
    Genes,
    choice_values,
    population_state,
    steps,
    tiles,
)
from ansorc.search.space.phenotype import phenotype_keys
from ansorc.search.space.recall import recall
from ansorc.search.space.registers import register_vectors
from ansorc.search.space.sample import sample
from ansorc.search.space.vary import crossover, mutate

__all__ = [
    "Genes", "Space", "choice_values", "crossover", "design_space", "mutate", "phenotype_keys",
    "population_state", "recall", "register_vectors", "sample", "sketch_rules", "steps", "tiles",
]  # fmt: skip
