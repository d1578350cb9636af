"""Instructions in the assembly of a kernel, counted loop by loop.

In: assembly text. Out: counts, and the text with its innermost loops marked.
"""
