"""The loop program as a value: expressions, statements, and operations on them.

In: nodes, or their text. Out: `Function` values that print, parse, verify, run and can be
rewritten.
"""
