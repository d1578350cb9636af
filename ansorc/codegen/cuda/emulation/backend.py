"""The back end that runs the text for a GPU on this CPU, to check it; see `base.Backend`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ansorc.codegen.base import Backend, Capabilities, MachineLimits, Probe, Probes
from ansorc.codegen.cuda.counts import count_kernels
from ansorc.codegen.cuda.emit import WORKSPACE_ALIGNMENT, emit_cuda, workspace_bytes
from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.kernel import EmulatedKernel, EmulatedNetwork
from ansorc.codegen.cuda.listings import LISTINGS
from ansorc.codegen.cuda.network_program import network_program, ready_plan
from ansorc.codegen.llvm.backend import BACKEND as CPU
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.variants import VariantsPlan
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.signature import Signature
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.errors import BuildError
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.pipeline import Passes
from ansorc.ir.stmt import Function
from ansorc.target import Target, detect


class _HostProbes:
    """Measurements of this CPU, which does the work."""

    def peak(self, target: Target, threads: int) -> Probe:
        return CPU.probes.peak(detect(), min(threads, detect().cores))

    def limits(self, target: Target) -> MachineLimits:
        return CPU.probes.limits(detect())

    def steady_work(self, target: Target, threads: int) -> Callable[[int], None]:
        return CPU.probes.steady_work(detect(), min(threads, detect().cores))

    def eviction(self, target: Target) -> Callable[[int, int], None]:
        return CPU.probes.eviction(detect())


class _Emulated:
    """The same text as for a GPU, compiled as C++."""

    passes: Passes = CUDA_PASSES
    probes: Probes = _HostProbes()
    listings: Mapping[str, Callable[[DeviceProgram, Target], str]] = LISTINGS

    def capabilities(self, target: Target) -> Capabilities:
        return Capabilities(is_emulated=True, alignment=WORKSPACE_ALIGNMENT)

    def emit(
        self,
        function: Function,
        target: Target,
        packers: Sequence[Function] = (),
        *,
        is_guarded: bool = True,
    ) -> DeviceProgram:
        return emit_cuda(function, target, packers)

    def compile(self, source: DeviceProgram, target: Target) -> CompiledProgram:
        return CompiledProgram(compile_library(source), source)

    def counts(self, function: Function, source: DeviceProgram, target: Target) -> str:
        return count_kernels(function, source, target)

    def workspace_bytes(self, function: Function) -> int:
        return workspace_bytes(function)

    def load(self, code: CompiledProgram, signature: Signature, target: Target) -> EmulatedKernel:
        return EmulatedKernel(code)

    def compile_part(self, source: DeviceProgram, target: Target) -> CompiledProgram:
        return CompiledProgram(b"", source)

    def network_source(self, plan: NetworkPlan) -> DeviceProgram:
        return network_program(ready_plan(plan))

    def load_network(self, plan: NetworkPlan, target: Target) -> EmulatedNetwork:
        ready = ready_plan(plan)
        return EmulatedNetwork(self.compile(network_program(ready), target), ready.weights.array())

    def save_network(
        self, path: Path, plan: NetworkPlan, target: Target, weights: Path | None
    ) -> Artifact:
        raise _saving_error(plan.signature, target)

    def save_variants(self, path: Path, plan: VariantsPlan, target: Target) -> Artifact:
        raise _saving_error(plan.signatures[0], target)

    def open_network(
        self, library: Path, signature: Signature, calls: int, weights: Path | None, target: Target
    ) -> EmulatedNetwork:
        raise _saving_error(signature, target)

    def save(
        self, path: Path, code: CompiledProgram, signature: Signature, target: Target
    ) -> Artifact:
        raise _saving_error(signature, target)

    def open(self, library: Path, signature: Signature, target: Target) -> EmulatedKernel:
        raise _saving_error(signature, target)


BACKEND: Backend = _Emulated()


def _saving_error(signature: Signature, target: Target) -> BuildError:
    return BuildError(
        f"'{signature.name}' is emulated, to be checked, and not saved; build it for "
        f"'cuda -arch={target.arch}', or for a CPU, e.g. 'native'"
    )
