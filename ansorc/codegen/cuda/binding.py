"""A CUDA device through pycuda: contexts, memory, launches, streams, events.

The only module that knows pycuda, which is imported when it is first needed, for code is made where
there is no GPU. pycuda cannot work in the streams of others, nor tell where an address lies: for
that the driver is called directly.
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias, cast

import numpy as np

from ansorc.errors import BuildError, CallError, DeviceError
from ansorc.ir.aligned import Array

Allocation: TypeAlias = Any
PycudaContext: TypeAlias = Any
PycudaFunction: TypeAlias = Any
PycudaModule: TypeAlias = Any
PycudaStream: TypeAlias = Any
"""Objects of pycuda, which has no types."""
OLDEST_DRIVER = 11040
"""CUDA 11.4, the first whose driver has all that is called here."""
ALIGNMENT = 256
"""The least alignment of memory that drivers return."""
FIRST_DEVICE = 0
"""The one that CUDA_VISIBLE_DEVICES names first, or the fastest."""
_PATTERN = 0xA5
_NON_BLOCKING = 1
_KEPT_BYTES = 1 << 30
_POINTER_CONTEXT, _POINTER_DEVICE = 1, 9
_NO_TIMING = 2
_RELAXED = 2
"""A capture that forbids other threads nothing."""
_LOST = (
    "unknown error", "busy or unavailable", "no CUDA-capable device", "uncorrectable ECC",
    "hardware stack error", "device removed", "system not yet initialized",
)  # fmt: skip
"""Words in errors of drivers for a device that is lost, not for a kernel that is wrong."""


@lru_cache(maxsize=1)
def driver() -> Any:
    """Return `pycuda.driver`, initialized; raise BuildError in words where that cannot be."""
    try:
        _library()
        cuda = import_module("pycuda.driver")
    except ModuleNotFoundError as error:
        raise BuildError(
            "running on a GPU needs pycuda, which is not installed; pip install 'ansorc[gpu]', "
            "which compiles it against CUDA's headers"
        ) from error
    except (ImportError, OSError) as error:
        raise BuildError(f"this machine has no CUDA driver: {error}") from error
    try:
        cuda.init()
    except cuda.Error as error:
        raise BuildError(f"there is no CUDA device that this process can use: {error}") from error
    version = cuda.get_driver_version()
    if version < OLDEST_DRIVER:
        raise BuildError(
            f"the CUDA driver is too old: it is for CUDA {_version(version)}, and "
            f"{_version(OLDEST_DRIVER)} is the oldest that serves; update it"
        )
    return cuda


def device_count() -> int:
    """Return how many devices this process sees; 0 also where it cannot run on any."""
    try:
        return int(driver().Device.count())
    except BuildError:
        return 0


@dataclass(frozen=True)
class DeviceFacts:
    """Facts that a device states of itself."""

    name: str
    arch: str
    """Such as `sm_90`."""
    multiprocessors: int
    driver: str
    """The CUDA version that the driver is for, such as 13.0."""


class Memory:
    """Memory on a device with a pattern before and behind it, until it is given back."""

    def __init__(self, allocation: Allocation, kept: int, size: int) -> None:
        self.allocation, self.kept, self.size = allocation, kept, size
        self.address = int(allocation) + ALIGNMENT


class DeviceStream:
    """A stream of ours that begins when that of a caller has come so far, and holds it up."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.workspace: Memory | None = None
        """The memory that kernels in this stream use one after another."""
        self.own: PycudaStream = driver().Stream(_NON_BLOCKING)
        self._event = ctypes.c_void_p()
        _call("cuEventCreate", ctypes.byref(self._event), _NO_TIMING)

    def follow(self, handle: int | None = None) -> None:
        """Let our stream wait for what is in the caller's, or in that with the handle, by now."""
        self._order(self.handle if handle is None else handle, self.own.handle)

    def lead(self) -> None:
        """Let the caller's stream wait for ours."""
        self._order(self.own.handle, self.handle)

    def is_captured(self) -> bool:
        """Whether what comes into our stream is recorded, for a graph of the caller's."""
        status = ctypes.c_int()
        _call("cuStreamIsCapturing", ctypes.c_void_p(self.own.handle), ctypes.byref(status))
        return status.value != 0

    def _order(self, first: int, then: int) -> None:
        _call("cuEventRecord", self._event, ctypes.c_void_p(first))
        _call("cuStreamWaitEvent", ctypes.c_void_p(then), self._event, 0)


