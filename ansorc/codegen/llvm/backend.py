"""The back end for CPUs, by LLVM; see `base.Backend`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ansorc.codegen.base import Backend, MachineLimits, Probe, Probes
from ansorc.codegen.inspect.assembly import innermost_loops, mark_loops
from ansorc.codegen.llvm.binding import (
    assembly,
    compile_object,
    llvm_version,
    load_object_code,
    optimize_llvm,
)
from ansorc.codegen.llvm.c_call import with_c_functions
from ansorc.codegen.llvm.cache_eviction import cache_eviction
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.codegen.llvm.limits import FmaProbe, machine_limits, steady_work
from ansorc.codegen.llvm.native import NativeKernel
from ansorc.codegen.llvm.network.native_network import (
    load_plan,
    network_objects,
    variants_objects,
)
from ansorc.codegen.llvm.opener import NativeNetwork, NativeOpener, require_this_machine
from ansorc.codegen.llvm.storage import workspace_bytes
from ansorc.codegen.llvm.worker_team import WorkerTeam
from ansorc.codegen.network.artifact import write_network
from ansorc.codegen.network.own_weights import with_all_packed
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.variants import VariantsPlan
from ansorc.codegen.network.variants_artifact import write_variants
from ansorc.codegen.package.artifact import Artifact, write_artifact
from ansorc.codegen.package.runtime_library import runtime_symbols
from ansorc.codegen.package.signature import Signature
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.ir.passes.pipeline import CPU_PASSES, Passes
from ansorc.ir.stmt import Function
from ansorc.target import Target


class _CpuProbes:
    """Measurements of a CPU."""

    def peak(self, target: Target, threads: int) -> Probe:
        return FmaProbe(target, threads)

    def limits(self, target: Target) -> MachineLimits:
        return machine_limits(target)

    def steady_work(self, target: Target, threads: int) -> Callable[[int], None]:
        return steady_work(target, threads)

    def eviction(self, target: Target) -> Callable[[int, int], None]:
        return cache_eviction(target)

    def team(self, target: Target, threads: int) -> AbstractContextManager[None]:
        return WorkerTeam(target, threads)


class _LLVM(NativeOpener):
    """Kernels as object files that follow the C interface."""

    passes: Passes = CPU_PASSES
    probes: Probes = _CpuProbes()
    listings: Mapping[str, Callable[[str, Target], str]] = {
        "llvm": lambda text, _: text,
        "optimized": optimize_llvm,
        "asm": lambda text, target: mark_loops(assembly(text, target)),
    }

    def innermost_loops(self, source: str, target: Target) -> tuple[str, ...]:
        return tuple(loop.title for loop in innermost_loops(assembly(source, target)))

    @property
    def compiler(self) -> str:
        return llvm_version()

    def emit(
        self,
        function: Function,
        target: Target,
        packers: Sequence[Function] = (),
        *,
        is_guarded: bool = True,
    ) -> str:
        return emit_llvm(function, target, packers, is_guarded=is_guarded)

    def compile(self, source: str, target: Target) -> CompiledProgram:
        return CompiledProgram(with_c_functions(source, compile_object(source, target), target))

    def workspace_bytes(self, function: Function) -> int:
        return workspace_bytes(function)

    def load(self, code: CompiledProgram, signature: Signature, target: Target) -> NativeKernel:
        require_this_machine(signature.name, target)
        loaded = load_object_code(code.image, runtime_symbols() if signature.parallel else {})
        return NativeKernel(loaded.address(signature.name), loaded.close)

    def compile_part(self, source: str, target: Target) -> CompiledProgram:
        return self.compile(source, target)

    def load_network(self, plan: NetworkPlan, target: Target) -> NativeNetwork:
        require_this_machine(plan.name, target)
        return load_plan(plan, target)

    def save_network(
        self, path: Path, plan: NetworkPlan, target: Target, weights: Path | None
    ) -> Artifact:
        if weights is None:
            return write_network(
                path, plan, lambda _: network_objects(plan, target, embeds=True), target, None
            )
        packed = with_all_packed(plan)  # in a file that processes share, which none has to add to
        return write_network(
            path, packed, lambda digest: network_objects(packed, target, digest), target, weights
        )

    def save_variants(self, path: Path, plan: VariantsPlan, target: Target) -> Artifact:
        return write_variants(path, plan, lambda _: variants_objects(plan, target), target)

    def save(
        self, path: Path, code: CompiledProgram, signature: Signature, target: Target
    ) -> Artifact:
        return write_artifact(path, code.image, signature, target)


BACKEND: Backend = _LLVM()
