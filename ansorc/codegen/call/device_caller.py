"""Call a kernel on a device, in the caller's stream: `DeviceCaller`; and the device's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ansorc.codegen.base import BoundDeviceKernel, DeviceKernel, LoadedKernel
from ansorc.codegen.call.arguments import check_operands
from ansorc.codegen.call.timing import Timing, measure
from ansorc.codegen.device_array import DeviceOperand, stream_handle
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError, CallError


class DeviceClock:
    """A clock that goes on while kernels run on a device, by the device's own measure."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def __call__(self) -> float:
        """Return the seconds that kernels have run so far."""
        return self._seconds

    def running(self, kernel: BoundDeviceKernel) -> Callable[[int], None]:
        """Return what runs `kernel` so many times and lets this clock go on."""

        def run(calls: int) -> None:
            self._seconds += kernel.seconds(calls)

        return run


class DeviceCaller:
    """Calls with arrays of this machine or in a device's memory."""

    def __init__(self, signature: Signature, loaded: Callable[[], LoadedKernel]) -> None:
        self._signature, self._loaded = signature, loaded
        self._checked: DeviceKernel | None = None

    def run(self, values: Sequence[object], stream: object) -> None:
        """Run the kernel; wait for it unless a stream is given and all arrays are on a device.

        Raise CallError for arrays or a stream that it cannot take, DeviceError if it fails.
        """
        handle = self._handle(stream)
        operands = check_operands(self._signature, values, handle or 0)
        bound = self._kernel().bind_on(operands, handle)
        try:
            if handle is None or _copies(operands):
                bound.run(1)
                bound.fetch()
            else:
                bound.launch()
        finally:
            bound.release()

    def time(
        self, values: Sequence[object], stream: object, *, min_time_s: float, max_repeats: int
    ) -> Timing:
        """Run the kernel for about `min_time_s` and return the time of a call without copies."""
        handle = self._handle(stream)
        operands = check_operands(self._signature, values, handle or 0)
        bound = self._kernel().bind_on(operands, handle)
        clock = DeviceClock()
        try:
            run = clock.running(bound)
            timing = measure(run, clock, min_time_s=min_time_s, max_repeats=max_repeats)
            bound.fetch()
        finally:
            bound.release()
        return timing

    def call_seconds(self, values: Sequence[object], repeats: int) -> list[list[float]]:
        """Run a network so many times; return the time of each of its calls in each run."""
        operands = check_operands(self._signature, values, 0)
        bound = self._kernel().bind_on(operands, None)
        try:
            seconds = [bound.call_seconds() for _ in range(repeats)]
            bound.fetch()
        finally:
            bound.release()
        return seconds

    def _kernel(self) -> DeviceKernel:
        if self._checked is None:  # asking a protocol takes as long as many a kernel
            kernel = self._loaded()
            if not isinstance(kernel, DeviceKernel):
                raise BuildError(f"the back end of '{self._signature.name}' has none of a device's")
            self._checked = kernel
        return self._checked

    def _handle(self, stream: object) -> int | None:
        try:
            return stream_handle(stream)
        except TypeError as error:
            raise CallError(
                f"{self._signature.name}: {error}; pass its handle, or None to wait for the result"
            ) from error


def _copies(operands: Sequence[DeviceOperand]) -> bool:
    return any(isinstance(operand, np.ndarray) for operand in operands)