class LaunchGraph:
    """Launches that the driver starts together, so that the host does not hold them up."""

    def __init__(self, record: Callable[[PycudaStream], None]) -> None:
        """`record` makes the launches in the stream that it gets; none of them runs."""
        stream, graph = driver().Stream(_NON_BLOCKING), ctypes.c_void_p()
        self._executable = ctypes.c_void_p()
        handle = ctypes.c_void_p(stream.handle)
        _call("cuStreamBeginCapture_v2", handle, _RELAXED)
        try:
            try:
                record(stream)
            finally:
                _call("cuStreamEndCapture", handle, ctypes.byref(graph))
            flags = ctypes.c_ulonglong(0)
            _call("cuGraphInstantiateWithFlags", ctypes.byref(self._executable), graph, flags)
        finally:
            if graph:
                _call("cuGraphDestroy", graph)

    def launch(self, stream: DeviceStream | None) -> None:
        """Start all launches once."""
        handle = None if stream is None else stream.own.handle
        _call("cuGraphLaunch", self._executable, ctypes.c_void_p(handle))

    def release(self) -> None:
        """Give back what the driver keeps of it; after a fault it keeps nothing."""
        with suppress(_DriverError):
            _call("cuGraphExecDestroy", self._executable)


class Device:
    """One context of one device: the caller's if it is pycuda's, else the primary one.

    Its methods but `active` are called inside of `with device.active()`.
    """

    def __init__(self, ordinal: int, context: PycudaContext, *, is_callers: bool) -> None:
        self.ordinal, self.context, self._is_callers = ordinal, context, is_callers
        self._free: defaultdict[int, list[Allocation]] = defaultdict(list)
        self._free_bytes = 0
        self._lock = threading.Lock()
        self._of_thread = threading.local()
        self._flush: Memory | None = None

    @contextmanager
    def active(self, what: str) -> Generator[None]:
        """Have the context current; raise DeviceError for what the driver says, about `what`."""
        cuda = driver()
        if not self._is_callers:
            self.context.push()
        try:
            yield
        except (cuda.Error, _DriverError) as error:
            raise self._failure(what, error) from error
        finally:
            if not self._is_callers:
                cuda.Context.pop()

    def facts(self) -> DeviceFacts:
        """Return what the device says of itself; needs no context."""
        return facts_of(self.ordinal)

    def load(self, image: bytes) -> PycudaModule:
        """Return the kernels of an image."""
        return driver().module_from_buffer(image)

    def function(self, module: PycudaModule, name: str, shared_bytes: int) -> PycudaFunction:
        """Return a kernel that may be launched with so much dynamic shared memory."""
        kernel = module.get_function(name)
        if shared_bytes:
            which = driver().function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            kernel.set_attribute(which, shared_bytes)
        return kernel

    def take(self, size: int) -> Memory:
        """Return memory of `size` bytes, at a multiple of 256, its contents free."""
        padded = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT + 2 * ALIGNMENT
        with self._lock:
            known = self._free.get(padded)
            allocation = known.pop() if known else None
            self._free_bytes -= padded if allocation is not None else 0
        if allocation is None:
            allocation = self._allocate(padded)
        memory = Memory(allocation, padded, size)
        for begin, length in self._pads(memory):
            driver().memset_d8_async(begin, _PATTERN, length)
        return memory

    def give(self, memory: Memory) -> None:
        """Take back what nothing uses any more."""
        with self._lock:
            if self._free_bytes + memory.kept <= _KEPT_BYTES:
                self._free[memory.kept].append(memory.allocation)
                self._free_bytes += memory.kept
                return
        memory.allocation.free()

    def workspace(self, size: int, stream: DeviceStream | None) -> Memory:
        """Return `size` bytes or more: the stream's own, or what is to be given back."""
        if stream is None:
            return self.take(size)
        if stream.workspace is None or stream.workspace.size < size:
            self.wait(stream)
            if stream.workspace is not None:
                self.give(stream.workspace)
            stream.workspace = self.take(size)
        return stream.workspace

    def is_intact(self, memory: Memory) -> bool:
        """Whether the pattern around it is still there."""
        for begin, length in self._pads(memory):
            content = np.empty(length, np.uint8)
            driver().memcpy_dtoh_async(content, begin)
            self.wait(None)
            if not (content == _PATTERN).all():
                return False
        return True

    def copy_in(
        self, memory: Memory, array: Array, stream: DeviceStream | None, offset: int = 0
    ) -> None:
        """Copy an array to the device, `offset` bytes behind where the memory begins."""
        if array.nbytes:
            driver().memcpy_htod_async(memory.address + offset, _bytes(array), _own(stream))

    def copy_out(self, array: Array, memory: Memory, stream: DeviceStream | None) -> None:
        """Copy to an array, and wait for it."""
        if array.nbytes:
            driver().memcpy_dtoh_async(_bytes(array), memory.address, _own(stream))
        self.wait(stream)

    def poison(self, memory: Memory, dtype: np.dtype[Any], stream: DeviceStream | None) -> None:
        """Fill it with bytes that a kernel would not leave: NaN, or 0xCD in integers."""
        fill = 0xCD if dtype.kind in "iub" else 0xFF
        if memory.size:
            driver().memset_d8_async(memory.address, fill, memory.size, _own(stream))

    def evict(self, stream: DeviceStream | None) -> None:
        """Write more than the second-level cache holds."""
        if self._flush is None:
            cuda = driver()
            held = cuda.Device(self.ordinal).get_attribute(cuda.device_attribute.L2_CACHE_SIZE)
            self._flush = self.take(2 * max(int(held), 1 << 20))
        driver().memset_d8_async(self._flush.address, 0, self._flush.size, _own(stream))

    def stream(self, handle: int | None) -> DeviceStream | None:
        """Return ours beside that of the caller; None for that which waits for all others."""
        if not handle:
            return None
        known: dict[int, DeviceStream] = self._of_thread.__dict__.setdefault("streams", {})
        if handle not in known:
            known[handle] = DeviceStream(handle)
        return known[handle]

    def wait(self, stream: DeviceStream | None) -> None:
        """Wait for what is in the stream."""
        if stream is not None:
            stream.own.synchronize()
        else:
            driver().Event(_NO_TIMING).record().synchronize()

    def _allocate(self, size: int) -> Allocation:
        cuda = driver()
        try:
            return cuda.mem_alloc(size)
        except cuda.MemoryError:
            with self._lock:
                kept = [memory for all_ in self._free.values() for memory in all_]
                self._free.clear()
                self._free_bytes = 0
            if not kept:
                raise
            for memory in kept:
                memory.free()
            return cuda.mem_alloc(size)

    def _pads(self, memory: Memory) -> tuple[tuple[int, int], tuple[int, int]]:
        end = memory.address + memory.size
        last = memory.address - ALIGNMENT + memory.kept
        return (memory.address - ALIGNMENT, ALIGNMENT), (end, last - end)

    def _failure(self, what: str, error: Exception) -> DeviceError:
        """Return the driver's message on a call, and whether all later calls will fail, too."""
        cuda = driver()
        text = str(error)
        if isinstance(error, cuda.MemoryError):
            return DeviceError(f"{what}: the device has no room for it: {text}", has_no_memory=True)
        try:
            cuda.Context.synchronize()
        except cuda.Error as still:
            text += "; the device cannot be used any more in this process"
            is_lost = any(words in str(still) for words in _LOST)
            return DeviceError(
                f"{what} failed on the device: {text}", is_fatal=True, is_lost=is_lost
            )
        return DeviceError(f"{what} failed on the device: {text}")


