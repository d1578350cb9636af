"""Calls from Python that stay in machine code: arguments checked, the GIL released, the kernel run.

int32_t call(tuple of arrays, threads, workspace)      None for what it does not recognise
int32_t run(calls)                                     a kernel on arguments that are bound to it

are functions for Python (METH_FASTCALL), compiled once in a process. What they know of a kernel are
records in memory, whose address is the first item of the function's own object; its other items
live as long as it. An array is read where NumPy's C interface says (`PyArrayObject_fields`, which
every compiled extension has in it), after a test that this NumPy has it there; a tensor of another
library through DLPack's functions for C, where it has them (version 1.3 of DLPack; PyTorch 2.10).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ansorc.codegen.base import DirectCall
from ansorc.codegen.llvm.binding import LoadedCode, compile_object, load_object_code
from ansorc.codegen.llvm.python_call_llvm import python_call_llvm
from ansorc.codegen.package.signature import Param, Signature
from ansorc.ir.aligned import Array
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.packing import PackedWeight, Packing
from ansorc.target import detect

_POINTER_BYTES = 8
_DATA, _RANK, _EXTENTS, _TYPE, _FLAGS = 0, 8, 16, 40, 48
"""Where an array has its fields, counted from the end of the header that all objects have."""
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_METH_FASTCALL = 0x80
_EXCHANGE, _GRADIENT = "__dlpack_c_exchange_api__", "requires_grad"
_DLPACK_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""By NumPy's kind of an element; of what it has no kind for (bfloat16) it views no tensors."""
_FUNCTIONS = (
    "PyTuple_Size", "PyTuple_GetItem", "PyLong_AsVoidPtr", "PyLong_AsLong", "PyErr_Occurred",
    "PyLong_AsLongAndOverflow", "PyLong_FromLong", "PyType_IsSubtype", "PyEval_SaveThread",
    "PyEval_RestoreThread", "Py_IncRef", "Py_DecRef", "PyErr_Clear", "PyObject_GetAttr",
    "PyCapsule_GetPointer",
)  # fmt: skip


class _ArgumentRecord(ctypes.Structure):
    """Facts on one array of a kernel."""

    _fields_ = (
        ("fixed", ctypes.c_void_p), ("dtype", ctypes.c_void_p), ("packing", ctypes.c_void_p),
        ("extents", ctypes.c_void_p), ("rank", ctypes.c_int32), ("flags", ctypes.c_int32),
        ("bytes", ctypes.c_int64), ("is_output", ctypes.c_int64), ("takes_plain", ctypes.c_int64),
        ("alignment_mask", ctypes.c_int64), ("dlpack_type", ctypes.c_int32),
        ("unused", ctypes.c_int32),
    )  # fmt: skip


class _CallRecord(ctypes.Structure):
    """Facts on a kernel that `call` needs."""

    _fields_ = (
        ("kernel", ctypes.c_void_p), ("repeat", ctypes.c_void_p), ("count", ctypes.c_int64),
        ("given", ctypes.c_int64), ("most_threads", ctypes.c_int64),
        ("arguments", ctypes.c_void_p), ("int_type", ctypes.c_void_p),
        ("array_type", ctypes.c_void_p), ("packed_type", ctypes.c_void_p),
        ("none", ctypes.c_void_p), ("api_name", ctypes.c_void_p),
        ("gradient_name", ctypes.c_void_p), ("false", ctypes.c_void_p),
    )  # fmt: skip


class _RunRecord(ctypes.Structure):
    """Facts on a kernel and its arguments that `run` needs."""

    _fields_ = (
        ("kernel", ctypes.c_void_p), ("repeat", ctypes.c_void_p), ("arrays", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p), ("threads", ctypes.c_int64),
    )  # fmt: skip


