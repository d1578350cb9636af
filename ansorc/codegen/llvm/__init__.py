"""The back end for CPUs: LLVM IR written as text, compiled and linked by LLVM.

In: a prepared `Function`. Out: LLVM IR, object code, addresses.
"""
