"""A back end for tests on the emulated driver: CUDA's text, which g++ compiles.

What NVIDIA's compilers make of it does not run on the emulated driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cuda_driver.images import image_of

from ansorc.codegen.base import Backend, Capabilities, Machine, Probes
from ansorc.codegen.cuda.binding import facts_of
from ansorc.codegen.cuda.emit import emit_cuda, workspace_bytes
from ansorc.codegen.cuda.kernel import CudaKernel
from ansorc.codegen.cuda.launch import LaunchPlan
from ansorc.codegen.llvm.backend import BACKEND as LLVM
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.passes.pipeline import Passes
from ansorc.ir.stmt import Function
from ansorc.target import Target

TARGET = "cuda -arch=sm_90 -backend=cuda_driver.driver_backend"


class CudaByDriver:
    passes: Passes = CUDA_PASSES
    probes: Probes = LLVM.probes
    listings: Mapping[str, Callable[[str, Target], str]] = {"cuda": lambda text, target: text}

    def capabilities(self, target: Target) -> Capabilities:
        return Capabilities(cold_caches=True, device=True)

    def machine(self, target: Target) -> Machine:
        facts = facts_of(0)
        return Machine(facts.name, (facts.arch,), facts.multiprocessors)

    def emit(
        self,
        function: Function,
        target: Target,
        packers: Sequence[Function] = (),
        *,
        is_guarded: bool = True,
    ) -> str:
        return emit_cuda(function, target, packers)

    def compile(self, text: str, target: Target) -> bytes:
        return LaunchPlan.of_text(text).with_image(image_of(text))

    def workspace_bytes(self, function: Function) -> int:
        return workspace_bytes(function)

    def load(self, code: bytes, signature: Signature, target: Target) -> CudaKernel:
        return CudaKernel(code, signature, target.arch)

    def save(self, path: Path, code: bytes, signature: Signature, target: Target) -> Artifact:
        raise BuildError("this back end saves nothing")

    def open(self, library: Path, signature: Signature, target: Target) -> CudaKernel:
        raise BuildError("this back end saves nothing")


BACKEND: Backend = CudaByDriver()
