"""Check that computations are legal: names, dtypes, ranks, order, and reads inside tensors."""

from __future__ import annotations

import math

from ansorc.errors import IRError, LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Broadcast, Dot, Load, Ramp, Reduce, Var, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.printer import expr_text
from ansorc.ir.substitute import free_vars
from ansorc.ir.verify_expr import ExprRules
from ansorc.lang.compute_op import Combiner, ComputeOp, StateBuffer
from ansorc.lang.hints import AXIS_HINTS, hint_axes
from ansorc.lang.in_range import check_reads_in_range
from ansorc.lang.reducer import Reducer, check_reducer

_MOST_TERMS = 2**62


def check_op(op: ComputeOp) -> None:
    """Raise LanguageError if `op` is not legal; the message suggests what to do instead."""
    axes = [axis.name for axis in (*op.axes, *op.reduce_axes)]
    if len(set(axes)) != len(axes):
        raise LanguageError(f"'{op.name}' has two axes of one name: {', '.join(axes)}")
    if any(axis.extent <= 0 for axis in (*op.axes, *op.reduce_axes)):
        raise LanguageError(f"'{op.name}' has an empty axis; extents are 1 or more")
    if math.prod(axis.extent for axis in (*op.loop_axes, *op.reduce_axes)) > _MOST_TERMS:
        raise LanguageError(f"'{op.name}' is computed from more than 2**62 terms: {_extents(op)}")
    for buffer in op.buffers:
        if buffer.shape != tuple(axis.extent for axis in op.axes):
            raise LanguageError(f"the axes of '{op.name}' do not match the shape {buffer.shape}")
    if (op.combiner is None) != (not op.reduce_axes):
        raise LanguageError(f"'{op.name}' needs a combiner exactly if it has reduce axes")
    for buffer, body in zip(op.buffers, op.bodies, strict=True):
        if dtype_of(body) != buffer.dtype:
            raise LanguageError(
                f"'{buffer.name}' is {buffer.dtype}, but its body is {dtype_of(body)}"
            )
    if op.temporaries and op.reduce_axes:
        raise LanguageError(f"'{op.name}' is a reduction, which holds no values; write them out")
    _check_combiner(op)
    _check_scan(op)
    _check_places(op)
    _check_ragged(op)
    _check_nodes(op, set(axes))
    _check_hints(op, axes)
    check_reads_in_range(op)


def check_ops(params: tuple[Buffer, ...], ops: tuple[ComputeOp, ...]) -> None:
    """Raise LanguageError unless each op is legal and reads only parameters and earlier ops."""
    made = [buffer.name for op in ops for buffer in op.buffers]
    computed = set(made)
    names = [buffer.name for buffer in params if buffer.name not in computed] + made
    if len(set(names)) != len(names) or len({b.name for b in params}) != len(params):
        raise LanguageError(f"two tensors have one name: {', '.join(names)}")
    known = {buffer.name: buffer for buffer in params if buffer.name not in computed}
    for op in ops:
        for buffer in op.reads:
            if known.get(buffer.name) != buffer:
                raise LanguageError(
                    f"'{op.name}' reads '{buffer.name}', which is neither an input nor computed "
                    "before it"
                )
        check_op(op)
        _check_dtypes(op)
        known |= {buffer.name: buffer for buffer in op.buffers}
    if any(known[buffer.name] != buffer for buffer in params):
        raise LanguageError("an output is declared unlike the tensor that is computed")
    if not computed & {buffer.name for buffer in params}:
        raise LanguageError("there is no output: list what was computed after the inputs")


def _extents(op: ComputeOp) -> str:
    return ", ".join(f"{axis.name}: {axis.extent}" for axis in (*op.axes, *op.reduce_axes))


def _check_combiner(op: ComputeOp) -> None:
    """Raise LanguageError unless the combiner of `op` fits the number of its results."""
    if isinstance(op.combiner, Reducer):
        check_reducer(op.combiner, [buffer.dtype for buffer in op.buffers], op.name)
    elif op.combiner is not None and op.more:
        raise LanguageError(f"'{op.name}' has several outputs; reduce them by one ac.reducer(...)")


def _check_scan(op: ComputeOp) -> None:
    """Raise LanguageError unless a scan, and nothing else, reads its states one step before."""
    states = [n for n in op.nodes() if isinstance(n, Load) and isinstance(n.buffer, StateBuffer)]
    if op.scan is None:
        if states:
            raise LanguageError(f"'{op.name}' reads itself, but is no scan")
        return
    if op.reduce_axes or op.temporaries or all(a.name != op.scan_axis for a in op.axes):
        raise LanguageError(
            f"'{op.name}' is a scan along '{op.scan_axis}', which has to be one of its axes "
            f"({', '.join(axis.name for axis in op.axes)}); a scan has no reduce axes"
        )
    if [dtype_of(init) for init in op.inits] != [buffer.dtype for buffer in op.buffers]:
        raise LanguageError(f"'{op.name}' does not begin with the dtypes of its states")
    for node in (part for init in op.inits for part in walk(init)):
        if (isinstance(node, Var) and node.name == op.scan_axis) or node in states:
            raise LanguageError(
                f"'{op.name}' begins with a value that depends on '{op.scan_axis}', along which "
                "it is a scan"
            )
    for load in states:
        if load not in op.state_loads:
            raise LanguageError(
                f"'{op.name}' reads its state at {expr_text(load)}; a scan reads the one before, "
                f"{expr_text(op.state_loads[0])}"
            )


