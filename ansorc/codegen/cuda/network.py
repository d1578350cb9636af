"""A network on a device: its one program, its weights copied once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from ansorc.codegen.cuda.binding import Device
from ansorc.codegen.cuda.kernel import CudaKernel, upload
from ansorc.codegen.device_array import DeviceArray
from ansorc.codegen.network.artifact import WEIGHTS_HEADER_BYTES, WEIGHTS_MAGIC
from ansorc.codegen.network.weights import Chunk
from ansorc.codegen.package.signature import Param, Signature
from ansorc.codegen.program.launch_plan import LaunchPlan
from ansorc.errors import BuildError
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import UINT8

_PART_BYTES = 16 << 20


class WeightSource(Protocol):
    """Weights as kernels read them, a part at a time."""

    @property
    def nbytes(self) -> int:
        """Return the bytes of all parts."""
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
    """The digest by which the program knows the weights, in hexadecimal digits."""

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
        self,
        plan: LaunchPlan,
        image: bytes,
        signature: Signature,
        arch: str,
        weights: WeightSource | None,
    ) -> None:
        """Raise BuildError if there is no device that `image` is for."""
        super().__init__(plan, image, signature, arch)
        self._weights = weights

    def constants_on(self, device: Device) -> tuple[DeviceArray, ...]:
        """Return the weights, copied to `device` now."""
        weights = self._weights
        if weights is None or not weights.nbytes:
            return ()
        parts = (np.frombuffer(chunk, np.uint8) for chunk in weights.chunks())
        return (upload(device, (weights.nbytes,), np.dtype(np.uint8), parts),)

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
