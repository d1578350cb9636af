"""`extern`: a stage that a C function of the user's computes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import Shape
from ansorc.ir.expr import Load, OwnCall
from ansorc.ir.own_function import OwnFunction
from ansorc.lang.arguments import explain_call_errors
from ansorc.lang.check import check_op
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.intrinsic import Reference, place_of
from ansorc.lang.literal import DTypeLike, as_dtype, short_text
from ansorc.lang.naming import AutoName, check_axis_name, check_tensor_name
from ansorc.lang.tensor import ComplexTensor, Tensor, as_tensors, extents_of

_EXTERN = AutoName("extern")


def extern(
    shape: Shape,
    inputs: Sequence[Tensor],
    function: str,
    *,
    source: str,
    reference: str | Reference,
    dtype: DTypeLike = "float32",
    name: str = _EXTERN,
) -> Tensor:
    """Return the tensor of `shape` that the C function called `function` computes from `inputs`.

    It gets the address of each input and then that of the result, dense and row-major, and fills
    all of it; `source` is the text of a C file with it, compiled by the C compiler of the target
    and linked to the kernel. Other functions of the text should be static. `reference` is the same
    on NumPy arrays, floats as float64, given as for `intrinsic`; programs are checked against it.
    The stage is computed as a whole, on one thread: schedules do not change it. GPUs refuse it.
    Raise LanguageError for inputs that are no tensors of real numbers, a text without the function,
    and a reference that other processes cannot import.

        text = "void first(const float *x, float *y) { y[0] = x[0]; }"
        y = ac.extern(1, [x], "first", source=text, reference="file.py:first")
    """
    check_axis_name(function)
    check_tensor_name(name)
    extents = extents_of(shape, name)
    tensors = _tensors(name, inputs)
    if not isinstance(source, str) or not re.search(rf"\b{function}\s*\(", source):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LanguageError(
            f"the source of '{name}' is {short_text(source)}, which has no function '{function}'; "
            f"give the text of a C file with void {function}(const float *…, float *…)"
        )
    place = reference if isinstance(reference, str) else place_of(function, reference)
    loaded = None if isinstance(reference, str) else reference
    kinds = tuple(tensor.dtype for tensor in tensors)
    called = OwnFunction(function, kinds, as_dtype(dtype), reference=place, c=source, loaded=loaded)
    loads = tuple(tensor[tuple(0 for _ in tensor.shape)].expr for tensor in tensors)
    assert all(isinstance(load, Load) for load in loads)
    axes = tuple(Axis(f"i{number}", extent) for number, extent in enumerate(extents))
    buffer = Buffer(str(name), extents, called.result)
    body = OwnCall(called.symbol, loads, called)
    op = ComputeOp(str(name), buffer, axes, (), None, body)
    check_op(op)
    return Tensor(buffer, op, isinstance(name, AutoName))


def _tensors(name: str, inputs: object) -> list[Tensor]:
    if (tensors := as_tensors(inputs)) is None:
        raise LanguageError(
            f"the inputs of '{name}' are {short_text(inputs)}; give a list of tensors"
        )
    for tensor in tensors:
        if isinstance(tensor, ComplexTensor):
            raise LanguageError(
                f"'{name}' gets {tensor!r}; a C function gets tensors of real numbers: give it the "
                "real and the imaginary parts"
            )
    return tensors


extern = explain_call_errors(extern, LanguageError)
