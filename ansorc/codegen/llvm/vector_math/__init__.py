"""Math functions on vectors, written in LLVM IR from range reductions and minimax polynomials.

In: a function's name, an element format, lanes and a machine. Out: the text of an LLVM function.
"""

from ansorc.codegen.llvm.vector_math.library import MathFunction, math_function, write_in_place
from ansorc.codegen.llvm.vector_math.vector_writer import VectorShape

__all__ = ["MathFunction", "VectorShape", "math_function", "write_in_place"]
