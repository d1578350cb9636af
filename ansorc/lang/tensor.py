"""Tensors: given from outside by `placeholder`, or defined element by element by `compute`."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import INT64, DType, dtype
from ansorc.ir.expr import Cast, Expr, Load, Operand, Value, Var, as_expr, const, dtype_of
from ansorc.ir.node import Node, rewrite
from ansorc.lang.check import check_op
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.hints import Hints, as_hints
from ansorc.lang.naming import AutoName, check_axis_name, check_tensor_name, unique_name
from ansorc.lang.reduction import ReduceAxis, Reduction
from ansorc.lang.whole import Whole

Index = Operand | SupportsIndex
Body = Callable[..., "Value | Reduction"]

_PLACEHOLDER = AutoName("placeholder")
_COMPUTE = AutoName("compute")


@dataclass(frozen=True, eq=False, repr=False)
class Tensor(Whole):
    """A tensor by identity; `tensor[i, j]` reads one element.

    `definition` is None for a placeholder. Its loads remember the tensors they read; a ComputeDAG
    holds it with plain buffers.
    """

    buffer: Buffer
    definition: ComputeOp | None = None
    has_auto_name: bool = False

    @property
    def name(self) -> str:
        """The name; a ComputeDAG numbers it if nobody chose it and another tensor has it too."""
        return self.buffer.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.buffer.shape

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.buffer.dtype

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Expr:
        """Return the load of one element; raise LanguageError on a wrong number of indices."""
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise LanguageError(
                f"{self!r} has {len(self.shape)} dimensions, but was given {len(given)} indices"
            )
        return Load(self._owned, tuple(self._index(index) for index in given))

    def advice(self) -> str:
        return (
            f"{self!r} is a whole tensor, not a number: index it inside a compute, "
            f"like {self.name}[{', '.join('ijklmnpq'[: len(self.shape)])}]"
        )

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    @cached_property
    def _owned(self) -> OwnedBuffer:
        b = self.buffer
        return OwnedBuffer(b.name, b.shape, b.dtype, b.scope, b.constant, self)

    def _index(self, index: Index) -> Expr:
        if not isinstance(index, Operand):
            try:
                return const(operator.index(index))
            except TypeError:
                raise LanguageError(
                    f"{index!r} cannot index {self!r}; use an axis, an integer or an integer "
                    "expression"
                ) from None
        expr = as_expr(index)
        found = dtype_of(expr)
        if not found.is_integer:
            raise LanguageError(f"{self!r} is indexed by a {found}; cast the index to int64")
        return expr if found == INT64 else Cast(INT64, expr)


@dataclass(frozen=True, eq=False)
class OwnedBuffer(Buffer):
    """The buffer of a tensor, equal to the plain one, that knows whose it is.

    So a body tells which tensors it reads, without any register of tensors.
    """

    owner: Tensor | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Buffer) and self._plain == (
            other._plain if isinstance(other, OwnedBuffer) else other
        )

    __hash__ = Buffer.__hash__

    @property
    def _plain(self) -> Buffer:
        return Buffer(self.name, self.shape, self.dtype, self.scope, self.constant)

    def __reduce__(self) -> tuple[type[Buffer], tuple[object, ...]]:
        return Buffer, (self.name, self.shape, self.dtype, self.scope, self.constant)


def placeholder(
    shape: int | Sequence[int],
    name: str = _PLACEHOLDER,
    dtype: str | DType = "float32",
    *,
    constant: bool = False,
) -> Tensor:
    """Return a tensor that the caller of the kernel gives.

    `constant` promises the same values at every call (a weight), so that they may be re-laid-out
    once. Raise LanguageError on an empty shape, a bad name or an unknown dtype.
    """
    check_tensor_name(name)
    found = _dtype(dtype)
    buffer = Buffer(str(name), _extents(shape, name), found, constant=constant)
    return Tensor(buffer, has_auto_name=isinstance(name, AutoName))


def compute(
    shape: int | Sequence[int],
    fn: Body,
    name: str = _COMPUTE,
    hints: Hints | None = None,
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return the tensor of `shape` whose element at (i, j, …) is `fn(i, j, …)`.

    `fn` returns an expression, a Python number, or a reduction (`sum`, `max`, `min`, `prod`). Its
    parameter names, or else `axes`, name the axes. `hints` are for the search (lang/hints.py).
    Raise LanguageError where that has no meaning: a wrong rank, mixed dtypes, a read outside of a
    tensor, a bad name.
    """
    check_tensor_name(name)
    extents = _extents(shape, name)
    names = _axis_names(fn, len(extents), name) if axes is None else tuple(axes)
    for axis in names:
        check_axis_name(axis)
    if len(names) != len(extents) or len(set(names)) != len(names):
        raise LanguageError(f"'{name}' of shape {extents} needs as many different axes: {names}")
    try:
        value = fn(*(Var(axis) for axis in names))
    except LanguageError as error:
        raise LanguageError(f"in the definition of '{name}': {error}") from error
    space = tuple(Axis(axis, extent) for axis, extent in zip(names, extents, strict=True))
    op = _op(str(name), space, value, as_hints(hints or {}))
    check_op(op)
    return Tensor(op.buffer, op, isinstance(name, AutoName))


