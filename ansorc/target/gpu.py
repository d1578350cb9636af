"""The GPUs that are known by name: `GPUS`, and the default GPU of each architecture.

The resources of each multiprocessor of an architecture are from NVIDIA's CUDA C++ Programming
Guide, table "Technical Specifications per Compute Capability" and "Throughput of Native Arithmetic
Instructions", and from its architecture whitepapers; those of a product from the page or paper
that `Gpu.source` names. Clocks are the boost clocks stated there: under load a GPU may stay below,
or exceed them where power allows.

Latencies are measured by others, in cycles: of sm_70 by Z. Jia et al., "Dissecting the NVIDIA Volta
GPU Architecture via Microbenchmarking", 2018; of sm_75 by Z. Jia et al., "Dissecting the NVidia
Turing T4 GPU via Microbenchmarking", 2019; of sm_80, sm_89 and sm_90 by W. Luo et al.,
"Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024. No
measurement of the others is taken: sm_86 and sm_87 have those of sm_80, sm_100 of sm_90, sm_120
of sm_89.

The second level gives 5120 bytes a cycle on an A100, by its whitepaper, and is taken to do so on an
H100. For others no figure is stated: 32 bytes a cycle of each slice are assumed, with 4 slices for
each 32-bit channel of GDDR memory up to sm_86; 2048 for an RTX 4090, which is about the 5 TB/s that
others measured, and in proportion to channels for its kin; twice an H100 for a B200's two dies.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.errors import TargetError

_KIB, _MIB = 1024, 1024 * 1024
WARP_THREADS = 32
"""Threads that run in step, on all of these GPUs."""
VECTOR_BYTES = 16
"""The most that one instruction of a thread loads or stores."""


@dataclass(frozen=True)
class Latencies:
    """Cycles from the issue of an instruction until another may use its result."""

    multiply_add: float
    shared: float
    l1: float
    l2: float
    dram: float


@dataclass(frozen=True)
class MatrixRates:
    """Dense multiply-adds a cycle of the matrix units of an SM, by the type of the factors.

    The sums are float32 (int32 of int8); 0 if there is no such instruction. On sm_90 these are the
    rates of `mma.sync`, 63 % of those of `wgmma` (arXiv 2402.13499).
    """

    float16: int
    bfloat16: int = 0
    tfloat32: int = 0
    int8: int = 0


@dataclass(frozen=True)
class GpuArchitecture:
    """Resources of each multiprocessor (SM) of an architecture. Rates are per cycle and SM."""

    name: str
    fp32_lanes: int
    """Multiply-adds of float32."""
    integer_lanes: int
    """Integer and logic operations; from sm_86 on they share lanes with those of float32."""
    matrix_rates: MatrixRates
    threads: int
    """Resident threads."""
    blocks: int
    """Resident blocks."""
    shared_bytes: int
    """Shared memory of an SM."""
    block_shared_bytes: int
    """The most that one block may use of it, after opting in."""
    l1_bytes: int
    """First-level cache and shared memory together."""
    latencies: Latencies
    reserved_shared_bytes: int = 1024
    """Shared memory of each resident block that the system reserves."""
    registers: int = 65536
    schedulers: int = 4
    """Each issues one instruction of a warp a cycle."""
    memory_lanes: int = 32
    """Threads whose loads or stores the load-store units begin."""
    instruction_cache_bytes: int = 128 * _KIB
    """Size of the cache that warps fetch instructions from, before the second level."""
    special_lanes: int = 16
    """Results of the special function units (exp2, rsqrt …)."""
    shared_bytes_per_cycle: int = 128
    """Bandwidth of shared memory and the first-level cache: 32 banks of 4 bytes."""

    @property
    def has_async_copies(self) -> bool:
        """Return whether threads copy to shared memory without holding data in registers."""
        return int(self.name.removeprefix("sm_")) >= 80

    @property
    def has_matrix_tiles(self) -> bool:
        """Return whether a warp multiplies tiles of 16 x 16 and 16 x 8 (`mma.m16n8k16`)."""
        return int(self.name.removeprefix("sm_")) >= 80

    @property
    def warps(self) -> int:
        """Resident warps."""
        return self.threads // WARP_THREADS


@dataclass(frozen=True)
class Gpu:
    """A product. `gpu_named` finds it; the module's docstring says where its figures are from."""

    name: str
    architecture: GpuArchitecture
    multiprocessors: int
    clock_hz: float
    l2_bytes: int
    dram_bytes_per_second: float
    l2_bytes_per_cycle: int
    """Sum of all slices: stated for sm_80 and later HBM; else assumed, see the module."""
    source: str

    @property
    def arch(self) -> str:
        """The name of its architecture, such as `sm_90`."""
        return self.architecture.name

    @property
    def fp32_flops(self) -> float:
        """Operations a second in float32; a multiply-add counts as two."""
        return 2.0 * self.multiprocessors * self.architecture.fp32_lanes * self.clock_hz


