"""The table of GPUs, and targets that name one."""

from __future__ import annotations

import pytest

from ansorc.errors import TargetError
from ansorc.target import Target
from ansorc.target.gpu import DEFAULT_GPUS, GPUS, gpu_named

STATED_TFLOPS = {
    "v100": 15.7, "t4": 8.1, "rtx2080ti": 13.4, "titanrtx": 16.3, "a100": 19.5, "a10": 31.2,
    "a4000": 19.2, "a6000": 38.7, "rtx3090": 35.6, "orin": 5.3, "rtx4090": 82.6, "l4": 30.3,
    "l40s": 91.6, "h100": 66.9, "h200": 66.9, "rtx5090": 104.8,
}  # fmt: skip
"""Of float32, from the data sheets."""
STATED_MATRIX_TFLOPS = {
    "v100": 125, "t4": 65, "a100": 312, "a10": 125, "l40s": 366, "rtx3090": 142, "b200": 2380,
}  # fmt: skip
"""Of float16 factors, dense."""


@pytest.mark.parametrize("name", STATED_TFLOPS)
def test_lanes_and_clock_make_the_stated_rate(name: str) -> None:
    assert GPUS[name].fp32_flops == pytest.approx(STATED_TFLOPS[name] * 1e12, rel=0.02)


@pytest.mark.parametrize("name", STATED_MATRIX_TFLOPS)
def test_matrix_units_make_the_stated_rate(name: str) -> None:
    gpu = GPUS[name]
    rate = gpu.architecture.matrix_rates.float16
    flops = 2.0 * gpu.multiprocessors * rate * gpu.clock_hz
    assert flops == pytest.approx(STATED_MATRIX_TFLOPS[name] * 1e12, rel=0.03)


@pytest.mark.parametrize("name", GPUS)
def test_a_target_names_a_gpu(name: str) -> None:
    gpu = GPUS[name]
    target = Target.parse(f"cuda -arch={gpu.arch} -gpu={name}")
    assert target.gpu == gpu
    assert target == Target.parse(target.text) == Target.parse(f"cuda -gpu={name}")
    assert ("-gpu=" in target.text) == (DEFAULT_GPUS[gpu.arch] != name)
    assert target.cache_bytes == (gpu.architecture.shared_bytes, gpu.l2_bytes, 0)


def test_a_part_of_a_gpu() -> None:
    target = Target.parse("cuda -cores=28 -gpu=a100")
    assert (target.cores, target.gpu.multiprocessors, target.gpu.name) == (28, 28, "a100")
    assert Target.parse(target.text) == target


def test_code_of_an_earlier_architecture() -> None:
    target = Target.parse("cuda -arch=sm_80 -gpu=rtx3090")
    assert (target.arch, target.gpu.arch) == ("sm_80", "sm_86")
    assert target.text == "cuda -arch=sm_80 -gpu=rtx3090"


@pytest.mark.parametrize(
    "spelling", ["RTX 3090", "GeForce RTX 3090", "NVIDIA GeForce RTX 3090", "rtx_3090"]
)
def test_other_spellings(spelling: str) -> None:
    assert gpu_named(spelling) == GPUS["rtx3090"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cuda -arch=sm_80 -gpu=a7", "'a7' is not a known GPU; known are v100, t4, rtx2080ti"),
        ("cuda -gpu=a", "'a' is not a known GPU"),
        ("cuda -arch=sm_90 -gpu=a100", "'a100' is sm_80; it does not run code of sm_90"),
        ("cuda -arch=sm_75 -gpu=a100", "'a100' is sm_80; it does not run code of sm_75"),
        ("x86_64-linux-gnu -gpu=a100", "'-gpu=a100' in .* is not an option"),
    ],
)
def test_gpus_that_do_not_go(text: str, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        Target.parse(text)


def test_a_cpu_is_no_gpu() -> None:
    with pytest.raises(TargetError, match="is a CPU, not a GPU"):
        _ = Target.parse("native").gpu