def _op(
    name: str, space: tuple[Axis, ...], value: Value | Reduction, hints: tuple[tuple[str, str], ...]
) -> ComputeOp:
    reduction = value if isinstance(value, Reduction) else None
    body = reduction.body if reduction is not None else _scalar(name, value)
    reduce = {} if reduction is None else _reduce_axes(space, reduction)
    body = _without_reduce_axes(name, body, reduce)
    buffer = Buffer(name, tuple(axis.extent for axis in space), dtype_of(body))
    combiner = None if reduction is None else reduction.combiner
    axes = tuple(axis for axis, _ in reduce.values())
    return ComputeOp(name, buffer, space, axes, combiner, body, hints)


def _scalar(name: str, value: Value | Reduction) -> Expr:
    if isinstance(value, (Operand, int, float)):
        return as_expr(value)
    raise LanguageError(
        f"the function of '{name}' returned {value!r} ({type(value).__name__}); "
        "return one expression"
    )


def _reduce_axes(space: tuple[Axis, ...], reduction: Reduction) -> dict[int, tuple[Axis, int]]:
    """Return the axis and the first value of each reduce axis, by identity."""
    taken = {axis.name for axis in space}
    found: dict[int, tuple[Axis, int]] = {}
    for axis in reduction.axes:
        name = unique_name(axis.name, taken)
        taken.add(name)
        found[id(axis)] = (Axis(name, axis.extent), axis.lo)
    return found


def _without_reduce_axes(name: str, body: Expr, reduce: Mapping[int, tuple[Axis, int]]) -> Expr:
    def rule(node: Node) -> Node | None:
        if not isinstance(node, ReduceAxis):
            return None
        if id(node) not in reduce:
            raise LanguageError(
                f"'{name}' uses the reduce axis '{node.name}' but does not reduce over it; "
                "list it in axis= of sum, max, min or prod"
            )
        axis, lo = reduce[id(node)]
        return Var(axis.name) + lo if lo else Var(axis.name)

    return rewrite(body, rule)


def _axis_names(fn: Body, rank: int, name: str) -> tuple[str, ...]:
    parameters = inspect.signature(fn).parameters.values()
    names = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        names += [f"i{place}" for place in range(len(names), rank)]
    if len(names) != rank:
        raise LanguageError(
            f"'{name}' has {rank} dimensions, but its function takes {len(names)} parameters "
            f"({', '.join(names)}); it takes one index a dimension"
        )
    return tuple(names)


def _extents(shape: int | Sequence[int], name: str) -> tuple[int, ...]:
    given = (shape,) if isinstance(shape, int) else tuple(shape)
    try:
        extents = tuple(operator.index(extent) for extent in given)
    except TypeError:
        raise LanguageError(f"the shape {given} of '{name}' is not made of integers") from None
    if any(extent <= 0 for extent in extents):
        raise LanguageError(f"the shape {extents} of '{name}' is empty; extents are 1 or more")
    return extents


def _dtype(given: str | DType) -> DType:
    found = given if isinstance(given, DType) else dtype(given)
    if found.lanes != 1:
        raise LanguageError(f"a tensor holds scalars, not {found}; use {found.element}")
    return found
