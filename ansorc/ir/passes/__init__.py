"""The passes: each file rewrites a loop program in one way, and keeps what it computes.

In: a Function. Out: a Function; `pipeline` runs them in their order.
"""
