"""Processors by name: instruction sets, vectors, caches and core counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from ansorc.target.costs import CoreCosts
from ansorc.target.gpu import DEFAULT_GPUS, GPUS, Gpu

_KIB = 1024

_V2 = ("cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_VNNI = (*_V4, "avx512vnni")
_BF16 = (*_VNNI, "avx512bf16")
_AMX = ("amx-bf16", "amx-int8", "amx-tile")
_DOT = ("dotprod", "fullfp16")

GUARDED_FEATURES: dict[str, tuple[int, int, int, int]] = {
    "sse3": (1, 0, 2, 0), "ssse3": (1, 0, 2, 9), "fma": (1, 0, 2, 12), "cx16": (1, 0, 2, 13),
    "sse4.1": (1, 0, 2, 19), "sse4.2": (1, 0, 2, 20), "movbe": (1, 0, 2, 22),
    "popcnt": (1, 0, 2, 23), "avx": (1, 0, 2, 28), "f16c": (1, 0, 2, 29),
    "bmi": (7, 0, 1, 3), "avx2": (7, 0, 1, 5), "bmi2": (7, 0, 1, 8), "avx512f": (7, 0, 1, 16),
    "avx512dq": (7, 0, 1, 17), "avx512cd": (7, 0, 1, 28), "avx512bw": (7, 0, 1, 30),
    "avx512vl": (7, 0, 1, 31), "avx512vnni": (7, 0, 2, 11), "avx512fp16": (7, 0, 3, 23),
    "avxvnni": (7, 1, 0, 4), "avx512bf16": (7, 1, 0, 5), "lzcnt": (0x80000001, 0, 2, 5),
    "amx-bf16": (7, 0, 3, 22), "amx-tile": (7, 0, 3, 24), "amx-int8": (7, 0, 3, 25),
    "amx-fp16": (7, 1, 0, 21),
}  # fmt: skip
"""The x86 features in `cpuid`: leaf, subleaf, register (eax, ebx, ecx, edx) and bit."""

ARM_FEATURES: dict[str, tuple[int, int]] = {
    "fullfp16": (16, 10), "dotprod": (16, 20), "fp16fml": (16, 23), "i8mm": (26, 13),
    "bf16": (26, 14),
}  # fmt: skip
"""Features of aarch64 besides NEON, as Linux has them: key in the auxiliary vector, and bit."""

CPUINFO_NAMES = {
    "asimdhp": "fullfp16", "asimddp": "dotprod", "asimdfhm": "fp16fml",
    "pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "abm": "lzcnt", "bmi1": "bmi",
    "avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16", "avx512_fp16": "avx512fp16",
    "avx_vnni": "avxvnni", "amx_tile": "amx-tile", "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8", "amx_fp16": "amx-fp16",
}  # fmt: skip
"""Flags of Linux' /proc/cpuinfo whose LLVM names differ."""


@dataclass(frozen=True)
class Preset:
    """One processor; sizes in bytes, caches as (first, second, third level)."""

    name: str
    architecture: Literal["x86", "arm", "cuda"]
    features: tuple[str, ...]
    vector_bytes: int
    vector_registers: int
    cache_bytes: tuple[int, int, int]
    cache_line_bytes: int = 64
    cores: int = 1
    costs: CoreCosts = field(default_factory=CoreCosts)
    """Costs of instructions and bytes on one core."""


def _x86(name: str, features: tuple[str, ...], kib: tuple[int, int, int]) -> Preset:
    wide = "avx512f" in features
    vector_bytes = 64 if wide else 32 if "avx" in features else 16
    caches = (kib[0] * _KIB, kib[1] * _KIB, kib[2] * _KIB)
    return Preset(name, "x86", tuple(sorted(features)), vector_bytes, 32 if wide else 16, caches)


def _arm(
    name: str, kib: tuple[int, int, int], features: tuple[str, ...] = (), line: int = 64
) -> Preset:
    caches = (kib[0] * _KIB, kib[1] * _KIB, kib[2] * _KIB)
    return Preset(name, "arm", tuple(sorted(("neon", *features))), 16, 32, caches, line)


def gpu_preset(gpu: Gpu) -> Preset:
    """Return `gpu` as a processor: caches are shared memory, second level, and none."""
    caches = (gpu.architecture.shared_bytes, gpu.l2_bytes, 0)
    return Preset(gpu.arch, "cuda", (), 16, 255, caches, 128, gpu.multiprocessors)


