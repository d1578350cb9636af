"""Write a prepared function as kernels in CUDA C, with the plan of their launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ansorc.codegen.cuda.prelude import WAITING_PARTS
from ansorc.codegen.cuda.stmt import CudaStatements
from ansorc.codegen.cuda.text import SHARED_ALIGNMENT
from ansorc.codegen.cuda.types import c_type
from ansorc.codegen.package.signature import FAULT_RECORD, FAULT_STATUS
from ansorc.codegen.program.device_program import DeviceProgram, KernelText
from ansorc.codegen.program.launch_plan import KernelArgument, Launch, LaunchPlan
from ansorc.errors import BuildError
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Load
from ansorc.ir.node import walk
from ansorc.ir.passes.gpu.thread_nests import INDICES
from ansorc.ir.stmt import (
    Allocate,
    Barrier,
    CallC,
    Check,
    For,
    Function,
    LoopKind,
    Seq,
    Stmt,
    Store,
    fault_sites,
    statements,
)
from ansorc.target import Target
from ansorc.target.gpu_limits import STATIC_SHARED_BYTES, complaint, launch_limits

WORKSPACE_ALIGNMENT = 256
"""The alignment of memory from `cuMemAlloc`; see `KernelArgument`."""

_RECORD = FAULT_RECORD.elements
CLEAR_FAULTS = KernelText(
    "clear_faults", ("long long *record",), _RECORD, ("  record[threadIdx.x] = 0;",)
)
"""The kernel after which no check has failed."""


def emit_cuda(
    function: Function, target: Target, packers: Sequence[Function] = ()
) -> DeviceProgram:
    """Return the kernels of `function`, prepared by CUDA_PASSES, and their launches.

    Raise BuildError for what no GPU of the target launches, and for packers, of which there are
    none on a GPU.
    """
    if packers:
        raise BuildError(
            f"kernel '{function.name}' packs its constants anew, which is not done on a GPU; "
            "use a schedule that leaves their layout as it is"
        )
    called = [part.function.name for part in statements(function.body) if isinstance(part, CallC)]
    if called:
        raise BuildError(
            f"the C function '{called[0]}' runs on CPUs only; write its stage by ac.compute for a "
            "GPU"
        )
    nests, workspace = kernels(function), workspace_of(function)
    sites = fault_sites(function.body)
    launches: list[Launch] = [clearing(0)] if sites else []
    texts: list[KernelText] = []
    for number, nest in enumerate(nests):
        kernel = _KernelWriter(f"{function.name}_{number}", nest, function, workspace)
        kernel.writer.fault_sites = sites
        texts.append(kernel.text())
        launches.append(kernel.launch())
        refused = complaint(launch_limits(target), *kernel.shape, kernel.shared.size)
        if refused:
            raise BuildError(f"kernel '{function.name}' cannot be launched: {refused}")
    statuses = tuple(FAULT_STATUS[site.kind] for site in sites)
    plan = LaunchPlan(
        function.name, tuple(launches), workspace_bytes(function), fault_statuses=statuses
    )
    return DeviceProgram((*texts, *([CLEAR_FAULTS] if sites else [])), plan)


def clearing(offset: int) -> Launch:
    """Return the launch of CLEAR_FAULTS, before all others, on what lies at `place`."""
    argument = KernelArgument("workspace", offset)
    return Launch(CLEAR_FAULTS.name, (1, 1, 1), (_RECORD, 1, 1), 0, (argument,))


def kernels(function: Function) -> list[Stmt]:
    """Return the nests of a prepared function that are launched one after another."""
    nests: list[Stmt] = []

    def visit(stmt: Stmt) -> None:
        match stmt:
            case Seq(stmts):
                for part in stmts:
                    visit(part)
            case Allocate(buffer, body) if buffer.scope is Scope.GLOBAL:
                visit(body)
            case _:
                nests.append(stmt)

    visit(function.body)
    return nests


def workspace_of(function: Function) -> dict[Buffer, int]:
    """Return where in the workspace each global buffer lies that `function` allocates."""
    return _assign_offsets(_workspace_buffers(function), WORKSPACE_ALIGNMENT)[0]


def workspace_bytes(function: Function) -> int:
    """Return the bytes of workspace that a prepared function needs."""
    return _assign_offsets(_workspace_buffers(function), WORKSPACE_ALIGNMENT)[1]


def _workspace_buffers(function: Function) -> list[Buffer]:
    """Return what is in the workspace, what says which check failed first."""
    buffers = list(_find_allocated(function.body, Scope.GLOBAL))
    return [FAULT_RECORD, *buffers] if fault_sites(function.body) else buffers


@dataclass(frozen=True)
class SharedMemory:
    """Where the shared arrays of a block lie."""

    offsets: dict[Buffer, int]
    size: int

    @property
    def is_dynamic(self) -> bool:
        """Whether there is more than a kernel may declare."""
        return self.size > STATIC_SHARED_BYTES


def lay_out_shared_memory(nest: Stmt) -> SharedMemory:
    """Return the layout of the shared memory of one kernel."""
    return SharedMemory(*_assign_offsets(_find_allocated(nest, Scope.SHARED), SHARED_ALIGNMENT))


def _find_allocated(root: Stmt, scope: Scope) -> Iterator[Buffer]:
    for part in statements(root):
        if isinstance(part, Allocate) and part.buffer.scope is scope:
            yield part.buffer


def _assign_offsets(buffers: Iterable[Buffer], alignment: int) -> tuple[dict[Buffer, int], int]:
    """Return an offset for each buffer, and the end of the last."""
    offsets: dict[Buffer, int] = {}
    end = 0
    for buffer in buffers:
        if buffer not in offsets:
            offsets[buffer] = end
            end += -(-buffer.bytes // alignment) * alignment
    return offsets, end


class _KernelWriter:
    def __init__(
        self, name: str, nest: Stmt, function: Function, workspace: dict[Buffer, int]
    ) -> None:
        self.name, self._nest = name, nest
        self.writer = CudaStatements()
        self.shared = lay_out_shared_memory(nest)
        self._has_barriers = any(isinstance(part, Barrier) for part in statements(nest))
        stored, used, exchanged = _find_accessed(nest)
        self._stored, self._exchanged = stored, exchanged
        self._arguments: list[tuple[Buffer, KernelArgument]] = [
            (buffer, KernelArgument("parameter", number))
            for number, buffer in enumerate(function.params)
            if buffer in used
        ]
        self._arguments += [
            (buffer, KernelArgument("workspace", offset))
            for buffer, offset in workspace.items()
            if buffer in used
        ]
        self._bound = {loop.thread: loop for loop in _thread_loops(nest)}

    @property
    def shape(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """The grid, and the block."""
        extents = [self._bound[t].extent if t in self._bound else 1 for t in INDICES]
        return (extents[0], extents[1], extents[2]), (extents[3], extents[4], extents[5])

    def launch(self) -> Launch:
        grid, block = self.shape
        dynamic = self.shared.size if self.shared.is_dynamic else 0
        arguments = tuple(argument for _, argument in self._arguments)
        return Launch(self.name, grid, block, dynamic, arguments)

    def text(self) -> KernelText:
        writer = self.writer
        params = tuple(self._parameter(buffer) for buffer, _ in self._arguments)
        dynamic = self._declare_shared()
        for thread, loop in self._bound.items():
            writer.line(f"const int {writer.bind(loop)} = {thread};")
        _, block = self.shape
        threads = writer.exprs.threads = block[0] * block[1] * block[2]
        writer.statement(self._nest)
        parts = writer.exprs.parts
        waits = self._has_barriers or not parts.isdisjoint(WAITING_PARTS)
        return KernelText(
            self.name, params, threads, tuple(writer.lines), tuple(sorted(parts)), dynamic, waits
        )

    def _parameter(self, buffer: Buffer) -> str:
        name = self.writer.exprs.buffers[buffer] = self.writer.name(buffer.name)
        self.writer.exprs.parts.update({c_type(buffer.dtype)} & {"half", "bfloat16"})
        constant = "" if buffer in self._stored else "const "
        alone = "" if buffer in self._exchanged else "__restrict__ "
        return f"{constant}{c_type(buffer.dtype)} *{alone}{name}"

    def _declare_shared(self) -> str:
        """Write where shared arrays are; return what dynamic memory is called, "" if none."""
        writer = self.writer
        memory = writer.name("shared_memory") if self.shared.is_dynamic else ""
        for buffer, offset in self.shared.offsets.items():
            name = writer.exprs.buffers[buffer] = writer.name(buffer.name)
            kind = c_type(buffer.dtype)
            writer.exprs.parts.update({kind} & {"half", "bfloat16"})
            if memory:
                address = f"{memory} + {offset}" if offset else memory
                writer.line(f"{kind} *const {name} = reinterpret_cast<{kind} *>({address});")
            else:
                align = f"__align__({SHARED_ALIGNMENT})"
                writer.line(f"__shared__ {align} {kind} {name}[{buffer.elements}];")
        return memory


def _find_accessed(nest: Stmt) -> tuple[set[Buffer], set[Buffer], set[Buffer]]:
    """Return the buffers that `nest` stores to, all that it accesses, those of several threads.

    Of a pointer with `__restrict__` the compiler believes that no other thread stores by it: it
    keeps what was loaded before a barrier, seen on an H200.
    """
    parts = list(walk(nest))
    stored = {part.buffer for part in parts if isinstance(part, Store)}
    loaded = {part.buffer for part in parts if isinstance(part, Load)}
    if any(isinstance(part, Check) for part in parts):
        stored.add(FAULT_RECORD)
    meets = any(isinstance(part, Barrier) for part in parts)
    return stored, stored | loaded, stored & loaded if meets else set[Buffer]()


def _thread_loops(stmt: Stmt) -> Iterator[For]:
    """The loops over blocks and threads, the outermost of a nest in normal form."""
    while isinstance(stmt, For) and stmt.kind is LoopKind.BOUND:
        yield stmt
        stmt = stmt.body
