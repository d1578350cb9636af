"""The back end for NVIDIA's GPUs; see `base.Backend`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ansorc.codegen.base import (
    Backend,
    Capabilities,
    KernelResources,
    LoadedKernel,
    Machine,
    MachineLimits,
    Probe,
    Probes,
)
from ansorc.codegen.cuda.artifact import read_cuda_artifact, write_cuda_artifact
from ansorc.codegen.cuda.binding import FIRST_DEVICE, bus_of, facts_of
from ansorc.codegen.cuda.clocks import clock_of
from ansorc.codegen.cuda.counts import counted
from ansorc.codegen.cuda.emit import WORKSPACE_ALIGNMENT, emit_cuda, workspace_bytes
from ansorc.codegen.cuda.image import image_for
from ansorc.codegen.cuda.kernel import CudaKernel
from ansorc.codegen.cuda.launch import LaunchPlan
from ansorc.codegen.cuda.listings import LISTINGS
from ansorc.codegen.cuda.network import CudaNetwork, with_weights
from ansorc.codegen.cuda.network_artifact import read_cuda_network, write_cuda_network
from ansorc.codegen.cuda.network_text import network_text, ready_plan
from ansorc.codegen.cuda.toolkit import compile_cubin
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.variants import VariantsPlan
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError, TargetError
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.pipeline import Passes
from ansorc.ir.stmt import Function
from ansorc.target import Target

_DRIVER = "libcuda.so.1"


class TablePeak:
    """Operations a second that the maker of a GPU states; see `base.Probe`."""

    def __init__(self, flops: float) -> None:
        self._flops = flops

    def time(self, min_time_s: float = 0.1) -> tuple[float, float]:
        """Return them twice: nothing is run."""
        return self._flops, self._flops

    def best(self, repeats: int = 3) -> float:
        """Return them."""
        return self._flops


class _GpuProbes:
    """Nothing is measured of a GPU itself: `target.gpu` has what its maker says."""

    def peak(self, target: Target, threads: int) -> Probe:
        return TablePeak(target.gpu.fp32_flops)

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
        return Capabilities(
            cold_caches=True, device=True, alignment=WORKSPACE_ALIGNMENT, suffix=".cubin",
            obstacle=obstacle,
        )  # fmt: skip

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

    def counts(self, function: Function, text: str, target: Target) -> str:
        return counted(function, text, target)

    def resources(self, text: str, target: Target) -> tuple[KernelResources, ...]:
        found = compile_cubin(text, target.arch).resources
        numbered = sorted(found, key=lambda each: int(each.name.rpartition("_")[2]))
        return tuple(
            KernelResources(
                each.registers, each.spill_store_bytes + each.spill_load_bytes, each.shared_bytes
            )
            for each in numbered
        )

    def workspace_bytes(self, function: Function) -> int:
        return workspace_bytes(function)

    def compile_part(self, text: str, target: Target) -> bytes:
        return LaunchPlan.of_text(text).with_image(b"", text)

    def network_text(self, plan: NetworkPlan) -> str:
        return network_text(ready_plan(plan))

    def load_network(self, plan: NetworkPlan, target: Target) -> CudaNetwork:
        _require_driver(plan.signature, target)
        ready = ready_plan(plan)
        code = self.compile(network_text(ready), target)
        signature = with_weights(plan.signature, ready.weights)
        return CudaNetwork(code, signature, target.arch, ready.weights)

    def save_network(
        self, path: Path, plan: NetworkPlan, target: Target, weights: Path | None
    ) -> Artifact:
        ready = ready_plan(plan)
        text = network_text(ready)
        launches = LaunchPlan.of_text(text)
        is_compiled = path.suffix in (".cubin", ".fatbin")
        code = self.compile(text, target) if is_compiled else launches.with_image(b"", text)
        image = image_for(path.suffix, code, target)
        return write_cuda_network(path, ready, launches, image, target, weights)

    def save_variants(self, path: Path, plan: VariantsPlan, target: Target) -> Artifact:
        raise BuildError(
            f"'{plan.name}' has programs for several shapes, which are not one image for a GPU; "
            "save each by itself: modules[0].save(…), or build for one --input at a time"
        )

    def open_network(
        self, library: Path, signature: Signature, calls: int, weights: Path | None, target: Target
    ) -> CudaNetwork:
        _require_driver(signature, target)
        code, source = read_cuda_network(library, weights)
        return CudaNetwork(code, with_weights(signature, source), target.arch, source)

    def machine(self, target: Target) -> Machine:
        facts = facts_of(FIRST_DEVICE)
        return Machine(facts.name, (facts.arch,), facts.multiprocessors)

    def state(self, target: Target) -> str:
        return clock_of(bus_of(FIRST_DEVICE))

    def load(self, code: bytes, signature: Signature, target: Target) -> LoadedKernel:
        _require_driver(signature, target)
        return CudaKernel(code, signature, target.arch)

    def save(self, path: Path, code: bytes, signature: Signature, target: Target) -> Artifact:
        image = image_for(path.suffix, code, target)
        return write_cuda_artifact(path, LaunchPlan.of_code(code)[0], image, signature, target)

    def open(self, library: Path, signature: Signature, target: Target) -> LoadedKernel:
        _require_driver(signature, target)
        return CudaKernel(read_cuda_artifact(library), signature, target.arch)


BACKEND: Backend = Cuda()


@lru_cache(maxsize=1)
def has_driver() -> bool:
    """Return whether this machine has NVIDIA's driver."""
    try:
        ctypes.CDLL(_DRIVER)
    except OSError:
        return False
    return True


def _require_driver(signature: Signature, target: Target) -> None:
    if not has_driver():
        raise BuildError(
            f"'{signature.name}' was built for '{target.text}' and cannot run on this machine, "
            "which has no NVIDIA driver; save it and run it there, or check it here as "
            "'cuda-emulated'"
        )


def _unmeasured(target: Target) -> TargetError:
    return TargetError(f"nothing is measured of '{target.text}' itself; its figures are in a table")