class _MethodRecord(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


Kernel: TypeAlias = tuple[int, tuple[int, ...]]
"""The address of a kernel, and the sizes of its dimensions. C passes a size where it would pass
another pointer, so they are what follows the pointers of the arrays."""


def direct_call(
    kernel: Kernel,
    signature: Signature,
    fixed: Mapping[int, Array],
    most_threads: int,
    owner: object,
) -> DirectCall | None:
    """Return `call` for a kernel; see `base.DirectKernel`.

    `fixed` are arrays that it always gets, by the number of the argument. `owner` lives as long as
    what is returned. None if this Python or NumPy keeps its objects in another way than expected.
    """
    if not _knows_layouts():
        return None
    params = signature.params
    kinds = [param.dtype.numpy for param in params]
    extents = [(ctypes.c_int64 * max(1, len(p.source_shape)))(*p.source_shape) for p in params]
    address, sizes = kernel
    count = len(params) + len(sizes)
    arguments = (_ArgumentRecord * max(1, count))(
        *(
            _argument(param, kinds[number], fixed.get(number), extents[number])
            for number, param in enumerate(params)
        ),
        *(_ArgumentRecord(fixed=size) for size in sizes),
    )
    repeat_code, repeat = repeat_function(count)
    call = _CallRecord(
        address, repeat, count, len(params) - len(fixed), most_threads,
        ctypes.addressof(arguments), id(int), id(np.ndarray), id(PackedWeight), id(None),
        id(_EXCHANGE), id(_GRADIENT), id(False),
    )  # fmt: skip
    return _function(
        "call", call, (arguments, extents, kinds, params, dict(fixed), repeat_code, owner)
    )


def bind_run(
    kernel: Kernel, arrays: Sequence[Array], workspace: int | None, threads: int, owner: object
) -> Callable[[int], int]:
    """Return `run` for a kernel on `arrays`."""
    address, sizes = kernel
    values = [*(array.ctypes.data for array in arrays), *sizes]
    places = (ctypes.c_void_p * max(1, len(values)))(*values)
    repeat_code, repeat = repeat_function(len(values))
    run = _RunRecord(address, repeat, ctypes.addressof(places), workspace, threads)
    return _function("run", run, (places, tuple(arrays), repeat_code, owner))


def _argument(
    param: Param, kind: np.dtype[Any], fixed: Array | None, extents: ctypes.Array[ctypes.c_int64]
) -> _ArgumentRecord:
    access = _WRITEABLE if param.is_written else 0
    code = _DLPACK_CODES.get(kind.kind)
    dlpack_type = -1 if code is None else code | kind.itemsize << 11 | 1 << 16  # one lane
    return _ArgumentRecord(
        None if fixed is None else fixed.ctypes.data,
        id(kind), None if param.packing is None else id(param.packing),
        ctypes.addressof(extents),
        len(param.source_shape), _CONTIGUOUS | _ALIGNED | access, param.bytes, param.is_written,
        not param.is_rewritten, kind.alignment - 1, dlpack_type,
    )  # fmt: skip


def _function(name: str, record: ctypes.Structure, owned: tuple[object, ...]) -> Any:
    """A function of Python with the code of `name`, which knows `record` and keeps `owned`."""
    code = _python_code()
    state = (ctypes.addressof(record), record, code, owned)
    return code.new(ctypes.addressof(code.methods[name]), state, None)


def _knows_layouts() -> bool:
    return _array_layout_is_known() and _find_packed_offsets() is not None


@lru_cache(maxsize=1)
def _array_layout_is_known() -> bool:
    """Whether arrays of this NumPy have their fields where the machine code reads them."""
    memory = np.zeros((5, 3, 7), np.int16)
    memory.flags.writeable = False
    odd = np.zeros(17, np.uint8)[1:].view(np.float64)
    for array in (memory, memory[1:, ::2], memory.T, odd, np.zeros((), np.bool_)):
        start = id(array) + object.__basicsize__
        rank = ctypes.c_int32.from_address(start + _RANK).value
        if (
            ctypes.c_void_p.from_address(start + _DATA).value != array.ctypes.data
            or rank != array.ndim
            or ctypes.c_void_p.from_address(start + _TYPE).value != id(array.dtype)
            or ctypes.c_int32.from_address(start + _FLAGS).value != array.flags.num
            or ctypes.c_void_p.from_address(id(array) + _type_place()).value != id(np.ndarray)
        ):
            return False
        extents = ctypes.c_void_p.from_address(start + _EXTENTS).value
        if rank and tuple((ctypes.c_int64 * rank).from_address(extents or 0)) != array.shape:
            return False
    return True


@lru_cache(maxsize=1)
def _find_packed_offsets() -> tuple[int, int] | None:
    """Where a PackedWeight has its packing and its array; None if that cannot be found."""
    packing = Packing.plain(Buffer("weight", (1,), FLOAT32, constant=True))
    weight = PackedWeight(packing, np.zeros(1, np.float32))
    places = range(object.__basicsize__, PackedWeight.__basicsize__, _POINTER_BYTES)
    held = {ctypes.c_void_p.from_address(id(weight) + n).value: n for n in places}
    offsets = held.get(id(weight.packing)), held.get(id(weight.array))
    return None if offsets[0] is None or offsets[1] is None else (offsets[0], offsets[1])


def _type_place() -> int:
    """Where an object has its type: at the end of the header."""
    return object.__basicsize__ - _POINTER_BYTES


@lru_cache(maxsize=64)
def repeat_function(count: int) -> tuple[LoadedCode, int]:
    """Return the code, and the address, of `repeat` for kernels with `count` arrays.

    int32_t repeat(kernel, void **arrays, void *workspace, int32_t threads, int64_t calls)
    """
    target = detect()
    code = load_object_code(compile_object(_repeat_llvm(count, target.triple), target), {})
    return code, code.address("repeat")


class _PythonCode:
    """The code of `call` and `run`, and what makes functions of it."""

    def __init__(self, code: LoadedCode) -> None:
        self._code = code
        self.methods = {
            name: _MethodRecord(name.encode(), code.address(name), _METH_FASTCALL, None)
            for name in ("call", "run")
        }
        pointer, value = ctypes.c_void_p, ctypes.py_object
        kind = ctypes.PYFUNCTYPE(value, pointer, value, pointer)
        self.new: Any = kind(("PyCFunction_NewEx", ctypes.pythonapi))
        """Makes a function of a method's address and its own object, without a module."""


@lru_cache(maxsize=1)
def _python_code() -> _PythonCode:
    target, header, packed = detect(), object.__basicsize__, _find_packed_offsets() or (0, 0)
    places = {
        "OBJECT_TYPE": _type_place(), "ARRAY_DATA": header + _DATA, "ARRAY_RANK": header + _RANK,
        "ARRAY_EXTENTS": header + _EXTENTS, "ARRAY_DTYPE": header + _TYPE,
        "ARRAY_FLAGS": header + _FLAGS, "WEIGHT_PACKING": packed[0], "WEIGHT_ARRAY": packed[1],
    }  # fmt: skip
    symbols = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
        for name in _FUNCTIONS
    }
    text = python_call_llvm(target.triple, places)
    return _PythonCode(load_object_code(compile_object(text, target), symbols))


def _repeat_llvm(count: int, triple: str) -> str:
    loads: list[str] = []
    for number in range(count):
        loads.append(f"  %p{number} = getelementptr ptr, ptr %arrays, i64 {number}")
        loads.append(f"  %a{number} = load ptr, ptr %p{number}")
    listing = ", ".join([*(f"ptr %a{n}" for n in range(count)), "ptr %workspace", "i32 %threads"])
    return "\n".join([
        f'target triple = "{triple}"',
        "define i32 @repeat(ptr %kernel, ptr %arrays, ptr %workspace, i32 %threads, i64 %calls) {",
        "entry:",
        *loads,
        "  br label %loop",
        "loop:",
        "  %done = phi i64 [0, %entry], [%next, %loop]",
        f"  %status = call i32 %kernel({listing})",
        "  %next = add i64 %done, 1",
        "  %more = icmp slt i64 %next, %calls",
        "  %good = icmp eq i32 %status, 0",
        "  %again = and i1 %more, %good",
        "  br i1 %again, label %loop, label %end",
        "end:",
        "  ret i32 %status",
        "}",
    ])  # fmt: skip
