"""A compiled kernel that Python calls on arrays: `Module`, in this process or from a library."""

from __future__ import annotations

import os
from pathlib import Path

from ansorc.codegen.base import LoadedKernel, backend_of
from ansorc.codegen.call.arguments import PackedWeight, checked_arrays, packed_weight
from ansorc.codegen.call.caller import Caller, LazyCode, require_no_stream
from ansorc.codegen.call.device_caller import DeviceCaller
from ansorc.codegen.call.timing import Timing
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.manifest import Manifest
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError
from ansorc.target import Target


class Module:
    """A compiled kernel. Several threads may call it at once, on outputs of their own."""

    def __init__(
        self,
        signature: Signature,
        target: Target,
        code: LazyCode[LoadedKernel],
        compiled: bytes | None,
    ) -> None:
        self.signature = signature
        self.target = target
        self._caller = Caller(signature, target, code)
        is_on_device = backend_of(target).capabilities(target).device
        self._device = DeviceCaller(signature, code.loaded) if is_on_device else None
        self._compiled = compiled

    def __call__(self, *arrays: object, threads: int = 0, stream: object = None) -> None:
        """Run the kernel on NumPy arrays, or objects with `__dlpack__`, in call order, in place.

        A weight that the kernel reads in another order is copied at every call: better pass what
        `pack` made of it once. `threads`: 0 for all cores, else the most that may be used. Raises
        CallError for arrays that the kernel cannot take, and if it runs out of memory or the CPU
        cannot run it.

        On a GPU arrays may lie in its memory (`__dlpack__`, `__cuda_array_interface__`); those of
        NumPy are copied there and back. With a `stream` of any library, or its handle, the kernel
        runs in it, and the call does not wait for it unless there is something to copy.
        """
        if self._device is not None:
            self._device.run(arrays, stream)
        else:
            require_no_stream(self.signature.name, self.target, stream)
            self._caller.run(checked_arrays(self.signature, arrays), threads)

    def pack(self, weight: str, array: object) -> PackedWeight:
        """Return the constant input `weight` in the order in which the kernel reads it.

        Pass it in the place of the original at every call; it does not follow later changes of
        `array`. Raises CallError for what is no weight, or an array that a call would refuse.
        """
        return packed_weight(self.signature, weight, array)

    def time(
        self, *arrays: object, threads: int = 0, min_time_s: float = 0.1, max_repeats: int = 100
    ) -> Timing:
        """Run the kernel for about `min_time_s` seconds and return the time of one call.

        The calls follow each other on the same arrays: caches are warm. Packing
        weights is done before and not timed.
        """
        if self._device is not None:
            return self._device.time(arrays, None, min_time_s=min_time_s, max_repeats=max_repeats)
        checked = checked_arrays(self.signature, arrays)
        return self._caller.time(checked, threads, min_time_s=min_time_s, max_repeats=max_repeats)

    def save(self, path: str | os.PathLike[str]) -> Artifact:
        """Write the kernel for C and C++: `path` (.so, .a or .o) with a .h and a .json beside it.

        Raises BuildError if a tool is missing or the files cannot be written; none is left half.
        """
        if self._compiled is None:
            raise BuildError(
                f"'{self.signature.name}' was loaded from a library, so there is no object code "
                "to save; copy the library's files"
            )
        backend = backend_of(self.target)
        return backend.save(Path(path), self._compiled, self.signature, self.target)

    def __repr__(self) -> str:
        params = ", ".join(
            f"{p.name}: {p.dtype}{list(p.source_shape)}" for p in self.signature.params
        )
        return f"<kernel {self.signature.name}({params}) for {self.target.text}>"


def load_code(compiled: bytes, signature: Signature, target: Target) -> Module:
    """Return the kernel in what the target's back end compiled; it is loaded at its first call."""
    code = LazyCode(lambda: backend_of(target).load(compiled, signature, target))
    return Module(signature, target, code, compiled)


def open_kernel(library: Path, manifest: Manifest) -> Module:
    """Return the kernel in a shared library; raise BuildError if it cannot be loaded."""
    signature, target = manifest.signature, manifest.target
    code = LazyCode(lambda: backend_of(target).open(library, signature, target))
    code.loaded()
    return Module(signature, target, code, None)