PRESETS = {
    preset.name: preset
    for preset in (
        _x86("x86-64-v2", _V2, (32, 256, 8192)),
        _x86("x86-64-v3", _V3, (32, 256, 8192)),
        _x86("x86-64-v4", _V4, (32, 1024, 16384)),
        _x86("haswell", _V3, (32, 256, 8192)),
        _x86("skylake", _V3, (32, 256, 8192)),
        _x86("skylake-avx512", _V4, (32, 1024, 16384)),
        _x86("cascadelake", _VNNI, (32, 1024, 28160)),
        _x86("cooperlake", _BF16, (32, 1024, 39424)),
        _x86("icelake-server", _VNNI, (48, 1280, 32768)),
        _x86("sapphirerapids", (*_BF16, "avx512fp16", "avxvnni", *_AMX), (48, 2048, 65536)),
        _x86(
            "graniterapids",
            (*_BF16, "avx512fp16", "avxvnni", *_AMX, "amx-fp16"),
            (48, 2048, 491520),
        ),
        _x86("alderlake", (*_V3, "avxvnni"), (48, 1280, 30720)),
        _x86("znver1", _V3, (32, 512, 8192)),
        _x86("znver2", _V3, (32, 512, 16384)),
        _x86("znver3", _V3, (32, 512, 32768)),
        _x86("znver4", _BF16, (32, 1024, 32768)),
        _x86("znver5", (*_BF16, "avxvnni"), (48, 1024, 32768)),
        _arm("generic", (32, 256, 0)),
        _arm("cortex-a53", (32, 512, 0)),
        _arm("cortex-a72", (32, 1024, 0)),
        _arm("cortex-a55", (32, 256, 1024), _DOT),
        _arm("cortex-a76", (64, 512, 4096), _DOT),
        _arm("neoverse-n1", (64, 1024, 32768), _DOT),
        _arm("neoverse-v1", (64, 1024, 32768), (*_DOT, "bf16", "fp16fml", "i8mm")),
        _arm("neoverse-n2", (64, 1024, 32768), (*_DOT, "bf16", "fp16fml", "i8mm")),
        _arm("apple-m1", (128, 12288, 8192), (*_DOT, "fp16fml"), line=128),
        _arm("apple-m2", (128, 16384, 8192), (*_DOT, "bf16", "fp16fml", "i8mm"), line=128),
        *(gpu_preset(GPUS[name]) for name in DEFAULT_GPUS.values()),
    )
}

_AMD = (
    (23, 0x00, 0x2F, "znver1"), (23, 0x30, 0xFF, "znver2"), (25, 0x00, 0x0F, "znver3"),
    (25, 0x10, 0x1F, "znver4"), (25, 0x20, 0x5F, "znver3"), (25, 0x60, 0xAF, "znver4"),
    (26, 0x00, 0xFF, "znver5"),
)  # fmt: skip
_INTEL = {
    **dict.fromkeys((60, 63, 69, 70, 61, 71, 79, 86), "haswell"),
    **dict.fromkeys((78, 94, 142, 158, 165, 166), "skylake"),
    85: "skylake-avx512",  # or a later one of its number, as its features tell
    **dict.fromkeys((106, 108), "icelake-server"),
    **dict.fromkeys((143, 207), "sapphirerapids"),
    **dict.fromkeys((173, 174), "graniterapids"),
    **dict.fromkeys((151, 154, 183, 186, 191), "alderlake"),
}

ARM_PARTS = {
    "0xd03": "cortex-a53", "0xd05": "cortex-a55", "0xd08": "cortex-a72", "0xd0b": "cortex-a76",
    "0xd0c": "neoverse-n1", "0xd40": "neoverse-v1", "0xd49": "neoverse-n2",
}  # fmt: skip
"""The `CPU part` of Linux' /proc/cpuinfo."""


def x86_model_name(vendor: str, family: int, model: int, features: Collection[str] = ()) -> str:
    """Return the name of the x86 processor with these `cpuid` numbers, or `""` if unknown.

    `features` tell apart the three that share one number.
    """
    if (vendor, family, model) == ("GenuineIntel", 6, 85) and "avx512vnni" in features:
        return "cooperlake" if "avx512bf16" in features else "cascadelake"
    if vendor == "AuthenticAMD":
        matches = (name for f, low, high, name in _AMD if f == family and low <= model <= high)
        return next(matches, "")
    return _INTEL.get(model, "") if vendor == "GenuineIntel" and family == 6 else ""
