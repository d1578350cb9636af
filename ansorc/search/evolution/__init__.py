"""How programs are found: an evolutionary search over the genes of a space, and local search.

Each sketch has an island, its programs of the current generation. A generation scores the new ones
with the cost model, keeps an elite, and makes offspring of the best: within an island, and between
islands.

* `evolve`: some generations, and the programs to measure
* `population`: programs with their features; islands, their fitness, and the initial population
* `sampling`: random programs of a sketch, or all of them
* `variation`: programs that differ in a gene or two; offspring of two programs, node by node;
  migration to the islands of other sketches
* `selection`: which programs are measured, by an upper confidence bound; some by chance
* `local_search`: the neighbours of the fastest programs, at the end of a run
* `by_estimate`: the search for an untuned program, by the analytic estimate alone
"""
