"""Refuse definitions over dimensions that are not legal at some size, or not supported yet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import MARK, Size, least_of
from ansorc.ir.expr import Expr, Load
from ansorc.ir.infer_sizes import solvable
from ansorc.ir.printer import expr_text
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.dimension import dims_of_buffers, dims_of_op, index_ends, resized_op, sampled_sizes
from ansorc.lang.in_range import check_reads_in_range, find_guarded_loads

_FEW = 1 << 13
"""So many sizes are tried one by one where intervals prove nothing."""


def check_sizes(op: ComputeOp) -> None:
    """Raise LanguageError for what cannot have sizes, and for an index that leaves its tensor.

    An index that is a sum of axes and sizes is decided for all sizes. Others, and those in an arm
    of `if_then_else`, are decided as `check_reads_in_range` does, for some sizes.
    """
    _refuse_unsupported(op)
    dims = dims_of_op(op)
    axes = (*op.axes, *op.reduce_axes)
    for expr in (*op.outer, *op.parts):
        for load, guards in find_guarded_loads(expr, ()):
            for dimension, index in enumerate(load.indices):
                ends = None if guards else index_ends(index, axes, dims)
                if ends is not None:
                    _require_inside(op, load, dimension, ends)
    for sizes in sampled_sizes(dims):
        check_reads_in_range(resized_op(op, sizes, dims))


def check_dims(params: Sequence[Buffer], ops: Sequence[ComputeOp]) -> None:
    """Raise LanguageError unless the shapes of the inputs tell the size of each dimension."""
    computed = {buffer.name for op in ops for buffer in op.buffers}
    inputs = [buffer for buffer in params if buffer.name not in computed]
    told = {solvable(extent) for buffer in inputs for extent in buffer.extents}
    buffers = [buffer for op in ops for buffer in (*op.buffers, *op.reads)]
    used = dict.fromkeys(dims_of_buffers((*params, *buffers)), "")
    used |= {each: op.name for op in ops for each in dims_of_op(op)}
    for each, name in used.items():
        if each not in told:
            raise LanguageError(
                f"no input has the dimension '{each.name}' as an extent, so a call cannot tell "
                f"its size{f' ({name!r} uses it)' if name else ''}; give an input with it"
            )
    known = {each.variable for each in told if each is not None}
    for op in ops:
        for variable in sorted(op.size_variables - known):
            raise LanguageError(
                f"'{op.name}' uses the dimension '{variable.removeprefix(MARK)}', which no input "
                "has as an extent; give an input with it"
            )


def _require_inside(
    op: ComputeOp, load: Load, dimension: int, ends: tuple[int | Size, int | Size]
) -> None:
    extent = load.buffer.extents[dimension]
    low, high = ends
    room = extent - 1 - high
    if all(least_of(each) >= 0 or _is_never_negative(each) for each in (low, room)):
        return
    index: Expr = load.indices[dimension]
    raise LanguageError(
        f"'{op.name}' may read '{load.buffer.name}' outside of it: index {dimension} is "
        f"{expr_text(index)}, that is {low} .. {high}, but the extent there is {extent}; make the "
        "tensor larger, or guard the read by if_then_else"
    )


def _is_never_negative(size: int | Size) -> bool:
    """Return whether `size` is not negative at any of a few sizes; False if they are many."""
    if isinstance(size, int) or prod(dim.bounds[1] - dim.bounds[0] + 1 for dim in size.dims) > _FEW:
        return False
    names = [dim.name for dim in size.dims]
    spans = [range(dim.low, dim.high + 1, dim.multiple) for dim in size.dims]
    return all(size.at(dict(zip(names, row, strict=True))) >= 0 for row in product(*spans))


def _refuse_unsupported(op: ComputeOp) -> None:
    """Raise LanguageError for a computation that needs known extents."""
    reason = ""
    if op.scan is not None and any(
        axis.size is not None for axis in op.axes if axis.name in (op.scan_axis, *op.mixed_axes)
    ):
        reason = "is a scan along a dimension"
    elif op.step_sums and any(axis.size is not None for each in op.step_sums for axis in each.axes):
        reason = "reduces over a dimension in the steps of a scan"
    elif op.places:
        reason = "scatters its terms"
    elif op.overwrites:
        reason = "writes to an input"
    elif op.c_call is not None:
        reason = "is computed by a C function"
    elif any(buffer.is_complex for buffer in (*op.buffers, *op.reads)):
        reason = "has complex numbers"
    elif op.ragged_axis is not None:
        reason = "reduces over a range that is data"
    if reason:
        raise LanguageError(
            f"'{op.name}' {reason}, and has a size that the caller gives, which is not supported "
            "together: fix the size"
        )
