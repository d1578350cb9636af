"""The back end for NVIDIA's GPUs; see `base.Backend`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ansorc.codegen.base import Backend, Capabilities, LoadedKernel, MachineLimits, Probe, Probes
from ansorc.codegen.cuda.emit import emit_cuda, workspace_bytes
from ansorc.codegen.cuda.launch import LaunchPlan
from ansorc.codegen.cuda.listings import LISTINGS
from ansorc.codegen.cuda.toolkit import compile_cubin
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError, TargetError
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.pipeline import Passes
from ansorc.ir.stmt import Function
from ansorc.target import Target

_DRIVER = "libcuda.so.1"


class _GpuProbes:
    """Nothing is measured of a GPU itself: `target.gpu` has what its maker says."""

    def peak(self, target: Target, threads: int) -> Probe:
        raise _unmeasured(target)

    def limits(self, target: Target) -> MachineLimits:
        raise _unmeasured(target)

    def steady_work(self, target: Target, threads: int) -> Callable[[int], None]:
        raise _unmeasured(target)

    def eviction(self, target: Target) -> Callable[[int, int], None]:
        raise _unmeasured(target)


class Cuda:
    """Programs as CUDA C that NVIDIA's compiler makes machine code of."""

    passes: Passes = CUDA_PASSES
    probes: Probes = _GpuProbes()
    listings: Mapping[str, Callable[[str, Target], str]] = LISTINGS

    def capabilities(self, target: Target) -> Capabilities:
        obstacle = "" if has_driver() else "on this machine, which has no NVIDIA driver"
        return Capabilities(obstacle=obstacle)

    def emit(
        self,
        function: Function,
        target: Target,
        packers: Sequence[Function] = (),
        *,
        is_guarded: bool = True,  # the driver refuses what is not for its GPU
    ) -> str:
        return emit_cuda(function, target, packers)

    def compile(self, text: str, target: Target) -> bytes:
        cubin = compile_cubin(text, target.arch)
        return LaunchPlan.of_text(text).with_image(cubin.image, text)

    def workspace_bytes(self, function: Function) -> int:
        return workspace_bytes(function)

    def load(self, code: bytes, signature: Signature, target: Target) -> LoadedKernel:
        raise _no_device(signature, target)

    def save(self, path: Path, code: bytes, signature: Signature, target: Target) -> Artifact:
        raise BuildError(f"'{signature.name}' cannot be saved for a GPU yet")

    def open(self, library: Path, signature: Signature, target: Target) -> LoadedKernel:
        raise _no_device(signature, target)


BACKEND: Backend = Cuda()


@lru_cache(maxsize=1)
def has_driver() -> bool:
    """Return whether this machine has NVIDIA's driver."""
    try:
        ctypes.CDLL(_DRIVER)
    except OSError:
        return False
    return True


def _no_device(signature: Signature, target: Target) -> BuildError:
    return BuildError(
        f"'{signature.name}' was built for '{target.text}' and cannot run on this machine, which "
        "has no NVIDIA driver; save it and run it there, or check it here as 'cuda-emulated'"
    )


def _unmeasured(target: Target) -> TargetError:
    return TargetError(f"nothing is measured of '{target.text}' itself; its figures are in a table")
