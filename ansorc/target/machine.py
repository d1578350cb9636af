"""The machine that code is made for: `Target`, its text form, and the detection of this machine."""

from __future__ import annotations

import difflib
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ansorc.errors import TargetError
from ansorc.target.costs import CoreCosts
from ansorc.target.gpu import DEFAULT_GPUS, Gpu, gpu_for, with_arch
from ansorc.target.platforms import (
    CPU_BACKEND,
    EMULATED_BACKEND,
    PLATFORMS,
    Platform,
    PlatformName,
)
from ansorc.target.presets import (
    ARM_FEATURES,
    ARM_PARTS,
    CPUINFO_NAMES,
    GUARDED_FEATURES,
    PRESETS,
    Preset,
    gpu_preset,
    x86_model_name,
)
from ansorc.target.tile_permission import may_use_tiles

_OPTIONS = (
    "-mcpu=NAME, -mattr=+x,-y, -cores=N, -cache=L1,L2,L3 (bytes), -arch=sm_NN (cuda), "
    "-gpu=NAME (cuda) and -backend=MODULE"
)
_FORMS = (
    "'native', 'x86_64-linux-gnu -mcpu=NAME', 'aarch64-linux-gnu -mcpu=NAME', 'cuda -arch=sm_NN' "
    "or 'cuda-emulated'"
)
_AS = " as "
_ARCHITECTURES = {"x86_64": "x86", "amd64": "x86", "aarch64": "arm", "arm64": "arm"}
_SYSTEMS = {"Linux": "linux-gnu", "Darwin": "apple-darwin"}

_SHARED_BYTES = 4 << 20
"""Third-level cache for each core: 32 MiB for 8 cores of Zen 3 to 5 (stated); others less."""

_GPU_BACKENDS = PLATFORMS["cuda"].backends
_EMULATED_ARCH = "-arch=sm_90"


