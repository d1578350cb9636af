"""The statements of the IR: a closed set of immutable classes, and `Function`.

Loops start at 0 and have a constant extent, but for ragged ones, whose range is data; irregular
bounds are expressed by an `If`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from operator import is_
from typing import TypeAlias, assert_never, cast

from ansorc.ir import notebook
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dim import Dim
from ansorc.ir.expr import Const, Expr, Var
from ansorc.ir.fault import FaultKind, FaultSite
from ansorc.ir.node import Node, node
from ansorc.ir.own_function import OwnFunction


class LoopKind(Enum):
    """How the iterations of a loop may be run."""

    SERIAL = "for"
    PARALLEL = "parallel"
    """In any order, by several threads; see `For.chunk`."""
    VECTORIZED = "vectorized"
    """In lanes of vector instructions."""
    UNROLLED = "unrolled"
    """As copies of the body, the variable a constant in each."""
    MATRIX = "matrix"
    """By the matrix units of a GPU: the loop adds products in any order; float32 factors may lose
    their lowest 13 bits. See `form_matrix_tiles`."""
    BOUND = "bound"
    """One for each GPU thread or block of `For.thread`."""
    RAGGED = "ragged"
    """One after the other, for a range that is not known before: `For.begin` to `For.end`, perhaps
    empty."""
    SIZE = "size"
    """Once, for what the call gives for a dimension of the function."""


THREADS = (
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
    "vthread",
)  # fmt: skip


@node
class For(Node):
    """Run `body` once for each `var` in 0 … extent - 1, in the order `kind` allows."""

    var: Var
    extent: int
    kind: LoopKind
    body: Stmt
    thread: str = ""
    """One of THREADS for a BOUND loop, else empty."""
    chunk: int = 0
    """Iterations that a thread of a PARALLEL loop takes whenever it is free; 0: each thread gets
    one part, all of nearly equal length. 0 for every other loop."""
    stages: int = 0
    """Iterations whose copies to shared memory are in flight at once, if above 1. It changes no
    result. Only a serial loop has it; `pipeline_shared_copies` implements it."""
    begin: Expr | None = None
    end: Expr | None = None
    """Of a RAGGED loop, and of a PARALLEL one of a size that the caller gives: it runs for begin …
    end - 1, all of them in 0 … extent - 1. A parallel one begins at 0."""

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """The begin and the end of a RAGGED or PARALLEL loop that has them, else nothing."""
        return () if self.begin is None or self.end is None else (self.begin, self.end)

    @property
    def span(self) -> tuple[int, int]:
        """The least and the largest value of the variable."""
        first = self.begin if self.kind is LoopKind.SIZE else None
        return int(first.value) if isinstance(first, Const) else 0, self.extent - 1


@node
class Store(Node):
    """`buffer[indices] = value`; with vector indices, one element for each lane."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    is_async: bool = False
    """Whether a GPU thread continues before the store is done; an `Await` waits for it."""
    is_streamed: bool = False
    """Whether a CPU may store it past its caches; such stores fill whole cache lines."""
    is_atomic: bool = False
    """Whether no other thread of a GPU touches the element between the load of it in `value`, at
    the same indices, and the store."""


@node
class If(Node):
    """Run `then` if `condition` holds, else `otherwise` (which may be missing).

    With a vector condition, `then` is one Store of as many lanes, and there is no `otherwise`. Each
    lane is loaded and stored only if its condition holds.
    """

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None


@node
class Seq(Node):
    """Run `stmts` one after another; an empty Seq does nothing."""

    stmts: tuple[Stmt, ...]


@node
class Allocate(Node):
    """Allocate `buffer`, with undefined contents, for the duration of `body`."""

    buffer: Buffer
    body: Stmt


@node
class Barrier(Node):
    """Wait for all threads that share memory of `scope`."""

    scope: Scope


