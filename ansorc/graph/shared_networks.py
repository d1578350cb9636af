"""Networks that share what is equal: compiled kernels, and packed weights: `SharedNetworks`."""

from __future__ import annotations

import ctypes
import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import RLock

from ansorc.codegen.call.network_module import NetworkModule, link_network
from ansorc.codegen.program.compiled import Compiled
from ansorc.errors import ScheduleError
from ansorc.graph.network import Network
from ansorc.graph.network_build import c_name, choose_programs, with_threads
from ansorc.graph.network_plan import compile_kernel, plan_bound_network
from ansorc.graph.packed_weights import Content, Contents, PackedWeights
from ansorc.ir.dump import DumpFolder
from ansorc.schedule.names import Names, Steps
from ansorc.search.programs import ChosenSchedule, ProgramChoice, default_program, program_key
from ansorc.search.task import Task

MOST_KERNELS, MOST_CONTENTS = 1024, 16384
"""The most that is remembered: kernels of some ten kilobytes, and constants by their hashes."""
MOST_READERS = 4
LEAST_SHARED_BYTES = 1 << 14
"""Constants of fewer bytes do not matter for the choice of a program."""


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A compiled kernel, and the program that it was compiled of, in the names of `task`."""

    task: Task
    program: ChosenSchedule
    compiled: Compiled


class SharedNetworks:
    """Builds networks whose kernels are compiled once, and whose weights lie packed once.

    Two networks of one structure, with other weights or for other shapes of the inputs, share what
    is equal. Where no program was measured, one is preferred that reads the constants in a layout
    that another network has them in already.
    """

    def __init__(self) -> None:
        self._kernels: OrderedDict[str, _Kernel] = OrderedDict()
        self._readers: OrderedDict[Content, list[_Kernel]] = OrderedDict()
        """The last kernels that read a constant."""
        self._weights = PackedWeights()
        self._compiled = 0
        """How many kernels were compiled."""
        self._lock = RLock()

    def build(self, network: Network, choice: ProgramChoice, contents: Contents) -> NetworkModule:
        """Return `network` compiled; `contents` knows where its constants lie.

        Raise RecordError as `choose_programs` does, and BuildError.
        """
        with self._lock:
            compiled_before = self._compiled
            if choice.use_default:
                kernels = {
                    key: self._default(network, task, choice, contents)
                    for key, task in network.tasks.items()
                }
            else:
                programs = choose_programs(network, choice)
                kernels = {
                    key: self._kernel(
                        task, programs[key], program_key(task, programs[key]), network.dump
                    )
                    for key, task in network.tasks.items()
                }
            self._note_readers(network, kernels, contents)
            is_compiled = self._compiled > compiled_before
        name = c_name(network.source.name)
        compiled = {key: kernel.compiled for key, kernel in kernels.items()}
        plan = plan_bound_network(
            network, compiled, name, lambda w: self._weights.bind(w, contents)
        )
        contents.forget_others()
        if is_compiled:
            _release_free_memory()
        programs = {key: kernel.program for key, kernel in kernels.items()}
        return link_network(with_threads(plan, network, programs), network.target)

    def _default(
        self, network: Network, task: Task, choice: ProgramChoice, contents: Contents
    ) -> _Kernel:
        """Return the kernel of the untuned default, in a known layout if that is as good."""
        origin = f"default of {choice.threads} threads"
        known = self._find(task, origin, choice.check_indices)
        if known is not None:
            return known
        threaded = task.with_threads(choice.threads)
        like: dict[Steps, None] = {}
        for content in self._constants(network, task, contents):
            for reader in self._readers.get(content, ()):
                steps = _steps_for(threaded, reader)
                if steps is not None:
                    like[steps] = None
        program = default_program(threaded, like=list(like))
        program = replace(program, check_indices=choice.check_indices)
        return self._kernel(task, program, origin, network.dump)

    def _find(self, task: Task, origin: str, checks_indices: object) -> _Kernel | None:
        kernel = self._kernels.get(_key(task, origin, checks_indices))
        if kernel is not None:
            self._kernels.move_to_end(_key(task, origin, checks_indices))
        return kernel

    def _kernel(
        self, task: Task, program: ChosenSchedule, origin: str, dump: DumpFolder | None
    ) -> _Kernel:
        known = self._find(task, origin, program.check_indices)
        if known is not None:
            return replace(known, program=replace(known.program, threads=program.threads))
        made = _Kernel(task, program, compile_kernel(task, program, "kernel", dump))
        self._compiled += 1
        self._kernels[_key(task, origin, program.check_indices)] = made
        while len(self._kernels) > MOST_KERNELS:
            self._kernels.popitem(last=False)
        return made

    def _note_readers(
        self, network: Network, kernels: dict[str, _Kernel], contents: Contents
    ) -> None:
        """Remember which kernels read a constant, the last ones first."""
        for key, task in network.tasks.items():
            for content in self._constants(network, task, contents):
                readers = self._readers.setdefault(content, [])
                self._readers.move_to_end(content)
                if kernels[key] not in readers:
                    readers.insert(0, kernels[key])
                    del readers[MOST_READERS:]
        while len(self._readers) > MOST_CONTENTS:
            self._readers.popitem(last=False)

    def _constants(self, network: Network, task: Task, contents: Contents) -> list[Content]:
        """Return the contents of the large constants of a task, where it runs first."""
        group = next(group for group, other in network.task_of if other is task)
        roots = [network.partition.root(name) for name in group.inputs]
        arrays = [
            network.graph.constants[name] for name in roots if name in network.graph.constants
        ]
        return [contents.of(array) for array in arrays if array.nbytes >= LEAST_SHARED_BYTES]


def _key(task: Task, origin: str, checks_indices: object) -> str:
    """Return what tells kernels apart: the computation with its checks, the target, the program."""
    words = task.dag.canonical.to_text(), task.target.text, origin, str(checks_indices)
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _steps_for(task: Task, kernel: _Kernel) -> Steps | None:
    """Return the program of a kernel in the names of `task`; None for another structure."""
    if kernel.program.is_tuned:
        return None
    try:
        return Names(task.dag).from_canonical(
            Names(kernel.task.dag).to_canonical(kernel.program.steps)
        )
    except ScheduleError:
        return None


@lru_cache(maxsize=1)
def get_shared_networks() -> SharedNetworks:
    """Return the kernels and weights that all networks of this process share."""
    return SharedNetworks()


def _release_free_memory() -> None:
    """Return the memory that compiling has freed to the operating system.

    LLVM frees many small blocks, which the GNU C library keeps: a network that was compiled for 20
    batch sizes had 55 MB of them. Other C libraries have no such function.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
