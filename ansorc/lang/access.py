"""What a computation reads, and how: the predicates of the sketch rules (paper, Table 1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ansorc.ir.arith.affine import affine
from ansorc.ir.expr import Call, Const, Expr, Select
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.dag import ComputeDAG

Access: TypeAlias = tuple[Expr, ...]
"""The indices of one load."""

EXPENSIVE = frozenset({"exp"})
"""Calls too dear to be done again for each use."""


@dataclass(frozen=True)
class SimpleAccess:
    """A load whose every index is a constant, or a space axis up to a constant shift."""

    axes: tuple[int, ...]
    """The numbers of the space axes that index it, from left to right."""
    rank: int
    """How many space axes there are."""

    @property
    def has_missing_axis(self) -> bool:
        """Whether an axis is in no index: the load is repeated (a broadcast)."""
        return len(set(self.axes)) < self.rank

    @property
    def has_repeated_axis(self) -> bool:
        """Whether an axis is in two indices (a diagonal)."""
        return len(set(self.axes)) < len(self.axes)

    @property
    def is_in_order(self) -> bool:
        """Whether the axes come in the order of the loops (no transposition)."""
        return list(self.axes) == sorted(self.axes)


def reads(op: ComputeOp) -> dict[str, tuple[Access, ...]]:
    """Return the indices of each load of `op`, by the name of the tensor, without repetition."""
    found: dict[str, dict[Access, None]] = {}
    for load in op.loads:
        found.setdefault(load.buffer.name, {})[load.indices] = None
    return {name: tuple(accesses) for name, accesses in found.items()}


def reads_of(reader: ComputeOp, producer: ComputeOp) -> tuple[Access, ...]:
    """Return the indices of each load by `reader` of what `producer` computes."""
    found = reads(reader)
    return tuple(a for buffer in producer.buffers for a in found.get(buffer.name, ()))


def simple_access(op: ComputeOp, access: Access) -> SimpleAccess | None:
    """Return which axes of `op` index the load `access`, or None where it is not simple."""
    places = {axis.name: place for place, axis in enumerate(op.axes)}
    axes: list[int] = []
    for index in access:
        if isinstance(index, Const):
            continue
        name = shifted_axis(index)
        if name not in places:
            return None
        axes.append(places[name])
    return SimpleAccess(tuple(axes), len(op.axes))


def shifted_axis(index: Expr) -> str | None:
    """Return v where `index` is v plus a constant, else None."""
    form = affine(index)
    if form is None or len(form.terms) != 1:
        return None
    ((name, factor),) = form.terms.items()
    return name if factor == 1 else None


def strictly_inlineable(op: ComputeOp) -> bool:
    """Return whether `op` costs next to nothing where it is used (paper: IsStrictInlinable).

    So it is if all its loads are simple and in order, it has no branch, no `exp` and no reduction.
    What reads no tensor is, with branches too.
    """
    if op.reduce_axes:
        return False
    accesses = [simple_access(op, access) for found in reads(op).values() for access in found]
    if not accesses:
        return True
    if any(isinstance(node, Select) or _is_expensive(node) for node in op.nodes()):
        return False
    return all(a is not None and a.is_in_order and not a.has_repeated_axis for a in accesses)


def has_data_reuse(op: ComputeOp) -> bool:
    """Return whether `op` reads elements again and again, so that tiles pay (paper: HasDataReuse).

    A tensor is reused if some space axis longer than 1 is in none of its indices. One reused
    tensor suffices with a reduction, else two are needed. The hint `simplify_const_tensor_indices`
    says no.
    """
    if "simplify_const_tensor_indices" in dict(op.hints):
        return False
    long_axes = {axis.name for axis in op.axes if axis.extent > 1}
    reused = sum(bool(long_axes - _variables(accesses)) for accesses in reads(op).values())
    return reused >= 2 or (reused == 1 and bool(op.reduce_axes))


def is_strictly_inlineable(dag: ComputeDAG, name: str) -> bool:
    """Return whether the tensor `name` is; an input is not (see `strictly_inlineable`)."""
    return _is_computed(dag, name) and strictly_inlineable(dag.op(name))


def needs_multi_level_tiling(dag: ComputeDAG, name: str) -> bool:
    """Return whether the tensor `name` is worth tiling; an input is not (see `has_data_reuse`)."""
    return _is_computed(dag, name) and has_data_reuse(dag.op(name))


def consumers(dag: ComputeDAG, name: str, inlined: Collection[str] = ()) -> tuple[str, ...]:
    """Return what reads the tensor `name`, directly or through tensors that are `inlined`."""
    found: dict[str, None] = {}
    for reader in dag.readers(name):
        through = consumers(dag, reader, inlined) if reader in inlined else (reader,)
        found.update(dict.fromkeys(through))
    return tuple(found)


def elementwise_match(dag: ComputeDAG, name: str, target: str) -> bool:
    """Return whether `target` follows `name` in a chain of elementwise computations.

    At each hop there is one reader, of the same shape, whose every load of what it reads is
    simple, in order, and has no missing or repeated axis.
    """
    while name != target:
        readers = dag.readers(name)
        if len(readers) != 1 or dag.op(readers[0]).buffer.shape != dag.op(name).buffer.shape:
            return False
        reader = dag.op(readers[0])
        if not all(_is_elementwise(reader, access) for access in reads_of(reader, dag.op(name))):
            return False
        name = reader.name
    return True


def has_single_elementwise_consumer(
    dag: ComputeDAG, name: str, inlined: Collection[str] = ()
) -> bool:
    """Return whether exactly one computation consumes `name`, elementwise (HasFusibleConsumer).

    It is looked for behind the `inlined` tensors; two reductions do not fuse.
    """
    found = consumers(dag, name, inlined)
    if len(found) != 1 or not _is_computed(dag, name):
        return False
    both_reduce = bool(dag.op(name).reduce_axes) and bool(dag.op(found[0]).reduce_axes)
    return not both_reduce and elementwise_match(dag, name, found[0])


def _is_computed(dag: ComputeDAG, name: str) -> bool:
    return any(buffer.name == name for op in dag.ops for buffer in op.buffers)


def _is_expensive(node: object) -> bool:
    return isinstance(node, Call) and node.name in EXPENSIVE


def _is_elementwise(op: ComputeOp, access: Access) -> bool:
    found = simple_access(op, access)
    return (
        found is not None
        and found.is_in_order
        and not (found.has_missing_axis or found.has_repeated_axis)
    )


def _variables(accesses: Iterable[Access]) -> set[str]:
    return {name for access in accesses for index in access for name in free_vars(index)}
