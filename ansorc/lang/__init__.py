"""The language: what is to be computed, element by element.

In: Python functions over indices. Out: a ComputeDAG, an immutable value.
"""

from ansorc.errors import LanguageError
from ansorc.lang.arguments import explain_call_errors
from ansorc.lang.checks import checked
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp, Output, Place
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.define import compute, compute_tuple
from ansorc.lang.reducer import Reducer
from ansorc.lang.reduction import (
    Reduction,
    TupleReducer,
    TupleReduction,
    all,
    any,
    argmax,
    argmin,
    max,
    min,
    prod,
    reduce_axis,
    reducer,
    sum,
)
from ansorc.lang.scalar import (
    abs,
    all_of,
    any_of,
    cast,
    ceil,
    clz,
    const,
    cos,
    ctz,
    equal,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    fmod,
    if_then_else,
    log,
    log1p,
    log2,
    logical_not,
    maximum,
    minimum,
    not_equal,
    popcount,
    power,
    round,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tanh,
    truncated_divide,
)
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.scatter import scatter
from ansorc.lang.tensor import Tensor, placeholder
from ansorc.lang.workload import load_workload, workload

__all__ = [
    "Axis",
    "Combiner",
    "ComputeDAG",
    "ComputeOp",
    "Output",
    "Place",
    "Reducer",
    "Reduction",
    "Scalar",
    "Tensor",
    "TupleReducer",
    "TupleReduction",
    "abs",
    "all",
    "all_of",
    "any",
    "any_of",
    "argmax",
    "argmin",
    "cast",
    "ceil",
    "checked",
    "clz",
    "compute",
    "compute_tuple",
    "const",
    "cos",
    "ctz",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fmod",
    "if_then_else",
    "load_workload",
    "log",
    "log1p",
    "log2",
    "logical_not",
    "max",
    "maximum",
    "min",
    "minimum",
    "not_equal",
    "placeholder",
    "popcount",
    "power",
    "prod",
    "reduce_axis",
    "reducer",
    "round",
    "rsqrt",
    "scatter",
    "sigmoid",
    "sin",
    "sqrt",
    "sum",
    "tanh",
    "truncated_divide",
    "workload",
]

_FUNCTIONS = (
    "abs", "all", "all_of", "any", "any_of", "argmax", "argmin", "cast", "ceil", "checked", "clz",
    "compute", "compute_tuple", "const", "cos", "ctz", "equal", "erf", "exp", "exp2", "expm1",
    "floor", "fmod", "if_then_else", "load_workload", "log", "log1p", "log2", "logical_not", "max",
    "maximum", "min", "minimum", "not_equal", "placeholder", "popcount", "power", "prod",
    "reduce_axis", "reducer", "round", "rsqrt", "scatter", "sigmoid", "sin", "sqrt", "sum", "tanh",
    "truncated_divide", "workload",
)  # fmt: skip
for _name in _FUNCTIONS:  # a call with too few or too many arguments is refused with a message, too
    globals()[_name] = explain_call_errors(globals()[_name], LanguageError)
    globals()[_name].__module__ = __name__  # where pickle finds it
