"""The features of the paper (its appendix B): 164 numbers for each innermost statement.

They are the second feature set, for comparisons; `docs/features.md` lists both. Where the first
implementation of the paper has faults, these are the numbers that were meant: the type of a
position is told apart, a cache line counts once however the loops reach it, and a loop that was
unrolled by the limit is an unrolled one.
"""

from ansorc.search.features.paper.statement import PAPER_FEATURES

__all__ = ["PAPER_FEATURES"]
