"""Check the arrays of a call against a kernel's signature: no wrong one reaches its code."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from ansorc.codegen.device_array import (
    DeviceArray,
    DeviceOperand,
    SupportsDLPack,
    device_array,
    has_dlpack,
    host_array,
)
from ansorc.codegen.package.signature import Param, Signature
from ansorc.errors import CallError
from ansorc.ir.aligned import Array
from ansorc.ir.complex_view import is_complex_array, view_parts
from ansorc.ir.packing import PackedWeight

Packer: TypeAlias = Callable[[int, Param, object, Array], Array]
"""Returns the packed copy of an array, given the number of the argument, from 0, and its value."""
DEVICE_ALIGNMENT = 16
"""Bytes of the widest access of a thread of a GPU; what its allocators return is at multiples of
256 and more."""


def _pack(number: int, param: Param, value: object, array: Array) -> Array:
    return array if param.packing is None else param.packing.apply(array)


def check_arrays(
    signature: Signature, values: Sequence[object], packer: Packer = _pack
) -> list[Array]:
    """Return `values` as NumPy arrays that share their memory, in call order.

    A weight that the kernel reads in another order is copied by `packer`, unless it is packed
    already.
    Raises CallError that names the argument, what was given and what the kernel wants.
    """
    places = _places(signature, values)
    arrays = [
        _kernel_array(argument, value, packer)
        for argument, value in zip(places, values, strict=True)
    ]
    _require_no_overlap(signature, [(array.ctypes.data, array.nbytes) for array in arrays])
    return arrays


def check_operands(
    signature: Signature, values: Sequence[object], stream: int
) -> list[DeviceOperand]:
    """Return `values` as `check_arrays` does, but those in a device's memory as they are.

    `stream` is the handle of the stream that the kernel will run in.
    """
    places = _places(signature, values)
    operands = [
        _operand(argument, value, stream) for argument, value in zip(places, values, strict=True)
    ]
    _require_no_overlap(signature, [(_address(operand), operand.nbytes) for operand in operands])
    return operands


def _places(signature: Signature, values: Sequence[object]) -> list[_CallArgument]:
    params = signature.params
    if len(values) != len(params):
        wanted = ", ".join(_describe(param) for param in params)
        raise CallError(
            f"{signature.name} takes {len(params)} arrays ({wanted}), but {len(values)} were given"
        )
    return [_CallArgument(signature.name, n, param) for n, param in enumerate(params, 1)]


class _CallArgument:
    """Which argument is being checked, for the messages."""

    def __init__(self, kernel: str, number: int, param: Param) -> None:
        self.number, self.param = number - 1, param
        self._words = f"{kernel}: argument {number} '{param.name}'"

    def refuse(self, given: str, remedy: str) -> CallError:
        return CallError(f"{self._words} {given}, but {remedy}")


def file_path(given: object) -> Path:
    """Return the path that `given` is; raise CallError for what is none."""
    try:
        path = Path(cast("str | os.PathLike[str]", given))
    except TypeError:
        raise CallError(f"{given!r} is no path; give text or a pathlib.Path") from None
    if not path.name:
        raise CallError(f"{given!r} names no file")
    return path


def pack_weight(signature: Signature, name: str, value: object) -> PackedWeight:
    """Return the weight `name` as the kernel reads it; raise CallError as a call would."""
    for number, param in enumerate(signature.params, start=1):
        is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        if param.packing is not None and is_text and param.name == name:
            argument = _CallArgument(signature.name, number, param)
            if isinstance(value, PackedWeight):
                return PackedWeight(param.packing, _kernel_array(argument, value))
            return PackedWeight(param.packing, param.packing.apply(_array(argument, value)))
    known = ", ".join(f"'{param.name}'" for param in signature.params if param.packing is not None)
    raise CallError(
        f"{signature.name} has no weight '{name}' to pack; its constant inputs: {known or 'none'} "
        "(declare one by placeholder(..., constant=True))"
    )


def _kernel_array(argument: _CallArgument, value: object, packer: Packer = _pack) -> Array:
    """The array that the kernel gets for `value`."""
    param = argument.param
    if not isinstance(value, PackedWeight):
        array = _array(argument, value)
        return packer(argument.number, param, value, array) if param.is_rewritten else array
    if value.packing != param.packing:
        raise argument.refuse(
            f"is {value!r} for another kernel or tensor",
            f"each kernel has an order of its own; pass what its pack('{param.name}', …) returns",
        )
    return value.array


def _operand(argument: _CallArgument, value: object, stream: int) -> DeviceOperand:
    if isinstance(value, PackedWeight):
        return _kernel_array(argument, value)
    if isinstance(value, np.ndarray):
        return _kernel_array(argument, cast(Array, value))
    try:
        array = device_array(value, stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"is a {type(value).__name__} that cannot be read ({error})"
        remedy = "it must lie in the memory of a CUDA device or of this machine"
        raise argument.refuse(kind, remedy) from error
    if array is None:
        return _kernel_array(argument, value)
    if argument.param.is_rewritten:
        given = "is an array on a device"
        remedy = "the kernel reads it in another order; pass what pack() returns of a NumPy array"
        raise argument.refuse(given, remedy)
    _require_fit(argument, array, may_write=array.may_write)
    if not array.is_contiguous:
        given = f"is not contiguous (strides {array.strides} bytes)"
        raise argument.refuse(given, "the kernel wants a dense row-major array; copy it to one")
    if array.address % DEVICE_ALIGNMENT:
        remedy = f"kernels of a GPU need a multiple of {DEVICE_ALIGNMENT}; copy the array"
        raise argument.refuse(f"is misaligned (address {array.address:#x})", remedy)
    return array


def _address(operand: DeviceOperand) -> int:
    return operand.address if isinstance(operand, DeviceArray) else operand.ctypes.data


def _require_fit(argument: _CallArgument, array: DeviceOperand, *, may_write: bool) -> None:
    """Raise CallError for a wrong dtype or shape, and for an output that is read-only."""
    param = argument.param
    is_of_parts = param.is_complex and array.dtype == param.dtype.numpy
    wanted, shape = param.dtype.numpy, param.source_shape
    if not is_of_parts:
        wanted, shape = param.caller_dtype, param.caller_shape
    if array.dtype != wanted:
        remedy = f"the kernel wants {wanted}; convert it with .astype('{wanted}')"
        raise argument.refuse(f"has dtype {array.dtype}", remedy)
    if array.shape != shape:
        raise argument.refuse(f"has shape {array.shape}", f"the kernel wants {shape}")
    if param.is_written and not may_write:
        written = "the new values of this input" if param.is_updated else "its result"
        raise argument.refuse(
            "is read-only", f"the kernel writes {written} there; pass a writable array"
        )


def _array(argument: _CallArgument, value: object) -> Array:
    param = argument.param
    array, may_write = _view(argument, value)
    _require_fit(argument, array, may_write=may_write)
    if not array.flags.c_contiguous:
        given = f"is not contiguous (strides {array.strides} bytes)"
        raise argument.refuse(given, _contiguous_remedy(param))
    if not array.flags.aligned:
        remedy = f"an element of {param.dtype} needs {param.dtype.bytes}; copy the array"
        raise argument.refuse(f"is misaligned (address {array.ctypes.data:#x})", remedy)
    return view_parts(array) if is_complex_array(array) else array


class ComplexArguments:
    """Views the complex arrays of calls as their parts, which is all that machine code knows."""

    def __init__(self, signature: Signature) -> None:
        self._kinds = [
            None if not param.is_complex or param.is_rewritten
            else (param.caller_dtype, param.caller_shape, param.dtype.numpy)
            for param in signature.params
        ]  # fmt: skip
        self.has_any = any(self._kinds)

    def parts(self, values: Sequence[object]) -> tuple[object, ...]:
        """Return `values` with the parts of those that fit; anything else as it is."""
        return tuple(
            value if kind is None or not isinstance(value, np.ndarray)
            else _fitting_parts(cast(Array, value), kind)
            for value, kind in zip(values, self._kinds, strict=True)
        )  # fmt: skip


def _fitting_parts(
    array: Array, kind: tuple[np.dtype[Any], tuple[int, ...], np.dtype[Any]]
) -> Array:
    dtype, shape, part = kind
    fits = array.dtype == dtype and array.shape == shape and array.flags.c_contiguous
    return array.view(part) if fits else array


def _contiguous_remedy(param: Param) -> str:
    wants = "the kernel wants a dense row-major array"
    if param.is_updated:
        return f"{wants} that it can write to; copy it to one, and copy the result back"
    if param.is_output:
        shape, kind = param.caller_shape, param.caller_dtype.name
        return f"{wants}; pass numpy.empty({shape}, '{kind}') and copy from it"
    return f"{wants}; use numpy.ascontiguousarray"


def _view(argument: _CallArgument, value: object) -> tuple[Array, bool]:
    """Return (array over the memory of `value`, whether it may be written)."""
    if isinstance(value, np.ndarray):
        array = cast(Array, value)
        return array, bool(array.flags.writeable)
    if _is_number(value) and not argument.param.source_shape:
        return _of_number(argument, value), False
    if not has_dlpack(value):
        kind = f"is a {type(value).__name__}"
        raise argument.refuse(kind, "it must be a NumPy array or an object with __dlpack__")
    try:
        array = host_array(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"is a {type(value).__name__} that NumPy cannot view ({error})"
        raise argument.refuse(
            kind, "it must lie in this machine's main memory, with strides"
        ) from error
    return array, bool(array.flags.writeable) or not _is_versioned(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.generic))


def _of_number(argument: _CallArgument, value: object) -> Array:
    """Return the array without dimensions that holds a number of Python or NumPy.

    Raise CallError unless the parameter's dtype holds it: a bool or an integer as it is, a float
    rounded, but not to infinity.
    """
    given, wanted = np.asarray(value), argument.param.dtype
    fits = given.dtype.kind in ("b" if wanted.is_bool else "iu" if wanted.is_integer else "fiuV")
    if not fits or given.dtype.kind == "O":
        raise argument.refuse(f"is the number {value!r}", f"the kernel wants {wanted}")
    with np.errstate(over="ignore"):
        converted = given.astype(wanted.numpy)
    is_same = bool(converted == given) if not wanted.is_float else True
    if not is_same or (np.isinf(converted.astype(np.float64)) and not np.isinf(float(given))):
        raise argument.refuse(f"is the number {value!r}", f"{wanted} does not hold it")
    return converted


def _is_versioned(value: SupportsDLPack) -> bool:
    """Whether the exporter could say "read-only"; those that cannot export only what is writable.

    NumPy marks every array from such an exporter read-only, to be on the safe side.
    """
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:
        return False
    return "dltensor_versioned" in repr(capsule)


def _require_no_overlap(signature: Signature, places: Sequence[tuple[int, int]]) -> None:
    """Outputs may share no byte with any other argument; inputs may share with inputs."""
    params = signature.params
    spans = [(begin, begin + size) for begin, size in places]
    for written, output in enumerate(params):
        for other, param in enumerate(params):
            if not output.is_written or other == written or (param.is_written and other < written):
                continue
            if spans[written][0] < spans[other][1] and spans[other][0] < spans[written][1]:
                role = "updated input" if output.is_updated else "output"
                raise CallError(
                    f"{signature.name}: the {role} '{output.name}' overlaps '{param.name}' in "
                    "memory, but the kernel reads and writes in its own order; pass separate arrays"
                )


def _describe(param: Param) -> str:
    return f"{param.name}: {param.caller_type}"
