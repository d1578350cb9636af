"""Evicting memory from the caches, and constants that are packed once."""

from __future__ import annotations

import statistics
import time
from types import SimpleNamespace

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.base import team_of
from ansorc.codegen.llvm.binding import optimize_llvm
from ansorc.codegen.llvm.cache_eviction import cache_eviction
from ansorc.codegen.llvm.limits import FmaProbe
from ansorc.errors import TargetError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.packing import PackedPart, Packing
from ansorc.lang import ComputeDAG
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.kernel import PackedConstants, copy_guarded, evict_each, load_bench
from ansorc.search.task import Task
from ansorc.target import Target, detect

WORDS = 1 << 16


def read_s(array: np.ndarray) -> float:
    """Seconds to read one number of each cache line, so that memory is what takes the time."""
    begin = time.perf_counter()
    array[::16].sum()
    return time.perf_counter() - begin


def test_evicted_memory_is_slower_to_read_and_still_holds_what_it_held() -> None:
    evict = cache_eviction(detect())
    memory = copy_guarded(np.arange(WORDS, dtype=np.float32))  # cannot be written
    cold: list[float] = []
    warm: list[float] = []
    for _ in range(31):
        evict(memory.address, memory.nbytes)
        cold.append(read_s(memory.array))
        warm.append(read_s(memory.array))
    assert statistics.median(cold) > 1.2 * statistics.median(warm)
    assert (memory.array == np.arange(WORDS)).all()
    assert memory.is_intact()


def test_the_constants_of_a_kernel_are_those_that_it_reads_packed_or_not() -> None:
    x, w = ac.placeholder((4, 64), name="X"), ac.placeholder((64, 8), name="W", constant=True)
    bias = ac.placeholder((8,), name="bias", constant=True)
    task = Task(ComputeDAG([x, w, bias, ac.ops.add(ac.ops.matmul(x, w), bias)]))
    data = TaskData.create(task, np.random.default_rng(0))
    bench = load_bench(data.directory)
    data.remove()
    (source,) = [buffer for buffer in task.dag.inputs if buffer.name == "W"]
    layout = Packing(source, (PackedPart(1, 1, 8), PackedPart(0, 1, 64)), (0, 0))
    arrays = bench.arrays([layout])
    packed, unpacked = bench.weights(arrays)
    assert packed is bench.packed.get(layout, bench.params[1].array)
    assert unpacked is bench.params[2]
    evicted: list[tuple[int, int]] = []
    evict_each((packed, unpacked), lambda address, size: evicted.append((address, size)))
    assert evicted == [(packed.address, 4 * 64 * 8), (unpacked.address, 4 * 8)]


def test_a_team_is_entered_again_and_again_and_kernels_run_in_it() -> None:
    target = detect()
    team, work = team_of(target, 0), FmaProbe(target, target.cores, 10)
    for _ in range(3):
        with team:
            work.run(0)
    work.run(0)


def test_a_back_end_without_teams_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    target = detect()
    backend = SimpleNamespace(probes=SimpleNamespace())

    def without(_: Target) -> SimpleNamespace:
        return backend

    monkeypatch.setattr("ansorc.codegen.base.backend_of", without)
    with team_of(target, 0) as found:
        assert found is None


def test_nothing_is_evicted_of_no_bytes() -> None:
    cache_eviction(detect())(0, 0)


@pytest.mark.parametrize("line_bytes", [64, 128])
def test_arm_has_an_instruction_for_it(line_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def compiled(text: str, target: Target) -> bytes:
        seen.append(optimize_llvm(text, target))  # LLVM accepts it
        raise StopIteration

    monkeypatch.setattr("ansorc.codegen.llvm.cache_eviction.compile_object", compiled)
    name = {64: "cortex-a53", 128: "apple-m1"}[line_bytes]
    with pytest.raises(StopIteration):
        cache_eviction(Target.parse(f"aarch64-linux-gnu -mcpu={name}"))
    assert "dc civac, $0" in seen[0]
    assert f"i64 {line_bytes}" in seen[0]


def test_a_gpu_has_none() -> None:
    with pytest.raises(TargetError, match='measure with cache="warm"'):
        cache_eviction(Target.parse("cuda -arch=sm_90"))


def packing(width: int, extent: int = 64) -> Packing:
    source = Buffer("W", (extent,), FLOAT32, constant=True)
    return Packing(source, (PackedPart(0, 1, extent // width), PackedPart(0, 1, width)), (0,))


def test_equal_packings_share_one_copy() -> None:
    constants, source = PackedConstants(), np.arange(64, dtype=np.float32)
    first = constants.get(packing(8), source)
    assert (first.array == packing(8).apply(source)).all()
    assert not first.array.flags.writeable
    assert constants.get(packing(8), source) is first
    assert constants.get(packing(16), source) is not first


def test_no_more_packed_copies_are_kept_than_fit() -> None:
    constants, source = PackedConstants(kept_bytes=600), np.arange(64, dtype=np.float32)
    first = constants.get(packing(8), source)
    second = constants.get(packing(16), source)
    assert constants.nbytes == 512
    assert constants.get(packing(8), source) is first
    constants.get(packing(32), source)
    assert constants.nbytes == 512
    assert constants.get(packing(8), source) is first, "the latest used are kept"
    assert constants.get(packing(16), source) is not second
    assert PackedConstants(kept_bytes=1).get(packing(8), source).array.shape == (8, 8)
