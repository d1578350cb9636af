"""Tensors, which the body of a `compute` indexes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn, SupportsIndex, cast

import numpy as np

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import Shape, Size, most_of
from ansorc.ir.dtype import INT64, DType
from ansorc.ir.expr import Expr, Load, Operand, const
from ansorc.ir.interpret_math import integer_range
from ansorc.lang.complex_dtype import (
    ComplexType,
    interleaved_shape,
    paired_shape,
)
from ansorc.lang.complex_type import Complex
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.literal import DTypeLike, as_any_dtype, as_list, as_number, as_truth, short_text
from ansorc.lang.naming import AutoName, check_tensor_name
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.whole import Whole

Index = Scalar | Expr | SupportsIndex
"""An index of a tensor."""
_PLACEHOLDER = AutoName("placeholder")
_MOST_ELEMENTS = 2**62
"""The most elements of a tensor: offsets in bytes must fit 64-bit integers, too."""


@dataclass(frozen=True, eq=False, repr=False)
class Tensor(Whole):
    """A tensor, compared by identity; `tensor[i, j]` reads one element.

    `definition` is None for a placeholder. Its loads refer to the tensors that they read; in a
    ComputeDAG they refer to plain buffers.
    """

    buffer: Buffer
    definition: ComputeOp | None = None
    has_auto_name: bool = False
    output: int = 0
    """Its number among the outputs of `definition`."""
    is_fixed: bool = False
    """Whether readers are differentiated as if it did not depend on anything."""

    @property
    def name(self) -> str:
        """The name; a ComputeDAG numbers a default name that another tensor has, too."""
        return self.buffer.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents; those that the caller gives are sizes (`ac.dim`), which count as ints."""
        return cast("tuple[int, ...]", self.buffer.extents)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.buffer.dtype

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Scalar:
        """Return the load of one element; raise LanguageError on a wrong number of indices."""
        return Scalar(Load(self._owned, self._places(indices)))

    def __setitem__(self, indices: object, value: object) -> NoReturn:
        """Refuse assignments: `compute` defines all elements at once."""
        raise LanguageError(
            f"the elements of {self!r} are not assigned: define a tensor by what each element is, "
            "ac.compute(shape, lambda i, j: …), with ac.if_then_else where some differ"
        )

    def __eq__(self, other: object) -> Any:
        """Return whether `other` is this tensor; see `Sameness`."""
        return Sameness(self, other)

    def __ne__(self, other: object) -> Any:
        """Return whether `other` is another tensor; see `Sameness`."""
        return Sameness(self, other, is_negated=True)

    __hash__ = object.__hash__

    def advice(self) -> str:
        return (
            f"{self!r} is a whole tensor, not a number: index it inside a compute, "
            f"like {self.name}[{', '.join('ijklmnpq'[: len(self.shape)])}]"
        )

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    def buffer_called(self, name: str) -> OwnedBuffer:
        """Return the buffer under another name; loads of it are loads of this tensor."""
        return replace(self._owned, name=name)

    @cached_property
    def _owned(self) -> OwnedBuffer:
        b = self.buffer
        return OwnedBuffer(
            b.name, b.shape, b.dtype, b.scope, b.constant, b.promised, b.is_sorted, b.is_updated,
            b.is_complex, b.sizes, self,
        )  # fmt: skip

    def _places(self, indices: Index | tuple[Index, ...]) -> tuple[Expr, ...]:
        """Return the indices of one element as expressions."""
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise LanguageError(
                f"{self!r} has {len(self.shape)} dimensions, but was given {len(given)} indices"
            )
        return tuple(self._index(index) for index in given)

    def _index(self, index: Index) -> Expr:
        if isinstance(index, (Scalar, Operand)):
            position = as_scalar(index)
            if not position.dtype.is_integer:
                raise LanguageError(
                    f"{self!r} is indexed by a {position.dtype}; cast the index to int64"
                )
            return position.astype(INT64).expr
        number = as_number(index)
        if isinstance(number, int) and not isinstance(number, bool):
            return const(number)
        if isinstance(index, Whole):
            raise LanguageError(index.advice())
        raise LanguageError(
            f"{short_text(index)} cannot index {self!r}; use an axis, an integer or an integer "
            "expression"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ComplexTensor(Tensor):
    """A tensor of complex numbers; `tensor[i, j]` reads a complex element.

    Its buffer has their parts, the real one in front of the imaginary one, the last dimension being
    twice as long. Elements of one that was computed are read from `planes`, the tensors of the
    real and the imaginary parts.
    """

    planes: tuple[Tensor, Tensor] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, in complex numbers."""
        return paired_shape(self.buffer.shape)

    @property
    def dtype(self) -> ComplexType:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The type of the elements."""
        return ComplexType(self.buffer.dtype)

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Scalar:
        """Return the load of one element; raise LanguageError on a wrong number of indices."""
        places = self._places(indices)
        if self.planes is not None:
            real, imag = (plane[places] for plane in self.planes)
            return Complex(real, imag)
        first = Scalar(places[-1]) * 2
        real, imag = (self.part((*places[:-1], last)) for last in (first, first + 1))
        return Complex(real, imag)

    def part(self, indices: Sequence[Index]) -> Scalar:
        """Return a real or an imaginary part, by the indices of the buffer."""
        source = self if self._plain is None else self._plain
        return Scalar(Load(source._owned, tuple(self._index(index) for index in indices)))

    @cached_property
    def _plain(self) -> Tensor | None:
        """The computed parts as a tensor of real numbers; None for an input."""
        if self.definition is None:
            return None
        return Tensor(self.buffer, self.definition, self.has_auto_name, is_fixed=self.is_fixed)


class Sameness(Whole):
    """The result of comparing two tensors by identity.

    It makes `tensor in tensors` work, but cannot be used as a condition of a program.
    """

    def __init__(self, tensor: Tensor, other: object, *, is_negated: bool = False) -> None:
        self._tensor, self._other, self._is_negated = tensor, other, is_negated
        if as_number(other) is not None or isinstance(other, (Scalar, np.ndarray)):
            raise LanguageError(self.advice())

    def advice(self) -> str:
        symbol, name = "!=" if self._is_negated else "==", self._tensor.name
        other = self._other.name if isinstance(self._other, Tensor) else short_text(self._other)
        index = f"[{', '.join('ijklmnpq'[: len(self._tensor.shape)])}]"
        return (
            f"'{name} {symbol} {other}' compares whole tensors: compare their elements inside of a "
            f"compute, like {name}{index} {symbol} …; whether two are one tensor says `is`"
        )

    def __bool__(self) -> bool:
        return (self._tensor is self._other) != self._is_negated


@dataclass(frozen=True, eq=False)
class OwnedBuffer(Buffer):
    """The buffer of a tensor with a reference to the tensor; it equals the plain buffer.

    So the tensors that a body reads are known without a global table of tensors.
    """

    owner: Tensor | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Buffer) and self._plain == (
            other._plain if isinstance(other, OwnedBuffer) else other
        )

    __hash__ = Buffer.__hash__

    @property
    def _plain(self) -> Buffer:
        return Buffer(*self._fields)

    @property
    def _fields(self) -> tuple[Any, ...]:
        return (
            self.name, self.shape, self.dtype, self.scope, self.constant, self.promised,
            self.is_sorted, self.is_updated, self.is_complex, self.sizes,
        )  # fmt: skip

    def __reduce__(self) -> tuple[type[Buffer], tuple[object, ...]]:
        return Buffer, self._fields


