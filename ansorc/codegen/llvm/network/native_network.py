"""Networks in this process: linked in memory by LLVM, without files and tools."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from ansorc.codegen.llvm.binding import compile_object, link_object_code
from ansorc.codegen.llvm.native import NativeKernel
from ansorc.codegen.llvm.network.driver import emit_driver, kernel_prefix, weights_symbol
from ansorc.codegen.llvm.network.symbols import hidden_with_prefix
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.package.runtime_library import runtime_symbols
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


def network_objects(plan: NetworkPlan, target: Target) -> list[bytes]:
    """Return the object files of the driver and of the kernels, which call nothing but the runtime.

    They lack the weights. Raise BuildError with LLVM's words.
    """
    kernels = [
        hidden_with_prefix(kernel.code, kernel_prefix(plan, number))
        for number, kernel in enumerate(plan.kernels)
    ]
    return [compile_object(emit_driver(plan, target), target), *kernels]


def load_plan(plan: NetworkPlan, target: Target) -> NativeNetwork:
    """Load the network of `plan`, which uses the weights where they lie if that is aligned."""
    weights = plan.weights
    if weights.ctypes.data % ALIGNMENT:
        weights = aligned_empty(weights.shape, weights.dtype)
        weights[:] = plan.weights
    symbols = {weights_symbol(plan): weights.ctypes.data} if weights.nbytes else {}
    if plan.needs_runtime:
        symbols |= runtime_symbols()
    code = link_object_code(network_objects(plan, target), symbols)

    def free() -> Array:
        code.close()
        return weights  # which live as long as the code

    name = plan.name
    profile = code.address(f"{name}_profile")
    return NativeNetwork(code.address(name), profile, len(plan.calls), free)
