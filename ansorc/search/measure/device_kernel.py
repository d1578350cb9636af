"""A kernel in the run worker, on a device: `DeviceRun`, the counterpart of `GuardedKernel`.

The inputs of a task stay on the device from one candidate to the next; outputs begin as poison
between patterns, and are copied into the guarded arrays, where they are checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from weakref import WeakKeyDictionary

from ansorc.codegen.base import DeviceKernel
from ansorc.codegen.device_array import DeviceArray, DeviceOperand
from ansorc.errors import DeviceError
from ansorc.search.measure.kernel import GuardedArray
from ansorc.search.measure.result import Failure, FailureKind


class DeviceRun:
    """Code bound to arrays on a device; raises as `base.DeviceKernel` does."""

    def __init__(
        self,
        kernel: DeviceKernel,
        arrays: Sequence[GuardedArray],
        resident: WeakKeyDictionary[GuardedArray, DeviceArray],
    ) -> None:
        """`resident` are copies on the device of arrays that do not change; it gets more."""
        self._kernel = kernel
        operands: list[DeviceOperand] = []
        for guarded in arrays:
            if guarded.array.flags.writeable:
                operands.append(guarded.array)
                continue
            if guarded not in resident:
                resident[guarded] = kernel.upload(guarded.array)
            operands.append(resident[guarded])
        self.bound = kernel.bind_on(operands, None)

    def __enter__(self) -> DeviceRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(DeviceError):  # of which the caller knows already
            self.bound.release()
            self._kernel.close()

    def call(self, count: int) -> None:
        """Run the kernel `count` times, and wait."""
        self.bound.run(count)

    def fetch(self) -> None:
        """Have the results in the arrays."""
        self.bound.fetch()

    def is_intact(self) -> bool:
        """Whether the kernel has stayed inside its outputs and its workspace."""
        return self.bound.is_intact()


def device_failure(error: DeviceError, detail: str) -> Failure:
    """Return what a candidate is recorded with on which the device failed."""
    kind = FailureKind.COMPILE  # a launch that the device refuses
    if error.has_no_memory:
        kind = FailureKind.OUT_OF_MEMORY
    elif error.is_lost:
        kind = FailureKind.UNKNOWN
    elif error.is_fatal:
        kind = FailureKind.CRASH
    return Failure.of(kind, str(error), detail)
