"""The design space of a computation as integer arrays: one row of genes is one program.

In: a ComputeDAG and a target. Out: sketches, and for each of them rows to compare and to turn into
tile lengths, whole populations of States, or the steps of one program.

* `design`: the sketches of a computation
* `genes`: what the columns of a row mean, and the program that they make
* `encoding`: the genes of a program given as steps
* `phenotype`: keys, equal for rows that make the same program
* `nodes`: which genes, steps and statements belong to which node of the computation
* `skeleton`: the States of a population without replaying its steps

How rows are drawn and changed is in `ansorc.search.evolution`.
"""

from ansorc.search.space.design import Space, design_space, require_options, sketch_rules
from ansorc.search.space.encoding import adapted, encode
from ansorc.search.space.genes import (
    Genes,
    choice_values,
    population_state,
    register_vectors,
    steps,
    tiles,
)
from ansorc.search.space.phenotype import phenotype_keys

__all__ = [
    "Genes", "Space", "adapted", "choice_values", "design_space", "encode", "phenotype_keys",
    "population_state", "register_vectors", "require_options", "sketch_rules", "steps", "tiles",
]  # fmt: skip
