"""Updates of inputs: which are written in place, and which go to memory of their own first.

A store to an element of an input must come behind all loads of the old element. Inside the loops
of the update each element is stored once. So it may be written in place if there it follows from
no old element but itself, whatever the order of the loops:

    A2[i, j] = A[i, j] - G[i, j]          ->   A[i, j] = A[i, j] - G[i, j]

    A2[i] = A[i - 1] + A[i + 1]           ->   alloc A2[n]
                                               for i: A2[i] = A[i - 1] + A[i + 1]
                                               for i: A[i] = A2[i]

Loops before it may read anything. Where loops behind it still read old elements, the new ones are
kept apart until the end of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from math import prod

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import BinaryOp, CompareOp, Expr, Indices, Load, Var, binary, compare, const
from ansorc.ir.stmt import Allocate, For, If, LoopKind, Seq, Stmt, Store
from ansorc.ir.substitute import substitute
from ansorc.schedule.stage import At, Mark, Root, Stage

_PARALLEL_ELEMENTS = 1 << 16
"""Copies of fewer elements are over before a second thread has begun."""
_BLOCK = 4096
"""The elements of a long row that a thread copies at once."""
_THREADS = 256
"""Threads of a block of a GPU that copies."""


class Writing(Enum):
    """Where the results of an update are stored."""

    IN_PLACE = "written in place"
    PART = "computed apart, then copied to it"
    """Right behind the loops that compute it."""
    WHOLE = "computed apart, then copied to it at the end"
    """All of the new tensor has memory of its own, which its readers read."""


def find_writings(stages: Sequence[Stage]) -> dict[str, Writing]:
    """Return where the results of each of `stages` that updates inputs are stored, by its name."""
    if not any(stage.op.overwrites for stage in stages):
        return {}
    nests = _Nests(stages)
    return {
        stage.name: nests.writing(stage)
        for stage in stages
        if stage.op.overwrites and isinstance(stage.attach, Root)
    }


class _Nests:
    """The stages of a program, producers first, and in whose loops each is computed."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = [stage for stage in stages if not stage.is_inlined]
        self._sources = {b.name: stage for stage in self._stages for b in stage.op.buffers}
        named = {stage.name: stage for stage in self._stages}
        self._roots: dict[str, str] = {}
        for stage in self._stages:
            outer = stage
            while isinstance(outer.attach, At):
                outer = named[outer.attach.stage]
            self._roots[stage.name] = outer.name

    def writing(self, stage: Stage) -> Writing:
        """Return where the results of `stage` are stored, which is at root."""
        old = {load.buffer.name for load in stage.op.overwrites}
        place = self._stages.index(stage)
        later = {
            other.name for other in self._stages[place + 1 :] if isinstance(other.attach, Root)
        }
        is_needed = any(
            self._roots[other.name] in later and any(b.name in old for b in other.op.reads)
            for other in self._stages
        )
        if is_needed:
            return Writing.WHOLE
        return Writing.IN_PLACE if self._reads_own_elements(stage) else Writing.PART

    def _reads_own_elements(self, stage: Stage) -> bool:
        """Return whether each element that `stage` computes follows from no old one but itself."""
        own = {load.buffer.name: load.indices for load in stage.op.overwrites}
        old = self._find_tensors_of_old(stage, own)
        known = set[tuple[str, Indices]]()

        def follows(reader: Stage, axes: Mapping[str, Expr]) -> bool:
            for load in reader.op.loads:
                name, indices = load.buffer.name, tuple(substitute(i, axes) for i in load.indices)
                if name in own and indices != own[name]:
                    return False
                source = self._inside(stage, name)
                if source is None or name not in old or (name, indices) in known:
                    continue
                known.add((name, indices))
                if source.op.reduce_axes or source.op.scan is not None:
                    return False
                pairs = zip(source.op.axes, indices, strict=True)
                if not follows(source, {axis.name: index for axis, index in pairs}):
                    return False
            return True

        return follows(stage, {})

    def _find_tensors_of_old(self, root: Stage, names: Iterable[str]) -> set[str]:
        """Return `names` and the tensors that follow from them in the loops of `root`."""
        found = set(names)
        for stage in self._stages:
            is_inside = self._roots[stage.name] == root.name
            if is_inside and any(buffer.name in found for buffer in stage.op.reads):
                found |= {buffer.name for buffer in stage.op.buffers}
        return found

    def _inside(self, root: Stage, tensor: str) -> Stage | None:
        """Return the stage that computes `tensor` inside of the loops of `root`, or None."""
        source = self._sources.get(tensor)
        is_inside = source is not None and self._roots[source.name] == root.name
        return source if is_inside else None


