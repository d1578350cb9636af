"""Kernels called from Python: arguments checked, code loaded, calls timed.

In: a signature and machine code. Out: a `Module`.
"""
