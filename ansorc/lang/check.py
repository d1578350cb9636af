"""Check that computations are legal: names, dtypes, ranks, order, and reads inside tensors."""

from __future__ import annotations

import math

from ansorc.errors import IRError, LanguageError
from ansorc.ir.arith.affine import linear
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import MARK
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Broadcast, Dot, Expr, Load, Ramp, Reduce, Var, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.printer import expr_text
from ansorc.ir.substitute import free_vars
from ansorc.ir.verify_expr import ExprRules
from ansorc.lang.check_sizes import check_sizes
from ansorc.lang.compute_op import Combiner, ComputeOp, StateBuffer
from ansorc.lang.dimension import uses_dims
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
        if not op.overwrites and buffer.extents != tuple(axis.length for axis in op.axes):
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
    _check_overwrites(op)
    _check_step_sums(op)
    _check_nodes(op, {*axes, *(axis.name for each in op.step_sums for axis in each.axes)})
    _check_hints(op, axes)
    if uses_dims(op):
        check_sizes(op)
    else:
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
    _check_updates(params, ops)
    if not computed & {buffer.name for buffer in params}:
        raise LanguageError("there is no output: list what was computed after the inputs")


def _extents(op: ComputeOp) -> str:
    return ", ".join(f"{axis.name}: {axis.length}" for axis in (*op.axes, *op.reduce_axes))


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
    along = [axis.name for axis in op.axes].index(op.scan_axis)
    for load in states:
        is_before = len(load.indices) == len(op.axes) and load.indices[along] == op.scan.before
        inner = [n for n in walk(load) if isinstance(n, Load) and isinstance(n.buffer, StateBuffer)]
        if not is_before or len(inner) > 1:
            raise LanguageError(
                f"'{op.name}' reads its state at {expr_text(load)}; a scan reads the one before, "
                f"{expr_text(op.state_loads[0])}, or that of another place that no state gives"
            )


def _check_step_sums(op: ComputeOp) -> None:
    """Raise LanguageError unless the reductions in the steps of a scan have axes of their own.

    An axis of two reductions has one extent.
    """
    own = {axis.name for axis in op.axes}
    extents: dict[str, int] = {}
    for each in op.step_sums:
        inner = {axis.name for axis in each.axes}
        is_twice = len(inner) < len(each.axes)
        if not inner or is_twice or inner & own or free_vars(each.body) - own - inner:
            raise LanguageError(
                f"'{each.buffer.name}' reduces over {', '.join(inner) or 'nothing'}; its terms "
                f"follow axes of its own and those of '{op.name}' ({', '.join(own)})"
            )
        for axis in each.axes:
            if extents.setdefault(axis.name, axis.extent) != axis.extent:
                raise LanguageError(
                    f"the steps of '{op.name}' reduce over '{axis.name}' of extents "
                    f"{extents[axis.name]} and {axis.extent}; give the second a name of its own"
                )
        if dtype_of(each.body).is_bool != each.combiner.is_logical:
            raise LanguageError(
                f"'{each.buffer.name}' combines {dtype_of(each.body)}s by {each.combiner.value}; "
                "any and all combine bools, the others numbers"
            )
    for expr in (*op.parts, *op.inits) if op.step_sums else ():
        if others := free_vars(expr) - own:
            raise LanguageError(f"'{op.name}' uses the axis '{min(others)}' outside of its sum")


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
    if op.places:
        raise LanguageError(
            f"'{op.name}' scatters terms over '{axis.name}', whose range is data; scatter those of "
            "axes with an extent"
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


def _check_overwrites(op: ComputeOp) -> None:
    """Raise LanguageError unless each element overwrites one of an input, all of them others."""
    if not op.overwrites:
        return
    targets = {load.buffer.name: load.buffer for load in op.overwrites}
    kinds = [(load.buffer.shape, load.buffer.dtype) for load in op.overwrites]
    if op.combiner is not None or op.scan is not None or len(targets) != len(op.buffers) or (
        kinds != [(buffer.shape, buffer.dtype) for buffer in op.buffers]
    ):  # fmt: skip
        raise LanguageError(
            f"'{op.name}' overwrites {', '.join(targets)}; each of its tensors overwrites an input "
            "of its shape and dtype, element by element"
        )
    moving = sorted(name for index in op.result_indices for name in free_vars(index))
    is_one_place = {load.indices for load in op.overwrites} == {op.result_indices}
    is_each_once = moving == sorted(axis.name for axis in op.axes)
    if not (is_one_place and is_each_once and all(map(_moves_by_one, op.result_indices))):
        raise LanguageError(
            f"'{op.name}' overwrites {expr_text(op.overwrites[0])}; each axis moves along one "
            "dimension, by steps of 1"
        )
    for index in op.result_indices:
        for node in walk(index):
            if isinstance(node, Load) and node.buffer.name in targets:
                raise LanguageError(
                    f"'{op.name}' writes to places that '{node.buffer.name}' says, which it "
                    "overwrites; take them from another tensor"
                )


def _moves_by_one(index: Expr) -> bool:
    """Return whether `index` is one axis plus what follows none, or follows no axis."""
    total, names = linear(index), free_vars(index)
    if not names:
        return True
    return total is not None and len(names) == 1 and all(
        factor == 1 if isinstance(atom, str) else not free_vars(atom)
        for atom, factor in total.terms.items()
    )  # fmt: skip


def _check_updates(params: tuple[Buffer, ...], ops: tuple[ComputeOp, ...]) -> None:
    """Raise LanguageError unless inputs are updated once each, by outputs."""
    makers: dict[str, str] = {}
    names = {buffer.name for buffer in params}
    for op in ops:
        for buffer, load in zip(op.buffers, op.overwrites, strict=False):
            old = load.buffer.name
            if old in makers:
                raise LanguageError(
                    f"'{old}' is updated by '{makers[old]}' and by '{buffer.name}'; update it "
                    "once, by what follows from both"
                )
            makers[old] = buffer.name
            if buffer.name not in names:
                raise LanguageError(
                    f"'{buffer.name}' updates '{old}', so the kernel writes to it: list "
                    f"'{buffer.name}' among the outputs"
                )
    updated = {buffer.name for buffer in params if buffer.is_updated}
    if updated != makers.keys():
        raise LanguageError(
            f"the inputs that are declared updated ({', '.join(sorted(updated)) or 'none'}) are "
            f"not those that are ({', '.join(makers) or 'none'})"
        )


def _check_nodes(op: ComputeOp, axes: set[str]) -> None:
    for node in op.nodes():
        if isinstance(node, Var) and node.name.startswith(MARK):
            continue
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
    inner = [axis for each in op.step_sums for axis in each.axes]
    variables = {axis.name: Var(axis.name) for axis in (*op.axes, *op.reduce_axes, *inner)}
    variables |= {
        node.name: node
        for node in op.nodes()
        if isinstance(node, Var) and node.name.startswith(MARK)
    }
    buffers |= {each.buffer.name: each.buffer for each in op.step_sums}
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
