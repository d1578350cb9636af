"""Call kernels whose arrays have run-time shapes: `SizedCaller` finds the sizes of a call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, cast

from ansorc.codegen.base import LoadedKernel
from ansorc.codegen.call.arguments import check_arrays
from ansorc.codegen.call.bound import BoundCall, SizedKernel
from ansorc.codegen.call.caller import Caller, LazyCode
from ansorc.codegen.call.packed_inputs import PackedInputs
from ansorc.codegen.call.timing import Timing
from ansorc.codegen.device_array import has_dlpack, host_array
from ansorc.codegen.package.signature import Param, Signature
from ansorc.errors import ArgumentError, CallError
from ansorc.ir.dim import Dim
from ansorc.ir.infer_sizes import Shaped, infer_sizes, solvable
from ansorc.ir.packing import PackedWeight
from ansorc.target import Target

_KEPT = 64
"""Sizes whose checks and outputs are kept."""
_UNTOLD = -1
"""The length of an array that has no `shape`."""


class SizedCaller:
    """Calls with arrays whose shapes say the sizes of the dimensions.

    For each of the last sizes there is a `Caller`. It has no code of its own: all sizes run one
    program.
    """

    def __init__(self, signature: Signature, target: Target, code: LazyCode[LoadedKernel]) -> None:
        self._signature, self._target, self._code = signature, target, code
        inputs = [param for param in signature.params if not param.is_output]
        self._places = {
            len(params): [_find_place(dim, params) for dim in signature.dims]
            for params in (signature.params, inputs)
        }
        self._inputs = inputs
        self._packed_inputs = PackedInputs(signature)
        self._callers = OrderedDict[tuple[int, ...], Caller[LoadedKernel]]()

    def call(self, values: tuple[object, ...], threads: int) -> Any:
        """Run the code once on `values`; see `Caller.call`."""
        return self._caller_of(values).call(values, threads)

    def bind(self, values: tuple[object, ...], threads: int) -> BoundCall:
        """Return what runs the code on `values`, outputs included; see `Caller.bind`."""
        return self._caller_of(values).bind(values, threads)

    def time(
        self, values: Sequence[object], threads: int, *, min_time_s: float, max_repeats: int
    ) -> Timing:
        """Run the code for about `min_time_s` seconds and return the time of one call."""
        sizes = self._sizes(values)
        arrays = check_arrays(self._signature.at(sizes), values)
        caller = self._caller_of(tuple(values))
        return caller.time(arrays, threads, min_time_s=min_time_s, max_repeats=max_repeats)

    def _caller_of(self, values: Sequence[object]) -> Caller[LoadedKernel]:
        places = self._places.get(len(values), ())
        key = tuple(_length(values[number], dimension) for number, dimension in places)
        if not key or _UNTOLD in key:
            return self._new_caller(values)
        caller = self._callers.get(key)
        if caller is None:
            caller = self._callers[key] = self._new_caller(values)
            if len(self._callers) > _KEPT:
                self._callers.popitem(last=False)
        return caller

    def _new_caller(self, values: Sequence[object]) -> Caller[LoadedKernel]:
        sizes = self._sizes(values)
        given = [sizes[dim.name] for dim in self._signature.dims]
        code = LazyCode[LoadedKernel](lambda: cast(SizedKernel, self._code.get()).at(given))
        signature = self._signature.at(sizes)
        return Caller(signature, self._target, code, self._packed_inputs)

    def _sizes(self, values: Sequence[object]) -> dict[str, int]:
        params = self._signature.params
        params = params if len(values) == len(params) else self._inputs
        if len(values) != len(params):
            wanted = ", ".join(f"{p.name}: {p.dtype}{list(p.extents)}" for p in params)
            raise CallError(
                f"{self._signature.name} takes {len(params)} arrays ({wanted}), but {len(values)} "
                "were given"
            )
        shaped = [
            Shaped(
                param.name,
                param.extents if param.sizes else param.source_shape,
                _shape(param, value),
            )
            for param, value in zip(params, values, strict=True)
        ]
        try:
            return infer_sizes(self._signature.name, self._signature.dims, shaped)
        except ArgumentError as error:
            raise CallError(str(error)) from None


def _find_place(dim: Dim, params: Sequence[Param]) -> tuple[int, int]:
    """Return the number of an array, and that of its dimension whose length tells the size."""
    return next(
        (number, dimension)
        for number, param in enumerate(params)
        for dimension, extent in enumerate(param.extents)
        if not param.is_output and solvable(extent) == dim
    )


def _length(value: object, dimension: int) -> int:
    """Return the length of an array along a dimension; _UNTOLD where its `shape` does not tell."""
    shape = getattr(value, "shape", ())
    return int(shape[dimension]) if len(shape) > dimension else _UNTOLD


def _shape(param: Param, value: object) -> tuple[int, ...]:
    if isinstance(value, PackedWeight):
        return param.source_shape
    shape = getattr(value, "shape", None)
    if shape is not None:
        return tuple(map(int, shape))
    if isinstance(value, (bool, int, float)) and not param.source_shape:
        return ()
    if not has_dlpack(value):
        raise CallError(
            f"'{param.name}' is a {type(value).__name__}, but it must be a NumPy array or an "
            "object with __dlpack__"
        )
    return host_array(value).shape