def written_buffers(stage: Stage, writing: Writing) -> tuple[Buffer, ...]:
    """Return the memory that the loops of an update store to."""
    match writing:
        case Writing.IN_PLACE:
            return tuple(load.buffer for load in stage.op.overwrites)
        case Writing.PART:
            return stage.op.part.buffers
        case Writing.WHOLE:
            return stage.op.buffers


def read_buffers(stage: Stage, writing: Writing) -> tuple[Buffer, ...]:
    """Return the memory in which the readers of an update find the whole new tensors."""
    if writing is Writing.WHOLE:
        return stage.op.buffers
    return tuple(load.buffer for load in stage.op.overwrites)


def store_together(
    buffers: Sequence[Buffer], indices: Indices, values: Sequence[Expr]
) -> list[Stmt]:
    """Return the stores of `values` that may read the elements which others overwrite."""
    if len(buffers) == 1:
        return [Store(buffers[0], indices, values[0])]
    held = [Buffer(f"{b.name}.new", (), b.dtype, Scope.LOCAL) for b in buffers]
    stmts: list[Stmt] = [Store(s, (), v) for s, v in zip(held, values, strict=True)]
    stmts += [Store(b, indices, Load(s, ())) for b, s in zip(buffers, held, strict=True)]
    stmt: Stmt = Seq(tuple(stmts))
    for scalar in reversed(held):
        stmt = Allocate(scalar, stmt)
    return [stmt]


def is_for_device(stages: Sequence[Stage]) -> bool:
    """Return whether loops of `stages` are bound to the threads of a GPU."""
    loops = (loop for stage in stages for loop in stage.iterators)
    return any(loop.mark is Mark.BIND for loop in loops)


class CopyLoops:
    """Loops that copy each element of a box once: in vectors and threads, or on a GPU."""

    def __init__(self, name: str, shape: Sequence[int], *, on_device: bool) -> None:
        """`name` begins those of the variables."""
        self._elements = prod(shape)
        self._guard: Expr | None = None
        self._loops: list[tuple[Var, int, LoopKind, str]] = []
        self.indices: tuple[Expr, ...] = ()
        """The place of the element that is copied."""
        if on_device:
            self._set_threads(name, shape)
        else:
            self._set_loops(name, shape)

    def around(self, body: Sequence[Stmt]) -> Stmt:
        """Return the loops around `body`."""
        stmt: Stmt = body[0] if len(body) == 1 else Seq(tuple(body))
        if self._guard is not None:
            stmt = If(self._guard, stmt)
        for var, extent, kind, thread in reversed(self._loops):
            stmt = For(var, extent, kind, stmt, thread)
        return stmt

    def _set_threads(self, name: str, shape: Sequence[int]) -> None:
        threads = min(_THREADS, self._elements)
        blocks = -(-self._elements // threads)
        block, thread = Var(f"{name}.block"), Var(f"{name}.thread")
        self._loops = [
            (block, blocks, LoopKind.BOUND, "blockIdx.x"),
            (thread, threads, LoopKind.BOUND, "threadIdx.x"),
        ]
        place: Expr = block * threads + thread
        self.indices = tuple(_digit(place, shape, d) for d in range(len(shape)))
        if self._elements % threads:
            self._guard = compare(CompareOp.LT, place, const(self._elements))

    def _set_loops(self, name: str, shape: Sequence[int]) -> None:
        is_parallel = self._elements >= _PARALLEL_ELEMENTS
        long = [d for d, extent in enumerate(shape) if extent > 1]
        indices: list[Expr] = [const(0)] * len(shape)
        for d in long:
            var, kind = Var(f"{name}.c{d}"), LoopKind.SERIAL
            indices[d] = var
            if d == long[0] and is_parallel:
                kind = LoopKind.PARALLEL
            if d < long[-1]:
                self._loops.append((var, shape[d], kind, ""))
            elif kind is LoopKind.PARALLEL:
                indices[d] = self._set_blocks(var, shape[d])
            else:
                self._loops.append((var, shape[d], LoopKind.VECTORIZED, ""))
        self.indices = tuple(indices)

    def _set_blocks(self, var: Var, extent: int) -> Expr:
        """Add the loops over a long row, and return the place in it."""
        block = Var(f"{var.name}.block")
        blocks, kind = -(-extent // _BLOCK), LoopKind.VECTORIZED
        self._loops += [(block, blocks, LoopKind.PARALLEL, ""), (var, _BLOCK, kind, "")]
        place = block * _BLOCK + var
        if extent % _BLOCK:
            self._guard = compare(CompareOp.LT, place, const(extent))
        return place


def _digit(place: Expr, shape: Sequence[int], dimension: int) -> Expr:
    """Return the index along a dimension of the element with the number `place`."""
    inner = const(prod(shape[dimension + 1 :]))
    along = binary(BinaryOp.FLOORDIV, place, inner)
    return binary(BinaryOp.MOD, along, const(shape[dimension])) if dimension else along
