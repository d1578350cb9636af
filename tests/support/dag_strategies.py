"""Random small computations, for hypothesis: chains of one to four of the usual kinds of stages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import ansorc.lang as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.operators.pad import pad
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 11, 13)
MOST_ELEMENTS, MOST_TERMS = 512, 4096
DTYPES = ("float32", "float32", "float32", "float64", "int32")

extents = st.sampled_from(EXTENTS)


@st.composite
def dags(
    draw: st.DrawFn,
    most_stages: int = 4,
    dtypes: Sequence[str] = DTYPES,
    always: Callable[[Chain], Tensor] | None = None,
) -> ComputeDAG:
    """Draw a DAG of one or two outputs, small enough for the IR interpreter.

    Elementwise stages, broadcasts, reductions (of tuples too), several outputs, products of
    matrices with others and with themselves, strided, dilated and padded windows, transposed,
    reversed, strided and data-dependent reads, guards; scans; scalars; extents of 1 and primes;
    float32, float64, int32. One stage is made by `always`, if that is given and fits.
    """
    chain = Chain(draw, draw(st.sampled_from(dtypes)))
    rank = draw(st.sampled_from([0, 1, 1, 2, 2, 2, 3, 3]))
    chain.tensors.append(chain.input(draw(_shapes(rank))))
    count = draw(st.integers(1, most_stages))
    special = draw(st.integers(0, count - 1)) if always is not None else -1
    for number in range(count):
        makers = [make for make, fits in MAKERS if fits(chain)]
        makers = [make for make in makers if make is always or number != special] or makers
        chain.tensors.append(draw(st.sampled_from(makers))(chain))
    computed = [tensor for tensor in chain.tensors if tensor.definition is not None]
    outputs = [computed[-1]]
    if len(computed) > 1 and draw(st.booleans()):
        outputs.append(draw(st.sampled_from(computed[:-1])))
    return ComputeDAG([*chain.inputs, *outputs])


def random_inputs(dag: ComputeDAG, rng: np.random.Generator) -> list[NDArray[Any]]:
    """Return inputs of `dag`: floats in [-1, 1), integers in -4 … 4."""
    arrays: list[NDArray[Any]] = []
    for buffer in dag.inputs:
        if buffer.dtype.is_float:
            values = rng.uniform(-1.0, 1.0, buffer.shape)
        else:
            values = rng.integers(-4, 5, buffer.shape)
        arrays.append(values.astype(buffer.dtype.numpy))
    return arrays


@dataclass
class Chain:
    """The computation being drawn; each new stage reads the last tensor."""

    draw: st.DrawFn
    dtype: str
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    tensors: list[Tensor] = field(default_factory=list[Tensor])

    @property
    def last(self) -> Tensor:
        return self.tensors[-1]

    @property
    def name(self) -> str:
        return f"T{len(self.tensors)}"

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype

    def input(self, shape: Sequence[int]) -> Tensor:
        letter = "ABCDEFGHIJKLMNOP"[len(self.inputs)]
        tensor = ac.placeholder(shape, letter, self.dtype, constant=self.draw(st.booleans()))
        self.inputs.append(tensor)
        return tensor


@st.composite
def _shapes(draw: st.DrawFn, rank: int) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(rank):
        room = MOST_ELEMENTS // math.prod(shape)
        shape.append(min(draw(extents), room))
    return tuple(shape)


def elementwise(chain: Chain) -> Tensor:
    data = chain.last
    functions: list[Callable[[Scalar], Scalar]] = [
        lambda x: ac.maximum(x, 0),
        lambda x: x * 3 + 1,
        lambda x: x * x - x,
        lambda x: -x,
    ]
    if chain.is_float:
        of_floats: list[Callable[[Scalar], Scalar]] = [
            ac.tanh,
            lambda x: ac.exp(ac.minimum(x, 1.0)),
            lambda x: x / 4.0,
        ]
        functions += of_floats
    function = chain.draw(st.sampled_from(functions))
    return ac.compute(data.shape, lambda *i: function(data[i]), chain.name)


def broadcast(chain: Chain) -> Tensor:
    data, place = chain.last, chain.draw(st.integers(0, len(chain.last.shape) - 1))
    vector = chain.input((data.shape[place],))
    if chain.draw(st.booleans()):
        return ac.compute(data.shape, lambda *i: data[i] + vector[i[place]], chain.name)
    return ac.compute(data.shape, lambda *i: vector[i[place]] * data[i], chain.name)


def join(chain: Chain) -> Tensor:
    """Read the last tensor and an earlier one of its shape (perhaps itself)."""
    data = chain.last
    alike = [tensor for tensor in chain.tensors if tensor.shape == data.shape]
    other = chain.draw(st.sampled_from(alike))
    return ac.compute(data.shape, lambda *i: data[i] - other[i] * 2, chain.name)


def outer(chain: Chain) -> Tensor:
    data, extent = chain.last, chain.draw(extents)
    vector = chain.input((extent,))
    return ac.compute((*data.shape, extent), lambda *i: data[i[:-1]] + vector[i[-1]], chain.name)


def transpose(chain: Chain) -> Tensor:
    data = chain.last
    order = chain.draw(st.permutations(range(len(data.shape))))
    shape = [data.shape[place] for place in order]
    return ac.compute(
        shape, lambda *i: data[tuple(i[order.index(d)] for d in range(len(order)))], chain.name
    )


def reverse(chain: Chain) -> Tensor:
    data = chain.last
    last = data.shape[-1] - 1
    return ac.compute(data.shape, lambda *i: data[(*i[:-1], last - i[-1])], chain.name)


def strided(chain: Chain) -> Tensor:
    data, stride = chain.last, chain.draw(st.integers(2, 3))
    start = chain.draw(st.integers(0, data.shape[0] - 1))
    shape = ((data.shape[0] - 1 - start) // stride + 1, *data.shape[1:])
    return ac.compute(shape, lambda *i: data[(i[0] * stride + start, *i[1:])], chain.name)


def interleaved(chain: Chain) -> Tensor:
    """Repeat the rows of a tensor two or three times, the last one not always as often."""
    data, period = chain.last, chain.draw(st.integers(2, 3))
    rows = data.shape[0] * period - chain.draw(st.integers(0, period - 1))

    def body(*i: Scalar) -> Scalar:
        places = [i[0] // period, *i[1:]]
        row = data[tuple(places)]
        other = data[(*places[:-1], 0)] if len(places) > 1 else row
        return ac.if_then_else(ac.equal(i[0] % period, 0), row, other)

    return ac.compute((rows, *data.shape[1:]), body, chain.name)


def guard(chain: Chain) -> Tensor:
    """Keep what a condition on the indices chooses, and read a neighbour for the rest."""
    data = chain.last
    limit = chain.draw(st.integers(0, data.shape[-1]))

    def body(*i: Scalar) -> Scalar:
        shifted = data[(*i[:-1], ac.maximum(i[-1] - 1, 0))]
        tests = [i[-1] >= limit, ac.equal(i[0] % 2, 0), ac.any_of(i[0] < 1, i[-1] < limit)]
        return ac.if_then_else(chain.draw(st.sampled_from(tests)), data[i], shifted)

    return ac.compute(data.shape, body, chain.name)


def fold(chain: Chain) -> Tensor:
    """View the last dimension as two: i // n and i % n in the index of the result."""
    data, n = chain.last, chain.draw(st.integers(1, 4))
    extent = data.shape[-1]
    shape = (*data.shape[:-1], -(-extent // n), n)
    return ac.compute(
        shape,
        lambda *i: data[(*i[:-2], ac.minimum(i[-2] * n + i[-1], extent - 1))],
        chain.name,
    )


def reduction(chain: Chain) -> Tensor:
    data = chain.last
    rank = len(data.shape)
    count = chain.draw(st.integers(1, min(2, rank)))
    places = sorted(chain.draw(st.permutations(range(rank)))[:count])
    axes = {place: ac.reduce_axis(data.shape[place], f"k{place}") for place in places}
    reduce = chain.draw(st.sampled_from([ac.sum, ac.sum, ac.max, ac.min, ac.prod]))
    shape = [extent for place, extent in enumerate(data.shape) if place not in axes]

    def body(*i: Scalar) -> ac.Reduction:
        rest = iter(i)
        indices = tuple(axes[place] if place in axes else next(rest) for place in range(rank))
        return reduce(data[indices], axis=list(axes.values()))

    return ac.compute(shape, body, chain.name)


def scattered(chain: Chain) -> Tensor:
    """Combine rows at places that a tensor says; a place may follow the rest of the axes, too."""
    data, rank = chain.last, len(chain.last.shape)
    count = chain.draw(st.integers(1, min(2, rank)))
    axes = [ac.reduce_axis(extent, f"n{d}") for d, extent in enumerate(data.shape[:count])]
    where = ac.placeholder(data.shape[:count], f"I{len(chain.inputs)}", "int32")
    chain.inputs.append(where)
    extent, factor = chain.draw(st.integers(1, 5)), chain.draw(st.integers(0, 2))
    reduce = chain.draw(st.sampled_from(["add", "add", "mul", "max", "min"]))
    place = (where[tuple(axes)].astype("int64") + axes[0] * factor) % extent
    result = ac.scatter(
        (extent, *data.shape[count:]),
        place,
        lambda *d: data[(*axes, *d)],
        reduce,
        axis=axes,
        name=chain.name,
    )
    # Where no term went, there is an infinity.
    return _limit(chain, result) if reduce in ("max", "min") else result


def ragged(chain: Chain) -> Tensor:
    """Combine rows of a range that a tensor says, for each of a few results."""
    data, count = chain.last, chain.draw(st.integers(1, 5))
    rows, second = data.shape[0], len(data.shape) > 1 and chain.draw(st.booleans())
    first = ac.placeholder((count,), f"P{len(chain.inputs)}", "int32")
    chain.inputs.append(first)
    reduce = chain.draw(st.sampled_from([ac.sum, ac.sum, ac.prod, ac.max, ac.min]))
    most = chain.draw(st.integers(1, 4))
    r = ac.reduce_axis(list(data.shape)[-1], "r")

    def body(*i: Scalar) -> ac.Reduction:
        number = first[i[0]].astype("int64")
        begin = number % rows
        k = ac.reduce_axis((begin, ac.minimum(begin + number % most, rows)), "k")
        if second:
            return reduce(data[(k, *i[1:], r)], axis=[k, r])
        return reduce(data[(k, *i[1:])], axis=k)

    rest = data.shape[1:-1] if second else data.shape[1:]
    if chain.draw(st.integers(0, 3)) == 0:
        return _limit(chain, _extreme_of_range(chain, (count, *rest), body))
    result = ac.compute((count, *rest), body, chain.name)
    # Of an empty range there is an infinity.
    return _limit(chain, result) if reduce in (ac.max, ac.min) else result


def _extreme_of_range(
    chain: Chain, shape: Sequence[int], body: Callable[..., ac.Reduction]
) -> Tensor:
    """Return the extreme of the terms of `body`, or its place, of an empty range 0."""
    find = chain.draw(st.sampled_from([ac.argmax, ac.argmin]))

    def pair(*i: Scalar) -> ac.TupleReduction:
        terms = body(*i)
        return find(Scalar(terms.body), axis=terms.axes)

    value, place = ac.compute_tuple(shape, pair, f"{chain.name}x")
    if chain.draw(st.booleans()):
        return value
    return ac.compute(
        shape, lambda *i: ac.cast(ac.clip(place[i], -1, 64) % 64, chain.dtype), chain.name
    )


def _limit(chain: Chain, result: Tensor) -> Tensor:
    """Return `result` with values far from 0, infinities too, cut off."""
    chain.tensors.append(result)
    least = 0 if chain.dtype.startswith("u") else -8
    return ac.compute(result.shape, lambda *i: ac.clip(result[i], least, 8), chain.name)


def matmul(chain: Chain) -> Tensor:
    data = chain.last
    depth = data.shape[-1]
    columns = min(chain.draw(extents), MOST_TERMS // math.prod(data.shape))
    weight, k = chain.input((depth, columns)), ac.reduce_axis(depth, "k")
    return ac.compute(
        (*data.shape[:-1], columns),
        lambda *i: ac.sum(data[(*i[:-1], k)] * weight[k, i[-1]], axis=k),
        chain.name,
    )


def window(chain: Chain) -> Tensor:
    """Move a padded window along the last one or two dimensions."""
    data, rank = chain.last, len(chain.last.shape)
    count = chain.draw(st.integers(1, min(2, rank)))
    before = [0] * (rank - count) + [chain.draw(st.integers(0, 2)) for _ in range(count)]
    padded = data
    if any(before):
        padded = pad(data, before, before, 0, f"{chain.name}.pad")
        chain.tensors.append(padded)
    sizes = [min(chain.draw(st.integers(1, 3)), extent) for extent in padded.shape[rank - count :]]
    strides = [chain.draw(st.integers(1, 2)) for _ in sizes]
    dilations = [
        chain.draw(st.integers(1, 3)) if (size - 1) * 3 < padded.shape[rank - count + d] else 1
        for d, size in enumerate(sizes)
    ]
    kernel = chain.input(sizes)
    offsets = [ac.reduce_axis(size, f"r{place}") for place, size in enumerate(sizes)]
    shape = list(padded.shape[: rank - count])
    for place, size in enumerate(sizes):
        reach = (size - 1) * dilations[place]
        shape.append((padded.shape[rank - count + place] - reach - 1) // strides[place] + 1)

    def body(*i: Scalar) -> ac.Reduction:
        moved = (i[rank - count + d] * strides[d] + offsets[d] * dilations[d] for d in range(count))
        element = padded[(*i[: rank - count], *moved)]
        return ac.sum(element * kernel[tuple(offsets)], axis=offsets)

    return ac.compute(shape, body, chain.name)


def product_with_itself(chain: Chain) -> Tensor:
    """The products of all pairs of rows of one matrix: `batch_matmul(x, x)`."""
    data = chain.last
    k = ac.reduce_axis(data.shape[-1], "k")
    return ac.compute(
        (*data.shape[:-1], data.shape[-2]),
        lambda *i: ac.sum(data[(*i[:-1], k)] * data[(*i[:-2], i[-1], k)], axis=k),
        chain.name,
    )


def two_outputs(chain: Chain) -> Tensor:
    """Two tensors of one computation; the chain goes on with one of them."""
    data = chain.last
    both = ac.compute_tuple(
        data.shape, lambda *i: (data[i] * 2, 1 - data[i]), [f"{chain.name}a", f"{chain.name}b"]
    )
    return _chosen(chain, both)


def tuple_reduction(chain: Chain) -> Tensor:
    """Sums of terms and of squares, or (for floats) the largest and the sum of exponentials."""
    data = chain.last
    k = ac.reduce_axis(data.shape[-1], "k")
    moments = ac.reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0, 0))
    names = [f"{chain.name}a", f"{chain.name}b"]
    if not chain.is_float or chain.draw(st.booleans()):
        both = ac.compute_tuple(
            data.shape[:-1],
            lambda *i: moments(data[(*i, k)], data[(*i, k)] * data[(*i, k)], axis=k),
            names,
        )
    else:
        scaled = ac.reducer(_exponentials, (-1000.0, 0.0))
        one = ac.const(1.0, chain.dtype)
        both = ac.compute_tuple(
            data.shape[:-1],
            lambda *i: scaled(ac.minimum(ac.maximum(data[(*i, k)], -8), 8), one, axis=k),
            names,
        )
    return _chosen(chain, both)


def _exponentials(a: Sequence[Scalar], b: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
    top = ac.maximum(a[0], b[0])
    return top, a[1] * ac.exp(a[0] - top) + b[1] * ac.exp(b[0] - top)


def extreme_place(chain: Chain) -> Tensor:
    """Where the largest or smallest element is, or that element, found by a second read."""
    data, rank = chain.last, len(chain.last.shape)
    place = chain.draw(st.integers(0, rank - 1))
    k = ac.reduce_axis(data.shape[place], "k")
    find = chain.draw(st.sampled_from([ac.argmax, ac.argmin]))
    shape = [*data.shape[:place], *data.shape[place + 1 :]]
    _, where = ac.compute_tuple(
        shape, lambda *i: find(data[(*i[:place], k, *i[place:])], axis=k), f"{chain.name}x"
    )
    if chain.draw(st.booleans()):
        return ac.compute(shape, lambda *i: ac.cast(where[i], chain.dtype), chain.name)
    return ac.compute(shape, lambda *i: data[(*i[:place], where[i], *i[place:])], chain.name)


def scan(chain: Chain) -> Tensor:
    """Sums, extremes and recurrences along any axis, from either end, also of two states."""
    data, rank, draw = chain.last, len(chain.last.shape), chain.draw
    place = draw(st.integers(0, rank - 1))
    is_reversed, is_exclusive = draw(st.booleans()), draw(st.booleans())
    steps: list[Callable[[Scalar, Scalar], Scalar]] = [
        lambda s, x: s + x,
        ac.maximum,
        lambda s, x: x - s,
        lambda s, x: ac.if_then_else(x > 0, s + 1, 0 - x),
    ]
    if chain.is_float:
        decay: list[Callable[[Scalar, Scalar], Scalar]] = [lambda s, x: s * 0.5 + x]
        steps += decay
    step = draw(st.sampled_from(steps))
    start = None
    if rank > 1 and draw(st.booleans()):
        start = chain.input([extent for d, extent in enumerate(data.shape) if d != place])

    def begin(*i: Scalar) -> Scalar | int:
        return 1 if start is None else start[tuple(i[d] for d in range(rank) if d != place)]

    if draw(st.booleans()):
        both = ac.compute_tuple(
            data.shape,
            lambda *i: ac.scan(
                (begin(*i), ac.const(0, chain.dtype)),
                lambda s, n: (step(s, data[i]) - n, n + 1), axis=i[place],
                reverse=is_reversed, exclusive=is_exclusive,
            ),
            [f"{chain.name}a", f"{chain.name}b"],
        )  # fmt: skip
        return _chosen(chain, both)
    return ac.compute(
        data.shape,
        lambda *i: ac.scan(
            begin(*i), lambda s: step(s, data[i]), axis=i[place],
            reverse=is_reversed, exclusive=is_exclusive,
        ),
        chain.name,
    )  # fmt: skip


def mixing_scan(chain: Chain) -> Tensor:
    """A scan whose steps read states of other places: neighbours, or all of them in a reduction."""
    data, rank, draw = chain.last, len(chain.last.shape), chain.draw
    along, across = draw(st.permutations(range(rank)))[:2]
    extent, is_reversed = data.shape[across], draw(st.booleans())
    k, is_reduced = ac.reduce_axis(extent, "k"), draw(st.booleans())

    def others(i: Sequence[Scalar], place: Scalar) -> tuple[Scalar, ...]:
        """The indices of a state: those of the element but the scan's, another one across."""
        return tuple(place if d == across else i[d] for d in range(rank) if d != along)

    def body(*i: Scalar) -> ac.ScanSteps:
        def step(state: ac.State) -> Scalar:
            if is_reduced:
                return (
                    ac.max(ac.minimum(state[others(i, k)], 9) - (k % 2).astype(chain.dtype), axis=k)
                    + data[i]
                )
            return ac.minimum(state[others(i, (i[across] + 1) % extent)], 9) + data[i] - state

        first = ac.const(1, chain.dtype)
        return ac.scan(first, step, i[along], reverse=is_reversed)

    return ac.compute(data.shape, body, chain.name)


def _chosen(chain: Chain, both: tuple[Tensor, ...]) -> Tensor:
    first, second = both if chain.draw(st.booleans()) else both[::-1]
    if chain.draw(st.booleans()):
        chain.tensors.append(second)
    return first


def _is_exact(chain: Chain) -> bool:
    """Whether rounding cannot decide which of two elements of the last tensor is larger."""
    return not chain.is_float or chain.last.definition is None


def _rank(chain: Chain) -> int:
    return len(chain.last.shape)


def _size(chain: Chain) -> int:
    return math.prod(chain.last.shape)


MAKERS: list[tuple[Callable[[Chain], Tensor], Callable[[Chain], bool]]] = [
    (elementwise, lambda chain: True),
    (join, lambda chain: True),
    (broadcast, lambda chain: _rank(chain) >= 1),
    (outer, lambda chain: _rank(chain) <= 2 and _size(chain) <= MOST_ELEMENTS // 13),
    (transpose, lambda chain: _rank(chain) >= 2),
    (reverse, lambda chain: _rank(chain) >= 1),
    (strided, lambda chain: _rank(chain) >= 1),
    (interleaved, lambda chain: _rank(chain) >= 1 and _size(chain) * 3 <= MOST_ELEMENTS),
    (guard, lambda chain: _rank(chain) >= 1),
    (fold, lambda chain: 1 <= _rank(chain) <= 2),
    (reduction, lambda chain: _rank(chain) >= 1),
    (scattered, lambda chain: _rank(chain) >= 1),
    (ragged, lambda chain: _rank(chain) >= 1),
    (matmul, lambda chain: _rank(chain) >= 1),
    (window, lambda chain: _rank(chain) >= 1),
    (
        product_with_itself,
        lambda chain: _rank(chain) >= 2 and _size(chain) * chain.last.shape[-2] <= MOST_TERMS,
    ),
    (two_outputs, lambda chain: True),
    (tuple_reduction, lambda chain: _rank(chain) >= 1),
    (scan, lambda chain: _rank(chain) >= 1),
    (mixing_scan, lambda chain: _rank(chain) >= 2),
    (extreme_place, lambda chain: _rank(chain) >= 1 and _is_exact(chain)),
]
"""The kinds of stages, and for which chains there is one."""
