"""Many kernels as one function: which are called, in what order, and where their arrays lie.

In: compiled kernels and places. Out: a `NetworkPlan`, of which a back end makes code, and an
`Artifact` of that code.
"""
