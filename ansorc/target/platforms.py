"""The registry of platforms: the back ends of each kind of target, and its search space.

Nothing else asks for the kind of a target by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

CPU_BACKEND = "ansorc.codegen.llvm.backend"
CUDA_BACKEND = "ansorc.codegen.cuda.backend"
EMULATED_BACKEND = "ansorc.codegen.cuda.emulation.backend"

PlatformName: TypeAlias = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Platform:
    """The common properties of all targets of one kind."""

    backends: Mapping[str, str]
    """The module of each back end, by the word that begins the text of its targets."""
    space: str
    """The module of the search space, unless a back end names its own; see `search.space`."""
    is_gpu: bool = False
    """Whether blocks of threads run its programs, and its targets are described by `Gpu`."""


PLATFORMS: Mapping[PlatformName, Platform] = MappingProxyType({
    "cpu": Platform(MappingProxyType({"native": CPU_BACKEND}), "ansorc.search.cpu.space"),
    "cuda": Platform(
        MappingProxyType({"cuda": CUDA_BACKEND, "cuda-emulated": EMULATED_BACKEND}),
        "ansorc.search.gpu.space", is_gpu=True,
    ),
})  # fmt: skip
