"""Evicting memory from the caches, and constants that are packed once."""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest

from ansorc.codegen.llvm.binding import optimized_llvm
from ansorc.codegen.llvm.cache_eviction import cache_eviction
from ansorc.errors import TargetError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.packing import PackedPart, Packing
from ansorc.search.measure.kernel import PackedConstants, guarded_copy
from ansorc.target import Target, detect

WORDS = 1 << 16


def read_s(array: np.ndarray) -> float:
    """Seconds to read one number of each cache line, so that memory is what takes the time."""
    begin = time.perf_counter()
    array[::16].sum()
    return time.perf_counter() - begin


def test_evicted_memory_is_slower_to_read_and_still_holds_what_it_held() -> None:
    evict = cache_eviction(detect())
    memory = guarded_copy(np.arange(WORDS, dtype=np.float32))  # cannot be written
    cold: list[float] = []
    warm: list[float] = []
    for _ in range(31):
        evict(memory.address, memory.nbytes)
        cold.append(read_s(memory.array))
        warm.append(read_s(memory.array))
    assert statistics.median(cold) > 1.2 * statistics.median(warm)
    assert (memory.array == np.arange(WORDS)).all()
    assert memory.is_intact()


def test_nothing_is_evicted_of_no_bytes() -> None:
    cache_eviction(detect())(0, 0)


@pytest.mark.parametrize("line_bytes", [64, 128])
def test_arm_has_an_instruction_for_it(line_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def compiled(text: str, target: Target) -> bytes:
        seen.append(optimized_llvm(text, target))  # LLVM accepts it
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
