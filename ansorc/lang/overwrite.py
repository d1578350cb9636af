"""`update`: new values for inputs, or for parts of them, written where the old ones are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, overload

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Load, Operand, Var, const
from ansorc.ir.substitute import substitute
from ansorc.lang.arguments import too_deep
from ansorc.lang.check import check_op
from ansorc.lang.compute_op import Axis, ComputeOp, Output
from ansorc.lang.literal import as_list, as_number, short_text
from ansorc.lang.naming import AutoName, check_tensor_name, stage_name
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import ComplexTensor, Tensor, as_tensors

_UPDATE = AutoName("update")
At: TypeAlias = "Scalar | int | slice | tuple[Scalar | int | slice, ...]"
"""A place along each of the first dimensions: an index, or a slice."""


@overload
def update(target: Tensor, value: Tensor, at: At | None = ..., *, name: str = ...) -> Tensor: ...
@overload
def update(
    target: Sequence[Tensor],
    value: Sequence[Tensor],
    at: At | None = ...,
    *,
    name: str | Sequence[str] = ...,
) -> tuple[Tensor, ...]: ...
def update(
    target: Tensor | Sequence[Tensor],
    value: Tensor | Sequence[Tensor],
    at: At | None = None,
    *,
    name: str | Sequence[str] = _UPDATE,
) -> Tensor | tuple[Tensor, ...]:
    """Return the input `target` with `value` in the place of its elements, or of some of them.

    The result is an output of the DAG. A kernel takes no array for it: it writes to that of
    `target`. `target` itself always means the old elements, the result the new ones. With `at` only
    a part is written: an index (a number, or an element like `pos[0]`) or a slice for each of the
    first dimensions. A slice begins anywhere, has the step 1, and is as long as `value` along its
    dimension; so `value` has the dimensions that are slices, and those behind them.

        A2 = ac.update(A, ac.compute(A.shape, lambda i: A[i] - rate[0] * G[i]))
        K2 = ac.update(K, row, at=pos[0])                       # row: [128], K: [4096, 128]
        K2 = ac.update(K, rows, at=slice(pos[0], None))         # rows: [16, 128]

    Several inputs of one shape are updated at the same time by as many values. Where steps read
    other elements than they overwrite, or the old ones are still needed, the new ones go to memory
    of their own first. A call fails for an index outside of its dimension, and may then have
    written some elements. Raise LanguageError for a constant, for an input with declared values,
    and for shapes and dtypes that do not fit.
    """
    is_one = isinstance(target, Tensor)
    targets = [target] if is_one else _tensors(target, "updates")
    values = [value] if isinstance(value, Tensor) else _tensors(value, "writes")
    names = _names(name, len(targets), is_one=is_one)
    _check_targets(names[0], targets, values)
    axes, place = _places(names[0], targets[0], values[0], at)
    try:
        op = _make_op(names, targets, values, (axes, place))
        check_op(op)
    except RecursionError as deep:
        raise too_deep(f"the definition of '{names[0]}'") from deep
    has_auto_name = isinstance(name, AutoName)
    made = tuple(
        Tensor(buffer, op, has_auto_name, number) for number, buffer in enumerate(op.buffers)
    )
    return made[0] if is_one else made


def _tensors(given: object, verb: str) -> list[Tensor]:
    if (tensors := as_tensors(given)) is None:
        raise LanguageError(
            f"update {verb} {short_text(given)}; give a tensor, or several, like "
            "ac.compute(shape, lambda i: …)"
        )
    return tensors


def _names(name: str | Sequence[str], count: int, *, is_one: bool) -> list[str]:
    if isinstance(name, str):
        names = [name] if is_one else [stage_name(name, f"{n}") for n in range(count)]
    else:
        names = [str(each) for each in as_list(name) or ()]
    if len(names) != count:
        raise LanguageError(
            f"update has {count} results, but the names are {short_text(name)}; give a name, or a "
            "list with one for each result"
        )
    for each in names:
        check_tensor_name(each)
    return names


def _check_targets(name: str, targets: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Raise LanguageError unless all `targets` can be overwritten, by as many values."""
    if len(values) != len(targets):
        raise LanguageError(
            f"'{name}' updates {len(targets)} tensors by {len(values)} values; give one for each"
        )
    for number, target in enumerate(targets):
        if isinstance(target, ComplexTensor):
            raise LanguageError(
                f"'{name}' updates '{target.name}', which is {target.dtype}: inputs of real "
                "numbers are updated; return the new values as an output"
            )
        if target.definition is not None:
            raise LanguageError(
                f"'{name}' updates '{target.name}', which is computed and no input: only arrays "
                "that the caller passes are updated"
            )
        if target.buffer.constant:
            raise LanguageError(
                f"'{name}' updates '{target.name}', which is declared constant: its values are "
                "laid out once; leave out constant=True"
            )
        if target.buffer.promised is not None or target.buffer.is_sorted:
            raise LanguageError(
                f"'{name}' updates '{target.name}', which is declared with a range or as sorted: "
                "nothing says that of its new values; leave that out"
            )
        if any(target is other for other in targets[:number]):
            raise LanguageError(f"'{name}' updates '{target.name}' twice; update it once")
        if target.shape != targets[0].shape or values[number].shape != values[0].shape:
            raise LanguageError(
                f"'{name}' updates {target!r} by {values[number]!r} and {targets[0]!r} by "
                f"{values[0]!r} at the same time, which need one shape; use an update for each"
            )
        if values[number].dtype != target.dtype:
            raise LanguageError(
                f"'{name}' updates '{target.name}', which is {target.dtype}, by "
                f"{values[number].dtype}s; convert them by .astype('{target.dtype}')"
            )


