"""The paper's own space and strategies, for comparison with what is used here.

* `space`: derivation rules and computation locations of the paper; the limited space of Figure 7
* `strategies`: random search and beam search

`SearchOptions` names these variants. Two tables look them up, in `ansorc.search.cpu.rules` and
`ansorc.search.proposals`; nothing else of ansorc imports this package, and bench/ may. The 164
numbers of the paper's appendix B are in `bench.search.paper_features`.
"""
