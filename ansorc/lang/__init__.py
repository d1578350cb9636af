"""The language: what is to be computed, element by element.

In: Python functions over indices. Out: a ComputeDAG, an immutable value.
"""

from ansorc.lang.compute_op import Axis, Combiner, ComputeOp
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.define import compute
from ansorc.lang.reduction import Reduction, max, min, prod, reduce_axis, sum
from ansorc.lang.scalar import (
    abs,
    all_of,
    any_of,
    cast,
    ceil,
    const,
    cos,
    equal,
    erf,
    exp,
    floor,
    if_then_else,
    log,
    logical_not,
    maximum,
    minimum,
    not_equal,
    power,
    round,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tanh,
)
from ansorc.lang.tensor import Tensor, placeholder
from ansorc.lang.workload import load_workload, workload

__all__ = [
    "Axis",
    "Combiner",
    "ComputeDAG",
    "ComputeOp",
    "Reduction",
    "Tensor",
    "abs",
    "all_of",
    "any_of",
    "cast",
    "ceil",
    "compute",
    "const",
    "cos",
    "equal",
    "erf",
    "exp",
    "floor",
    "if_then_else",
    "load_workload",
    "log",
    "logical_not",
    "max",
    "maximum",
    "min",
    "minimum",
    "not_equal",
    "placeholder",
    "power",
    "prod",
    "reduce_axis",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sqrt",
    "sum",
    "tanh",
    "workload",
]
