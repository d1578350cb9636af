"""Benchmarks: what the compiler reaches on this machine, as shares of what the machine can do."""
