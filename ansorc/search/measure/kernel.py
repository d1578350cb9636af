"""A kernel in the run worker: guarded arrays, packed constants, calls as C makes them, checks.

Guarded arrays notice a kernel that writes where it must not. Each ends at a page that cannot be
touched, and lies between pattern bytes up to the page borders; an input is made read-only. A stray
access is then a signal, or is found afterwards.

    | no access | pattern | array …………………… | pattern (< 64 B) | no access |
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from ansorc.codegen.base import LoadedKernel
from ansorc.codegen.device_array import DeviceArray
from ansorc.ir.aligned import Array
from ansorc.ir.packing import Packing
from ansorc.search.measure.check import Expectation, Reference, expectations
from ansorc.search.task import Task
from ansorc.target import Target

ALIGNMENT = 64
"""Bytes of a cache line, and of the widest vectors."""
_PATTERN = 0xA5
_READ, _WRITE = 1, 2
_HUGE_BYTES = 4 << 20


class GuardedArray:
    """A C-contiguous array of `shape` and `dtype`, 64-byte aligned, in pages of its own."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
        page = mmap.PAGESIZE
        elements = int(np.prod(shape, dtype=np.int64))
        self._bytes = elements * dtype.itemsize
        padded = _round_up(max(self._bytes, 1), ALIGNMENT)
        self._inner = _round_up(padded, page)
        try:
            self._map = mmap.mmap(-1, self._inner + 2 * page)
        except OSError as error:
            raise MemoryError(f"{self._bytes} bytes") from error
        if self._inner >= _HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self._begin = page + self._inner - padded
        whole = np.frombuffer(self._map, np.uint8)
        self._address = int(whole.ctypes.data)
        self._left = whole[page : self._begin]
        self._right = whole[self._begin + self._bytes : page + self._inner]
        self._left.fill(_PATTERN)
        self._right.fill(_PATTERN)
        flat = np.frombuffer(self._map, dtype, elements, self._begin)
        self.array: Array = flat.reshape(shape)
        _protect(self._address, page, 0)
        _protect(self._address + page + self._inner, page, 0)

    @property
    def nbytes(self) -> int:
        """The size of the array in bytes."""
        return self._bytes

    @property
    def address(self) -> int:
        """Where the array begins."""
        return self._address + self._begin

    def freeze(self) -> None:
        """Make the array read-only for native code as well."""
        _protect(self._address + mmap.PAGESIZE, self._inner, _READ)
        self.array.flags.writeable = False

    def poison(self) -> None:
        """Fill the array with bytes that a kernel would not leave: NaN, or 0xCD in integers."""
        fill = 0xCD if self.array.dtype.kind in "iub" else 0xFF
        inner = np.frombuffer(self._map, np.uint8, self._bytes, self._begin)
        inner.fill(fill)

    def is_intact(self) -> bool:
        """Whether the pattern around the array is still there."""
        return bool((self._left == _PATTERN).all() and (self._right == _PATTERN).all())


def copy_guarded(source: Array) -> GuardedArray:
    """Return a frozen guarded copy of `source`."""
    copy = GuardedArray(source.shape, source.dtype)
    copy.array[...] = source
    copy.freeze()
    return copy


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _protect(address: int, length: int, mode: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), ctypes.c_int(mode)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


_KEPT_BYTES = 256 << 20


class PackedConstants:
    """Frozen guarded copies by their packing; the latest used are kept.

    Packing takes as long as many calls of a kernel, and good programs of one task often agree in
    the tile that it follows.
    """

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._known: OrderedDict[Packing, GuardedArray] = OrderedDict()

    def get(self, packing: Packing, source: Array) -> GuardedArray:
        """Return the copy of `source` that `packing` describes."""
        copy = self._known.get(packing)
        if copy is None:
            copy = GuardedArray(packing.packed.shape, source.dtype)
            packing.fill(copy.array, source)
            copy.freeze()
            self._known[packing] = copy
        self._known.move_to_end(packing)
        while self.nbytes > self._kept_bytes and len(self._known) > 1:
            self._known.popitem(last=False)
        return copy

    @property
    def nbytes(self) -> int:
        """The size of what is kept."""
        return sum(copy.nbytes for copy in self._known.values())


def evict_each(memory: Sequence[GuardedArray], evict: Callable[[int, int], None]) -> None:
    """Call `evict` with the address and the size of each array."""
    for array in memory:
        evict(array.address, array.nbytes)


