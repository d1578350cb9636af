"""Numbers of Python that each call has anew: PyTorch's SymInt and SymFloat, tensors of shape ()."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.dtype import BOOL, FLOAT64, INT64, DType


def _arithmetic(operator: str, of_ints: str = "") -> TorchConverter:
    """Two numbers, in float64 or int64 as Python has them."""

    def convert(call: TorchCall) -> str:
        kind = _kind(call)
        name = of_ints if of_ints and kind == INT64 else operator
        return call.add(name, [call.input("arg0", kind), call.input("arg1", kind)])

    return convert


def _kind(call: TorchCall) -> DType:
    names = [name for name in ("arg0", "arg1") if call.has(name)]
    kinds = [call.type(name).dtype for name in names]
    return FLOAT64 if any(kind.is_float for kind in kinds) else INT64


def _divide(call: TorchCall) -> str:
    return call.add("divide", [call.input("arg0", FLOAT64), call.input("arg1", FLOAT64)])


def _floor_divide(call: TorchCall) -> str:
    if _kind(call) != INT64:
        call.refuse("numbers of a call that are floats are not divided and rounded down")
    left, right = call.input("arg0", INT64), call.input("arg1", INT64)
    rest = call.add("floor_mod", [left, right])
    return call.add("truncated_divide", [call.add("subtract", [left, rest]), right])


def _modulo(call: TorchCall) -> str:
    if _kind(call) != INT64:
        call.refuse("remainders of numbers of a call that are floats are not supported")
    return call.add("floor_mod", [call.input("arg0", INT64), call.input("arg1", INT64)])


def _negate(call: TorchCall) -> str:
    return call.add("negative", [call.input("arg0", _kind(call))])


def _logical_not(call: TorchCall) -> str:
    return call.add("logical_not", [call.input("arg0", BOOL)])


def item_of(call: TorchCall) -> str:
    """Return the only element of a tensor as a number of Python has it."""
    data = call.input("self", call.result.dtype)
    return call.reshape(data, ())


_COMPARISONS = {
    "eq": "equal", "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less",
    "ne": "not_equal",
}  # fmt: skip

TORCH_NUMBERS: Mapping[str, TorchConverter] = {
    **{f"number.{name}": _arithmetic(operator) for name, operator in _COMPARISONS.items()},
    "number.add": _arithmetic("add"),
    "number.floordiv": _floor_divide,
    "number.mod": _modulo,
    "number.mul": _arithmetic("multiply"),
    "number.neg": _negate,
    "number.sub": _arithmetic("subtract"),
    "number.sym_float": lambda call: call.input("arg0", FLOAT64),
    "number.sym_max": _arithmetic("maximum"),
    "number.sym_min": _arithmetic("minimum"),
    "number.sym_not": _logical_not,
    "number.truediv": _divide,
}
"""By the names of Python's functions, after "number."."""
