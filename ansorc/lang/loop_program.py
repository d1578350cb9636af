"""A definition as a loop program without any schedule: each computation in its own plain loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.ir.buffer import Buffer
from ansorc.ir.complex_view import is_complex_array, view_parts
from ansorc.ir.expr import BinaryOp, CompareOp, Expr, Load, Var, binary, compare, const
from ansorc.ir.interpret import interpret
from ansorc.ir.passes.insert_checks import insert_checks
from ansorc.ir.stmt import (
    Allocate,
    CallC,
    For,
    Function,
    If,
    LoopKind,
    Seq,
    Stmt,
    Store,
)
from ansorc.ir.substitute import substitute
from ansorc.lang.complex_dtype import paired_shape
from ansorc.lang.compute_op import Axis, ComputeOp, Scan, c_inputs
from ansorc.lang.ragged import checked_end
from ansorc.lang.update import stores, update, with_temporaries


class Definition(Protocol):
    """What a ComputeDAG says of itself."""

    @property
    def params(self) -> tuple[Buffer, ...]: ...
    @property
    def ops(self) -> tuple[ComputeOp, ...]: ...


def inputs_of(dag: Definition) -> tuple[Buffer, ...]:
    """Return the parameters that the caller of `dag` fills, in call order."""
    computed = set(outputs_of(dag))
    return tuple(buffer for buffer in dag.params if buffer not in computed)


def outputs_of(dag: Definition) -> tuple[Buffer, ...]:
    """Return the parameters that `dag` computes, in call order."""
    computed = {buffer.name for op in dag.ops for buffer in op.buffers}
    return tuple(buffer for buffer in dag.params if buffer.name in computed)


def pair_inputs(dag: Definition, inputs: Sequence[Array]) -> list[tuple[Buffer, Array]]:
    """Return each input of `dag` with its array; raise LanguageError if they do not fit."""
    buffers = inputs_of(dag)
    if len(inputs) != len(buffers):
        names = ", ".join(buffer.name for buffer in buffers)
        raise LanguageError(f"there are {len(buffers)} inputs ({names}), not {len(inputs)}")
    arrays = [_parts(buffer, array) for buffer, array in zip(buffers, inputs, strict=True)]
    for buffer, array in zip(buffers, arrays, strict=True):
        if array.shape != buffer.shape:
            raise LanguageError(f"'{buffer.name}' has shape {buffer.shape}, not {array.shape}")
    return list(zip(buffers, arrays, strict=True))


def _parts(buffer: Buffer, array: Array) -> Array:
    """Return an array for `buffer`, complex numbers as their parts.

    Raise LanguageError for complex numbers where `buffer` has real ones.
    """
    if buffer.is_complex:
        if not is_complex_array(array) and array.shape == buffer.shape:
            return array
        if array.shape != (extents := paired_shape(buffer.shape)):
            raise LanguageError(f"'{buffer.name}' has shape {extents}, not {array.shape}")
        whole = array if is_complex_array(array) else array.astype(np.complex128)
        return view_parts(np.ascontiguousarray(whole))
    if is_complex_array(array):
        raise LanguageError(
            f"'{buffer.name}' is {buffer.dtype}, and the array complex; pass array.real, or make "
            'the input one of dtype "complex64"'
        )
    return array


def loop_program(dag: Definition) -> Function:
    """Return `dag` as loops, one nest after another: what each element is, and nothing else.

    Of lowering a schedule it shares only `update`.
    """
    nests = tuple(_nest(op) for op in dag.ops)
    body: Stmt = nests[0] if len(nests) == 1 else Seq(nests)
    given = {buffer.name for buffer in dag.params}
    for buffer in (buffer for op in reversed(dag.ops) for buffer in op.buffers):
        if buffer.name not in given:
            body = Allocate(buffer, body)
    return Function("definition", dag.params, body)


def interpret_definition(dag: Definition, inputs: Sequence[Array]) -> list[Array]:
    """Return the outputs of `dag`, in call order, as the interpreter of loop programs has them.

    Every operation is done in the dtype that it has, one after another. Raise LanguageError if
    the inputs do not fit, and what a call raises for data that a program refuses.
    """
    outputs = outputs_of(dag)
    pairs = pair_inputs(dag, inputs)
    held = {buffer.name: array.astype(buffer.dtype.numpy) for buffer, array in pairs}
    held |= {buffer.name: np.zeros(buffer.shape, buffer.dtype.numpy) for buffer in outputs}
    arrays = [held[buffer.name] for buffer in dag.params]
    interpret(insert_checks(loop_program(dag)), arrays, fresh_outputs=True)
    return [held[buffer.name] for buffer in outputs]


def _nest(op: ComputeOp) -> Stmt:
    """Return the loops that compute all elements of `op`."""
    indices = tuple(Var(axis.name) for axis in op.axes)
    if op.c_call is not None:
        return CallC(op.c_call.name, op.c_call.function, c_inputs(op), op.buffer)
    if op.scan is not None:
        return _scan(op, op.scan)
    if op.overwrites:
        indices = op.result_indices
    if op.combiner is None:
        values = [temporary.value for temporary in op.temporaries]
        element = with_temporaries(
            op, values, lambda held: stores(op.buffers, indices, [held(b) for b in op.bodies])
        )
        old, new = _old_elements(op), _loops(op.axes, element)
        return Seq((*old, new)) if old else new
    first = stores(op.buffers, indices, op.identities)
    if op.places:
        return Seq((_loops(op.axes, first[0]), _scatter(op)))
    terms = _loops(op.reduce_axes, update(op, op.buffers, indices, op.bodies))
    return _loops(op.axes, Seq((*first, terms)))


def _old_elements(op: ComputeOp) -> list[Stmt]:
    """Return the loops that copy the inputs which `op` overwrites in part."""
    if not op.is_partial:
        return []
    axes = [Axis(f"d{d}", extent) for d, extent in enumerate(op.buffer.shape)]
    indices = tuple(Var(axis.name) for axis in axes)
    pairs = zip(op.buffers, op.overwrites, strict=True)
    return [_loops(axes, Store(b, indices, Load(load.buffer, indices))) for b, load in pairs]


def _scan(op: ComputeOp, scan: Scan) -> Stmt:
    """Return the loops of a scan, whose steps read what the ones before have stored."""
    extent = next(axis.extent for axis in op.axes if axis.name == scan.axis)
    step: Expr = Var(scan.axis)
    place = {scan.axis: binary(BinaryOp.SUB, const(extent - 1), step) if scan.is_reversed else step}
    indices = tuple(place.get(axis.name, Var(axis.name)) for axis in op.axes)
    before = [Load(b, load.indices) for b, load in zip(op.buffers, op.state_loads, strict=True)]
    first, next_ = (
        _step(made, place, stores(op.buffers, indices, [substitute(b, place) for b in made.bodies]))
        for made in (op.with_states(op.inits), op.with_states(before))
    )
    others = [axis for axis in op.axes if axis.name != scan.axis]
    element = If(compare(CompareOp.EQ, step, const(0)), first, next_)
    return _loops((Axis(scan.axis, extent), *others), element)


def _step(op: ComputeOp, place: Mapping[str, Expr], element: Sequence[Stmt]) -> Stmt:
    """Return the statements `element`, with the reductions in a step of a scan before them."""
    stmts: list[Stmt] = []
    for each in op.step_sums:
        total, term = Load(each.buffer, ()), substitute(each.body, place)
        stmts.append(Store(each.buffer, (), each.combiner.identity(each.buffer.dtype)))
        added = Store(each.buffer, (), each.combiner.combine(total, term))
        stmts.append(_loops(each.axes, added))
    stmt: Stmt = Seq((*stmts, *element))
    for each in op.step_sums:
        stmt = Allocate(each.buffer, stmt)
    return stmt


def _scatter(op: ComputeOp) -> Stmt:
    """Return the loops that combine each term of a scatter with the element at its place."""
    places = {place.axis: place.index for place in op.places}
    indices = tuple(places.get(axis.name, Var(axis.name)) for axis in op.axes)
    free = [axis for axis in op.axes if axis.name not in places]
    return _loops((*op.reduce_axes, *free), update(op, op.buffers, indices, op.bodies))


def _loops(axes: Sequence[Axis], body: Stmt) -> Stmt:
    """Return `body` inside one serial loop for each of `axes`, the first outermost."""
    for axis in reversed(axes):
        kind = LoopKind.RAGGED if axis.bounds else LoopKind.SERIAL
        ends = [checked_end(axis, bound) for bound in axis.bounds] or [None, None]
        body = For(Var(axis.name), axis.extent, kind, body, begin=ends[0], end=ends[1])
    return body
