"""A compiled program on a device: `CudaKernel`, which launches what its plan says."""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from ansorc.codegen.cuda.binding import (
    Address,
    Device,
    DeviceStream,
    LaunchGraph,
    Memory,
    PycudaFunction,
    PycudaModule,
    PycudaStream,
    device_of,
    driver,
)
from ansorc.codegen.device_array import DeviceArray, DeviceOperand
from ansorc.codegen.package.signature import FAULT_RECORD, Signature
from ansorc.codegen.program.launch_plan import KernelArgument, LaunchPlan
from ansorc.errors import BuildError, CallError, DeviceError, FaultError
from ansorc.ir.aligned import Array
from ansorc.ir.fault import fault_of_record

_ARCH = re.compile(r"sm_(\d+)([af]?)")
_GRAPH_LAUNCHES = 64
"""Launches of a graph, or those of one call: it is made in as many microseconds, or a few times."""
_MOST_GRAPHS = 8
"""The most graphs of calls of one kernel, one for each set of arrays."""
_PORTABLE = (b"//", b"\x50\xed\x55\xba")
"""How PTX and fat binaries begin."""
_OF_THE_IMAGE = ("image", "PTX", "toolchain", "symbol not found")
"""Words in the driver's message where it refuses the code."""


@dataclass(frozen=True)
class _Ready:
    """A launch with all that it needs but a stream."""

    function: PycudaFunction
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: bytes
    shared_bytes: int


@dataclass(frozen=True)
class _OnDevice:
    """The state of a program on one device."""

    module: PycudaModule
    functions: Sequence[PycudaFunction]
    constants: tuple[DeviceArray, ...]