@node
class Prefetch(Node):
    """Prefetch the cache line of `buffer[indices]`.

    It changes no result. The element may be outside the buffer; then nothing happens.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]


@node
class Await(Node):
    """Wait until at most `pending` groups of this thread's asynchronous stores are in flight.

    The stores since the last Await form the latest group; earlier groups are done first.
    """

    pending: int


@node
class Check(Node):
    """Let the call fail unless `condition` holds, in every lane if it has lanes.

    The status that the call returns gives `kind`. The integers `args` (of the first lane that
    fails) and `about` are for the message; see `FaultKind`. On a CPU, nothing after a failed check
    runs in that thread. On a GPU the kernel goes on, so later statements must be safe even then. If
    several checks fail, any one of them is reported.
    """

    condition: Expr
    kind: FaultKind
    about: str
    args: tuple[Expr, ...] = ()


@node
class CallC(Node):
    """Call a C function of the user's, which reads whole `inputs` and fills the whole `output`."""

    symbol: str
    """The function's, in which its text has a part."""
    function: OwnFunction
    inputs: tuple[Buffer, ...]
    output: Buffer


Leaf: TypeAlias = Store | Barrier | Prefetch | Await | Check | CallC
"""A statement without others in it."""
Stmt: TypeAlias = For | If | Seq | Allocate | Leaf


def substatements(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the statements directly below `stmt`, in the order of the text."""
    match stmt:
        case For() | Allocate():
            return (stmt.body,)
        case Seq(parts):
            return parts
        case If(_, then, otherwise):
            return (then,) if otherwise is None else (then, otherwise)
        case Store() | Barrier() | Prefetch() | Await() | Check() | CallC():
            return ()
        case _:
            assert_never(stmt)


def with_body(loop: For, body: Stmt) -> For:
    """Return `loop` with another body; this is twice as fast as `replace`."""
    return For(
        loop.var, loop.extent, loop.kind, body, loop.thread, loop.chunk, loop.stages, loop.begin,
        loop.end,
    )  # fmt: skip


def map_substatements(stmt: Stmt, function: Callable[[Stmt], Stmt]) -> Stmt:
    """Return `stmt` with the statements directly below mapped; itself if none changed."""
    below = substatements(stmt)
    new = [function(part) for part in below]
    if all(map(is_, new, below)):
        return stmt
    match stmt:
        case For():
            return with_body(stmt, new[0])
        case Allocate(buffer):
            return Allocate(buffer, new[0])
        case If(condition):
            return If(condition, *new)
        case _:
            return Seq(tuple(new))


def statements(root: Stmt) -> Iterator[Stmt]:
    """Yield `root` and every statement below it, in the order of the text."""
    stack = [root]
    while stack:
        top = stack.pop()
        yield top
        stack += reversed(substatements(top))


def written_buffer(stmt: Node) -> Buffer | None:
    """Return the buffer that a statement itself writes to, or None."""
    if isinstance(stmt, Store):
        return stmt.buffer
    return stmt.output if isinstance(stmt, CallC) else None


def written_buffers(root: Stmt) -> list[Buffer]:
    """Return the buffer that each statement from `root` on writes to."""
    buffers = map(written_buffer, statements(root))
    return [buffer for buffer in buffers if buffer is not None]


@node
class Function(Node):
    """A kernel: `body` over the buffers `params`, in call order; params never overlap in memory.

    The parameters that `body` stores to are its outputs.
    """

    name: str
    params: tuple[Buffer, ...]
    body: Stmt
    threads: int = 0
    """The most threads that work on a call; 0: as many as the caller allows."""
    checks_indices: bool = True
    """Whether indices that come from data are checked (`insert_checks`)."""
    dims: tuple[Dim, ...] = ()
    """The dimensions that the call gives. The body is inside of a SIZE loop for each, in order."""

    def _repr_html_(self) -> str:
        """Return the text as HTML; hovering over a line shows the loops around it."""
        # the printer imports this module
        to_text = cast("Callable[[Function], str]", import_module("ansorc.ir.printer").to_text)
        return notebook.frame(self.name, notebook.code(notebook.inside(to_text(self))))


def fault_sites(root: Stmt) -> tuple[FaultSite, ...]:
    """Return the sites of the checks below `root`, each once, in the order of the text."""
    checks = (part for part in statements(root) if isinstance(part, Check))
    return tuple(
        dict.fromkeys(FaultSite(check.kind, check.about, len(check.args)) for check in checks)
    )