def _check_places(op: ComputeOp) -> None:
    """Raise LanguageError unless the terms of `op` go to places along some of its axes."""
    names = [place.axis for place in op.places]
    if not names:
        return
    axes = {axis.name for axis in op.axes}
    if len(set(names)) != len(names) or not axes.issuperset(names):
        raise LanguageError(
            f"'{op.name}' has places along {', '.join(names)}; give one along each of several of "
            f"its axes ({', '.join(axis.name for axis in op.axes)})"
        )
    if not isinstance(op.combiner, Combiner):
        raise LanguageError(f"'{op.name}' has places, but no sum, prod, max, min, any or all")
    for expr in op.expressions:
        if used := free_vars(expr) & set(names):
            raise LanguageError(
                f"'{op.name}' uses the axis '{min(used)}', along which its terms are scattered: "
                "terms and places follow the other axes"
            )
    for place in op.places:
        if dtype_of(place.index) != INT64:
            raise LanguageError(f"a place of '{op.name}' is {dtype_of(place.index)}, not int64")


def _check_ragged(op: ComputeOp) -> None:
    """Raise LanguageError unless at most one axis has a range that is data, and may have it."""
    ragged = [axis for axis in (*op.axes, *op.reduce_axes) if axis.bounds]
    if not ragged:
        return
    if len(ragged) > 1 or ragged[0] not in op.reduce_axes:
        names = ", ".join(axis.name for axis in ragged)
        raise LanguageError(
            f"'{op.name}' has ranges that are data for {names}; one reduce axis may have one"
        )
    (axis,) = ragged
    if not isinstance(op.combiner, Combiner) or op.places:
        raise LanguageError(
            f"'{op.name}' reduces over '{axis.name}', whose range is data, in another way than by "
            "sum, prod, max, min, any or all"
        )
    space = {other.name for other in op.axes}
    for bound in axis.bounds:
        if others := free_vars(bound) - space:
            raise LanguageError(
                f"the range of '{axis.name}' in '{op.name}' follows '{min(others)}'; it may follow "
                "the axes of the result"
            )
        if dtype_of(bound) != INT64:
            raise LanguageError(f"the range of '{axis.name}' is {dtype_of(bound)}, not int64")


def _check_nodes(op: ComputeOp, axes: set[str]) -> None:
    for node in op.nodes():
        if isinstance(node, Var) and (node.name not in axes or node.dtype != INT64):
            raise LanguageError(
                f"'{op.name}' uses the variable '{node.name}', which is none of its axes "
                f"({', '.join(sorted(axes)) or 'it has none'})"
            )
        if isinstance(node, (Ramp, Broadcast, Dot, Reduce)):
            raise LanguageError(f"'{op.name}' holds a vector; a compute defines one element")
        if isinstance(node, Load) and len(node.indices) != len(node.buffer.shape):
            raise LanguageError(
                f"'{op.name}' reads '{node.buffer.name}' of {len(node.buffer.shape)} dimensions "
                f"with {len(node.indices)} indices"
            )


def _check_dtypes(op: ComputeOp) -> None:
    own = () if op.scan is None else (load.buffer for load in op.state_loads)
    buffers = {buffer.name: buffer for buffer in (*op.reads, *own)}
    variables = {axis.name: Var(axis.name) for axis in (*op.axes, *op.reduce_axes)}
    buffers |= {each.buffer.name: each.buffer for each in op.temporaries}
    try:
        for expr in (*op.expressions, *op.inits):
            ExprRules(buffers, variables, lambda _: None).dtype(expr)
    except IRError as error:
        raise LanguageError(f"in the definition of '{op.name}': {error}") from error


def _check_hints(op: ComputeOp, axes: list[str]) -> None:
    inner, outer = (hint_axes(op.hints, f"no_split_at_{end}") for end in ("inner", "outer"))
    for name in set(inner).intersection(outer):
        raise LanguageError(
            f"'{op.name}' has '{name}' in no_split_at_inner and in no_split_at_outer; choose one"
        )
    for hint in AXIS_HINTS:
        for name in hint_axes(op.hints, hint):
            if name not in axes:
                raise LanguageError(
                    f"the hint {hint} of '{op.name}' names '{name}', which is none of its axes "
                    f"({', '.join(axes)})"
                )
