"""The protocol of a back end: `Backend`, which makes code for the targets that name its module.

Builds, measuring, records and the command line know this protocol alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from ansorc.codegen.device_array import DeviceArray, DeviceOperand
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.variants import VariantsPlan
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.signature import Signature
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import TargetError
from ansorc.ir.aligned import ALIGNMENT, Array
from ansorc.ir.stmt import Function
from ansorc.target import Target

if TYPE_CHECKING:  # what opens a library imports no passes
    from ansorc.ir.passes.pipeline import Passes

Source: TypeAlias = Any
"""A program as its back end's compiler takes it: a text, or a value such as `DeviceProgram`. Only
that back end knows more of it; those with the same `repr` are equal."""


@dataclass(frozen=True)
class Capabilities:
    """Abilities of the code for one target, and of this machine with it."""

    threads: bool = False
    """PARALLEL loops run in several threads; else their iterations follow each other."""
    dot_products: bool = False
    """There is code for `Dot`, where the target has the instruction."""
    cold_caches: bool = False
    """Whether the data that a kernel reads can be evicted from the caches before it is timed."""
    device: bool = False
    """Kernels run on a device with a memory of its own: loaded ones are `DeviceKernel`s."""
    is_emulated: bool = False
    """Code for another kind of machine is imitated here: its times say nothing about that one."""
    packs_constants: bool = False
    """Beside a kernel is code that lays its constants out as it reads them; else they stay."""
    alignment: int = ALIGNMENT
    """The alignment of the intermediate tensors of a network, in bytes: 64 or a multiple of it."""
    suffix: str = ".so"
    """The file name extension of the library that `save` writes by default."""
    obstacle: str = ""
    """Why such code cannot run on this machine, as in "cannot be measured OBSTACLE"; empty if it
    can."""


class BoundKernel(Protocol):
    """A kernel with the arguments that it is called with."""

    def run(self, calls: int) -> int:
        """Run the kernel `calls` times and wait for it; return 0, or the first other status."""
        ...

    def fetch(self) -> None:
        """Copy the results into the arrays, where the kernel works in a memory of its own."""
        ...


class LoadedKernel(Protocol):
    """A kernel whose code is in this process."""

    def bind(self, arrays: Sequence[Array], workspace: int | None, threads: int) -> BoundKernel:
        """Return the kernel on `arrays`, in call order.

        `workspace` is the address of as many bytes as the signature says; None: the kernel gets
        them itself. `threads` is the most that may be used; 0: all cores.
        """
        ...

    def close(self) -> None:
        """Free the code; no call may run now or later."""
        ...


DirectCall: TypeAlias = Callable[[tuple[object, ...], int, int], int | None]
"""Runs a kernel on a tuple of arrays, with `threads` and the address of a workspace or 0, and
returns its status; None, and nothing is done, for arrays and threads that it does not recognise."""


@runtime_checkable
class DirectKernel(LoadedKernel, Protocol):
    """Optional: a kernel that checks its arguments itself, in less time than Python needs."""

    def direct(
        self, signature: Signature, fixed: Mapping[int, Array], most_threads: int
    ) -> DirectCall | None:
        """Return a function that takes what a call checked by `signature` may take.

        `fixed` are arrays that the kernel always gets, by the number of the argument; the function
        is called without them. None: there is no such function here.
        """
        ...


class BoundDeviceKernel(BoundKernel, Protocol):
    """A kernel with arguments on a device. All raise DeviceError if the device fails."""

    def launch(self) -> None:
        """Start the kernel once in the stream that it is bound to, and do not wait for it."""
        ...

    def seconds(self, calls: int) -> float:
        """Run the kernel `calls` times and wait; return their time by the device's clock."""
        ...

    def evict(self) -> None:
        """Have what the kernel reads out of the device's caches."""
        ...

    def call_seconds(self) -> list[float]:
        """Run once and wait; return the time of each call of a kernel by the device's clock."""
        ...

    def is_intact(self) -> bool:
        """Whether the kernel wrote nothing beside its outputs, where they are copied to arrays."""
        ...

    def release(self) -> None:
        """Give the memory on the device back; no call may run now or later."""
        ...


@runtime_checkable
class DeviceKernel(LoadedKernel, Protocol):
    """A kernel of a device; `bind` takes its workspace from the device's memory."""

    def bind_on(self, operands: Sequence[DeviceOperand], stream: int | None) -> BoundDeviceKernel:
        """Return the kernel on `operands`, in call order, for the stream with this handle.

        NumPy's inputs are copied to the device now, its outputs by `fetch`. None: the stream that
        waits for all others. Raise CallError for arrays that are on no device or on several.
        """
        ...

    def upload(self, array: Array) -> DeviceArray:
        """Return a copy in the device's memory, which lives as long as what is returned."""
        ...