def placeholder(
    shape: Shape,
    name: str = _PLACEHOLDER,
    dtype: DTypeLike = "float32",
    *,
    constant: bool = False,
    range: tuple[float, float] | None = None,
    sorted: bool = False,
) -> Tensor:
    """Return a tensor that the caller of the kernel provides.

    `constant` promises the same values at every call (a weight), so that its layout may be changed
    once. `range` (the least and the largest value) and `sorted` (no element of a row is less than
    the one before) describe its values: tuning draws such values. A call fails for integers outside
    of their range. "complex64" and "complex128" make a tensor of complex numbers. Raise
    LanguageError on an empty shape, a bad name, an unknown dtype, or a range outside of the dtype.
    """
    check_tensor_name(name)
    given, (extents, sizes) = as_any_dtype(dtype), sized_extents_of(shape, name)
    if isinstance(given, ComplexType):
        extents = extents_of(shape, name)
        _refuse_order(str(name), given, range, sorted)
        buffer = complex_buffer(str(name), extents, given.part)
        buffer = replace(buffer, constant=as_truth(constant, "constant"))
        return ComplexTensor(buffer, has_auto_name=isinstance(name, AutoName))
    dtype_ = _dtype(given)
    promised = _read_range(str(name), dtype_, range)
    sorted = as_truth(sorted, "sorted")
    if sorted and (not extents or dtype_.is_bool):
        raise LanguageError(
            f"'{name}' is {dtype_} of shape {extents}, which has no order; leave out sorted=True"
        )
    buffer = Buffer(
        str(name), extents, dtype_, constant=as_truth(constant, "constant"), promised=promised,
        is_sorted=sorted, sizes=sizes,
    )  # fmt: skip
    return Tensor(buffer, has_auto_name=isinstance(name, AutoName))


