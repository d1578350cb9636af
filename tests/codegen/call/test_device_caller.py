"""A module for a GPU called with arrays of all kinds: the real pycuda on the emulated driver."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.module import Module
from ansorc.codegen.cuda import binding
from ansorc.errors import BuildError, CallError, DeviceError
from ansorc.ir.aligned import Array
from ansorc.ir.parser import parse
from ansorc.target import Target
from tests.e2e.cuda.arrays import DLPackOnDevice, OnDevice, pycuda
from tests.e2e.cuda.driver_backend import TARGET
from tests.e2e.cuda.emulated_driver import obstacle, process

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle())
TEXT = """\
kernel scaled(A: float32[8, 8], B: float32[8, 8]):
    alloc T: float32[8, 8]
    for i in 0..8:
        for j in 0..8:
            T[i, j] = A[i, j] + 1.0
    for i_1 in 0..8:
        for j_1 in 0..8:
            B[i_1, j_1] = T[j_1, i_1] * 2.0
"""
COPY = """\
kernel copied(A: bfloat16[64], B: bfloat16[64]):
    for i in 0..64:
        B[i] = A[i]
"""
BEYOND = """\
kernel beyond(A: float32[64], B: float32[64]):
    for i in 0..64:
        B[i + 65536] = A[i]
