"""The model of a GPU: limits that are known, and what must be slower than what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ansorc.target.gpu import GPUS
from ansorc.target.gpu_kernel import GlobalAccess, KernelDescription, SharedAccess
from ansorc.target.gpu_model import PARTS, limits, seconds

A100, T4, RTX3090 = (GPUS[name] for name in ("a100", "t4", "rtx3090"))
MIB = 1 << 20


def copy(mib: int) -> KernelDescription:
    """Each thread loads and stores 16 bytes."""
    blocks = mib * MIB / (256 * 16)
    access = GlobalAccess(1.0, 16.0, 4.0, 256 * 16.0, (1.0,))
    return KernelDescription(
        (blocks,), 256, 16, 0, 0.0, 8.0, (access, replace(access, is_store=True))
    )


def product(extent: float = 4096.0, **changes: object) -> KernelDescription:
    """A matrix product: tiles of 128 × 128, 8 × 8 results a thread, steps of 8 terms."""
    panel = GlobalAccess(
        extent / 8, 16.0, 4.0, 128 * extent * 4, (1.0, 0.0), held_bytes=128 * 8 * 4.0
    )
    kernel = KernelDescription(
        grid=(extent / 128, extent / 128), threads=256, registers=128, shared_bytes=8192,
        multiply_adds=64 * extent, integer_operations=2 * extent,
        global_accesses=(panel, replace(panel, depends_on=(0.0, 1.0))),
        shared_accesses=(SharedAccess(extent / 4, 4.0, is_store=True),
                         SharedAccess(4 * extent, 2.0)),
        independent=64.0, steps=extent / 8, waits=extent / 8, barriers=extent / 4,
    )  # fmt: skip
    return replace(kernel, **changes)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", GPUS)
def test_a_copy_runs_at_the_speed_of_memory(name: str) -> None:
    gpu = GPUS[name]
    ideal = 2 * 1024 * MIB / gpu.dram_bytes_per_second
    assert 1 <= float(seconds(copy(1024), gpu)) / ideal < 2


@pytest.mark.parametrize("name", GPUS)
def test_a_product_runs_near_the_peak(name: str) -> None:
    gpu = GPUS[name]
    ideal = 2 * 4096.0**3 / gpu.fp32_flops
    assert 1 <= float(seconds(product(), gpu)) / ideal < 2.5


def test_limits_name_what_is_busiest() -> None:
    found = limits(product(), RTX3090)
    assert set(found) == {*PARTS, "alone"}
    assert max(PARTS, key=lambda part: float(found[part])) in ("arithmetic", "issue")
    assert float(found["arithmetic"]) == pytest.approx(2 * 4096**3 / RTX3090.fp32_flops)
    found = limits(copy(1024), RTX3090)
    assert max(PARTS, key=lambda part: float(found[part])) == "dram"


SLOWER = {
    "bank conflicts": product(shared_accesses=(SharedAccess(4 * 4096.0, 16.0),)),
    "more instructions": product(integer_operations=40 * 4096.0),
    "spills": product(spilled_bytes=200.0, spill_requests=20 * 4096.0),
    "code beyond the cache": product(code_bytes=400e3),
    "special functions": product(special_operations=16 * 4096.0),
    "one result at a time": product(independent=1.0),
    "fewer blocks a SM": product(registers=200),
}  # fmt: skip


@pytest.mark.parametrize("reason", SLOWER)
def test_what_must_be_slower(reason: str) -> None:
    for gpu in (A100, T4, RTX3090):
        assert seconds(SLOWER[reason], gpu) > seconds(product(), gpu) * 1.0005, gpu.name


def test_matrix_units_are_faster() -> None:
    terms = {"multiply_adds": 0.0, "matrix_multiply_adds": 64 * 4096.0 * 32}
    fast = {dtype: product(matrix_dtype=dtype, **terms) for dtype in ("float16", "tfloat32")}
    times = [float(limits(kernel, A100)["matrix"]) for kernel in fast.values()]
    assert times[0] == pytest.approx(2 * 4096**3 / 312e12, rel=0.01)
    assert times[1] == 2 * times[0]
    assert seconds(fast["float16"], A100) < seconds(product(), A100)


def test_stages_hide_latencies() -> None:
    few = product(grid=(8.0, 8.0))
    assert seconds(replace(few, stages=3.0), A100) < seconds(few, A100)


def test_a_part_of_a_wave_costs_a_whole_one() -> None:
    held = 2 * A100.multiprocessors
    full, more = (float(seconds(product(grid=(n, 1.0)), A100)) for n in (held, held + 1))
    assert 1.3 < more / full <= 2


def test_what_cannot_be_launched() -> None:
    found = seconds(product(threads=np.array([256, 1024, 256]),
                            shared_bytes=np.array([0, 0, 200 * 1024])), A100)  # fmt: skip
    assert np.isfinite(found).tolist() == [True, False, False]


def test_arrays_are_the_single_kernels() -> None:
    registers = np.array([64, 128, 255])
    found = seconds(product(registers=registers), T4)
    assert found.tolist() == [float(seconds(product(registers=int(n)), T4)) for n in registers]