def fixed(tensor: Tensor) -> Tensor:
    """Return the computed `tensor` for readers whose derivatives by it cancel out.

    The sum of all that flows back to the maximum of a softmax is 0, for example.
    """
    if isinstance(tensor, ComplexTensor) and tensor.planes is not None:
        real, imag = map(fixed, tensor.planes)
        return replace(tensor, is_fixed=True, planes=(real, imag))
    return replace(tensor, is_fixed=True)


def as_tensors(given: object) -> list[Tensor] | None:
    """Return the members of a list of tensors; None if it is empty or has other members."""
    parts = as_list(given)
    tensors = [part for part in parts or () if isinstance(part, Tensor)]
    return tensors if parts and len(tensors) == len(parts) else None


def sized_extents_of(shape: object, name: str) -> tuple[tuple[int, ...], tuple[Size | None, ...]]:
    """Return the most that each extent of the tensor `name` may be, and those that are sizes.

    The second is empty if all are numbers. Raise LanguageError unless all are > 0.
    """
    parts = [shape] if isinstance(shape, Size) else as_list(shape)
    sizes = tuple(part if isinstance(part, Size) else None for part in parts or ())
    if parts is None or not any(size is not None for size in sizes):
        return extents_of(shape, name), ()
    for size in sizes:
        if size is not None and size.bounds[0] < 1:
            raise LanguageError(
                f"the extent {size} of '{name}' may be {size.bounds[0]}; give its dimensions a "
                "range for which it is 1 or more"
            )
    return extents_of(
        [most_of(part) if isinstance(part, Size) else part for part in parts], name
    ), sizes


def extents_of(shape: object, name: str) -> tuple[int, ...]:
    """Return `shape` of the tensor `name` as integers; raise LanguageError unless all are > 0."""
    parts = [shape] if as_number(shape) is not None else as_list(shape)
    if isinstance(shape, Size) or any(isinstance(part, Size) for part in parts or ()):
        raise LanguageError(
            f"the shape {short_text(shape)} of '{name}' has a dimension that the caller gives, "
            "which is not supported there: fix its size"
        )
    numbers = [None] if parts is None else [as_number(part) for part in parts]
    extents = tuple(
        number for number in numbers if isinstance(number, int) and not isinstance(number, bool)
    )
    if len(extents) < len(numbers):
        raise LanguageError(
            f"the shape {short_text(shape)} of '{name}' does not consist of integers"
        )
    if any(extent <= 0 for extent in extents):
        raise LanguageError(f"the shape {extents} of '{name}' is empty; extents are 1 or more")
    if math.prod(extents) > _MOST_ELEMENTS:
        raise LanguageError(f"the shape {extents} of '{name}' has more than 2**62 elements")
    return extents


def complex_buffer(name: str, extents: tuple[int, ...], part: DType) -> Buffer:
    """Return the buffer of complex numbers; raise LanguageError if they have no dimension."""
    if not extents:
        raise LanguageError(
            f"'{name}' is complex and has no dimensions; give it the shape (1,), a "
            "reduction of ac.ops by keepdims=True"
        )
    return Buffer(name, interleaved_shape(extents), part, is_complex=True)


def _refuse_order(name: str, dtype: ComplexType, range: object, sorted: object) -> None:
    """Raise LanguageError for promises that complex numbers cannot keep."""
    if range is not None or as_truth(sorted, "sorted"):
        raise LanguageError(
            f"'{name}' is {dtype}, which has no order; leave out range= and sorted=True"
        )


def _dtype(dtype_: DType) -> DType:
    if dtype_.lanes != 1:
        raise LanguageError(f"a tensor holds scalars, not {dtype_}; use {dtype_.element}")
    return dtype_


def _read_range(
    name: str, dtype: DType, given: tuple[float, float] | None
) -> tuple[float, float] | None:
    """Return a range as numbers of `dtype`; raise LanguageError if it is not valid."""
    if given is None:
        return None
    try:
        low, high = (float(end) if dtype.is_float else operator.index(end) for end in given)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise LanguageError(
            f"the range {given!r} of '{name}' is not a pair of numbers of {dtype}; "
            "write (low, high)"
        ) from None
    least, most = (-math.inf, math.inf) if dtype.is_float else (
        (0, 1) if dtype.is_bool else integer_range(dtype)
    )  # fmt: skip
    if not least <= low <= high <= most or not all(map(math.isfinite, (low, high))):
        raise LanguageError(
            f"the range {given!r} of '{name}' is none of {dtype}: the least value comes first, the "
            "largest, which it may have too, second"
        )
    if dtype.is_float:  # what is beyond its largest number would be drawn as infinite
        low, high = (min(max(end, -dtype.largest), dtype.largest) for end in (low, high))
    return low, high
