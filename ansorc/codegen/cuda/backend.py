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
from ansorc.codegen.cuda.counts import count_kernels
from ansorc.codegen.cuda.emit import CLEAR_FAULTS, WORKSPACE_ALIGNMENT, emit_cuda, workspace_bytes
from ansorc.codegen.cuda.image import image_for
from ansorc.codegen.cuda.kernel import CudaKernel
from ansorc.codegen.cuda.listings import LISTINGS
from ansorc.codegen.cuda.network import CudaNetwork, with_weights
from ansorc.codegen.cuda.network_artifact import read_cuda_weights, write_cuda_network
from ansorc.codegen.cuda.network_program import network_program, ready_plan
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.variants import VariantsPlan
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.signature import Signature
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.codegen.program.device_program import DeviceProgram
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
        raise _make_unmeasured_error(target)

    def steady_work(self, target: Target, threads: int) -> Callable[[int], None]:
        raise _make_unmeasured_error(target)

    def eviction(self, target: Target) -> Callable[[int, int], None]:
        raise _make_unmeasured_error(target)


class Cuda:
    """Programs as CUDA C that NVIDIA's compiler makes machine code of."""

    passes: Passes = CUDA_PASSES
    probes: Probes = _GpuProbes()
    listings: Mapping[str, Callable[[DeviceProgram, Target], str]] = LISTINGS

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
    ) -> DeviceProgram:
        return emit_cuda(function, target, packers)

    def compile(self, source: DeviceProgram, target: Target) -> CompiledProgram:
        return CompiledProgram(compile_cubin(cuda_text(source), target.arch).image, source)

    def counts(self, function: Function, source: DeviceProgram, target: Target) -> str:
        return count_kernels(function, source, target)

    def resources(self, source: DeviceProgram, target: Target) -> tuple[KernelResources, ...]:
        compiled = compile_cubin(cuda_text(source), target.arch).resources
        by_name = {
            each.name: KernelResources(
                each.registers, each.spill_store_bytes + each.spill_load_bytes, each.shared_bytes
            )
            for each in compiled
        }
        return tuple(by_name[kernel.name] for kernel in source.kernels if kernel != CLEAR_FAULTS)

    def workspace_bytes(self, function: Function) -> int:
        return workspace_bytes(function)

    def compile_part(self, source: DeviceProgram, target: Target) -> CompiledProgram:
        return CompiledProgram(b"", source)

    def network_source(self, plan: NetworkPlan) -> DeviceProgram:
        return network_program(ready_plan(plan))

    def load_network(self, plan: NetworkPlan, target: Target) -> CudaNetwork:
        _require_driver(plan.signature, target)
        ready = ready_plan(plan)
        program = network_program(ready)
        image = self.compile(program, target).image
        signature = with_weights(plan.signature, ready.weights)
        return CudaNetwork(program.plan, image, signature, target.arch, ready.weights)

    def save_network(
        self, path: Path, plan: NetworkPlan, target: Target, weights: Path | None
    ) -> Artifact:
        ready = ready_plan(plan)
        program = network_program(ready)
        is_compiled = path.suffix in (".cubin", ".fatbin")
        code = self.compile(program, target) if is_compiled else CompiledProgram(b"", program)
        image = image_for(path.suffix, code, target)
        return write_cuda_network(path, ready, program.plan, image, target, weights)

    def save_variants(self, path: Path, plan: VariantsPlan, target: Target) -> Artifact:
        raise BuildError(
            f"'{plan.name}' has programs for several shapes, which are not one image for a GPU; "
            "save each by itself: modules[0].save(…), or build for one --input at a time"
        )

    def open_network(
        self, library: Path, signature: Signature, calls: int, weights: Path | None, target: Target
    ) -> CudaNetwork:
        _require_driver(signature, target)
        launches, image = read_cuda_artifact(library)
        source = None if weights is None else read_cuda_weights(library, weights)
        return CudaNetwork(launches, image, with_weights(signature, source), target.arch, source)

    def machine(self, target: Target) -> Machine:
        facts = facts_of(FIRST_DEVICE)
        return Machine(facts.name, (facts.arch,), facts.multiprocessors)

    def state(self, target: Target) -> str:
        return clock_of(bus_of(FIRST_DEVICE))

    def load(self, code: CompiledProgram, signature: Signature, target: Target) -> LoadedKernel:
        _require_driver(signature, target)
        return CudaKernel(code.device_program.plan, code.image, signature, target.arch)

    def save(
        self, path: Path, code: CompiledProgram, signature: Signature, target: Target
    ) -> Artifact:
        image = image_for(path.suffix, code, target)
        return write_cuda_artifact(path, code.device_program.plan, image, signature, target)

    def open(self, library: Path, signature: Signature, target: Target) -> LoadedKernel:
        _require_driver(signature, target)
        return CudaKernel(*read_cuda_artifact(library), signature, target.arch)


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


def _make_unmeasured_error(target: Target) -> TargetError:
    return TargetError(f"nothing is measured of '{target.text}' itself; its figures are in a table")