@dataclass(frozen=True)
class Target:
    """A machine: its instruction set, cores and caches. `Target.parse(target.text) == target`.

    It may be assumed: with "native as x86_64-linux-gnu -mcpu=znver5 -cores=96" all decisions
    (search, estimates, passes) are those for the second machine, while code is generated for the
    first one, which is `real`.
    """

    kind: PlatformName
    triple: str
    cpu: str
    features: tuple[str, ...]
    """The instruction sets that code may use, by their LLVM names, sorted."""
    cores: int
    """Cores to run on (cpu), or multiprocessors (cuda)."""
    vector_bytes: int
    vector_registers: int
    cache_bytes: tuple[int, int, int]
    """First, second (each of one core) and third level (shared); 0 where there is none."""
    cache_line_bytes: int
    arch: str = ""
    """The GPU architecture, such as `sm_90`."""
    gpu_name: str = ""
    """The GPU, by its name in `gpu.GPUS`, where it is not the one that stands for `arch`."""
    backend: str = CPU_BACKEND
    """The module that holds the back end, which makes its code; see `codegen.base`."""
    runs_on: Target | None = None
    """The machine that code is made for, where this one is only assumed."""

    @staticmethod
    def parse(text: str) -> Target:
        """Return the target that `text` names; raise TargetError listing what is known."""
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TargetError(f"{text!r} is not a target; use {_FORMS}")
        before, word, after = text.partition(_AS)
        return Target.parse(before).assuming(Target.parse(after)) if word else Target._parse(text)

    @staticmethod
    def _parse(text: str) -> Target:
        head, *options = text.split() or [""]
        if head == "native":
            return _with_options(detect(), options, text)
        is_gpu = head in _GPU_BACKENDS
        architecture = "cuda" if is_gpu else _ARCHITECTURES.get(head.split("-")[0])
        if architecture is None or ("-" not in head and not is_gpu):
            raise TargetError(f"'{text}' is not a target; use {_FORMS}{_nearest(head, _HEADS)}")
        if is_gpu:
            options = with_arch(options)
        option = "-arch=" if is_gpu else "-mcpu="
        if head == "cuda-emulated" and not any(each.startswith(option) for each in options):
            options = [_EMULATED_ARCH, *options]
        name = next((o.removeprefix(option) for o in options if o.startswith(option)), "")
        preset = _preset(name or _BASELINES[architecture], architecture)
        rest = [each for each in options if not each.startswith(option)]
        return _with_options(_from_preset(head, preset), rest, text)

    def assuming(self, machine: Target) -> Target:
        """Return `machine`, but as one whose code is made for this target and runs here.

        Raise TargetError if one of them makes code for GPUs, or assumes a machine itself.
        """
        if self.is_gpu or machine.is_gpu or self.runs_on or machine.runs_on:
            raise TargetError(
                f"'{self.text}' cannot be taken for '{machine.text}': both must be CPUs, and "
                "neither an assumed one"
            )
        return replace(machine, runs_on=self)

    @property
    def real(self) -> Target:
        """The machine that code is made for: this one, unless it is only assumed."""
        return self.runs_on or self

    @property
    def last_cache_bytes(self) -> int:
        """Return how much of the last cache the process can expect to use.

        A third level is shared with programs on the cores that the process does not have. It
        counts as `_SHARED_BYTES` for each core of ours. Without one it is the second level of all
        cores, of which a GPU's have one together.
        """
        if self.is_gpu:
            return self.cache_bytes[1]
        third = self.cache_bytes[-1]
        ours = self.cores * _SHARED_BYTES
        return min(third, ours) if third else self.cores * self.cache_bytes[1]

    @property
    def text(self) -> str:
        """The canonical text form: what differs from the preset is spelled out."""
        if self.runs_on:
            return f"{self.runs_on.text}{_AS}{replace(self, runs_on=None).text}"
        preset = gpu_preset(gpu_for(self.arch, self.gpu_name)) if self.arch else PRESETS[self.cpu]
        words = [self.triple, f"-mcpu={self.cpu}"]
        if self.arch:
            head = "cuda-emulated" if self.backend == EMULATED_BACKEND else "cuda"
            words = [head, f"-arch={self.arch}"]
        if self.gpu_name:
            words.append(f"-gpu={self.gpu_name}")
        added = [f"+{name}" for name in self.features if name not in preset.features]
        removed = [f"-{name}" for name in preset.features if name not in self.features]
        if added or removed:
            words.append("-mattr=" + ",".join([*added, *removed]))
        if self.cores != preset.cores:
            words.append(f"-cores={self.cores}")
        if self.cache_bytes != preset.cache_bytes:
            words.append("-cache=" + ",".join(map(str, self.cache_bytes)))
        if self.backend not in self.platform.backends.values():
            words.append(f"-backend={self.backend}")
        return " ".join(words)

    @property
    def costs(self) -> CoreCosts:
        """Return the costs of instructions and bytes on one core."""
        return PRESETS[self.cpu or self.arch].costs

    @property
    def platform(self) -> Platform:
        """Return what all targets of its kind have in common."""
        return PLATFORMS[self.kind]

    @property
    def is_gpu(self) -> bool:
        """Return whether blocks of threads run its programs."""
        return self.platform.is_gpu

    @property
    def may_be_here(self) -> bool:
        """Return whether it may be this machine: its instruction sets and cores are detected here.

        Which GPU is here only its back end can say.
        """
        here = detect()
        return self.is_gpu or (self.real.features, self.cores) == (here.features, here.cores)

    @property
    def gpu(self) -> Gpu:
        """The GPU that it is, with `cores` multiprocessors; raise TargetError of a CPU."""
        if not self.is_gpu:
            raise TargetError(f"'{self.text}' is a CPU, not a GPU")
        return replace(gpu_for(self.arch, self.gpu_name), multiprocessors=self.cores)

    @property
    def is_x86(self) -> bool:
        """Return whether it runs x86-64 code."""
        return not self.is_gpu and _ARCHITECTURES[self.triple.split("-")[0]] == "x86"

    @property
    def masked_bytes(self) -> frozenset[int]:
        """Sizes of the elements of which it loads some lanes of a vector as fast as all."""
        if self.is_gpu or "avx2" not in self.features:
            return frozenset()
        return frozenset((1, 2, 4, 8) if "avx512bw" in self.features else (4, 8))

    @property
    def stores_masked_fast(self) -> bool:
        """Return whether it stores some lanes of a vector as fast as all."""
        return not self.is_gpu and "avx512vl" in self.features

    @property
    def asks_ahead(self) -> bool:
        """Return whether a loop that reads memory once gains from prefetches.

        This is assumed for all but AMD's cores: on a Zen 4, the only one measured, sums over 64 MiB
        and 1 GiB on two cores took 5 to 17 % longer with them.
        """
        return not self.cpu.startswith("znver")

    @property
    def vector_ports(self) -> int:
        """Multiply-adds of whole vectors, and loads, that a core starts in a cycle.

        A Zen 4 takes vectors of 64 bytes in two halves.
        """
        return 1 if self.cpu == "znver4" and self.vector_bytes == 64 else 2

    @property
    def streaming_sums(self) -> int:
        """Vectors of independent sums in a loop that adds up what comes from memory.

        Where `asks_ahead` holds, as many as are asked for in time. Else as many as a cache line
        of 64 bytes fills: on a Zen 4, 64 MiB on one core took 2.2 ms with 1 vector of 64 bytes or
        2 of 32, and 2.5 to 2.6 with more of 64; on two cores it made no difference.
        """
        return 4 if self.asks_ahead else max(1, 64 // self.vector_bytes)

    @property
    def interleaved(self) -> int:
        """Vectors that loops with math functions of many steps work on together."""
        return 4

    def masks_remainders(self, *, in_registers: bool) -> bool:
        """Return whether the rest after whole vectors is one masked vector.

        Else it is several smaller ones. `in_registers` asks about register tiles; else memory is
        stored to.
        """
        return bool(self.masked_bytes) and (in_registers or self.stores_masked_fast)


_BASELINES = {"x86": "x86-64-v2", "arm": "generic", "cuda": ""}
_HEADS = ("native", *_GPU_BACKENDS, "x86_64-linux-gnu", "aarch64-linux-gnu", "aarch64-apple-darwin")


@lru_cache(maxsize=1)
def detect() -> Target:
    """Return the machine that this process runs on; `cores` respects the CPU affinity."""
    machine = platform.machine()
    architecture = _ARCHITECTURES.get(machine.lower())
    if architecture is None:
        known = ", ".join(_ARCHITECTURES)
        raise TargetError(f"this machine is a {machine}, which is not supported; known: {known}")
    word = "x86_64" if architecture == "x86" else "aarch64"
    triple = f"{word}-{_SYSTEMS.get(platform.system(), 'linux-gnu')}"
    facts = _cpuinfo()
    preset = PRESETS[_detect_x86(facts) if architecture == "x86" else _detect_arm()]
    target = _from_preset(triple, preset)
    if facts:
        always = () if architecture == "x86" else ("neon",)
        flags = _flags(facts, architecture)
        if "amx-tile" in flags and not may_use_tiles():
            flags = {name for name in flags if not name.startswith("amx-")}
        target = _with_features(target, tuple(sorted({*always, *flags})))
    return replace(target, cores=usable_cores(), cache_bytes=_caches(preset.cache_bytes))


def _from_preset(head: str, preset: Preset) -> Target:
    cpu, arch = ("", preset.name) if head in _GPU_BACKENDS else (preset.name, "")
    return Target(
        "cuda" if arch else "cpu", "nvptx64-nvidia-cuda" if arch else head, cpu, preset.features,
        preset.cores, preset.vector_bytes, preset.vector_registers, preset.cache_bytes,
        preset.cache_line_bytes, arch, backend=_GPU_BACKENDS.get(head, CPU_BACKEND),
    )  # fmt: skip


def _preset(name: str, architecture: str) -> Preset:
    known = [preset.name for preset in PRESETS.values() if preset.architecture == architecture]
    if name in known:
        return PRESETS[name]
    option = "-arch" if architecture in PLATFORMS else "-mcpu"
    listing = ", ".join(known)
    missing = f"'{name}' is not a known {option}" if name else f"the target needs {option}=NAME"
    raise TargetError(f"{missing}; known are {listing}{_nearest(name, known)}")


def _with_gpu(target: Target, name: str) -> Target:
    gpu = gpu_for(target.arch, name)
    preset = gpu_preset(gpu)
    known = "" if gpu.name == DEFAULT_GPUS[target.arch] else gpu.name
    return replace(target, gpu_name=known, cores=preset.cores, cache_bytes=preset.cache_bytes)


def _with_options(target: Target, options: list[str], text: str) -> Target:
    for option in options:
        name, _, value = option.partition("=")
        if name == "-mattr":
            target = _with_features(target, _change_features(target, value))
        elif name == "-cores" and value.isdigit() and int(value) > 0:
            target = replace(target, cores=int(value))
        elif name == "-gpu" and target.is_gpu:
            target = _with_gpu(target, value)
        elif name == "-cache" and re.fullmatch(r"\d+,\d+,\d+", value):
            first, second, third = map(int, value.split(","))
            target = replace(target, cache_bytes=(first, second, third))
        elif name == "-backend" and all(map(str.isidentifier, value.split("."))):
            target = replace(target, backend=value)
        else:
            raise TargetError(f"'{option}' in '{text}' is not an option; known are {_OPTIONS}")
    return target


def _change_features(target: Target, changes: str) -> tuple[str, ...]:
    """Return the features of `target` after the `changes` of -mattr."""
    features = set(target.features)
    for change in changes.split(","):
        sign, name = change[:1], change[1:]
        known = _changeable(target)
        if sign not in ("+", "-") or name not in known:
            listing = ", ".join(sorted(known)) or "none"
            raise TargetError(
                f"'{change}' in -mattr is not +name or -name of a known feature; "
                f"known are {listing}{_nearest(name, known)}"
            )
        features = features | {name} if sign == "+" else features - {name}
    return tuple(sorted(features))


def _changeable(target: Target) -> Iterable[str]:
    """Return the features that an option may add or remove; NEON is in all of aarch64."""
    if target.is_gpu:
        return ()
    return GUARDED_FEATURES if target.is_x86 else ARM_FEATURES


def _with_features(target: Target, features: tuple[str, ...]) -> Target:
    """Return the target with these features.

    Vector width and registers follow from them on x86 (AVX doubles, AVX-512 again).
    """
    if not target.is_x86:
        return replace(target, features=features)
    vector_bytes = 64 if "avx512f" in features else 32 if "avx" in features else 16
    registers = 32 if "avx512f" in features else 16
    return replace(target, features=features, vector_bytes=vector_bytes, vector_registers=registers)


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def _cpuinfo() -> dict[str, str]:
    """Return the facts on the first processor; none where the system has no /proc/cpuinfo."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n", maxsplit=1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _flags(facts: dict[str, str], architecture: str) -> set[str]:
    words = facts.get("flags" if architecture == "x86" else "Features", "").split()
    known = GUARDED_FEATURES if architecture == "x86" else ARM_FEATURES
    return {CPUINFO_NAMES.get(word, word) for word in words} & set(known)


def _detect_x86(facts: dict[str, str]) -> str:
    if not facts:
        return _BASELINES["x86"]
    family, model = int(facts.get("cpu family", 0)), int(facts.get("model", 0))
    flags = _flags(facts, "x86")
    if name := x86_model_name(facts.get("vendor_id", ""), family, model, flags):
        return name
    levels = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
    return next((name for name in levels if set(PRESETS[name].features) <= flags), levels[-1])


def _detect_arm() -> str:
    if platform.system() == "Darwin":
        return "apple-m1"
    return ARM_PARTS.get(_cpuinfo().get("CPU part", ""), _BASELINES["arm"])


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """Return the model name that the CPU gives itself."""
    facts = _cpuinfo()
    name = facts.get("model name") or facts.get("CPU part")
    return name or platform.processor() or platform.machine()


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _caches(fallback: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the data caches in bytes as Linux states them, other levels from `fallback`."""
    sizes = dict(enumerate(fallback, start=1))
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = (
                (folder / name).read_text(encoding="ascii").strip()
                for name in ("type", "level", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K") and int(level) in sizes:
            sizes[int(level)] = int(size[:-1]) * 1024
    return sizes[1], sizes[2], sizes[3]