"""


@pytest.fixture(scope="module")
def device() -> Generator[ProcessPoolExecutor]:
    """A process that has two devices."""
    with process(devices=2) as pool:
        yield pool


def module(text: str = TEXT) -> Module:
    return compile_module(parse(text), Target.parse(TARGET))


def numbers() -> Array:
    return np.arange(64, dtype=np.float32).reshape(8, 8)


def expected() -> Array:
    return (numbers().T + 1) * 2


def refusal(call: Callable[..., object], *arguments: object, **keywords: object) -> str:
    with pytest.raises(CallError) as caught:
        call(*arguments, **keywords)
    return str(caught.value)


def constants() -> None:
    run, out = module(TEXT.replace("A: float32[8, 8]", "A: float32[8, 8] constant")), numbers()
    run(numbers(), out)
    assert (out == expected()).all()


def test_constants_stay_as_they_are(device: ProcessPoolExecutor) -> None:
    device.submit(constants).result()


def numpy_arrays() -> None:
    run, out = module(), np.zeros((8, 8), np.float32)
    for _ in range(2):
        run(numbers(), out)
        assert (out == expected()).all()
        out.fill(0)
    timing = run.time(numbers(), out, min_time_s=0.002)
    assert 0 < timing.fastest_s <= timing.median_s < 1e-2
    assert (out == expected()).all()


def test_arrays_of_numpy_are_copied(device: ProcessPoolExecutor) -> None:
    device.submit(numpy_arrays).result()


def in_primary_context(work: Callable[[], None], ordinal: int = 0) -> None:
    context = pycuda().Device(ordinal).retain_primary_context()
    context.push()
    try:
        work()
    finally:
        pycuda().Context.pop()


def arrays_of_others() -> None:
    run = module()
    source, result = OnDevice(numbers()), OnDevice(np.zeros((8, 8), np.float32))
    run(source, result)
    assert (result.get() == expected()).all()
    other = DLPackOnDevice(OnDevice(np.zeros((8, 8), np.float32)))
    run(numbers(), other)
    assert (other.get() == expected()).all()
    assert other.streams == [1]  # the one that waits for all others
    mixed = np.zeros((8, 8), np.float32)
    run(DLPackOnDevice(OnDevice(numbers())), mixed)
    assert (mixed == expected()).all()


def test_arrays_in_the_devices_memory_are_used_in_place(device: ProcessPoolExecutor) -> None:
    device.submit(in_primary_context, arrays_of_others).result()


def other_types() -> None:
    run, values = module(COPY), np.arange(64).astype(ml_dtypes.bfloat16)
    out = np.zeros_like(values)
    run(values, out)
    assert (out == values).all()


def test_types_that_numpy_lacks(device: ProcessPoolExecutor) -> None:
    device.submit(other_types).result()


def streams() -> None:
    cuda, run = pycuda(), module()
    stream, late = cuda.Stream(1), cuda.Stream(1)
    source = OnDevice(np.zeros((8, 8), np.float32))
    result = DLPackOnDevice(OnDevice(np.zeros((8, 8), np.float32)))
    cuda.memcpy_htod_async(source.address, numbers(), stream)  # not done before somebody waits
    run(source, result, stream=stream)
    assert result.streams == [stream.handle]
    assert not stream.is_done()
    found = np.zeros((8, 8), np.float32)
    cuda.memcpy_dtoh_async(found, result.inner.address, stream)
    stream.synchronize()
    assert (found == expected()).all()
    cuda.memcpy_htod_async(source.address, numbers() * 0, stream)
    run(source, found, stream=stream.handle)  # waits, as there is something to copy
    assert (found == 2).all()
    filled = OnDevice(numbers() * 0, stream=late.handle)  # its owner says where it gets its values
    cuda.memcpy_htod_async(filled.address, numbers(), late)
    run(filled, found)
    assert (found == expected()).all()
    assert "is no CUDA stream" in refusal(run, numbers(), found, stream="fast")


def test_the_callers_stream_is_respected(device: ProcessPoolExecutor) -> None:
    device.submit(in_primary_context, streams).result()


def callers_context() -> None:
    cuda, run = pycuda(), module()
    context = cuda.Device(1).make_context()
    try:
        source, result = OnDevice(numbers()), OnDevice(numbers() * 0)
        run(source, result)
        assert (result.get() == expected()).all()
        assert cuda.Context.get_current() == context
    finally:
        context.pop()
    words = refusal(run, source, numbers() * 0)  # nobody can say whose it is
    assert "another CUDA context" in words


def test_the_callers_context_is_respected() -> None:
    with process(devices=2) as pool:
        pool.submit(callers_context).result()


def refused_arrays() -> None:
    run, good = module(), numbers()
    out = OnDevice(good)
    double = OnDevice(good.astype(np.float64))
    assert "has dtype float64, but the kernel wants float32" in refusal(run, double, out)
    assert "has shape (64,)" in refusal(run, OnDevice(good.reshape(-1)), out)
    crooked = OnDevice(good, offset=4)
    assert "kernels of a GPU need a multiple of 16; copy the array" in refusal(run, crooked, out)
    assert "overlaps 'A' in memory" in refusal(run, out, out)
    turned = DLPackOnDevice(OnDevice(good.T))
    assert "is not contiguous" in refusal(run, turned, out)
    other = DLPackOnDevice(OnDevice(good), (10, 0))
    assert "lies on a device of another make (ROCm)" in refusal(run, other, out)
    fake = DLPackOnDevice(OnDevice(good))
    fake.inner.memory.free()
    assert "the driver knows no memory at" in refusal(run, fake, out)
    assert "is a list, but it must be a NumPy array" in refusal(run, [1.0], out)
    cpu = compile_module(parse(TEXT), Target.parse("native"))
    assert "is a OnDevice, but it must be a NumPy array" in refusal(cpu, out, good)
    assert "which has no streams" in refusal(cpu, good, good, stream=3)
    there: list[OnDevice] = []
    in_primary_context(lambda: there.append(OnDevice(good)), 1)
    words = refusal(run, there[0], out)
    assert "argument 2 'B' lies on device 0, but scaled: argument 1 'A' on device 1" in words


def test_arrays_that_do_not_fit_are_refused_in_words(device: ProcessPoolExecutor) -> None:
    device.submit(in_primary_context, refused_arrays).result()


def in_threads() -> None:
    run, found = module(), [np.zeros((8, 8), np.float32) for _ in range(8)]
    for _ in range(2):
        workers = [threading.Thread(target=run, args=(numbers(), one)) for one in found]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert all((one == expected()).all() for one in found)


def test_arguments_are_not_bound() -> None:
    scaled, a = module(), numbers()
    for call in (lambda: scaled.bind(a, a), lambda: scaled.bind(A=a)):
        with pytest.raises(
            CallError, match=r"scaled was built for .* cannot be bound; pass what p"
        ):
            call()
    with pytest.raises(CallError, match=r"takes 2 arrays .* but 1 were given"):
        scaled(a)


def test_several_threads_may_call(device: ProcessPoolExecutor) -> None:
    device.submit(in_threads).result()


def a_fault() -> tuple[bool, str, str]:
    run = module(BEYOND)
    out = np.zeros(64, np.float32)
    with pytest.raises(DeviceError) as first:
        run(out, np.zeros(64, np.float32))
    good = module()
    with pytest.raises((DeviceError, BuildError)) as second:
        good(numbers(), numbers() * 0)
    return first.value.is_fatal, str(first.value), str(second.value)


def test_after_an_illegal_access_nothing_works_in_the_process() -> None:
    with process() as pool:
        is_fatal, first, second = pool.submit(a_fault).result()
    assert is_fatal
    assert "beyond failed on the device" in first
    assert "an illegal memory access was encountered" in first
    assert "cannot be used any more in this process" in first
    assert "an illegal memory access was encountered" in second


def no_room() -> None:
    run = module()
    with pytest.raises(DeviceError, match="has no room for it") as caught:
        run(numbers(), numbers() * 0)
    assert caught.value.has_no_memory
    assert not caught.value.is_fatal


def test_a_device_without_room() -> None:
    with process(memory=512) as pool:
        pool.submit(no_room).result()


def build_error() -> str:
    with pytest.raises(BuildError) as caught:
        module()(numbers(), numbers() * 0)
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"arch": 80}, "was built for sm_90, but device 0 ('Emulated GPU 0') is sm_80; build it"),
        ({"version": 11020}, "too old: it is for CUDA 11.2, and 11.4 is the oldest that serves"),
        ({"devices": 0}, "no CUDA-capable device is detected"),
    ],
)
def test_devices_that_do_not_fit(settings: dict[str, Any], words: str) -> None:
    with process(**settings) as pool:
        assert words in pool.submit(build_error).result()


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    binding.driver.cache_clear()
    try:
        with pytest.raises(BuildError, match=r"pycuda, which is not installed|no CUDA driver"):
            binding.driver()
    finally:
        binding.driver.cache_clear()


def called_again() -> None:
    """The third call with the same arrays is a graph; what is in them may be new each time."""
    run, out = module(), OnDevice(np.zeros((8, 8), np.float32))
    given, other = OnDevice(numbers()), OnDevice(numbers() + 5)
    stream = pycuda().Stream()
    for number in range(5):
        values = numbers() * (number + 1)
        pycuda().memcpy_htod(given.address, values)
        pycuda().memcpy_htod(out.address, np.full((8, 8), np.nan, np.float32))
        run(given, out, **({"stream": stream} if number % 2 else {}))
        stream.synchronize()
        assert (out.get() == (values.T + 1) * 2).all()
        run(other, out)
        assert (out.get() == (numbers().T + 6) * 2).all()


def launches_of_graphs() -> int:
    with pytest.MonkeyPatch.context() as patch:
        found: list[object] = []
        launch = binding.LaunchGraph.launch

        def counted(graph: binding.LaunchGraph, stream: binding.DeviceStream | None) -> None:
            found.append(graph)
            launch(graph, stream)

        patch.setattr(binding.LaunchGraph, "launch", counted)
        in_primary_context(called_again)
        return len(found)


def test_calls_with_the_same_arrays(device: ProcessPoolExecutor) -> None:
    assert device.submit(launches_of_graphs).result() >= 2


PICK = """\
kernel picked(T: float32[50], I: int64[64], C: float32[64]):
    for i in 0..64:
        C[i] = T[I[i]]
"""


def places_of_data() -> None:
    """A place that there is not is told after the kernels, also in a stream; then calls go on."""
    run, table = module(PICK), np.arange(50, dtype=np.float32)
    places, out = np.arange(64) % 50, np.zeros(64, np.float32)
    wrong = places.copy()
    wrong[17] = 10**12
    stream = pycuda().Stream()
    ours = [OnDevice(one) for one in (table, places, wrong, out)]
    words = "picked got the index 1000000000000 for dimension 0 of 'T', which has the extent 50"
    for _ in range(3):
        run(table, places, out)
        assert (out == places).all()
        with pytest.raises(IndexError, match=words):
            run(table, wrong, out)
        run(ours[0], ours[1], ours[3], stream=stream)
        assert (ours[3].get() == places).all()
        with pytest.raises(IndexError, match=words):
            run(ours[0], ours[2], ours[3], stream=stream)
    with pytest.raises(IndexError, match=words):
        run.time(table, wrong, out)


def test_places_that_there_are_not(device: ProcessPoolExecutor) -> None:
    device.submit(in_primary_context, places_of_data).result()
