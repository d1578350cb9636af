"""A compiled kernel that Python calls on arrays: `Module`, in this process or from a library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from ansorc.codegen.base import LoadedKernel, backend_of, opener_of
from ansorc.codegen.call.arguments import check_arrays, file_path, pack_weight
from ansorc.codegen.call.bound import BoundCall, FixedInputs
from ansorc.codegen.call.caller import Caller, LazyCode, require_no_stream
from ansorc.codegen.call.device_caller import DeviceCaller
from ansorc.codegen.call.sized_caller import SizedCaller
from ansorc.codegen.call.timing import Timing
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.manifest import Manifest
from ansorc.codegen.package.signature import Param, Signature
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import BuildError, CallError
from ansorc.ir import notebook
from ansorc.ir.packing import PackedWeight
from ansorc.target import Target


class Module:
    """A compiled kernel. Several threads may call it at once, on outputs of their own."""

    def __init__(
        self,
        signature: Signature,
        target: Target,
        code: LazyCode[LoadedKernel],
        compiled: CompiledProgram | None,
    ) -> None:
        self.signature = signature
        """The arguments of a call."""
        self.target = target
        self._code = code
        self._caller: SizedCaller | Caller[LoadedKernel] = (
            SizedCaller(signature, target, code)
            if signature.dims
            else Caller(signature, target, code)
        )
        is_on_device = opener_of(target).capabilities(target).device
        self._device = DeviceCaller(signature, code.get) if is_on_device else None
        self._compiled = compiled
        self._has_bound_inputs = False

    def __call__(self, *arrays: object, threads: int = 0, stream: object = None) -> Any:
        """Run the kernel on NumPy arrays, or objects with `__dlpack__`, in call order, in place.

        With the inputs alone it returns its outputs, a new array or a tuple of several. Inputs that
        are updated (`ac.update`) are written in place and not returned. `threads`:
        0 for all cores, else the most that may be used. Raises CallError for arrays that the kernel
        cannot take, and if it runs out of memory or the CPU cannot run it.

        A weight that the kernel reads in another order is packed once as long as it is the same
        read-only array. Others are packed at every call, which the first one says in a
        PackingWarning: better use `bind`, or pass what `pack` made of it.

        On a GPU arrays may lie in its memory (`__dlpack__`, `__cuda_array_interface__`); those of
        NumPy are copied there and back; all must be given. With a `stream` of any library, or its
        handle, the kernel runs in it, and the call does not wait for it unless there is something
        to copy.
        """
        if self._device is not None:
            return self._device.run(arrays, stream)
        if stream is not None:
            require_no_stream(self.signature.name, self.target, stream)
        return self._caller.call(arrays, threads)

    @overload
    def bind(self, *, threads: int = 0, **constants: object) -> Module: ...
    @overload
    def bind(
        self, first: object, /, *arrays: object, threads: int = 0, **constants: object
    ) -> BoundCall: ...
    def bind(self, *arrays: object, threads: int = 0, **constants: object) -> Module | BoundCall:
        """Return this kernel with constant inputs by name, packed now, or with all its arrays.

        `bind(B=b)` is a module that takes no B and does not follow later changes of b.
        `bind(a, b, c)` is called without arguments, which costs least in a loop. Raises CallError
        for what is no constant input, and for arrays that a call would refuse.
        """
        if self._device is not None:
            raise CallError(
                f"{self.signature.name} was built for '{self.target.text}', whose arguments cannot "
                "be bound; pass what pack() returns at every call"
            )
        module = self._with(constants) if constants else self
        return module._caller.bind(arrays, threads) if arrays else module

    def _with(self, constants: Mapping[str, object]) -> Module:
        """This kernel without its constant inputs `constants`."""
        signature, code = self.signature, self._code
        packed = {name: pack_weight(signature, name, array) for name, array in constants.items()}
        fixed = {
            number: packed[param.name].array
            for number, param in enumerate(signature.params)
            if param.name in packed
        }
        free = tuple(param for param in signature.params if param.name not in packed)
        rest = LazyCode[LoadedKernel](lambda: FixedInputs(code.get(), signature, fixed))
        module = Module(replace(signature, params=free), self.target, rest, None)
        module._has_bound_inputs = True
        return module

    def pack(self, weight: str, array: object) -> PackedWeight:
        """Return the constant input `weight` in the order in which the kernel reads it.

        Pass it in the place of the original at every call; it does not follow later changes of
        `array`. Raises CallError for what is no weight, or an array that a call would refuse.
        """
        return pack_weight(self.signature, weight, array)

    def time(
        self, *arrays: object, threads: int = 0, min_time_s: float = 0.1, max_repeats: int = 100
    ) -> Timing:
        """Run the kernel for about `min_time_s` seconds and return the time of one call.

        The calls follow each other on the same arrays: caches are warm, and inputs that are updated
        are updated by each call. Packing
        weights is done before and not timed.
        """
        if self._device is not None:
            return self._device.time(arrays, None, min_time_s=min_time_s, max_repeats=max_repeats)
        caller = self._caller
        if isinstance(caller, SizedCaller):
            return caller.time(arrays, threads, min_time_s=min_time_s, max_repeats=max_repeats)
        checked = check_arrays(self.signature, arrays)
        return caller.time(checked, threads, min_time_s=min_time_s, max_repeats=max_repeats)

    def save(self, path: str | os.PathLike[str]) -> Artifact:
        """Write the kernel for C and C++: `path` (.so, .a or .o) with a .h and a .json beside it.

        Raises BuildError if a tool is missing or the files cannot be written; none is left half.
        """
        if self._has_bound_inputs:
            raise BuildError(
                f"'{self.signature.name}' has constant inputs that are bound, which a library has "
                "not; save the module that they were bound of"
            )
        if self._compiled is None:
            raise BuildError(
                f"'{self.signature.name}' was loaded from a library, so there is no object code "
                "to save; copy the library's files"
            )
        backend = backend_of(self.target)
        return backend.save(file_path(path), self._compiled, self.signature, self.target)

    def __repr__(self) -> str:
        params = ", ".join(f"{p.name}: {p.caller_type}" for p in self.signature.params)
        return f"<kernel {self.signature.name}({params}) for {self.target.text}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the arguments of a call."""
        title = f"kernel {self.signature.name} for {self.target.text}"
        return notebook.frame(title, notebook.table(_rows(self.signature)))


def _rows(signature: Signature) -> list[tuple[str, str]]:
    """Each parameter and what it is."""
    return [(p.name, f"{_role(p)} {p.caller_type}") for p in signature.params]


def _role(param: Param) -> str:
    return "updated input" if param.is_updated else "output" if param.is_output else "input"


def load_code(compiled: CompiledProgram, signature: Signature, target: Target) -> Module:
    """Return the kernel in what the target's back end compiled; it is loaded at its first call."""
    code = LazyCode(lambda: backend_of(target).load(compiled, signature, target))
    return Module(signature, target, code, compiled)


def open_kernel(library: Path, manifest: Manifest) -> Module:
    """Return the kernel in a shared library; raise BuildError if it cannot be loaded."""
    signature, target = manifest.signature, manifest.target
    code = LazyCode(lambda: opener_of(target).open(library, signature, target))
    code.get()
    return Module(signature, target, code, None)
