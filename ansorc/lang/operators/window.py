"""Windows that move over spatial dimensions, for convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar

from ansorc.errors import LanguageError
from ansorc.lang.operators.pad import pad
from ansorc.lang.operators.shapes import each, refuse_unknown, require, scale_index
from ansorc.lang.reduction import ReduceAxis, reduce_axis
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

T = TypeVar("T")

SPATIAL = {1: "l", 2: "hw", 3: "dhw"}
"""Names of the spatial axes, by their number."""


class WindowOptions(TypedDict, total=False):
    """Options of a window: one number for all spatial dimensions, or one for each."""

    stride: int | Sequence[int]
    padding: int | Sequence[int]
    """The margins on both sides; or those before, then those after, of each dimension."""
    dilation: int | Sequence[int]
    layout: str
    """Channels last (default: NLC, NHWC, NDHWC) or first (NCL, NCHW, NCDHW)."""
    name: str
    """The name of the result; its padding stage is called `<name>.pad`."""


@dataclass(frozen=True)
class Window:
    """A window that moves over the spatial dimensions of a tensor [n, …, c] or [n, c, …]."""

    operator: str
    spatial: str
    """One letter for each spatial axis."""
    stride: tuple[int, ...]
    margins: tuple[int, ...]
    """Padding before each spatial dimension, then after each."""
    dilation: tuple[int, ...]
    is_channels_last: bool

    @staticmethod
    def of(operator: str, rank: int, options: WindowOptions, *more: str) -> Window:
        """Return the window of `options`; raise LanguageError if they are not valid.

        `more` names options of the operator that do not concern the window.
        """
        refuse_unknown(operator, options, (*WindowOptions.__optional_keys__, *more))
        spatial = SPATIAL[rank]
        last, first = f"N{spatial.upper()}C", f"NC{spatial.upper()}"
        layout = options.get("layout", last)
        if layout not in (last, first):
            raise LanguageError(f"{operator} has no layout '{layout}'; use {last} or {first}")
        stride = each(operator, "stride", options.get("stride", 1), rank)
        dilation = each(operator, "dilation", options.get("dilation", 1), rank)
        padding = options.get("padding", 0)
        if isinstance(padding, int) or len(padding) == rank:
            padding = each(operator, "padding", padding, rank) * 2
        margins = each(operator, "padding", padding, 2 * rank)
        if min(*stride, *dilation) < 1 or min(margins) < 0:
            raise LanguageError(f"{operator}: stride and dilation are 1 or more, padding 0 or more")
        return Window(operator, spatial, stride, margins, dilation, layout == last)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes of a result."""
        return self.pack("n", tuple(self.spatial), "c")

    def pack(self, batch: T, spatial: Sequence[T], channel: T) -> tuple[T, ...]:
        """Return the items in the order of the dimensions."""
        return (batch, *spatial, channel) if self.is_channels_last else (batch, channel, *spatial)

    def unpack(self, items: Sequence[T]) -> tuple[T, Sequence[T], T]:
        """Return the batch, spatial and channel item of a list in the order of the dimensions."""
        if self.is_channels_last:
            return items[0], items[1:-1], items[-1]
        return items[0], items[2:], items[1]

    def reduce_axes(self, kernel: Sequence[int]) -> list[ReduceAxis]:
        """Return an axis for each dimension of a window of extents `kernel`: rh, rw."""
        pairs = zip(kernel, self.spatial, strict=True)
        return [reduce_axis(extent, f"r{letter}") for extent, letter in pairs]

    def output(self, data: Tensor, kernel: Sequence[int]) -> tuple[int, ...]:
        """Return the spatial extents of the result; raise LanguageError where nothing is left."""
        rank, first = len(self.spatial), 1 if self.is_channels_last else 2
        spatial = data.shape[first : first + rank]
        shape = tuple(
            (spatial[d] + self.margins[d] + self.margins[rank + d] - self._reach(d, kernel) - 1)
            // self.stride[d]
            + 1
            for d in range(rank)
        )
        need = f"the window {tuple(kernel)} is larger than the padded input"
        require(min(shape) > 0, self.operator, data, need=need)
        return shape

    def pad(self, data: Tensor, value: float, name: str) -> Tensor:
        """Return `data` with margins of `value`, `data` itself where there are none."""
        if not any(self.margins):
            return data
        rank = len(self.spatial)
        before = self.pack(0, self.margins[:rank], 0)
        after = self.pack(0, self.margins[rank:], 0)
        return pad(data, before, after, value, name, self.axes)

    def places(self, spatial: Sequence[Scalar], offsets: Sequence[Scalar]) -> list[Scalar]:
        """Return the indices that the window at `spatial` reads at `offsets` inside it."""
        return [
            scale_index(index, self.stride[d]) + scale_index(offset, self.dilation[d])
            for d, (index, offset) in enumerate(zip(spatial, offsets, strict=True))
        ]

    def _reach(self, d: int, kernel: Sequence[int]) -> int:
        return (kernel[d] - 1) * self.dilation[d]
