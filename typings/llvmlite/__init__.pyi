"""The part of llvmlite that ansorc uses."""
