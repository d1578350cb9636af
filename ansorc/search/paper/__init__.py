"""The paper's own space, strategies and features, for comparison with what is used here.

* `space`: derivation rules and computation locations of the paper; the limited space of Figure 7
* `strategies`: random search and beam search
* `features`, `accesses`, `operations`: the 164 numbers of its appendix B

`SearchOptions` names these variants. Two tables look them up, in
`ansorc.search.space.design` and `ansorc.search.proposals`; nothing else of ansorc
imports this package, and bench/ may.
"""
