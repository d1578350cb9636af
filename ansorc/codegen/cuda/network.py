"""A network on a device or emulated: its one program, its weights copied once."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from ansorc.codegen.cuda.binding import Device
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.cuda.kernel import CudaKernel, uploaded
from ansorc.codegen.cuda.launch import LaunchPlan
from ansorc.codegen.device_array import DeviceArray
from ansorc.codegen.network.weights import Chunk
from ansorc.codegen.package.network_artifact import WEIGHTS_HEADER_BYTES, WEIGHTS_MAGIC
from ansorc.codegen.package.signature import Param, Signature
from ansorc.errors import BuildError
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import UINT8

_PART_BYTES = 16 << 20


class WeightSource(Protocol):
    """Weights as kernels read them, a part at a time."""

    @property
    def nbytes(self) -> int:
        """Of all parts."""
        ...

    def chunks(self) -> Iterable[Chunk]:
        """Yield the parts, in their order."""
        ...


@dataclass(frozen=True)
class WeightsFile:
    """Weights in a file that `save_network` wrote."""

    path: Path
    nbytes: int
    sha256: str
    """What the program knows them by, in hexadecimal digits."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield their bytes; raise BuildError if the file holds others."""
        head = WEIGHTS_MAGIC + self.nbytes.to_bytes(8, "little") + bytes.fromhex(self.sha256)
        digest = hashlib.sha256()
        try:
            with self.path.open("rb") as file:
                if not file.read(WEIGHTS_HEADER_BYTES).startswith(head):
                    raise self._others()
                while part := file.read(_PART_BYTES):
                    digest.update(part)
                    yield part
        except OSError as error:
            raise BuildError(f"{self.path}, the weights, cannot be read: {error}") from error
        if digest.hexdigest() != self.sha256:
            raise self._others()

    def _others(self) -> BuildError:
        return BuildError(
            f"{self.path} is no file of weights, or one of another build; save the network again"
        )


def with_weights(signature: Signature, weights: WeightSource | None) -> Signature:
    """Return `signature` with the weights, if there are any, as the last parameter."""
    if weights is None or not weights.nbytes:
        return signature
    last = Param("weights", (weights.nbytes,), UINT8, is_output=False, constant=True)
    return replace(signature, params=(*signature.params, last))


class CudaNetwork(CudaKernel):
    """A network for one architecture; see `base.LoadedNetwork` and `base.DeviceKernel`.

    `signature` has the weights as its last parameter, if there are any; calls are without it.
    """

    def __init__(
        self, code: bytes, signature: Signature, arch: str, weights: WeightSource | None
    ) -> None:
        """Raise BuildError if `code` is none, or there is no device that it is for."""
        super().__init__(code, signature, arch)
        self._weights = weights

    def constants_on(self, device: Device) -> tuple[DeviceArray, ...]:
        """Return the weights, copied to `device` now."""
        weights = self._weights
        if weights is None or not weights.nbytes:
            return ()
        parts = (np.frombuffer(chunk, np.uint8) for chunk in weights.chunks())
        return (uploaded(device, (weights.nbytes,), np.dtype(np.uint8), parts),)

    def profile(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> tuple[int, list[float]]:
        """Run the network once; return 0 and the seconds of each of its calls."""
        bound = self.bind(arrays, workspace, threads)
        try:
            seconds = bound.call_seconds()
            bound.fetch()
        finally:
            bound.release()
        return 0, seconds


class EmulatedNetwork:
    """A network in this process, emulated; see `base.LoadedNetwork`."""

    def __init__(self, code: bytes, weights: Array) -> None:
        self._plan, library = LaunchPlan.of_code(code)
        self._program = EmulatedProgram(library)
        self._weights = weights

    def bind(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> BoundEmulatedProgram:
        """Return the network on arrays; `threads` means nothing: one runs all blocks."""
        return BoundEmulatedProgram(
            self._program, self._with_weights(arrays), workspace, self._plan
        )

    def profile(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> tuple[int, list[float]]:
        """Run the network once; return its status and the seconds of each of its calls here."""
        launches = np.zeros(max(1, len(self._plan.launches)))
        status = self._program.run(self._with_weights(arrays), workspace, seconds=launches)
        status = status or told_status(self._plan, workspace)
        ends = np.cumsum(self._plan.calls)
        parts = np.split(launches[: len(self._plan.launches)], ends[:-1])
        return status, [float(part.sum()) for part in parts]

    def close(self) -> None:
        """Free the code."""
        self._program.close()

    def _with_weights(self, arrays: Sequence[Array]) -> list[Array]:
        return [*arrays, self._weights] if self._weights.nbytes else list(arrays)


def told_status(plan: LaunchPlan, workspace: int | None) -> int:
    """Return the status of the check that failed, by the workspace of a call that is over."""
    if not plan.fault_statuses or workspace is None:
        return 0
    number = ctypes.c_int64.from_address(workspace + plan.fault_place).value
    return plan.fault_statuses[number - 1] if number else 0


class BoundEmulatedProgram:
    """A program on arrays; see `base.BoundKernel`."""

    def __init__(
        self,
        program: EmulatedProgram,
        arrays: Sequence[Array],
        workspace: int | None,
        plan: LaunchPlan,
    ) -> None:
        self._program, self._arrays, self._workspace = program, arrays, workspace
        self._plan = plan

    def run(self, calls: int) -> int:
        """Run it so many times; raise CallError in words if the program is wrong."""
        status = self._program.run(self._arrays, self._workspace, calls)
        return status or told_status(self._plan, self._workspace)

    def fetch(self) -> None:
        """The results are in the arrays already."""
