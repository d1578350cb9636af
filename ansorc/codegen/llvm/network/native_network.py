"""Networks in this process: linked in memory by LLVM, without files and tools."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ansorc.codegen.llvm.binding import compile_object, link_object_code
from ansorc.codegen.llvm.native import NativeKernel
from ansorc.codegen.llvm.network.dispatch import emit_dispatch
from ansorc.codegen.llvm.network.driver import (
    emit_driver,
    file_prefix,
    kernel_prefix,
    weights_symbol,
)
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.variants import VariantsPlan
from ansorc.codegen.package.network_artifact import NetworkObjects, weights_digest
from ansorc.codegen.package.runtime_library import runtime_symbols
from ansorc.codegen.package.symbols import hidden_with_prefix
from ansorc.errors import BuildError
from ansorc.ir.aligned import ALIGNMENT, Array, aligned_empty
from ansorc.target import Target


class NativeNetwork(NativeKernel):
    """The network whose functions are at `address` and `profile`; see `base.LoadedNetwork`."""

    def __init__(self, address: int, profile: int, calls: int, free: Callable[[], object]) -> None:
        super().__init__(address, free)
        self._profile, self._calls = profile, calls

    def profile(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> tuple[int, list[float]]:
        """Run the network once; return its status and the seconds of each of its calls."""
        pointers = [ctypes.c_void_p] * (len(arrays) + 1)
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, ctypes.c_int32, ctypes.c_void_p)
        seconds = (ctypes.c_double * max(1, self._calls))()
        places = [array.ctypes.data for array in arrays]
        status = kind(self._profile)(*places, workspace, threads, ctypes.addressof(seconds))
        return status, list(seconds)[: self._calls]


def network_objects(plan: NetworkPlan, target: Target, *, is_mapped: bool) -> NetworkObjects:
    """Return the object files of the driver and of the kernels, without the weights.

    `is_mapped`: they are in a file. Raise BuildError with LLVM's words.
    """
    kernels = [
        hidden_with_prefix(kernel.code, kernel_prefix(plan, number))
        for number, kernel in enumerate(plan.kernels)
    ]
    driver = emit_driver(plan, target, weights_digest(plan) if is_mapped else None)
    files = [compile_object(driver, target), *kernels]
    return NetworkObjects(files, weights_symbol(plan), file_prefix(plan))


def variants_objects(plan: VariantsPlan, target: Target) -> NetworkObjects:
    """Return the object files of all networks of `plan`, and of the function that picks one."""
    files = [compile_object(emit_dispatch(plan, target), target)]
    for each in plan.plans:
        files += network_objects(each, target, is_mapped=False).files
    return NetworkObjects(files, weights_symbol(plan.plans[0]), file_prefix(plan.plans[0]))


def load_plan(plan: NetworkPlan, target: Target) -> NativeNetwork:
    """Load the network of `plan`, which uses the weights where they lie if that is aligned."""
    weights = plan.weights
    if weights.ctypes.data % ALIGNMENT:
        weights = aligned_empty(weights.shape, weights.dtype)
        weights[:] = plan.weights
    symbols = {weights_symbol(plan): weights.ctypes.data} if weights.nbytes else {}
    if plan.needs_runtime:
        symbols |= runtime_symbols()
    code = link_object_code(network_objects(plan, target, is_mapped=False).files, symbols)

    def free() -> Array:
        code.close()
        return weights  # which live as long as the code

    name = plan.name
    profile = code.address(f"{name}_profile")
    return NativeNetwork(code.address(name), profile, len(plan.calls), free)


def open_library(library: Path, name: str, calls: int, weights: Path | None) -> NativeNetwork:
    """Load the network in a shared library, under a name of its own, and open its weights.

    A path that was open before would give what was loaded from it then; a link gives the file that
    is there now, which is not copied, for it may be large.
    """
    with tempfile.TemporaryDirectory(prefix="ansorc-") as directory:
        link = Path(directory) / library.name
        try:
            link.symlink_to(library.absolute())
            loaded = ctypes.CDLL(str(link))
        except OSError as error:
            raise BuildError(f"{library} cannot be loaded: {error}") from error
    if weights is not None:
        status = loaded[f"{name}_open"](os.fsencode(weights))
        if status:
            what = _FILE_STATUS.get(status, f"could not be opened (status {status})")
            raise BuildError(f"{weights}, the weights of {library}, {what}")

    def address(symbol: str) -> int:
        return ctypes.cast(loaded[symbol], ctypes.c_void_p).value or 0

    return NativeNetwork(address(name), address(f"{name}_profile"), calls, lambda: loaded)


_FILE_STATUS = {
    4: "cannot be read; it must lie where it was saved, seen from the library",
    5: "is no file of weights, or one of another build; save the network again",
}