@dataclass(frozen=True)
class Address:
    """An address of the caller's and whose it is, for messages."""

    words: str
    place: int


def device_of(addresses: Sequence[Address]) -> Device:
    """Return where all `addresses` lie; without any, the caller's device, or the first.

    Raise CallError if that is several devices, none, or a context that cannot be made current.
    """
    current = driver().Context.get_current()
    if not addresses:
        return _callers(current) if current is not None else _primary(FIRST_DEVICE)
    owners = [_owner(address) for address in addresses]
    ordinal = owners[0][0]
    for (other, _), address in zip(owners, addresses, strict=True):
        if other != ordinal:
            raise CallError(
                f"{address.words} lies on device {other}, but {addresses[0].words} on device "
                f"{ordinal}; copy all arrays to one"
            )
    handles = {
        handle: address for (_, handle), address in zip(owners, addresses, strict=True) if handle
    }
    if current is not None and (not handles or current.handle in handles):
        device = _callers(current)
    else:
        device = _primary(ordinal)
    for handle, address in handles.items():
        if handle != device.context.handle:
            raise CallError(
                f"{address.words} lies in another CUDA context than the current one; arrays of one "
                "call must be of one context, which is pycuda's current one or the primary one"
            )
    return device


@lru_cache(maxsize=64)
def facts_of(ordinal: int) -> DeviceFacts:
    """Return what a device says of itself; raise BuildError if there is none."""
    cuda = driver()
    try:
        device = cuda.Device(ordinal)
        major, minor = device.compute_capability()
        count = device.get_attribute(cuda.device_attribute.MULTIPROCESSOR_COUNT)
    except cuda.Error as error:
        raise BuildError(f"device {ordinal} does not answer: {error}") from error
    version = _version(cuda.get_driver_version())
    return DeviceFacts(device.name(), f"sm_{major}{minor}", int(count), version)