_VOLTA = Latencies(4, 19, 28, 193, 375)
_TURING = Latencies(4, 22, 32, 188, 296)
_AMPERE = Latencies(4, 29.0, 37.9, 261.5, 466.3)
_ADA = Latencies(4, 30.1, 43.4, 273.0, 541.5)
_HOPPER = Latencies(4, 29.0, 40.7, 263.0, 478.8)

_SM_70 = GpuArchitecture(
    "sm_70", 64, 64, MatrixRates(512), 2048, 32, 96 * _KIB, 96 * _KIB, 128 * _KIB, _VOLTA, 0
)
_SM_75 = GpuArchitecture(
    "sm_75", 64, 64, MatrixRates(512, int8=1024), 1024, 16, 64 * _KIB, 64 * _KIB, 96 * _KIB,
    _TURING, 0, memory_lanes=16,
    instruction_cache_bytes=46 * _KIB, shared_bytes_per_cycle=64,
)  # fmt: skip
_SM_80 = GpuArchitecture(
    "sm_80", 64, 64, MatrixRates(1024, 1024, 512, 2048), 2048, 32, 164 * _KIB, 163 * _KIB,
    192 * _KIB, _AMPERE,
)  # fmt: skip
_SM_86 = GpuArchitecture(
    "sm_86", 128, 64, MatrixRates(512, 512, 256, 1024), 1536, 16, 100 * _KIB, 99 * _KIB,
    128 * _KIB, _AMPERE, memory_lanes=16,
)  # fmt: skip
_SM_87 = GpuArchitecture(
    "sm_87", 128, 64, MatrixRates(1024, 1024, 512, 2048), 1536, 16, 164 * _KIB, 163 * _KIB,
    192 * _KIB, _AMPERE, memory_lanes=16,
)  # fmt: skip
_SM_89 = GpuArchitecture(
    "sm_89", 128, 64, MatrixRates(512, 512, 256, 1024), 1536, 24, 100 * _KIB, 99 * _KIB,
    128 * _KIB, _ADA, memory_lanes=16,
)  # fmt: skip
_SM_90 = GpuArchitecture(
    "sm_90", 128, 64, MatrixRates(1290, 1290, 645, 2580), 2048, 32, 228 * _KIB, 227 * _KIB,
    256 * _KIB, _HOPPER,
)  # fmt: skip
_SM_100 = GpuArchitecture(
    "sm_100", 128, 64, MatrixRates(4096, 4096, 2048, 8192), 2048, 32, 228 * _KIB, 227 * _KIB,
    256 * _KIB, _HOPPER,
)  # fmt: skip
_SM_120 = GpuArchitecture(
    "sm_120", 128, 128, MatrixRates(512, 512, 256, 1024), 1536, 24, 100 * _KIB, 99 * _KIB,
    128 * _KIB, _ADA, memory_lanes=16,
)  # fmt: skip

GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("v100", _SM_70, 80, 1.53e9, 6 * _MIB, 900e9, 2048,
            "NVIDIA Tesla V100 GPU Architecture, WP-08608-001, table 1 (SXM2)"),
        Gpu("t4", _SM_75, 40, 1.59e9, 4 * _MIB, 320e9, 1024,
            "NVIDIA Turing GPU Architecture, WP-09183-001, appendix B; T4 data sheet"),
        Gpu("rtx2080ti", _SM_75, 68, 1.545e9, 5632 * _KIB, 616e9, 1408,
            "NVIDIA Turing GPU Architecture, WP-09183-001, table 1 (reference clock)"),
        Gpu("titanrtx", _SM_75, 72, 1.77e9, 6 * _MIB, 672e9, 1536,
            "NVIDIA TITAN RTX product page; Turing whitepaper, TU102 in full"),
        Gpu("a100", _SM_80, 108, 1.41e9, 40 * _MIB, 1555e9, 5120,
            "NVIDIA A100 Tensor Core GPU Architecture, V1.0, table 4 (SXM4, 40 GB)"),
        Gpu("a100pcie", _SM_80, 108, 1.41e9, 40 * _MIB, 1555e9, 5120,
            "NVIDIA A100 PCIe product brief, PB-10137-001 (40 GB)"),
        Gpu("a10", _SM_86, 72, 1.695e9, 6 * _MIB, 600e9, 1536,
            "NVIDIA A10 product brief, PB-10415-001"),
        Gpu("a4000", _SM_86, 48, 1.56e9, 4 * _MIB, 448e9, 1024,
            "NVIDIA RTX A4000 data sheet (19.2 TFLOPS of float32)"),
        Gpu("a6000", _SM_86, 84, 1.8e9, 6 * _MIB, 768e9, 1536,
            "NVIDIA RTX A6000 data sheet (38.7 TFLOPS of float32)"),
        Gpu("rtx3060laptop", _SM_86, 30, 1.425e9, 3 * _MIB, 336e9, 768,
            "NVIDIA GeForce RTX 30 laptops page: 3840 cores, boost of 1283 to 1703 MHz by power"),
        Gpu("rtx3090", _SM_86, 82, 1.695e9, 6 * _MIB, 936e9, 1536,
            "NVIDIA Ampere GA102 GPU Architecture, V2.0, appendix A"),
        Gpu("orin", _SM_87, 16, 1.3e9, 4 * _MIB, 204.8e9, 512,
            "NVIDIA Jetson AGX Orin Series technical brief, V1.2 (64 GB)"),
        Gpu("rtx4090", _SM_89, 128, 2.52e9, 72 * _MIB, 1008e9, 2048,
            "NVIDIA Ada GPU Architecture, V2.01, appendix A"),
        Gpu("l4", _SM_89, 58, 2.04e9, 48 * _MIB, 300e9, 1024,
            "NVIDIA L4 product brief, PB-11316-001"),
        Gpu("l40s", _SM_89, 142, 2.52e9, 96 * _MIB, 864e9, 2048,
            "NVIDIA L40S product brief, PB-11472-001; AD102's second-level cache in full"),
        Gpu("h100", _SM_90, 132, 1.98e9, 50 * _MIB, 3350e9, 5120,
            "NVIDIA H100 Tensor Core GPU data sheet (SXM5, 80 GB)"),
        Gpu("h200", _SM_90, 132, 1.98e9, 50 * _MIB, 4800e9, 5120,
            "NVIDIA H200 Tensor Core GPU data sheet (SXM)"),
        Gpu("b200", _SM_100, 148, 1.965e9, 126 * _MIB, 8000e9, 10240,
            "NVIDIA DGX B200 data sheet; SMs and caches as its driver reports them"),
        Gpu("rtx5090", _SM_120, 170, 2.407e9, 96 * _MIB, 1792e9, 2730,
            "NVIDIA RTX Blackwell GPU Architecture, V1.1, appendix A"),
    )
}  # fmt: skip
"""GPUs by name. Two products of one name (such as GeForce cards with more memory) are one."""

DEFAULT_GPUS: dict[str, str] = {
    "sm_70": "v100", "sm_75": "t4", "sm_80": "a100", "sm_86": "rtx3090", "sm_87": "orin",
    "sm_89": "rtx4090", "sm_90": "h100", "sm_100": "b200", "sm_120": "rtx5090",
}  # fmt: skip
"""The GPU that a target means that names only an architecture."""


def gpu_named(name: str) -> Gpu:
    """Return the GPU of this name; case, blanks, `-` and `_` do not matter, nor does `geforce`.

    Raise TargetError listing the known ones.
    """
    plain = name.lower()
    for word in ("nvidia", "geforce", "quadro", "tesla", " ", "-", "_"):
        plain = plain.replace(word, "")
    plain = _ALIASES.get(plain, plain)
    if plain not in GPUS:
        raise TargetError(f"'{name}' is not a known GPU; known are {', '.join(GPUS)}")
    return GPUS[plain]


def gpu_for(arch: str, name: str) -> Gpu:
    """Return the GPU `name`, or where it is empty the one that stands for `arch`.

    Raise TargetError if there is none, or if it does not run code of `arch`.
    """
    gpu = gpu_named(name or DEFAULT_GPUS[arch])
    made, runs = (int(each.removeprefix("sm_")) for each in (arch, gpu.arch))
    if made // 10 != runs // 10 or made > runs:
        raise TargetError(f"'{gpu.name}' is {gpu.arch}; it does not run code of {arch}")
    return gpu


def with_arch(options: list[str]) -> list[str]:
    """Return the options of a target, the GPU first, and its architecture where none is named."""
    named = [option for option in options if option.startswith("-gpu=")]
    rest = [option for option in options if option not in named]
    if named and not any(option.startswith("-arch=") for option in rest):
        rest.append(f"-arch={gpu_named(named[-1].removeprefix('-gpu=')).arch}")
    return [*named, *rest]


_ALIASES = {
    "rtxtitan": "titanrtx", "rtxa4000": "a4000", "rtxa6000": "a6000",
    "a100sxm": "a100", "a100sxm440gb": "a100", "a100pcie40gb": "a100pcie", "h100sxm": "h100",
    "rtx3060laptopgpu": "rtx3060laptop", "jetsonagxorin": "orin", "a100sxm440": "a100",
}  # fmt: skip
"""Other spellings, some of which drivers use."""
