"""Packing: the form in which a kernel reads a constant tensor, transformed and in another order.

The packed tensor has one dimension for each part. The element at (d_0, d_1, ...) is the element of
the transformed source whose index along dimension n is `offsets[n] + sum of d_p * stride` over the
parts p of n. It is 0 if the source has no such element: lengths that do not divide are filled up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import dtype
from ansorc.ir.expr import BinaryOp, CompareOp, Const, Expr, Select, Var, binary, compare, const
from ansorc.ir.stmt import For, Function, LoopKind, Seq, Stmt, Store
from ansorc.ir.transform import Transform, apply_all, transform_buffer, transform_element

MOST_WRITTEN = 64
"""The most elements of one column of a transform that become straight-line code."""


@dataclass(frozen=True)
class PackedPart:
    """One dimension of a packed tensor: a step along it moves one index of the source."""

    dimension: int
    """The dimension of the transformed source."""
    stride: int
    """The change of the index in one step."""
    extent: int


@dataclass(frozen=True)
class Packing:
    """The transforms and the new layout of the constant tensor `source`, outermost part first."""

    source: Buffer
    parts: tuple[PackedPart, ...]
    offsets: tuple[int, ...]
    """The index along each dimension of the source if all parts are at 0."""
    transforms: tuple[Transform, ...] = ()
    """Linear maps that are applied before, in order."""

    @classmethod
    def plain(cls, source: Buffer, transforms: tuple[Transform, ...] = ()) -> Self:
        """Return the packing that applies `transforms` and keeps the layout."""
        shape = cls(source, (), (), transforms).transformed.shape
        parts = (PackedPart(n, 1, extent) for n, extent in enumerate(shape))
        return cls(source, tuple(parts), (0,) * len(shape), transforms)

    @property
    def transformed(self) -> Buffer:
        """The source after the transforms."""
        return transform_buffer(self.source, self.transforms)

    @property
    def packed(self) -> Buffer:
        """The tensor that the kernel reads, of the same name.

        The zeros that fill it up are among its promised values.
        """
        shape, promised = tuple(part.extent for part in self.parts), self.source.promised
        if self.transforms:
            promised = None
        elif promised is not None and any(map(any, map(self._margin, range(len(self.offsets))))):
            promised = min(promised[0], 0), max(promised[1], 0)
        return replace(self.source, shape=shape, promised=promised)

    @property
    def is_plain(self) -> bool:
        """Whether the layout is that of the source."""
        return self.merged == Packing.plain(self.source).merged

    @property
    def merged(self) -> Packing:
        """The packing with the fewest parts that writes the elements in this order."""
        parts = list[PackedPart]()
        for part in self.parts:
            last = parts[-1] if parts else None
            if part.extent == 1:
                continue
            if last and (last.dimension, last.stride) == (
                part.dimension,
                part.stride * part.extent,
            ):
                parts[-1] = replace(part, extent=last.extent * part.extent)
            else:
                parts.append(part)
        return replace(self, parts=tuple(parts))

    def apply(self, array: Array) -> Array:
        """Return the packed copy of `array`, which has the source's shape."""
        result = aligned_empty(self.packed.shape, self.packed.dtype.numpy)
        self.fill(result, array)
        return result

    def fill(self, result: Array, array: Array) -> None:
        """Write the packed copy of `array` to `result`, which has the shape of `packed`."""
        array = apply_all(self.transforms, array)
        margins = [self._margin(dimension) for dimension in range(array.ndim)]
        padded = np.pad(array, margins) if np.any(margins) else array
        starts = zip(self.offsets, margins, strict=True)
        corner = padded[tuple(slice(offset + before, None) for offset, (before, _) in starts)]
        strides = [part.stride * padded.strides[part.dimension] for part in self.parts]
        result[...] = as_strided(corner, self.packed.shape, strides, writeable=False)

    def function(self, name: str) -> Function:
        """Return the loop program `name`, which copies the source to `packed`.

        The elements of one column of a transform, up to MOST_WRITTEN, are straight-line code in the
        innermost loop.
        """
        target = replace(self.packed, name="packed", constant=False, promised=None)
        source = replace(self.source, name="source", promised=None)  # the kernel checks its values
        written = self._list_unrolled_parts()
        digits: list[Var | int] = [Var(f"d{n}") for n in range(len(self.parts))]
        stores: list[Stmt] = []
        for values in product(*(range(self.parts[n].extent) for n in written)):
            for n, value in zip(written, values, strict=True):
                digits[n] = value
            indices = tuple(const(d) if isinstance(d, int) else d for d in digits)
            stores.append(Store(target, indices, self._element(source, digits)))
        body: Stmt = stores[0] if len(stores) == 1 else Seq(tuple(stores))
        for n, digit in reversed(list(enumerate(digits))):
            if isinstance(digit, Var):
                is_dense = n == len(digits) - 1 and self._is_dense(self.parts[n])
                kind = LoopKind.VECTORIZED if is_dense else LoopKind.SERIAL
                body = For(digit, self.parts[n].extent, kind, body)
        return Function(name, (source, target), body)

    def _is_dense(self, part: PackedPart) -> bool:
        """Return whether a step along `part` moves to the next element of the source."""
        return part.stride == 1 and part.dimension == len(self.source.shape) - 1

    def _list_unrolled_parts(self) -> list[int]:
        """Return the parts of transformed dimensions that become straight-line code."""
        taken = {each.dimension for each in self.transforms}
        parts, count = list[int](), 1
        for n in reversed([n for n, part in enumerate(self.parts) if part.dimension in taken]):
            if count * self.parts[n].extent <= MOST_WRITTEN:
                count *= self.parts[n].extent
                parts.insert(0, n)
        return parts

    def to_json(self) -> dict[str, object]:
        """Return the fields as a JSON object."""
        return {
            "name": self.source.name,
            "shape": list(self.source.shape),
            "dtype": self.source.dtype.name,
            "parts": [[part.dimension, part.stride, part.extent] for part in self.parts],
            "offsets": list(self.offsets),
            "transforms": [[each.dimension, each.matrix] for each in self.transforms],
            **({"complex": True} if self.source.is_complex else {}),
        }

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Packing:
        """Return the packing that `to_json` wrote."""
        shape = tuple(int(extent) for extent in fields["shape"])
        source = Buffer(
            str(fields["name"]), shape, dtype(fields["dtype"]), constant=True,
            is_complex=bool(fields.get("complex", False)),
        )  # fmt: skip
        parts = tuple(PackedPart(*map(int, part)) for part in fields["parts"])
        offsets = tuple(int(offset) for offset in fields["offsets"])
        transforms = tuple(
            Transform(int(n), tuple(tuple(map(float, row)) for row in rows))
            for n, rows in fields["transforms"]
        )
        return Packing(source, parts, offsets, transforms)

    def _range(self, dimension: int) -> tuple[int, int]:
        """Return the lowest and the highest index along a dimension of the source."""
        reach = [p.stride * (p.extent - 1) for p in self.parts if p.dimension == dimension]
        low = high = self.offsets[dimension]
        return low + sum(min(0, n) for n in reach), high + sum(max(0, n) for n in reach)

    def _margin(self, dimension: int) -> tuple[int, int]:
        """Return how far the indices reach beyond the source, before and after it."""
        low, high = self._range(dimension)
        return max(0, -low), max(0, high - self.transformed.shape[dimension] + 1)

    def _element(self, source: Buffer, digits: Sequence[Var | int]) -> Expr:
        constants = list(self.offsets)
        for digit, part in zip(digits, self.parts, strict=True):
            constants[part.dimension] += digit * part.stride if isinstance(digit, int) else 0
        indices: list[Expr] = [const(constant) for constant in constants]
        for digit, part in zip(digits, self.parts, strict=True):
            if not isinstance(digit, int):
                step = binary(BinaryOp.MUL, digit, const(part.stride))
                indices[part.dimension] = binary(BinaryOp.ADD, indices[part.dimension], step)
        inside: list[Expr] = []
        for n, (index, extent) in enumerate(zip(indices, self.transformed.shape, strict=True)):
            if isinstance(index, Const) and not 0 <= int(index.value) < extent:
                return const(0, source.dtype)
            before, after = self._margin(n)
            inside += [compare(CompareOp.GE, index, const(0))] if before else []
            inside += [compare(CompareOp.LT, index, const(extent))] if after else []
        value = transform_element(source, self.transforms, indices)
        return Select(conjunction(inside), value, const(0, source.dtype)) if inside else value


@dataclass(frozen=True, eq=False, slots=True)
class PackedWeight:
    """A weight packed for one kernel, to be passed instead of the weight at every call."""

    packing: Packing
    array: Array
    """The packed elements; they must not be changed."""

    def __repr__(self) -> str:
        source = self.packing.source
        return f"<{source.name}: {source.dtype}{list(source.shape)}, packed>"
