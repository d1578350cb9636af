"""The programs of CPUs: what the search asks of them, behind `SearchSpace`.

Tiles of registers and caches, vectors, parallel loops. Their rules are in `ansorc.search.sketch`,
their features in `ansorc.search.features`.

* `space`: the search space
* `rules`: which rule is asked of which stage, in their order; whole programs
* `register_tiles`: how many vectors the innermost tile takes; the lengths that may be chosen
* `sampling`: random programs whose tiles fit the registers
* `default`: the untuned program
* `default_borders`: borders of it, read in place or copied
* `default_alike`: layouts of constants that it keeps
"""