class LoadedNetwork(LoadedKernel, Protocol):
    """A network whose code and weights are in this process; `bind` takes inputs, then outputs."""

    def profile(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> tuple[int, list[float]]:
        """Run the network once; return its status and the seconds of each of its calls."""
        ...


@dataclass(frozen=True)
class Machine:
    """The facts of a machine that must be equal for two times of kernels to be comparable."""

    name: str
    features: tuple[str, ...]
    units: int
    """Cores, or multiprocessors."""


class Probe(Protocol):
    """A program that does a known amount of work."""

    def time(self, min_time_s: float = 0.1) -> tuple[float, float]:
        """Return how much is done in a second, (median, best), from about `min_time_s` of work."""
        ...

    def best(self, repeats: int = 3) -> float:
        """Return the most done in a second: what the machine reaches undisturbed."""
        ...


@dataclass(frozen=True)
class MachineLimits:
    """The measured limits of one machine, float32, on one core and on all cores it may use."""

    fma_one: float
    """Floating-point operations a second of one core, a fused multiply-add counted as two."""
    fma_all: float
    read_one: float
    """Bytes a second that one core reads from memory."""
    read_all: float
    copy_all: float
    """Bytes a second read plus written by a copy on all cores, the extra line fill left out."""


class Probes(Protocol):
    """Measurements of the machine itself. All raise BuildError as a build does."""

    def peak(self, target: Target, threads: int) -> Probe:
        """Return a probe that does nothing but float32 multiply-adds, and counts operations."""
        ...

    def limits(self, target: Target) -> MachineLimits:
        """Measure the limits of this machine, which takes about three seconds."""
        ...

    def steady_work(self, target: Target, threads: int) -> Callable[[int], None]:
        """Return work of about 0.1 ms that takes the same time whenever nothing disturbs it.

        It is made for `threads` threads, and called with how many may do it.
        """
        ...

    def eviction(self, target: Target) -> Callable[[int, int], None]:
        """Return a function of an address and a number of bytes that evicts them from all caches.

        Raise TargetError where there are no instructions for that.
        """
        ...


@runtime_checkable
class TeamProbes(Probes, Protocol):
    """Optional: probes of back ends with a persistent thread pool."""

    def team(self, target: Target, threads: int) -> AbstractContextManager[None]:
        """Return what can be entered again and again: inside, the kernels' threads are awake.

        `threads` is the most that a kernel is called with; 0: all cores.
        """
        ...


class Opener(Protocol):
    """The part of a back end that runs what was saved; see `opener_of`."""

    def capabilities(self, target: Target) -> Capabilities: ...

    def open(self, library: Path, signature: Signature, target: Target) -> LoadedKernel:
        """Load a library that `save` wrote; raise BuildError if it is not for this machine."""
        ...


@runtime_checkable
class NetworkOpener(Protocol):
    """Optional: an opener of back ends that compile networks."""

    def open_network(
        self, library: Path, signature: Signature, calls: int, weights: Path | None, target: Target
    ) -> LoadedNetwork:
        """Load a library that `save_network` wrote, with `calls` calls and maybe a file of weights.

        Raise BuildError if it is not for this machine, or if the weights are not those.
        """
        ...


class Backend(Opener, Protocol):
    """A module with a `BACKEND` of this kind can be named by a target: `-backend=MODULE`."""

    @property
    def passes(self) -> Passes:
        """The rewrites between lowering and code generation, in their order."""
        ...

    @property
    def listings(self) -> Mapping[str, Callable[[Source, Target], str]]:
        """Functions that print what `emit` returns, by the name of the view of `ansorc show`."""
        ...

    @property
    def probes(self) -> Probes: ...

    def emit(
        self,
        function: Function,
        target: Target,
        packers: Sequence[Function] = (),
        *,
        is_guarded: bool = True,
    ) -> Source:
        """Return the source of `function` and of what packs its constants, all prepared.

        With `is_guarded` the kernel returns LACKS_FEATURES on a machine that is no such target.
        Raise BuildError for what the target or the back end has no code for.
        """
        ...

    def compile(self, source: Source, target: Target) -> CompiledProgram:
        """Return the code that `source` says; raise BuildError with the compiler's words."""
        ...

    def workspace_bytes(self, function: Function) -> int:
        """Return the bytes of workspace that the kernel of a prepared function needs."""
        ...

    def load(self, code: CompiledProgram, signature: Signature, target: Target) -> LoadedKernel:
        """Load what `compile` returned; raise BuildError if it is not for this machine."""
        ...

    def save(
        self, path: Path, code: CompiledProgram, signature: Signature, target: Target
    ) -> Artifact:
        """Write the kernel for C and C++, with a header and a manifest; raise BuildError."""
        ...


@dataclass(frozen=True)
class KernelResources:
    """Resources that the compiler gave one kernel of a GPU program."""

    registers: int
    """The registers of a thread."""
    spilled_bytes: int
    """Bytes of a thread: stored to and loaded from local memory, each access counted once."""
    shared_bytes: int
    """The shared memory of a block."""


@runtime_checkable
class ResourceBackend(Protocol):
    """Optional: a back end whose compiler reports the resources of kernels."""

    def resources(self, source: Source, target: Target) -> tuple[KernelResources, ...]:
        """Return what each kernel of `source` needs, in their order; raise BuildError."""
        ...


@runtime_checkable
class DeviceBackend(Protocol):
    """Optional: a back end whose kernels run on a device."""

    def machine(self, target: Target) -> Machine:
        """Return the device of this process; raise BuildError if there is none."""
        ...

    def state(self, target: Target) -> str:
        """Return what a measurement should be kept with: the clock now, and what holds it down."""
        ...


@runtime_checkable
class CountingBackend(Protocol):
    """Optional: a back end that counts the operations and accesses of a program."""

    def counts(self, function: Function, source: Source, target: Target) -> str:
        """Return the figures of a prepared function and of its source; raise BuildError."""
        ...


@runtime_checkable
class LoopBackend(Protocol):
    """Optional: a back end that describes the loops of its machine code."""

    def innermost_loops(self, source: Source, target: Target) -> tuple[str, ...]:
        """Return a line for each loop of `source` that holds no other; raise BuildError."""
        ...


@runtime_checkable
class VersionedBackend(Protocol):
    """Optional: a back end that says which compiler it is made with."""

    @property
    def compiler(self) -> str:
        """The compiler's name and version, for people."""
        ...


@runtime_checkable
class SearchedBackend(Protocol):
    """Optional: a back end whose programs are found in a search space of its own."""

    @property
    def space(self) -> str:
        """The module with that space, a `SPACE` of the protocol `ansorc.search.space.SearchSpace`.

        It is imported when programs are searched, so that a back end imports no search.
        """
        ...


@runtime_checkable
class NetworkBackend(NetworkOpener, Protocol):
    """Optional: a back end that makes one function of many kernels."""

    def compile_part(self, source: Source, target: Target) -> CompiledProgram:
        """Return the code of one kernel for the plan of a network; raise BuildError.

        It may be the source alone, where the kernels of a network are compiled together.
        """
        ...

    def load_network(self, plan: NetworkPlan, target: Target) -> LoadedNetwork:
        """Load the network of a valid plan; raise BuildError if it is not for this machine."""
        ...

    def save_network(
        self, path: Path, plan: NetworkPlan, target: Target, weights: Path | None
    ) -> Artifact:
        """Write the network of a valid plan for C and C++, with a header and a manifest.

        `weights` is a file for the weights; None: they are in the library. Raise BuildError.
        """
        ...

    def save_variants(self, path: Path, plan: VariantsPlan, target: Target) -> Artifact:
        """Write valid plans for several shapes as one library; raise BuildError."""
        ...


@runtime_checkable
class NetworkSourceBackend(Protocol):
    """Optional: a back end that compiles a network as one program."""

    def network_source(self, plan: NetworkPlan) -> Source:
        """Return the program of a valid plan, which `Backend.listings` take; raise BuildError."""
        ...


def network_backend_of(target: Target) -> NetworkBackend:
    """Return the back end that `target` names; raise TargetError if it makes no networks."""
    backend = backend_of(target)
    if isinstance(backend, NetworkBackend):
        return backend
    raise TargetError(
        f"the back end of '{target.text}' makes single kernels only, no networks; "
        "use one that does, e.g. 'native'"
    )


def team_of(target: Target, threads: int) -> AbstractContextManager[None]:
    """Return the team of `target`'s back end (see `TeamProbes`), or nothing if it has none."""
    probes = backend_of(target).probes
    return probes.team(target, threads) if isinstance(probes, TeamProbes) else nullcontext()


def backend_of(target: Target) -> Backend:
    """Return the back end that `target` names; raise TargetError if there is none."""
    name = target.real.backend
    backend = _backend(name)
    if backend is not None:
        return backend
    raise TargetError(
        f"'{target.text}' names a back end that Python cannot import: there is no module "
        f"'{name}' on its path; set PYTHONPATH, or leave out -backend"
    )


def opener_of(target: Target) -> Opener:
    """Return what opens libraries for `target`; raise TargetError if there is no such back end.

    That is OPENER in the module `opener` beside the back end's, which imports no compiler, where
    there is one; else the back end.
    """
    return _opener(target.real.backend) or backend_of(target)


def network_opener_of(target: Target) -> NetworkOpener:
    """Return what opens networks for `target`; raise TargetError if its back end makes none."""
    opener = opener_of(target)
    return opener if isinstance(opener, NetworkOpener) else network_backend_of(target)


@lru_cache(maxsize=16)
def _opener(backend: str) -> Opener | None:
    package = backend.rpartition(".")[0]
    module = _module(f"{package}.opener") if package else None
    return getattr(module, "OPENER", None)


@lru_cache(maxsize=16)
def _backend(name: str) -> Backend | None:
    """The back end in the module `name`; None if there is no such module."""
    module = _module(name)
    if module is None:
        return None
    backend: Backend | None = getattr(module, "BACKEND", None)
    if backend is None:
        raise TargetError(f"the module '{name}' is no back end of ansorc: it has no BACKEND")
    return backend


def _module(name: str) -> ModuleType | None:
    """The module `name`; None if there is none."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise
