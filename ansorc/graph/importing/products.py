"""Matrix products as NumPy has them, of operators of graphs."""

from __future__ import annotations

from ansorc.graph.importing.converter_call import ConverterCall


def product(call: ConverterCall, left: str, right: str, sum_dtype: str = "") -> str:
    """Return numpy.matmul(left, right), factors cast to `sum_dtype` if that is given."""
    a, b = call.builder.type(left).shape, call.builder.type(right).shape
    if not a or not b:
        call.refuse("it multiplies a single number; multiply elements instead")
    if len(a) > 1 and len(b) > 1:
        given = {"sum_dtype": sum_dtype} if sum_dtype else {}
        return call.add("matmul", [left, right], **given)
    first = "k" if len(a) == 1 else "...ik"
    second = "k" if len(b) == 1 else "...kj"
    result = ("..." if len(a) > 1 or len(b) > 1 else "") + "i" * (len(a) > 1) + "j" * (len(b) > 1)
    equation = f"{first},{second}->{result}"
    return call.add("einsum", [left, right], equation=equation, dtype=sum_dtype)
