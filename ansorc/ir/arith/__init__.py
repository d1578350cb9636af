"""Facts about the integers of a loop program.

In: expressions and the ranges of their variables. Out: simpler expressions, bounds, affine forms.
"""
