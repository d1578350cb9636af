"""The design space of a computation as integer arrays: one row of genes is one program.

In: a ComputeDAG and a target. Out: sketches, and for each of them rows to compare and to turn into
tile lengths, whole populations of States, or the steps of one program.

* `protocol`: what the search asks about the programs of one kind of machine
* `registry`: the search space of a target
* `design`: the sketches of a computation
* `genes`: what the columns of a row mean, and the program that they make
* `encoding`: the genes of a program given as steps
* `phenotype`: keys, equal for rows that make the same program
* `nodes`: which genes, steps and statements belong to which node of the computation
* `features`: the numbers that cost models are asked about
* `user_rules`: registering rules of users
* `formula`: arithmetic on populations, recorded once and repeated for others
* `skeleton`: the States of a population without replaying its steps
* `recorded`: what an analysis of the State says of populations, recorded once for a sketch

How rows are drawn and changed is in `ansorc.search.evolution`.
"""

from ansorc.search.space.design import Space, design_space, require_options, sketch_rules
from ansorc.search.space.encoding import adapt, encode
from ansorc.search.space.features import extract, extract_state
from ansorc.search.space.genes import (
    Genes,
    are_legal,
    choice_values,
    population_state,
    steps,
    tiles,
)
from ansorc.search.space.phenotype import phenotype_keys
from ansorc.search.space.protocol import SearchSpace
from ansorc.search.space.registry import search_space
from ansorc.search.space.user_rules import register_sketch_rule, unregister_sketch_rule

__all__ = [
    "Genes", "SearchSpace", "Space", "adapt", "are_legal", "choice_values", "design_space",
    "encode", "extract", "extract_state", "phenotype_keys", "population_state",
    "register_sketch_rule", "require_options", "search_space", "sketch_rules", "steps", "tiles",
    "unregister_sketch_rule",
]  # fmt: skip
