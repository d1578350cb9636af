"""What the assembly of a kernel is made of, counted loop by loop.

In: assembly text. Out: counts, and the text with its innermost loops marked.
"""
