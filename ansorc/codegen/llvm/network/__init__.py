"""A network for CPUs: a driver that calls kernels, and their object files made to fit together.

In: a `NetworkPlan`. Out: code in this process, or object files for a library.
"""
