"""The text of targets, what is refused, and what is detected on this machine."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.errors import TargetError
from ansorc.target import Target, detect, machine
from ansorc.target.matrix_units import matrix_unit
from ansorc.target.presets import GUARDED_FEATURES, PRESETS, x86_model_name
from ansorc.target.tile_permission import largest_palette, may_use_tiles
from tests.support.assumed import MACHINES

X86 = [preset.name for preset in PRESETS.values() if preset.architecture == "x86"]
ARM = [preset.name for preset in PRESETS.values() if preset.architecture == "arm"]
GPUS = [preset.name for preset in PRESETS.values() if preset.architecture == "cuda"]


@given(
    st.sampled_from(X86),
    st.lists(st.sampled_from(sorted(GUARDED_FEATURES)), unique=True),
    st.booleans(),
    st.integers(1, 64),
)
def test_text_round_trips(cpu: str, features: list[str], added: bool, cores: int) -> None:  # noqa: FBT001
    attributes = ",".join(f"{'+' if added else '-'}{name}" for name in features)
    option = f" -mattr={attributes}" if features else ""
    target = Target.parse(f"x86_64-linux-gnu -mcpu={cpu}{option} -cores={cores}")
    assert Target.parse(target.text) == target
    assert target.cores == cores
    assert all((name in target.features) == added for name in features)


@pytest.mark.parametrize("arch", GPUS)
def test_gpus(arch: str) -> None:
    target = Target.parse(f"cuda -arch={arch}")
    assert (target.kind, target.arch) == ("cuda", arch)
    assert Target.parse(target.text) == target


def test_emulated_gpus() -> None:
    target = Target.parse("cuda-emulated")
    assert (target.kind, target.arch, target.text) == ("cuda", "sm_90", "cuda-emulated -arch=sm_90")
    other = Target.parse("cuda-emulated -gpu=a10 -cores=3")
    assert Target.parse(other.text) == other
    assert other.gpu == Target.parse("cuda -gpu=a10 -cores=3").gpu
    assert other.backend != Target.parse("cuda -arch=sm_86").backend


@pytest.mark.parametrize("cpu", ARM)
def test_arm(cpu: str) -> None:
    target = Target.parse(f"aarch64-linux-gnu -mcpu={cpu}")
    assert (target.vector_bytes, target.vector_registers, target.is_x86) == (16, 32, False)
    assert Target.parse(target.text) == target


def test_vectors_follow_the_features() -> None:
    zen4 = Target.parse("x86_64-linux-gnu -mcpu=znver4")
    narrow = Target.parse("x86_64-linux-gnu -mcpu=znver4 -mattr=-avx512f")
    old = Target.parse("x86_64-linux-gnu")
    assert (zen4.vector_bytes, zen4.vector_registers) == (64, 32)
    assert (narrow.vector_bytes, narrow.vector_registers) == (32, 16)
    assert (old.cpu, old.vector_bytes, old.vector_registers) == ("x86-64-v2", 16, 16)


def test_native_is_this_machine() -> None:
    target = Target.parse("native").real
    assert target == detect()
    assert target.cores == len(os.sched_getaffinity(0))
    assert target.cache_bytes[0] >= 8 * 1024
    assert Target.parse(target.text) == target
    assert Target.parse("native -cores=1").cores == 1


@pytest.mark.parametrize("name", MACHINES)
def test_another_machine_may_be_assumed(name: str) -> None:
    """It decides as the other one, and its code is for the first."""
    other = Target.parse(MACHINES[name])
    target = detect().assuming(other)
    assert target == Target.parse(target.text) == Target.parse(f"{detect().text} as {other.text}")
    assert target != other
    assert replace(target, runs_on=None) == other
    assert target.real == detect()
    assert other.real == other


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("native as cuda -arch=sm_90", "cannot be taken for 'cuda -arch=sm_90': both must be CPUs"),
        ("native as native as native", "neither an assumed one"),
        ("native as znver5", "'znver5' is not a target; use 'native'"),
        ("", "'' is not a target; use 'native'"),
        ("x86_46-linux-gnu", "did you mean 'x86_64-linux-gnu'"),
        ("x86_64-linux-gnu -mcpu=znver44", "known are .*znver5; did you mean 'znver4'"),
        ("aarch64-linux-gnu -mcpu=cortex-a75", "'cortex-a75' is not .* did you mean 'cortex-a7"),
        (
            "aarch64-linux-gnu -mattr=+sve",
            r"'\+sve' in -mattr .* known are bf16, dotprod",
        ),
        ("aarch64-linux-gnu -mattr=-neon", "'-neon' in -mattr is not"),
        ("arm64_be-linux-gnu", "'arm64_be-linux-gnu' is not a target"),
        ("cuda -arch=sm_90 -mattr=+fma", "'[+]fma' in -mattr .*; known are none"),
        ("aarch64-linux-gnu -mcpu=skylake", "'skylake' is not a known -mcpu; known are generic"),
        ("cuda", "the target needs -arch=NAME; known are sm_70"),
        ("cuda -arch=sm_99", "'sm_99' is not a known -arch; .*sm_90"),
        ("x86_64-linux-gnu -mattr=+avx3", r"'\+avx3' in -mattr .*did you mean 'avx"),
        ("aarch64-linux-gnu -mcpu=cortex-a53 -mattr=+dotproduct", "did you mean 'dotprod'"),
        ("native -mattr=fma", "'fma' in -mattr is not [+]name or -name"),
        ("native -cores=0", "'-cores=0' in 'native -cores=0' is not an option; known are -mcpu"),
        ("native -cache=1,2", "'-cache=1,2'"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        Target.parse(text)


def features(cpu: str, *, triple: str = "x86_64-linux-gnu") -> set[str]:
    return set(Target.parse(f"{triple} -mcpu={cpu}").features)


def test_features_of_dot_products_and_narrow_floats() -> None:
    narrow = {"avx512vnni", "avx512bf16", "avx512fp16", "avxvnni"}
    assert features("sapphirerapids") & narrow == narrow
    assert features("icelake-server") & narrow == features("cascadelake") & narrow == {"avx512vnni"}
    assert features("znver4") & narrow == features("cooperlake") & narrow == {
        "avx512vnni", "avx512bf16"
    }  # fmt: skip
    assert features("znver5") & narrow == narrow - {"avx512fp16"}
    assert features("alderlake") & narrow == {"avxvnni"}
    assert not features("znver3") & narrow
    alder = Target.parse("x86_64-linux-gnu -mcpu=alderlake")
    assert (alder.vector_bytes, alder.vector_registers) == (32, 16)


def test_features_of_matrix_units() -> None:
    units = {"amx-tile", "amx-bf16", "amx-int8", "amx-fp16"}
    assert features("graniterapids") & units == units
    assert features("sapphirerapids") & units == units - {"amx-fp16"}
    assert not features("znver5") & units
    hidden = Target.parse("x86_64-linux-gnu -mcpu=sapphirerapids -mattr=-amx-tile")
    assert Target.parse(hidden.text) == hidden
    assert matrix_unit(hidden, "int8", "int8") is None
    both = Target.parse("x86_64-linux-gnu -mcpu=sapphirerapids"), hidden
    assert both[0] != hidden
    found = [matrix_unit(both[0], *kinds) for kinds in (("uint8", "int8"), ("float16", "float16"))]
    assert [unit and unit.llvm for unit in found] == ["x86.tdpbusd", None]


def test_tiles_count_only_with_leave_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        pytest.skip("AMX is in x86-64 processors, and Linux gives leave to use it")
    flags = {"avx2", "amx_tile", "amx_bf16"}
    monkeypatch.setattr(machine, "_cpuinfo", lambda: {"flags": " ".join(flags)})
    for may, expected in ((False, set[str]()), (True, {"amx-tile", "amx-bf16"})):
        monkeypatch.setattr(machine, "may_use_tiles", lambda may=may: may)
        detect.cache_clear()
        try:
            found = {name for name in detect().features if name.startswith("amx")}
        finally:
            detect.cache_clear()
        assert found == expected
    assert largest_palette() in (0, 1, 2)
    assert may_use_tiles() <= ("amx_tile" in Path("/proc/cpuinfo").read_text())


def test_features_of_arm() -> None:
    arm = "aarch64-linux-gnu"
    assert features("cortex-a53", triple=arm) == {"neon"}
    assert features("neoverse-n1", triple=arm) == {"neon", "dotprod", "fullfp16"}
    assert features("neoverse-v1", triple=arm) >= {"bf16", "i8mm", "dotprod"}
    changed = Target.parse("aarch64-linux-gnu -mcpu=cortex-a53 -mattr=+dotprod,+i8mm")
    assert changed.features == ("dotprod", "i8mm", "neon")
    assert Target.parse(changed.text) == changed


def test_this_machine_has_what_its_system_says() -> None:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        pytest.skip("this system has no /proc/cpuinfo")
    flags = set(info.read_text().split())
    words = {
        "avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16", "avx512_fp16": "avx512fp16",
        "avx_vnni": "avxvnni", "amx_tile": "amx-tile", "asimddp": "dotprod", "i8mm": "i8mm",
    }  # fmt: skip
    for flag, name in words.items():
        assert (name in detect().features) == (flag in flags)


def test_processors_by_number() -> None:
    assert x86_model_name("AuthenticAMD", 25, 1) == "znver3"
    assert x86_model_name("AuthenticAMD", 25, 0x61) == "znver4"
    assert x86_model_name("GenuineIntel", 6, 143) == "sapphirerapids"
    assert x86_model_name("GenuineIntel", 6, 173) == "graniterapids"
    assert not x86_model_name("GenuineIntel", 6, 1)
    assert not x86_model_name("SomebodyElse", 6, 143)
    assert x86_model_name("GenuineIntel", 6, 85) == "skylake-avx512"
    assert x86_model_name("GenuineIntel", 6, 85, {"avx512vnni"}) == "cascadelake"
    assert x86_model_name("GenuineIntel", 6, 85, {"avx512vnni", "avx512bf16"}) == "cooperlake"


CORTEX_A76 = """processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimddp
CPU implementer\t: 0x41
CPU part\t: 0xd0b