@lru_cache(maxsize=64)
def bus_of(ordinal: int) -> str:
    """Return the address of a device on the PCI bus."""
    return str(driver().Device(ordinal).pci_bus_id())


@lru_cache(maxsize=64)
def _primary(ordinal: int) -> Device:
    return Device(ordinal, driver().Device(ordinal).retain_primary_context(), is_callers=False)


@lru_cache(maxsize=64)
def _callers(context: PycudaContext) -> Device:
    name = driver().Context.get_device().pci_bus_id()
    all_ = range(driver().Device.count())
    ordinal = next(n for n in all_ if driver().Device(n).pci_bus_id() == name)
    return Device(ordinal, context, is_callers=True)


def _owner(address: Address) -> tuple[int, int]:
    """The device and the context of an address; a context of 0 is not known."""
    ordinal, context = ctypes.c_int(-1), ctypes.c_void_p()
    pointer = ctypes.c_ulonglong(address.place)
    try:
        _call("cuPointerGetAttribute", ctypes.byref(ordinal), _POINTER_DEVICE, pointer)
        _call("cuPointerGetAttribute", ctypes.byref(context), _POINTER_CONTEXT, pointer)
    except _DriverError as error:
        raise CallError(
            f"{address.words} says that it lies on a device, but the driver knows no memory at "
            f"{address.place:#x}"
        ) from error
    return ordinal.value, context.value or 0


class _DriverError(Exception):
    """A call of the driver that returned something other than 0."""


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)


def _call(name: str, *arguments: object) -> None:
    status = int(getattr(_library(), name)(*arguments))
    if status:
        words = ctypes.c_char_p()
        _library().cuGetErrorString(status, ctypes.byref(words))
        raise _DriverError(f"{name} failed: {(words.value or b'?').decode()}")


def _own(stream: DeviceStream | None) -> PycudaStream | None:
    return None if stream is None else stream.own


def _bytes(array: Array) -> Array:
    """Its memory as bytes: buffers know not all types of elements."""
    return cast(Array, array.reshape(-1).view(np.uint8))


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
