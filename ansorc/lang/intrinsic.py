"""`intrinsic`: a scalar function of the user's, for use in definitions like `exp`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansorc.errors import LanguageError
from ansorc.ir.expr import OwnCall
from ansorc.ir.own_function import OwnFunction
from ansorc.lang.arguments import explain_call_errors
from ansorc.lang.literal import DTypeLike, as_dtype, short_text
from ansorc.lang.naming import check_axis_name
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar

Reference = Callable[..., Any]


class Intrinsic:
    """A function of elements; `intrinsic` makes it."""

    def __init__(self, function: OwnFunction) -> None:
        self.function = function

    def __call__(self, *operands: ScalarLike) -> Scalar:
        """Return the call; raise LanguageError on another number or other dtypes of operands."""
        function, wanted = self.function, self.function.arguments
        if len(operands) != len(wanted):
            raise LanguageError(
                f"'{function.name}' takes {len(wanted)} operands, not {len(operands)}"
            )
        values = [as_scalar(o, dtype) for o, dtype in zip(operands, wanted, strict=True)]
        for value, dtype in zip(values, wanted, strict=True):
            if value.dtype != dtype:
                raise LanguageError(
                    f"'{function.name}' takes {dtype}, not {value.dtype}; cast the operand by "
                    f'astype("{dtype}")'
                )
        return Scalar(OwnCall(function.symbol, tuple(v.expr for v in values), function))

    def __repr__(self) -> str:
        kinds = ", ".join(map(str, self.function.arguments))
        return f"{self.function.name}({kinds}) -> {self.function.result}"


def intrinsic(
    name: str,
    *,
    arguments: Sequence[DTypeLike] = ("float32",),
    result: DTypeLike | None = None,
    llvm: str = "",
    cuda: str = "",
    reference: str | Reference = "",
    gradient: Callable[..., Any] | None = None,
) -> Intrinsic:
    """Return a pure function of scalars of the dtypes `arguments`, for use in definitions.

    `result` is the dtype of its value, by default that of the first argument. `llvm` is the name of
    an intrinsic of LLVM, which is called on whole vectors, or the text of a function in LLVM IR,
    which is called for each lane; `cuda` is an expression of CUDA C with `{0}`, `{1}`, … for the
    operands. `reference` is the same as a function of NumPy arrays: a function of a module or of a
    file, or its place as text, "module:function" or "file.py:function"; floats come as float64.
    Programs are checked against it. `gradient` returns, for the operands, the derivative by each.
    A target for which there is no text refuses the function when it is built. Raise LanguageError
    for a reference that other processes cannot import.

        fast = ac.intrinsic("fast_exp", llvm="llvm.exp2", cuda="exp2f({0})", reference=np.exp2)
    """
    check_axis_name(name)
    dtypes = tuple(as_dtype(each) for each in arguments)
    if not dtypes:
        raise LanguageError(f"the function '{name}' has no operands; give arguments=, their dtypes")
    value = dtypes[0] if result is None else as_dtype(result)
    if not reference:
        raise LanguageError(
            f"the function '{name}' has no reference=, against which programs are checked; give a "
            "function of NumPy arrays"
        )
    if not llvm and not cuda:
        raise LanguageError(f"the function '{name}' has no text; give llvm=, cuda=, or both")
    _check_expression(name, cuda, len(dtypes))
    place = reference if isinstance(reference, str) else place_of(name, reference)
    loaded = None if isinstance(reference, str) else reference
    return Intrinsic(
        OwnFunction(name, dtypes, value, llvm, cuda, place, gradient=gradient, loaded=loaded)
    )


def _check_expression(name: str, cuda: str, count: int) -> None:
    """Raise LanguageError unless `cuda` has operands that there are, and no other braces."""
    try:
        cuda.format(*range(count))
    except (IndexError, KeyError, ValueError) as error:
        raise LanguageError(
            f"the CUDA text of '{name}' is {short_text(cuda)}: {{0}} to {{{count - 1}}} are its "
            "operands, and other braces are written twice, {{ and }}"
        ) from error


def place_of(name: str, reference: Reference) -> str:
    """Return where other processes find a function."""
    if not callable(reference):
        raise LanguageError(
            f"the reference of '{name}' is {short_text(reference)}; give a function"
        )
    module = getattr(reference, "__module__", None) or "numpy"
    own_name = getattr(reference, "__qualname__", None) or getattr(reference, "__name__", "")
    value: Any = sys.modules.get(module)
    if module not in ("__main__", "ansorc_workload", "ansorc_reference"):
        for part in own_name.split("."):
            value = getattr(value, part, None)
        if value is reference:
            return f"{module}:{own_name}"
    elif "." not in own_name and "<" not in own_name:
        return f"{Path(inspect.getfile(reference)).resolve()}:{own_name}"
    raise LanguageError(
        f"the reference of '{name}' is {own_name or short_text(reference)}, which other processes "
        "cannot import: define it by def at the top of a module or of the workload's file"
    )


intrinsic = explain_call_errors(intrinsic, LanguageError)