processor\t: 1
"""


@pytest.mark.parametrize(
    ("text", "cpu", "features"),
    [
        (CORTEX_A76, "cortex-a76", ("dotprod", "fullfp16", "neon")),
        (CORTEX_A76.replace("0xd0b", "0xd03").replace("asimddp", ""), "cortex-a53",
         ("fullfp16", "neon")),
        (CORTEX_A76.replace("0xd0b", "0x001"), "generic", ("dotprod", "fullfp16", "neon")),
        ("", "generic", ("neon",)),
    ],
)  # fmt: skip
def test_detection_on_arm(
    text: str, cpu: str, features: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system says counts, not what a processor of that name usually has."""
    read = Path.read_text

    def read_text(path: Path, **options: str) -> str:
        return text if path == Path("/proc/cpuinfo") else read(path, **options)

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    detect.cache_clear()
    try:
        target = detect()
    finally:
        detect.cache_clear()
    assert (target.triple, target.cpu, target.features) == ("aarch64-linux-gnu", cpu, features)
    assert (target.vector_bytes, target.vector_registers) == (16, 32)
    assert Target.parse(target.text) == target


def test_amd_cores_are_not_told_what_to_load() -> None:
    names = ("sapphirerapids", "znver3", "znver4")
    asked = [Target.parse(f"x86_64-linux-gnu -mcpu={name}").asks_ahead for name in names]
    assert asked == [True, False, False]


def test_amd_cores_add_up_a_cache_line_at_a_time() -> None:
    names = ("sapphirerapids", "znver3", "znver4")
    sums = [Target.parse(f"x86_64-linux-gnu -mcpu={name}").streaming_sums for name in names]
    assert sums == [4, 2, 1]


def test_a_zen_4_takes_the_longest_vectors_in_halves() -> None:
    names = ("sapphirerapids", "znver3", "znver4")
    ports = [Target.parse(f"x86_64-linux-gnu -mcpu={name}").vector_ports for name in names]
    assert ports == [2, 2, 1]
