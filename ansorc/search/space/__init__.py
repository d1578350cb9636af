"""The design space of a computation as integer arrays: one row of genes is one program.

In: a ComputeDAG and a target. Out: sketches; for each of them rows to draw, mutate, cross, compare,
and to turn into tile lengths, whole populations of States, or the steps of one program.
"""

from ansorc.search.space.design import Space, design_space, sketch_rules
from ansorc.search.space.encoding import adapted, encode
from ansorc.search.space.genes import (
    Genes,
    choice_values,
    population_state,
    steps,
    tiles,
)
from ansorc.search.space.mate import Brood, Mating, Parents
from ansorc.search.space.phenotype import phenotype_keys
from ansorc.search.space.registers import register_vectors
from ansorc.search.space.relatives import Relatives, relatives_of
from ansorc.search.space.sample import sample
from ansorc.search.space.vary import crossover, mutate

__all__ = [
    "Brood", "Genes", "Mating", "Parents", "Relatives", "Space", "adapted", "choice_values",
    "crossover", "design_space", "encode", "mutate", "phenotype_keys", "population_state",
    "register_vectors", "relatives_of", "sample", "sketch_rules", "steps", "tiles",
]  # fmt: skip
