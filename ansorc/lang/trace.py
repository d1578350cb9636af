"""Turn tensors, which refer to their sources, into a list of computations with unique names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Load
from ansorc.ir.node import Node, rewrite
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.literal import short_text
from ansorc.lang.naming import unique_name
from ansorc.lang.tensor import OwnedBuffer, Tensor

Key: TypeAlias = tuple[int, int]
"""A tensor: the identity of its computation, and the number of the output."""


def trace(params: Sequence[Tensor]) -> tuple[tuple[Buffer, ...], tuple[ComputeOp, ...]]:
    """Return the buffers of `params` and all computations that their outputs need.

    Producers come first. Raise LanguageError if tensors are missing, listed twice or share a name.
    """
    _check_params(params)
    tensors = list_tensors(params)
    given = {id(tensor) for tensor in params}
    for tensor in tensors:
        if tensor.definition is None and id(tensor) not in given:
            readers = ", ".join(
                f"'{other.name}'" for other in tensors if tensor in sources_of(other)
            )
            raise LanguageError(
                f"the input '{tensor.name}' is read by {readers} but not listed; "
                "give ComputeDAG all inputs and outputs, in call order"
            )
    buffers = _buffers(tensors)
    ops = {id(t.definition): t.definition for t in tensors if t.definition is not None}
    plain = tuple(_plain(op, buffers) for op in ops.values())
    return tuple(buffers[key_of(tensor)] for tensor in params), plain


def _check_params(params: Sequence[Tensor]) -> None:
    if not isinstance(params, (list, tuple)):
        raise LanguageError(f"ComputeDAG takes a list of tensors, not {short_text(params)}")
    for position, tensor in enumerate(params):
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LanguageError(f"ComputeDAG takes a list of tensors, not {short_text(tensor)}")
        if any(tensor is other for other in params[:position]):
            raise LanguageError(
                f"'{tensor.name}' is listed twice; list it once, however often it is read "
                "(the parameters of a kernel never overlap)"
            )
    if all(tensor.definition is None for tensor in params):
        raise LanguageError("there is no output: list what was computed after the inputs")


def list_tensors(params: Sequence[Tensor]) -> list[Tensor]:
    """Return the placeholders of `params`, then all other tensors behind them, producers first."""
    order: dict[Key, Tensor] = {key_of(t): t for t in params if t.definition is None}
    stack = [(tensor, False) for tensor in reversed(params)]
    while stack:
        tensor, is_ready = stack.pop()
        if key_of(tensor) in order:
            continue
        if is_ready:
            order[key_of(tensor)] = tensor
            continue
        stack.append((tensor, True))
        stack.extend((source, False) for source in reversed(sources_of(tensor)))
    return list(order.values())


def sources_of(tensor: Tensor) -> list[Tensor]:
    """Return the tensors that `tensor` reads, in order of first appearance."""
    sources: dict[Key, Tensor] = {}
    for load in _loads(tensor):
        owner = _owner(tensor, load)
        sources.setdefault(key_of(owner), owner)
    return list(sources.values())


def _loads(tensor: Tensor) -> Sequence[Load]:
    return () if tensor.definition is None else tensor.definition.loads


def _owner(reader: Tensor, load: Load) -> Tensor:
    buffer = load.buffer
    if isinstance(buffer, OwnedBuffer) and buffer.owner is not None:
        return buffer.owner
    raise LanguageError(
        f"'{reader.name}' reads the buffer '{buffer.name}', which belongs to no tensor; "
        "index a tensor instead, like tensor[i, j]"
    )


def key_of(tensor: Tensor) -> Key:
    """Return what is the same for all objects of one tensor."""
    return id(tensor.definition or tensor), tensor.output


def _buffers(tensors: Sequence[Tensor]) -> dict[Key, Buffer]:
    """Return the buffer of each tensor, and of unused outputs, with unique names."""
    taken: dict[str, Tensor] = {}
    for tensor in tensors:
        if tensor.has_auto_name:
            continue
        if tensor.name in taken:
            raise LanguageError(
                f"two tensors are called '{tensor.name}' ({taken[tensor.name]!r} and {tensor!r}); "
                "distinguish them by name="
            )
        taken[tensor.name] = tensor
    buffers: dict[Key, Buffer] = {}
    loads = (load for t in tensors if t.definition is not None for load in t.definition.overwrites)
    updated = {key_of(_owner(tensors[0], load)) for load in loads}
    for tensor in tensors:
        name = unique_name(tensor.name, taken) if tensor.has_auto_name else tensor.name
        taken[name] = tensor
        key = key_of(tensor)
        buffers[key] = replace(tensor.buffer, name=name, is_updated=key in updated)
    for tensor in tensors:
        op = tensor.definition
        for output, buffer in enumerate(() if op is None else op.buffers):
            if (id(op), output) not in buffers:
                name = unique_name(buffer.name, taken)
                taken[name] = tensor
                buffers[id(op), output] = replace(buffer, name=name)
    return buffers


def _plain(op: ComputeOp, buffers: Mapping[Key, Buffer]) -> ComputeOp:
    def rule(node: Node) -> Node | None:
        buffer = node.buffer if isinstance(node, Load) else None
        if isinstance(node, Load) and isinstance(buffer, OwnedBuffer) and buffer.owner is not None:
            return Load(buffers[key_of(buffer.owner)], node.indices)
        return None

    outputs = [buffers[id(op), output] for output in range(len(op.buffers))]
    return op.with_buffers(outputs).with_bodies(lambda body: rewrite(body, rule))
