"""The loop program as machine code, on its own or in a library that C++ calls.

In: an `ir.Function` and a target. Out: LLVM IR, object code, a `Module` to call, an `Artifact`.
"""
