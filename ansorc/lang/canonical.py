"""Put a DAG into an order and give it names that depend on its structure alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import MARK
from ansorc.ir.expr import Load, Var
from ansorc.ir.node import Node, rewrite
from ansorc.lang.compute_op import Axis, ComputeOp, Place, Scan
from ansorc.lang.hints import AXIS_HINTS, hint_axes


def in_order(params: Sequence[Buffer], ops: Sequence[ComputeOp]) -> tuple[ComputeOp, ...]:
    """Return `ops`, producers first, in the order in which the outputs among `params` need them.

    Operations come in the order in which they are read, so the order of independent operations
    does not depend on the order in which they were given. Unused operations come last. What reads
    an input comes before the operation that overwrites it, unless it needs the result of that.
    """
    ordered = _in_order(params, ops, {})
    if not any(op.overwrites for op in ops):
        return ordered
    return _in_order(params, ordered, _readers_of_old(ordered))


def _in_order(
    params: Sequence[Buffer], ops: Sequence[ComputeOp], before: Mapping[str, Sequence[ComputeOp]]
) -> tuple[ComputeOp, ...]:
    """Return `ops` in order, those that `before` lists for an operation before that, too."""
    makers = {buffer.name: op for op in ops for buffer in op.buffers}
    wanted = [makers[buffer.name] for buffer in params if buffer.name in makers]
    ordered: dict[str, ComputeOp] = {}
    stack = [(op, False) for op in reversed((*wanted, *ops))]
    while stack:
        op, is_ready = stack.pop()
        if op.name in ordered:
            continue
        if is_ready:
            ordered[op.name] = op
            continue
        sources = [makers[buffer.name] for buffer in op.reads if buffer.name in makers]
        sources += before.get(op.name, ())
        stack += [(op, True), *((source, False) for source in reversed(sources))]
    return tuple(ordered.values())


def _readers_of_old(ops: Sequence[ComputeOp]) -> dict[str, list[ComputeOp]]:
    """Return for each of `ops` that overwrites inputs what reads those, and can come before it."""
    makers = {buffer.name: op.name for op in ops for buffer in op.buffers}
    needs = {op.name: {makers[b.name] for b in op.reads if b.name in makers} for op in ops}
    before: dict[str, list[ComputeOp]] = {}
    for op in ops:
        old = {load.buffer.name for load in op.overwrites}
        for reader in ops:
            reads_old = any(buffer.name in old for buffer in reader.reads)
            if reader is not op and reads_old and not _needs(needs, reader.name, op.name):
                needs[op.name].add(reader.name)
                before.setdefault(op.name, []).append(reader)
    return before


def _needs(needs: Mapping[str, set[str]], name: str, other: str) -> bool:
    """Return whether `name` needs `other`, directly or through others."""
    waiting, seen = [name], {name}
    while waiting:
        for source in needs[waiting.pop()] - seen:
            seen.add(source)
            waiting.append(source)
    return other in seen


def rename_canonically(
    params: Sequence[Buffer], ops: Sequence[ComputeOp]
) -> tuple[tuple[Buffer, ...], tuple[ComputeOp, ...]]:
    """Return the DAG with tensors named t0, t1, … (params first) and axes a0, a1, …"""
    named = dict.fromkeys(b.name for b in (*params, *(b for op in ops for b in op.buffers)))
    names = {name: f"t{number}" for number, name in enumerate(named)}
    return (
        tuple(replace(buffer, name=names[buffer.name]) for buffer in params),
        tuple(rename_op(op, names) for op in ops),
    )


def rename_op(op: ComputeOp, tensors: Mapping[str, str]) -> ComputeOp:
    """Return `op` with its tensors renamed by `tensors`, its axes to a0, a1, … and its
    temporaries to s0, s1, …"""
    axes = {axis.name: f"a{i}" for i, axis in enumerate((*op.axes, *op.reduce_axes))}
    scalars = {temporary.buffer.name: f"s{i}" for i, temporary in enumerate(op.temporaries)}
    scalars |= {each.buffer.name: f"s{i}" for i, each in enumerate(op.step_sums)}
    inner = dict.fromkeys(axis.name for each in op.step_sums for axis in each.axes)
    axes |= {name: f"r{i}" for i, name in enumerate(inner)}
    names = {**tensors, **scalars}

    def rule(node: Node) -> Node | None:
        match node:
            case Var(name, dtype):
                return None if name.startswith(MARK) else Var(axes[name], dtype)
            case Load(buffer, indices):
                return Load(replace(buffer, name=names[buffer.name]), indices)
            case _:
                return None

    changed = replace(
        op,
        axes=tuple(replace(axis, name=axes[axis.name]) for axis in op.axes),
        reduce_axes=tuple(replace(axis, name=axes[axis.name]) for axis in op.reduce_axes),
        hints=_rename_hints(op, axes),
        places=tuple(Place(axes[place.axis], place.index) for place in op.places),
        temporaries=tuple(
            replace(
                temporary, buffer=replace(temporary.buffer, name=scalars[temporary.buffer.name])
            )
            for temporary in op.temporaries
        ),
        scan=op.scan and _rename_scan(op.scan, axes, scalars),
    )
    buffers = [replace(buffer, name=tensors[buffer.name]) for buffer in op.buffers]
    return changed.with_bodies(lambda body: rewrite(body, rule)).with_buffers(buffers)


def _rename_scan(scan: Scan, axes: Mapping[str, str], scalars: Mapping[str, str]) -> Scan:
    sums = tuple(
        replace(
            each,
            buffer=replace(each.buffer, name=scalars[each.buffer.name]),
            axes=tuple(Axis(axes[axis.name], axis.extent) for axis in each.axes),
        )
        for each in scan.sums
    )
    return replace(scan, axis=axes[scan.axis], sums=sums)


def _rename_hints(op: ComputeOp, axes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, ",".join(axes[axis] for axis in hint_axes(op.hints, name)))
        if name in AXIS_HINTS
        else (name, value)
        for name, value in op.hints
    )