class KernelError(Exception):
    """A kernel that returned something other than 0."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the kernel returned {status}")
        self.status = status


class GuardedKernel:
    """Code bound to arrays and to a workspace that is kept from call to call.

    Raises MemoryError for a workspace too large.
    """

    def __init__(
        self, kernel: LoadedKernel, size: int, arrays: Sequence[GuardedArray], threads: int
    ) -> None:
        """`size` is that of the workspace in bytes."""
        self._kernel = kernel
        self._workspace = GuardedArray((size,), np.dtype(np.uint8)) if size else None
        workspace = self._workspace.address if self._workspace else None
        self._arrays = arrays
        self._call = self._kernel.bind([guarded.array for guarded in arrays], workspace, threads)

    def __enter__(self) -> GuardedKernel:
        return self

    def __exit__(self, *_: object) -> None:
        self._kernel.close()

    def call(self, count: int) -> None:
        """Run the kernel `count` times; raise KernelError if it says that it failed."""
        status = self._call.run(count)
        if status:
            raise KernelError(status)

    def fetch(self) -> None:
        """Have the results in the arrays."""
        self._call.fetch()

    @property
    def memory(self) -> tuple[GuardedArray, ...]:
        """All that the kernel reads and writes."""
        return (*self._arrays, self._workspace) if self._workspace else tuple(self._arrays)

    def is_intact(self) -> bool:
        """Whether the kernel has stayed inside its workspace."""
        return self._workspace is None or self._workspace.is_intact()


@dataclass(frozen=True)
class CheckedOutput:
    """An output array and what it must hold."""

    memory: GuardedArray
    reference: Reference
    expectation: Expectation
    old: Array | None = None
    """What is there before a call, if it is an input that is updated."""

    def prepare(self) -> None:
        """Overwrite it by poison, or by the values that are updated."""
        if self.old is None:
            self.memory.poison()
        else:
            self.memory.array[...] = self.old


@dataclass(frozen=True)
class Bench:
    """All arrays of a task in guarded memory; inputs that are not updated cannot be written."""

    target: Target
    names: tuple[str, ...]
    """Those of `params`: what a kernel takes, in call order."""
    constants: frozenset[str]
    """Those whose values never change, such as weights."""
    params: tuple[GuardedArray, ...]
    outputs: tuple[CheckedOutput, ...]
    packed: PackedConstants = field(default_factory=PackedConstants)
    on_device: WeakKeyDictionary[GuardedArray, DeviceArray] = field(
        default_factory=WeakKeyDictionary[GuardedArray, DeviceArray]
    )
    """Copies of arrays that do not change, where kernels run on a device."""
    drifts: bool = False
    """Whether inputs are updated by what follows from themselves: each call has other data."""

    def arrays(self, packings: Sequence[Packing] = ()) -> tuple[GuardedArray, ...]:
        """Return the arrays in call order, with those constants packed that `packings` name."""
        layouts = {packing.source.name: packing for packing in packings}
        return tuple(
            self.packed.get(layouts[name], guarded.array) if name in layouts else guarded
            for name, guarded in zip(self.names, self.params, strict=True)
        )

    def weights(self, arrays: Sequence[GuardedArray]) -> tuple[GuardedArray, ...]:
        """Return those of `arrays`, which are in call order, that are constants."""
        pairs = zip(self.names, arrays, strict=True)
        return tuple(array for name, array in pairs if name in self.constants)

    @property
    def nbytes(self) -> int:
        """The memory that all of it takes."""
        input_bytes = sum(guarded.nbytes for guarded in self.params) + self.packed.nbytes
        return input_bytes + sum(2 * output.reference.nbytes for output in self.outputs)

    def poison(self) -> None:
        """Overwrite all outputs; inputs that are updated have their old values again."""
        for output in self.outputs:
            output.prepare()

    def check(self) -> tuple[float, str]:
        """Compare what the outputs hold; return (largest error, complaint or an empty string)."""
        worst = 0.0
        for output in self.outputs:
            if not output.memory.is_intact():
                return worst, "candidate rejected: it wrote outside its output"
            verdict = output.expectation.compare(output.memory.array)
            worst = max(worst, verdict.max_error)
            if verdict.complaint:
                return worst, verdict.complaint
        return worst, ""


class Benches:
    """The arrays of the tasks that took the last turns, by directory, in `kept_bytes` or one."""

    def __init__(self, kept_bytes: int = 256 << 20) -> None:
        self._kept_bytes = kept_bytes
        self._known: OrderedDict[str, Bench] = OrderedDict()

    def get(self, directory: str) -> Bench:
        """Return what `TaskData` wrote to `directory`, loaded unless it is known."""
        if directory not in self._known:
            self._drop(self._kept_bytes // 2)  # room for the new one
            self._known[directory] = load_bench(Path(directory))
        self._known.move_to_end(directory)
        self._drop(self._kept_bytes, least=1)
        return self._known[directory]

    def _drop(self, most_bytes: int, least: int = 0) -> None:
        while len(self._known) > least and self._bytes() > most_bytes:
            self._known.popitem(last=False)

    def _bytes(self) -> int:
        return sum(bench.nbytes for bench in self._known.values())


def load_bench(directory: Path) -> Bench:
    """Load what `TaskData` wrote to `directory`."""
    task = Task.from_json((directory / "task.json").read_text())
    arrays: dict[str, GuardedArray] = {}
    olds: dict[str, Array] = {}
    for index, buffer in enumerate(task.dag.inputs):
        stored = np.load(directory / f"input_{index}.npy", mmap_mode="r")
        # a file does not tell the types that NumPy lacks
        array = stored.view(buffer.dtype.numpy)
        if buffer.is_updated:
            olds[buffer.name] = array.copy()
            arrays[buffer.name] = GuardedArray(buffer.shape, buffer.dtype.numpy)
        else:
            arrays[buffer.name] = copy_guarded(array)
    places = range(len(task.dag.outputs))
    files = [directory / f"reference_{number}.npy" for number in places]
    references: list[Array] = [np.load(path) for path in files]
    stored = [directory / f"rounding_{number}.npy" for number in places]
    roundings = [np.load(path) if path.exists() else None for path in stored]
    outputs: list[CheckedOutput] = []
    expected = expectations(task.dag, references, roundings)
    for buffer, reference, expectation in zip(task.dag.outputs, references, expected, strict=True):
        updated = task.dag.updates.get(buffer.name, "")
        if updated:
            memory = arrays[updated]
        else:
            memory = arrays[buffer.name] = GuardedArray(buffer.shape, buffer.dtype.numpy)
        outputs.append(CheckedOutput(memory, reference, expectation, olds.get(updated)))
    names = tuple(buffer.name for buffer in task.dag.arguments)
    constants = frozenset(buffer.name for buffer in task.dag.inputs if buffer.constant)
    params = tuple(arrays[name] for name in names)
    drifts = any(b.is_updated for op in task.dag.ops for b in op.part.reads)
    return Bench(task.target, names, constants, params, tuple(outputs), drifts=drifts)