def _places(
    name: str, target: Tensor, value: Tensor, at: At | None
) -> tuple[tuple[Axis, ...], tuple[Expr, ...]]:
    """Return the axes of what is written, and the place of an element along each dimension."""
    listed: tuple[object, ...] = () if at is None else at if isinstance(at, tuple) else (at,)
    given = [part if isinstance(part, slice) else _index(name, part) for part in listed]
    rank = len(target.shape)
    if len(given) > rank:
        raise LanguageError(
            f"'{name}' updates {target!r} at {len(given)} places, but that has {rank} dimensions"
        )
    parts = [*given, *[slice(None)] * (rank - len(given))]
    slices = [(p, n) for p, n in zip(parts, target.shape, strict=True) if isinstance(p, slice)]
    if len(slices) != len(value.shape):
        wanted = (
            str(extent) if part.start is None and part.stop is None else "…"
            for part, extent in slices
        )
        raise LanguageError(
            f"'{name}' updates {target!r} by {value!r}; there the value has the shape "
            f"[{', '.join(wanted)}]"
        )
    lengths = iter(value.shape)
    places: list[Expr] = []
    axes: list[Axis] = []
    for dimension, part in enumerate(parts):
        if not isinstance(part, slice):
            places.append(part)
            continue
        axis = Axis(f"i{dimension}", next(lengths))
        axes.append(axis)
        start = _start(name, part, axis.extent, target.shape[dimension])
        places.append(Var(axis.name) if start == const(0) else start + Var(axis.name))
    return tuple(axes), tuple(places)


def _start(name: str, part: slice, length: int, extent: int) -> Expr:
    """Return where a slice begins; raise LanguageError unless it is `length` long."""
    if part.step not in (None, 1):
        raise LanguageError(f"'{name}' updates a slice with the step {part.step!r}; it must be 1")
    start = const(0) if part.start is None else _index(name, part.start)
    stop = part.stop
    if part.start is None and stop is None and length != extent:
        raise LanguageError(
            f"'{name}' writes {length} elements along a dimension of {extent}; say where they "
            "begin: at=slice(begin, None)"
        )
    if stop is None:
        return start
    end, begin = as_number(stop), 0 if part.start is None else as_number(part.start)
    if not isinstance(end, int) or not isinstance(begin, int) or end - begin != length:
        raise LanguageError(
            f"'{name}' writes {length} elements to a slice up to {short_text(stop)}; a slice is as "
            "long as the value is: leave its end out"
        )
    return start


def _index(name: str, index: object) -> Expr:
    if isinstance(index, (Scalar, Operand)) or as_number(index) is not None:
        place = as_scalar(index)
        if place.dtype.is_integer:
            return place.astype("int64").expr
    raise LanguageError(
        f"'{name}' updates a tensor at {short_text(index)}; give an integer, an element of an "
        "integer tensor, or a slice"
    )


def _make_op(
    names: Sequence[str],
    targets: Sequence[Tensor],
    values: Sequence[Tensor],
    where: tuple[tuple[Axis, ...], tuple[Expr, ...]],
) -> ComputeOp:
    """Return the computation of the `values`, if they are computed element by element, or of
    copies of them, that overwrites the `targets`."""
    axes, places = where
    op = _own_computation(values)
    if op is not None:
        renamed = dict(zip((axis.name for axis in axes), op.axes, strict=True))
        axis_vars = {name: Var(axis.name) for name, axis in renamed.items()}
        places = tuple(substitute(place, axis_vars) for place in places)
    else:
        indices = tuple(Scalar(Var(axis.name)) for axis in axes)
        first, *more = (
            Output(Buffer(name, value.shape, value.dtype), value[indices].expr)
            for name, value in zip(names, values, strict=True)
        )
        op = ComputeOp(names[0], first.buffer, axes, (), None, first.body, more=tuple(more))
    buffers = [Buffer(name, t.shape, t.dtype) for name, t in zip(names, targets, strict=True)]
    loads = tuple(Load(target.buffer_called(target.name), places) for target in targets)
    return replace(op.with_buffers(buffers), overwrites=loads)


def _own_computation(values: Sequence[Tensor]) -> ComputeOp | None:
    """Return what computes the `values`, element by element, and nothing else; None otherwise."""
    op = values[0].definition
    if op is None or op.combiner is not None or op.scan is not None or op.overwrites:
        return None
    is_all = len(values) == len(op.buffers) and all(
        value.definition is op and value.output == number for number, value in enumerate(values)
    )
    return op if is_all else None
