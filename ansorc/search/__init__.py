"""The search for a fast program: what may be tried, what looks good, what was measured.

In: a `Task`. Out: records of measured programs, and the best of them.
"""
