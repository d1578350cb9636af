"""A network as a back end sees it: kernels, the order of their calls, a place for each array."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from ansorc.codegen.network.derived import DerivedBlock
from ansorc.codegen.network.weights import WeightBlock, round_up
from ansorc.codegen.package.signature import FAULT_RECORD, Param, Signature
from ansorc.codegen.program.compiled import Compiled
from ansorc.ir.aligned import Array
from ansorc.ir.fault import FaultSite


class PlaceKind(Enum):
    """The array that an argument of a kernel is a part of."""

    INPUT = "input"
    """An array that the caller passes; `offset` is its index."""
    OUTPUT = "output"
    """An array that the caller gets; `offset` is its index."""
    ARENA = "arena"
    """The memory of intermediate tensors; `offset` is in bytes, a multiple of 64."""
    WEIGHTS = "weights"
    """The constants of the network; `offset` is in bytes, a multiple of 64."""
    DERIVED = "derived weights"
    """Constants that are made of others at load; `offset` is in bytes, a multiple of 64."""
    BOUND = "bound weights"
    """Constants elsewhere in this process; `offset` is the index in `NetworkPlan.bound`."""


@dataclass(frozen=True)
class BufferSlot:
    """Where an argument of a kernel lies."""

    kind: PlaceKind
    offset: int


@dataclass(frozen=True)
class KernelCall:
    """One step of a network. Equal kernels are compiled once and called often."""

    kernel: int
    """Index into `NetworkPlan.kernels`."""
    arguments: tuple[BufferSlot, ...]
    """In the kernel's call order."""
    name: str
    """For people, and for the profile: "conv1 + relu"."""
    threads: int = 0
    """The most that may work on it; 0: all that the caller allows."""


@dataclass(frozen=True, eq=False)
class BoundWeight:
    """A constant in memory of this process that several networks may read, and nobody writes."""

    array: Array
    """Its bytes as kernels read them (uint8), at a multiple of 64."""


@dataclass(frozen=True, eq=False)
class NetworkPlan:
    """A network as kernel calls, one after the other; `require_valid` says what must hold."""

    name: str
    """The name of the function in C."""
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...]
    kernels: tuple[Compiled, ...]
    """Their names may be any, also the same."""
    calls: tuple[KernelCall, ...]
    arena_bytes: int
    """The bytes of the intermediate tensors; those that kernels need for themselves are added."""
    weights: WeightBlock = field(default_factory=WeightBlock)
    derived: DerivedBlock = field(default_factory=DerivedBlock)
    """The block that is made from `weights` when the code is loaded."""
    bound: tuple[BoundWeight, ...] = ()
    """Weights that lie elsewhere, as kernels read them; a saved library has them in `weights`."""
    precision: str = "f32"
    """The type that weights and tensors between kernels are kept in: "f32", "bf16", "f16", "int8",
    or several of the last three with + between."""
    weights_owner: str = ""
    """The prefix of the weights' names in a library, for networks that share them; "": `name`."""

    @property
    def kernel_workspace(self) -> int:
        """The offset of the workspace that kernels use in turn, after the intermediate tensors."""
        return round_up(self.arena_bytes)

    @property
    def signature(self) -> Signature:
        """Return what the network is called with: inputs, then outputs, as of a single kernel."""
        called = [self.kernels[call.kernel].signature for call in self.calls]
        parallel = any(map(self.is_parallel, self.calls))
        size = self.fault_place + (FAULT_RECORD.bytes if self.faults else 0)
        flops = [signature.flops for signature in called if signature.flops is not None]
        total = sum(flops) if len(flops) == len(called) else None
        records = tuple(
            dict.fromkeys(record for signature in called for record in signature.records)
        )
        arrays = (*self.inputs, *self.outputs)
        return Signature(
            self.name, arrays, size, parallel, total, records, faults=self.faults,
            fault_place=self.fault_place if self.faults else 0,
        )  # fmt: skip

    @property
    def fault_place(self) -> int:
        """The offset of what says which check failed, after the workspace of the kernels."""
        called = {call.kernel: self.kernels[call.kernel].signature for call in self.calls}
        size = max((each.workspace_bytes for each in called.values()), default=0)
        offset = self.kernel_workspace + size
        return round_up(offset) if self.faults else offset

    @cached_property
    def faults(self) -> tuple[FaultSite, ...]:
        """Return what the checks of all kernels are about, one kernel after another."""
        joined: list[FaultSite] = []
        for number in sorted({call.kernel for call in self.calls}):
            names = [call.name for call in self.calls if call.kernel == number]
            others = f" or another of {len(names)} calls like it" if len(names) > 1 else ""
            sites = self.kernels[number].signature.faults
            joined += [replace(site, call=f"{names[0]}{others}") for site in sites]
        return tuple(joined)

    def first_fault(self, kernel: int) -> int:
        """Return how many of `faults` come before those of a kernel."""
        before = {call.kernel for call in self.calls if call.kernel < kernel}
        return sum(len(self.kernels[number].signature.faults) for number in before)

    @property
    def needs_runtime(self) -> bool:
        """Whether a kernel refers to the thread pool, though its calls may be limited to 1."""
        return any(kernel.signature.parallel for kernel in self.kernels)

    def is_parallel(self, call: KernelCall) -> bool:
        """Whether several threads may work on `call`."""
        return self.kernels[call.kernel].signature.parallel and call.threads != 1
