"""A back end for tests on the emulated driver: CUDA's own, but g++ compiles the text.

What NVIDIA's compilers make of it does not run on the emulated driver.
"""

from __future__ import annotations

from ansorc.codegen.base import Backend
from ansorc.codegen.cuda.backend import Cuda
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.target import Target
from tests.e2e.cuda.images import image_of

TARGET = "cuda -arch=sm_90 -backend=tests.e2e.cuda.driver_backend"


class CudaByDriver(Cuda):
    def compile(self, source: DeviceProgram, target: Target) -> CompiledProgram:
        return CompiledProgram(image_of(source), source)


BACKEND: Backend = CudaByDriver()
