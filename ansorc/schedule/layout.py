"""Layout: the order in which the loops of its reader walk over a constant tensor.

The loops that move an index, outermost first, become the dimensions of the packed tensor; the
vectorised one comes last, so that vectors are contiguous. After it comes only that of a dot-product
instruction, whose terms adjoin. A fused loop counts as those it was fused from; neighbours that
together form one index are one dimension. The loops in which the reader is computed are part of the
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import attrgetter

from ansorc.ir.arith.affine import affine
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Load
from ansorc.ir.packing import PackedPart, Packing
from ansorc.ir.transform import Transform
from ansorc.schedule.bounds import region
from ansorc.schedule.placed import Placed
from ansorc.schedule.stage import At, FuseRelation, Loop, Mark, SplitRelation, Stage
from ansorc.schedule.state import State
from ansorc.schedule.values import as_int, iterator_values, plus, times

_LAST = {Mark.VECTORIZE: 1, Mark.TENSORIZE: 2}
"""The loops that come after the others."""


@dataclass(frozen=True)
class IndexTerm:
    """A loop that moves an index of the tensor: `index += stride`, `extent` times."""

    stage: str
    iterators: tuple[tuple[str, int], ...]
    """Loops of the stage, or loops that were fused into one: the sum of each times its factor."""
    stride: int
    extent: int
    order: tuple[int, ...]
    """Orders the digits, outermost first; the position of the loop is the third element."""
    dimension: int = 0
    """The dimension of the tensor that is indexed."""

    @property
    def loop(self) -> tuple[object, ...]:
        """The dimension, and the loop that moves it after fusing."""
        return self.dimension, self.stage, self.order[2]


@dataclass(frozen=True)
class Layout:
    """The digits of a tensor, in the order of the packed dimensions."""

    source: Buffer
    digits: tuple[IndexTerm, ...]
    """The digits of the tensor after its transforms."""
    offsets: tuple[int, ...]
    transforms: tuple[Transform, ...]

    @property
    def packing(self) -> Packing:
        """The layout without the loops that it came from."""
        parts = (PackedPart(digit.dimension, digit.stride, digit.extent) for digit in self.digits)
        return Packing(self.source, tuple(parts), self.offsets, self.transforms)


def packings(state: State) -> tuple[Packing, ...]:
    """Return the packing of each constant input that `state` needs in another form.

    These are the inputs that RewriteLayout names, and those that Redefine transforms. Raise
    ValueError for a sketch or a population.
    """
    plain = [pair for pair in state.transformed if pair[0] not in state.rewritten]
    return (
        *(layout_of(state, tensor).packing for tensor in state.rewritten),
        *(Packing.plain(_input(state, tensor), transforms) for tensor, transforms in plain),
    )


def layout_of(state: State, tensor: str) -> Layout:
    """Return the order in which the only reader of the input `tensor` reads it in `state`."""
    (reader,) = state.readers(tensor)
    load = next(load for load in reader.op.loads if load.buffer.name == tensor)
    digits: list[IndexTerm] = []
    offsets: list[int] = []
    for dimension, index in enumerate(load.indices):
        form = affine(index)
        assert form is not None, "RewriteLayout refuses such an index"
        offset = form.constant
        for axis, factor in form.terms.items():
            axis_digits, low = _axis_digits(state, reader, axis, len(reader.iterators))
            offset += factor * low
            digits += (replace(digit, dimension=dimension) for digit in _scale(axis_digits, factor))
        offsets.append(offset)
    long = (digit for digit in digits if digit.extent > 1)
    transforms = dict(state.transformed).get(tensor, ())
    ordered = tuple(_merge_digits(sorted(long, key=attrgetter("order"))))
    return Layout(_input(state, tensor), ordered, tuple(offsets), transforms)


def load_packed(state: State, tensor: str, placed: Mapping[str, Placed]) -> Load:
    """Return the load of an input whose layout is rewritten: its indices are the loops."""
    layout = layout_of(state, tensor)
    indices: list[Expr] = []
    for digit in layout.digits:
        reader = placed[digit.stage]
        values = iterator_values(reader.stage, reader.leaves)[0]
        terms = (times(values[name], factor) for name, factor in digit.iterators)
        indices.append(reduce(plus, terms))
    return Load(layout.packing.packed, tuple(indices))


def _input(state: State, tensor: str) -> Buffer:
    return next(buffer for buffer in state.dag.inputs if buffer.name == tensor)


def _merge_digits(digits: Iterable[IndexTerm]) -> list[IndexTerm]:
    """Merge neighbouring digits that come from one fused loop and together form one index."""
    joined = list[IndexTerm]()
    for digit in digits:
        last, length = joined[-1] if joined else digit, digit.extent
        is_one = (last.loop, last.stride) == (digit.loop, digit.stride * length)
        outer = joined.pop().iterators if is_one else ()
        iterators = (*((name, factor * length) for name, factor in outer), *digit.iterators)
        extent = last.extent * length if is_one else length
        joined.append(replace(digit, iterators=iterators, extent=extent))
    return joined


def _scale(digits: Iterable[IndexTerm], factor: int) -> Iterator[IndexTerm]:
    return (replace(digit, stride=digit.stride * factor) for digit in digits)


def _axis_digits(
    state: State, stage: Stage, axis: str, loop_count: int
) -> tuple[list[IndexTerm], int]:
    """Return the digits and the constant whose sum is `axis` of `stage`.

    Only the first `loop_count` loops count; the others are at 0. Lowering computes the same sum
    (`Nests`).
    """
    depth = len(state.chain(stage))
    digits = list(_Decomposition(stage, loop_count, depth).digits(axis))
    names = [axis_.name for axis_ in stage.op.axes]
    if not isinstance(stage.attach, At) or axis not in names:
        return digits, 0
    target = state.stage(stage.attach.stage)
    inside = target.position(stage.attach.iterator)
    assert inside is not None
    box = region(state, stage.name, target, inside + 1)[names.index(axis)]
    if box.low is None:
        return digits, 0
    constant = as_int(box.start)
    for (anchor, divisor), factor in box.low.terms.items():
        assert divisor == 1, "settle and RewriteLayout refuse such a region"
        outer_digits, shift = _axis_digits(state, target, anchor, inside + 1)
        digits += _scale(outer_digits, factor)
        constant += factor * shift
    return digits, constant


@dataclass(frozen=True)
class _Decomposition:
    """Takes the axes of one stage apart into the iterators whose sums they are."""

    stage: Stage
    place: int
    """The number of outer loops that count; those inside are at 0."""
    depth: int
    """The number of nests around the stage."""

    def digits(self, iterator: str, stride: int = 1) -> Iterator[IndexTerm]:
        """Yield the digits of an iterator that the stage has or had."""
        split = self._find_split(iterator)
        if split is not None:
            for child in reversed(split.children):
                yield from self.digits(child.name, stride)
                stride *= as_int(child.extent)
            return
        leaves = list(self._leaves(iterator))
        if any(leaf >= self.place for leaf in leaves):
            return  # a loop inside, at 0
        mark = self.stage.iterators[leaves[0]].mark
        order = (_LAST.get(mark, 0), self.depth, *self._path(iterator))
        extent = as_int(self._iterator(iterator).extent)
        yield IndexTerm(self.stage.name, ((iterator, 1),), stride, extent, order)

    def _find_split(self, iterator: str) -> SplitRelation | None:
        splits = (r for r in self.stage.relations if isinstance(r, SplitRelation))
        return next((split for split in splits if split.parent.name == iterator), None)

    def _find_fusion(self, iterator: str) -> tuple[FuseRelation, int] | None:
        """Return the fusion that `iterator` went into, and its position among the parents."""
        for relation in self.stage.relations:
            if isinstance(relation, FuseRelation):
                names = [parent.name for parent in relation.parents]
                if iterator in names:
                    return relation, names.index(iterator)
        return None

    def _leaves(self, iterator: str) -> Iterator[int]:
        """Yield the positions of the loops that `iterator` became."""
        split, fused = self._find_split(iterator), self._find_fusion(iterator)
        if split is not None:
            for child in split.children:
                yield from self._leaves(child.name)
        elif fused is not None:
            yield from self._leaves(fused[0].child.name)
        else:
            position = self.stage.position(iterator)
            assert position is not None
            yield position

    def _path(self, iterator: str) -> tuple[int, ...]:
        """Return the position of the outermost loop that `iterator` became, then in fusions."""
        split, fused = self._find_split(iterator), self._find_fusion(iterator)
        if split is not None:
            return min(self._path(child.name) for child in split.children)
        if fused is not None:
            return (*self._path(fused[0].child.name), fused[1])
        return (next(self._leaves(iterator)),)

    def _iterator(self, name: str) -> Loop:
        fused = self._find_fusion(name)
        if fused is not None:
            return fused[0].parents[fused[1]]
        position = self.stage.position(name)
        assert position is not None
        return self.stage.iterators[position]
