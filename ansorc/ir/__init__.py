"""The loop program as a value: expressions, statements, and what can be done with them.

In: nodes, or their text. Out: `Function` values that print, parse, verify, run and are rewritten.
"""
