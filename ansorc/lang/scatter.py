"""`scatter`: terms that are combined at places which data may give, such as a histogram."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import Shape
from ansorc.ir.dtype import INT64
from ansorc.ir.expr import Var, dtype_of
from ansorc.lang.arguments import too_deep
from ansorc.lang.check import check_op
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp, Place
from ansorc.lang.define import compute
from ansorc.lang.inner_reductions import number_reduce_axes, without_reduce_axes
from ansorc.lang.literal import as_list, as_number, short_text, takes
from ansorc.lang.naming import AutoName, check_tensor_name, stage_name
from ansorc.lang.reduction import Axes, ReduceAxis, as_reduce_axes
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar
from ansorc.lang.tensor import Tensor, extents_of

_SCATTER = AutoName("scatter")
_REDUCE = MappingProxyType({
    "add": Combiner.SUM, "mul": Combiner.PROD, "max": Combiner.MAX, "min": Combiner.MIN,
    "any": Combiner.ANY, "all": Combiner.ALL,
})  # fmt: skip
Indices: TypeAlias = "Tensor | Scalar | Sequence[Tensor] | Sequence[Scalar]"
"""The places of terms: for each dimension along which they are scattered, one after the other."""
Terms: TypeAlias = "Tensor | ScalarLike | Callable[..., ScalarLike]"
_Value: TypeAlias = "Callable[..., ScalarLike]"


def scatter(
    shape: Shape,
    index: Indices,
    value: Terms,
    reduce: str = "add",
    *,
    axis: Axes | None = None,
    init: Tensor | None = None,
    name: str = _SCATTER,
) -> Tensor:
    """Return the tensor of `shape` [s..., d...] in which each term is combined at its place.

    `index` is an integer tensor [n...], or a sequence of them, one for each dimension s; `value` is
    a tensor [n..., d...], or a number. Terms that go to one place are combined by `reduce`: "add",
    "mul", "max", "min", or of bools "any" and "all". A place that no term goes to keeps the neutral
    value (0 for a sum, the lowest number for max). `init` is a tensor of the result's shape and
    dtype that is combined with it.

    With `axis`, one or several reduce axes, the index is an expression of them, or a sequence, and
    `value` an expression, or a function of the indices d:

        n = ac.reduce_axis(1000)
        H = ac.scatter(256, I[n] // 2, 1, axis=n)
        S = ac.scatter((9, 64), I[n], lambda d: V[n, d] * W[n], axis=n)

    Sums of floats are added up in any order. A call fails for an index outside of its dimension.
    Raise LanguageError on arguments that do not fit each other.
    """
    check_tensor_name(name)
    extents = extents_of(shape, name)
    combiner = _combiner(reduce)
    given = as_list(index)
    indices = [index] if given is None else given
    if axis is None:
        axes, places, terms = _of_tensors(name, indices, value)
    else:
        axes, places, terms = _of_axes(name, as_reduce_axes("scatter", axis), indices, value)
    if not 1 <= len(places) <= len(extents):
        raise LanguageError(
            f"'{name}' of shape {extents} is scattered along {len(places)} dimensions; give an "
            f"index for each of the first 1 to {len(extents)}"
        )
    own_name = name if init is None else stage_name(name, "terms")
    op = _make_op(str(own_name), extents, combiner, (axes, places, terms))
    result = Tensor(op.buffer, op, isinstance(name, AutoName))
    return result if init is None else _combine_with(result, init, combiner, name)


def _combiner(reduce: str) -> Combiner:
    if reduce not in _REDUCE:
        known = ", ".join(f"'{word}'" for word in _REDUCE)
        raise LanguageError(f"scatter has no reduce={short_text(reduce)}; use {known}")
    return _REDUCE[reduce]


def _of_tensors(
    name: str, indices: Sequence[object], value: Terms
) -> tuple[tuple[ReduceAxis, ...], list[Scalar], _Value]:
    """Return the axes of the terms, their places and values, for whole tensors."""
    tensors = [each for each in indices if isinstance(each, Tensor)]
    if len(tensors) < len(indices) or not tensors:
        raise LanguageError(
            f"an index of '{name}' is {short_text(next(iter(indices), None))}; give a tensor for "
            "each dimension, or with axis= expressions of reduce axes"
        )
    shape = tensors[0].shape
    if any(tensor.shape != shape for tensor in tensors):
        shapes = ", ".join(f"{tensor!r}" for tensor in tensors)
        raise LanguageError(f"the indices of '{name}' have several shapes: {shapes}")
    axes = tuple(ReduceAxis(f"n{d}" if len(shape) > 1 else "n", n) for d, n in enumerate(shape))
    places = [tensor[axes] for tensor in tensors]
    if not isinstance(value, Tensor):
        return axes, places, _constant(name, value)
    if value.shape[: len(shape)] != shape:
        raise LanguageError(
            f"the value {value!r} of '{name}' does not begin with the shape {shape} of its index "
            f"{tensors[0].name}"
        )
    return axes, places, lambda *d: value[(*axes, *d)]


def _of_axes(
    name: str, axes: tuple[ReduceAxis, ...], indices: Sequence[object], value: Terms
) -> tuple[tuple[ReduceAxis, ...], list[Scalar], _Value]:
    """Return the axes of the terms, their places and values, for expressions of reduce axes."""
    if any(isinstance(each, Tensor) for each in (*indices, value)):
        raise LanguageError(
            f"with axis=, the index and the value of '{name}' are elements, like I[n]; leave axis "
            "out to scatter whole tensors"
        )
    places = [as_scalar(each) for each in indices]
    if isinstance(value, Scalar) or not callable(value):  # an element refuses to be called
        return axes, places, _constant(name, value)
    return axes, places, value


def _constant(name: str, value: Terms) -> _Value:
    """Return a function whose value is `value`, whatever the indices."""
    if not isinstance(value, Scalar | bool) and as_number(value) is None:
        raise LanguageError(
            f"the value of '{name}' is {short_text(value)}; give a tensor, a number or an element"
        )
    term = as_scalar(value)
    return lambda *_: term


def scatter_along(
    shape: Sequence[int],
    dimensions: Sequence[int],
    element: Callable[[Sequence[Scalar]], tuple[Sequence[Scalar], Scalar]],
    axes: Sequence[ReduceAxis],
    combiner: Combiner,
    name: str,
) -> Tensor:
    """Return a tensor whose terms are scattered along any `dimensions`, like `scatter` otherwise.

    `element` takes the indices of the other dimensions; it returns the places of a term along
    `dimensions`, which may follow these indices, too, and the term.
    """
    names = [f"{'s' if d in dimensions else 'd'}{d}" for d in range(len(shape))]
    space = tuple(Axis(axis, extent) for axis, extent in zip(names, shape, strict=True))
    others = [Scalar(Var(axis)) for d, axis in enumerate(names) if d not in dimensions]
    places, term = element(others)
    op = _op_of(str(name), space, combiner, axes, dict(zip(dimensions, places, strict=True)), term)
    return Tensor(op.buffer, op, isinstance(name, AutoName))


def _make_op(
    name: str,
    extents: tuple[int, ...],
    combiner: Combiner,
    terms: tuple[tuple[ReduceAxis, ...], Sequence[Scalar], _Value],
) -> ComputeOp:
    """Return the computation `name`; raise LanguageError if it is not legal."""
    reduce_axes, indices, value = terms
    count = len(indices)
    names = [*(f"s{d}" for d in range(count)), *(f"d{d}" for d in range(len(extents) - count))]
    space = tuple(Axis(axis, extent) for axis, extent in zip(names, extents, strict=True))
    others = [Scalar(Var(axis.name)) for axis in space[count:]]
    if not takes(value, len(others)):
        raise LanguageError(
            f"the value of '{name}' is a function that does not take {len(others)} indices, one "
            "for each dimension behind the scattered ones"
        )
    term = as_scalar(value(*others))
    return _op_of(name, space, combiner, reduce_axes, dict(enumerate(indices)), term)


def _op_of(
    name: str,
    space: tuple[Axis, ...],
    combiner: Combiner,
    reduce_axes: Sequence[ReduceAxis],
    indices: Mapping[int, Scalar],
    term: Scalar,
) -> ComputeOp:
    """Return the computation of `term` at places along the dimensions of `indices`."""
    numbered = number_reduce_axes(space, reduce_axes)
    if ragged := [axis.name for axis, _ in numbered.values() if axis.bounds]:
        raise LanguageError(
            f"'{name}' scatters terms of the axis '{ragged[0]}', whose range is data; run over all "
            "terms, and compute what each belongs to"
        )
    try:
        body = without_reduce_axes(name, term.expr, numbered)
        places: list[Place] = []
        for dimension, index in indices.items():
            if not index.dtype.is_integer:
                raise LanguageError(f"'{name}' is indexed by a {index.dtype}; cast it to int64")
            expr = without_reduce_axes(name, index.astype(INT64).expr, numbered)
            places.append(Place(space[dimension].name, expr))
        dtype = dtype_of(body)
        if dtype.is_bool != combiner.is_logical:
            cure = "use any or all" if dtype.is_bool else "compare them first"
            raise LanguageError(f"'{name}' combines {dtype}s by {combiner.value}; {cure}")
        axes = tuple(axis for axis, _ in numbered.values())
        buffer = Buffer(name, tuple(axis.extent for axis in space), dtype)
        op = ComputeOp(name, buffer, space, axes, combiner, body, places=tuple(places))
        check_op(op)
    except RecursionError as deep:
        raise too_deep(f"the definition of '{name}'") from deep
    return op


def _combine_with(terms: Tensor, init: Tensor, combiner: Combiner, name: str) -> Tensor:
    """Return `terms` combined with the tensor `init`, element by element."""
    if init.shape != terms.shape or init.dtype != terms.dtype:
        raise LanguageError(
            f"'{name}' is {terms.dtype}{list(terms.shape)}, but begins at {init!r}; give init the "
            "same shape and dtype"
        )
    return compute(
        terms.shape,
        lambda *i: Scalar(combiner.combine(init[i].expr, terms[i].expr)),
        name,
    )
