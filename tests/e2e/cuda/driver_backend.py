"""A back end for tests on the emulated driver: CUDA's own, but g++ compiles the text.

What NVIDIA's compilers make of it does not run on the emulated driver.
"""

from __future__ import annotations

from ansorc.codegen.base import Backend
from ansorc.codegen.cuda.backend import Cuda
from ansorc.codegen.cuda.launch import LaunchPlan
from ansorc.target import Target
from tests.e2e.cuda.images import image_of

TARGET = "cuda -arch=sm_90 -backend=tests.e2e.cuda.driver_backend"


class CudaByDriver(Cuda):
    def compile(self, text: str, target: Target) -> bytes:
        return LaunchPlan.of_text(text).with_image(image_of(text), text)


BACKEND: Backend = CudaByDriver()