class CudaKernel:
    """A program for one architecture; its image is loaded on each device that it is called on."""

    def __init__(self, plan: LaunchPlan, image: bytes, signature: Signature, arch: str) -> None:
        """Raise BuildError if there is no device that `image` is for."""
        self._plan, self._image = plan, image
        self.signature, self._arch = signature, arch
        self._modules: dict[Device, _OnDevice] = {}
        self._graphs: OrderedDict[tuple[object, ...], LaunchGraph | None] = OrderedDict()
        self._lock = threading.Lock()
        driver()

    def bind(self, arrays: Sequence[Array], workspace: int | None, threads: int) -> BoundCudaKernel:
        """Return the kernel on arrays of this machine; see `base.LoadedKernel`."""
        return self.bind_on(arrays, None)

    def bind_on(self, operands: Sequence[DeviceOperand], stream: int | None) -> BoundCudaKernel:
        """Return the kernel on `operands` for a stream; see `base.DeviceKernel`."""
        params = self.signature.params
        addresses = [
            Address(f"{self.signature.name}: argument {number} '{param.name}'", operand.address)
            for number, (param, operand) in enumerate(zip(params, operands, strict=False), 1)
            if isinstance(operand, DeviceArray)
        ]
        device = device_of(addresses)
        loaded = self._on(device)
        return BoundCudaKernel(
            self, device, loaded.functions, (*operands, *loaded.constants), stream
        )

    def upload(self, array: Array) -> DeviceArray:
        """Return a copy on the device; see `base.DeviceKernel`."""
        return upload(device_of(()), array.shape, array.dtype, [array])

    def launch_again(
        self,
        key: tuple[object, ...],
        record: Callable[[PycudaStream], None],
        stream: DeviceStream | None,
    ) -> bool:
        """Start what `record` launches as a graph, unless it is the first call of this `key`.

        The first is not worth a graph: many arrays are passed only once. Return whether it is
        started. Threads take turns, as the driver wants it of a graph.
        """
        with self._lock:
            is_known, graph = key in self._graphs, self._graphs.pop(key, None)
            if is_known and graph is None:
                graph = LaunchGraph(record)
            self._graphs[key] = graph
            if len(self._graphs) > _MOST_GRAPHS:
                _, oldest = self._graphs.popitem(last=False)
                if oldest is not None:
                    oldest.release()
            if graph is not None:
                graph.launch(stream)
            return graph is not None

    def close(self) -> None:
        """Free the code; no call may run now or later."""
        with self._lock:
            for graph in self._graphs.values():
                if graph is not None:
                    graph.release()
            self._graphs.clear()
            for device in list(self._modules):
                try:
                    with device.active(self.signature.name):
                        del self._modules[device]
                except DeviceError:  # then the driver has let go of it
                    self._modules.pop(device, None)

    @property
    def plan(self) -> LaunchPlan:
        """Return what is launched."""
        return self._plan

    def constants_on(self, device: Device) -> tuple[DeviceArray, ...]:
        """Return what all calls on `device` get after their operands; asked once for each."""
        return ()

    def _on(self, device: Device) -> _OnDevice:
        with self._lock:
            if device not in self._modules:
                self._require_arch(device)
                module, functions = self._load(device)
                self._modules[device] = _OnDevice(module, functions, self.constants_on(device))
            return self._modules[device]

    def _load(self, device: Device) -> tuple[PycudaModule, list[PycudaFunction]]:
        name = self.signature.name
        with device.active(f"loading {name}"):
            try:
                module = device.load(self._image)
                each = self._plan.launches
                functions = [device.function(module, x.name, x.dynamic_shared_bytes) for x in each]
            except driver().LogicError as error:
                if not any(word in str(error) for word in _OF_THE_IMAGE):
                    raise
                raise BuildError(
                    f"{name} cannot be loaded on {_device_name(device)}, whose driver is for CUDA "
                    f"{device.facts().driver}: {error}; a driver that is older than the compiler "
                    "that made the code may not know it: update it, or use an older compiler"
                ) from error
        return module, functions

    def _require_arch(self, device: Device) -> None:
        """Machine code runs on its own generation, if that is not older; else on all later ones."""
        here, made = _ARCH.fullmatch(device.facts().arch), _ARCH.fullmatch(self._arch)
        if here is None or made is None:
            return
        has, wants = int(here[1]), int(made[1])
        is_portable = self._image.startswith(_PORTABLE)
        fits = has >= wants and (is_portable or has // 10 == wants // 10)
        if not (has == wants if made[2] else fits):
            raise BuildError(
                f"{self.signature.name} was built for {self._arch}, but {_device_name(device)} is "
                f"{here[0]}; build it for 'cuda -arch={here[0]}'"
            )


@dataclass(frozen=True)
class _Copy:
    """An array of this machine and its place on the device."""

    array: Array
    memory: Memory
    is_written: bool


class BoundCudaKernel:
    """A program on arrays; see `base.BoundDeviceKernel`."""

    def __init__(
        self,
        kernel: CudaKernel,
        device: Device,
        functions: Sequence[PycudaFunction],
        operands: Sequence[DeviceOperand],
        stream: int | None,
    ) -> None:
        self._name, self._device, self._operands = kernel.signature.name, device, operands
        self._kernel, self._plan = kernel, kernel.plan
        self._copies: list[_Copy] = []
        self._graphs: dict[int, LaunchGraph] = {}
        self._workspace: Memory | None = None
        self._stream: DeviceStream | None = None
        try:
            with device.active(self._name):
                self._stream = device.stream(stream)
                self._addresses = self._place_arguments(kernel.signature)
                if kernel.plan.workspace_bytes:
                    size = kernel.plan.workspace_bytes
                    self._workspace = device.workspace(size, self._stream)
                self._functions = functions
        except BaseException:
            self.release()
            raise

    def run(self, calls: int) -> int:
        """Run it so many times and wait; return 0."""
        with self._device.active(self._name):
            self._follow()
            if calls == 1:
                self._begin()
            else:
                self._enqueue(calls)
            self._device.wait(self._stream)
            self._require_no_fault()
        return 0

    def launch(self) -> None:
        """Start it once in the caller's stream; one that checks its data is waited for.

        Raise CallError if that is not possible, because the stream is captured.
        """
        with self._device.active(self._name):
            self._follow()
            if self._plan.fault_statuses and self._stream is not None:
                self._require_uncaptured(self._stream)
            self._begin()
            if self._stream is not None:
                self._stream.lead()
            if self._plan.fault_statuses:
                self._device.wait(self._stream)
                self._require_no_fault()

    def seconds(self, calls: int) -> float:
        """Run it so many times and wait; return how long it took between two events.

        From Python a launch takes longer than many a kernel, so graphs of launches are timed.
        """
        cuda = driver()
        with self._device.active(self._name):
            self._follow()
            stream = None if self._stream is None else self._stream.own
            begin, end, graphs = cuda.Event(), cuda.Event(), self._record_graphs(calls)
            begin.record(stream)
            for graph in graphs:
                graph.launch(self._stream)
            end.record(stream)
            end.synchronize()
            self._require_no_fault()
            return float(end.time_since(begin)) * 1e-3

    def call_seconds(self) -> list[float]:
        """Run it once and wait; return how long each call of a kernel took, of a network many."""
        cuda = driver()
        with self._device.active(self._name):
            self._follow()
            stream = None if self._stream is None else self._stream.own
            events, first = [cuda.Event().record(stream)], 0
            for count in self._plan.calls or (len(self._launches),):
                self._start(self._launches[first : first + count], stream)
                first += count
                events.append(cuda.Event().record(stream))
            events[-1].synchronize()
            self._require_no_fault()
            return [float(end.time_since(begin)) * 1e-3 for begin, end in pairwise(events)]

    def _require_no_fault(self) -> None:
        """Raise the FaultError of what the program has refused, which is over."""
        memory, offset = self._workspace, self._plan.fault_place
        if not self._plan.fault_statuses or memory is None:
            return
        record = np.zeros(FAULT_RECORD.elements, np.int64)
        driver().memcpy_dtoh(record, memory.address + offset)
        if record[0]:
            raise device_fault(self._kernel.signature, record.tolist())

    def _require_uncaptured(self, stream: DeviceStream) -> None:
        if stream.is_captured():
            raise CallError(
                f"{self._name} checks the places that its data says, which has to be waited for "
                "and cannot be captured into a graph; build it with check_indices=False"
            )

    def evict(self) -> None:
        """Have the arrays out of the second-level cache."""
        with self._device.active("emptying the cache"):
            self._device.evict(self._stream)

    def fetch(self) -> None:
        """Copy the results into the arrays of this machine."""
        with self._device.active(self._name):
            for copy in self._copies:
                if copy.is_written:
                    self._device.copy_out(copy.array, copy.memory, self._stream)

    def is_intact(self) -> bool:
        """Whether the memory around the copied outputs and the workspace is as it was."""
        places = [copy.memory for copy in self._copies if copy.is_written]
        places += [self._workspace] if self._workspace is not None else []
        with self._device.active(self._name):
            return all(map(self._device.is_intact, places))

    def release(self) -> None:
        """Give back what copies and workspace take."""
        places = [copy.memory for copy in self._copies]
        if self._workspace is not None and self._stream is None:
            places.append(self._workspace)
        for graph in self._graphs.values():
            graph.release()
        self._copies, self._workspace, self._graphs = [], None, {}
        for memory in places:
            self._device.give(memory)

    def _place_arguments(self, signature: Signature) -> list[int]:
        """The address of each argument; inputs of this machine are copied."""
        addresses: list[int] = []
        for param, operand in zip(signature.params, self._operands, strict=True):
            if isinstance(operand, DeviceArray):
                addresses.append(operand.address)
                continue
            memory = self._device.take(operand.nbytes)
            self._copies.append(_Copy(operand, memory, param.is_written))
            if param.is_output:
                self._device.poison(memory, operand.dtype, self._stream)
            else:
                self._device.copy_in(memory, operand, self._stream)
            addresses.append(memory.address)
        return addresses

    @cached_property
    def _launches(self) -> list[_Ready]:
        addresses, base = self._addresses, 0 if self._workspace is None else self._workspace.address

        def address(argument: KernelArgument) -> int:
            return (
                addresses[argument.place] + argument.offset
                if argument.kind == "parameter"
                else (base + argument.place)
            )

        return [
            _Ready(
                function, each.grid, each.block,
                np.array(list(map(address, each.arguments)), np.uint64).tobytes(),
                each.dynamic_shared_bytes,
            )
            for function, each in zip(self._functions, self._plan.launches, strict=True)
        ]  # fmt: skip

    def _follow(self) -> None:
        """Wait, on the device, for the caller's stream and for those that fill the arrays."""
        if self._stream is not None:
            self._stream.follow()
        for operand in self._operands:
            if isinstance(operand, DeviceArray) and operand.stream:
                _follow(self._device, self._stream, operand.stream)

    def _begin(self) -> None:
        """Start it once; several launches that were made before as a graph, in one step."""
        is_alone = len(self._plan.launches) == 1 or bool(self._copies)
        if is_alone or (self._stream is not None and self._stream.is_captured()):
            self._enqueue(1)
            return
        workspace = 0 if self._workspace is None else self._workspace.address
        key = (self._device, workspace, *self._addresses)
        if not self._kernel.launch_again(key, partial(self._enqueue_in, 1), self._stream):
            self._enqueue(1)

    def _record_graphs(self, calls: int) -> list[LaunchGraph]:
        """Graphs that make so many calls together."""
        many = max(1, _GRAPH_LAUNCHES // max(1, len(self._launches)))
        counts = [many] * (calls // many) + ([calls % many] if calls % many else [])
        for count in set(counts) - self._graphs.keys():
            self._graphs[count] = LaunchGraph(partial(self._enqueue_in, count))
        return [self._graphs[count] for count in counts]

    def _enqueue(self, calls: int) -> None:
        self._enqueue_in(calls, None if self._stream is None else self._stream.own)

    def _enqueue_in(self, calls: int, stream: PycudaStream | None) -> None:
        for _ in range(calls):
            self._start(self._launches, stream)

    def _start(self, launches: Sequence[_Ready], stream: PycudaStream | None) -> None:
        for launch in launches:
            launch.function._launch_kernel(
                launch.grid, launch.block, launch.arguments, launch.shared_bytes, stream
            )


def upload(
    device: Device, shape: tuple[int, ...], dtype: np.dtype[Any], parts: Iterable[Array]
) -> DeviceArray:
    """Return an array on `device` of the elements in `parts`, one after the other.

    It is there when this returns, for all streams.
    """
    size = math.prod(shape) * dtype.itemsize
    with device.active(f"copying {size} bytes to the device"):
        memory, offset = device.take(size), 0
        for part in parts:
            device.copy_in(memory, part, None, offset)
            offset += part.nbytes
        device.wait(None)
    owner = _UploadedMemory(device, memory)
    return DeviceArray(memory.address, shape, dtype, None, may_write=False, owner=owner)


class _UploadedMemory:
    """Gives memory back when nothing refers to it any more."""

    def __init__(self, device: Device, memory: Memory) -> None:
        self._device, self._memory = device, memory

    def __del__(self) -> None:
        self._device.give(self._memory)


def _follow(device: Device, stream: DeviceStream | None, other: int) -> None:
    """Let `stream` wait for the one with the handle `other`, both as a caller knows them."""
    if stream is not None:
        stream.follow(other)
    elif (beside := device.stream(other)) is not None:
        beside.follow()
        device.wait(beside)


def device_fault(signature: Signature, record: Sequence[int]) -> FaultError:
    """Return the error of a program that refused its data, by what it says of that."""
    site = signature.faults[record[0] - 1]
    return fault_of_record(signature.name, site.kind, signature.faults, record)


def _device_name(device: Device) -> str:
    return f"device {device.ordinal} ('{device.facts().name}')"
