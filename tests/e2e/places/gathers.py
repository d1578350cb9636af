"""Random computations that read at places that data says, and data that is right or wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import ansorc as ac
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.scalar_type import Scalar

_DTYPES = ("int64", "int32", "uint8", "int16", "uint32", "uint64")
FAR = (10**12, -(10**12), 2**62, -(2**63))


@dataclass(frozen=True)
class Gather:
    """A computation and data for it."""

    title: str
    dag: ComputeDAG
    inputs: list[Array]


def gather(seed: int) -> Gather:
    """Return the computation number `seed`, with data of which about half has a wrong place."""
    rng = np.random.default_rng(seed)
    make = _FORMS[int(rng.integers(len(_FORMS)))]
    return make(rng, f"{make.__name__} {seed}")


def _extent(rng: np.random.Generator, most: int = 40) -> int:
    return int(rng.choice([1, 2, 3, 7, 8, 16, 17, 31, 33, 40][: 10 if most >= 40 else 6]))


def _places(rng: np.random.Generator, shape: tuple[int, ...], extent: int, dtype: str) -> Array:
    """Places below `extent`, and mostly one that is none."""
    info = np.iinfo(dtype)
    places = rng.integers(0, min(extent, info.max + 1), shape).astype(dtype)
    if rng.random() < 0.6:
        far = [extent, extent + 1, -1, -extent, *FAR, int(info.max), int(info.min)]
        wrong = [value for value in far if info.min <= value <= info.max]
        where = tuple(int(rng.integers(n)) for n in shape)
        places[where] = wrong[int(rng.integers(len(wrong)))]
    return places


def _table(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> Array:
    return rng.normal(size=shape).astype(dtype)


def _rows(rng: np.random.Generator, title: str) -> Gather:
    """Rows of a table, at places of some dtype."""
    n, m, count, dtype = _extent(rng), _extent(rng), _extent(rng), str(rng.choice(_DTYPES))
    t, i = ac.placeholder((n, m), "T"), ac.placeholder((count,), "I", dtype)
    c = ac.compute((count, m), lambda a, b: t[i[a], b] + 1.0, "C")
    return Gather(
        title, ac.ComputeDAG([t, i, c]), [_table(rng, (n, m)), _places(rng, (count,), n, dtype)]
    )


def _elements(rng: np.random.Generator, title: str) -> Gather:
    """Single elements, at places that are a matrix."""
    n, shape, dtype = _extent(rng), (_extent(rng), _extent(rng)), str(rng.choice(_DTYPES))
    t, i = ac.placeholder((n,), "T"), ac.placeholder(shape, "I", dtype)
    c = ac.compute(shape, lambda a, b: t[i[a, b]] * 2.0, "C")
    return Gather(
        title, ac.ComputeDAG([t, i, c]), [_table(rng, (n,)), _places(rng, shape, n, dtype)]
    )


def _affine(rng: np.random.Generator, title: str) -> Gather:
    """Places that are computed from data and axes."""
    n, count, width = _extent(rng), _extent(rng), int(rng.integers(1, 5))
    t, i = ac.placeholder((n * width,), "T"), ac.placeholder((count,), "I", "int64")
    c = ac.compute((count, width), lambda a, b: t[i[a] * width + b], "C")
    return Gather(
        title,
        ac.ComputeDAG([t, i, c]),
        [_table(rng, (n * width,)), _places(rng, (count,), n, "int64")],
    )


def _twice(rng: np.random.Generator, title: str) -> Gather:
    """A place at a place."""
    n, m, count = _extent(rng), _extent(rng), _extent(rng)
    t, j = ac.placeholder((n,), "T"), ac.placeholder((m,), "J", "int32")
    i = ac.placeholder((count,), "I", "int64")
    c = ac.compute((count,), lambda a: t[j[i[a]]], "C")
    inputs = [_table(rng, (n,)), _places(rng, (m,), n, "int32"), _places(rng, (count,), m, "int64")]
    return Gather(title, ac.ComputeDAG([t, j, i, c]), inputs)


def _guarded(rng: np.random.Generator, title: str) -> Gather:
    """Places that are read under a condition on data or on an axis alone."""
    n, count = _extent(rng), _extent(rng)
    t, i = ac.placeholder((n,), "T"), ac.placeholder((count,), "I", "int64")
    limit = int(rng.integers(0, count + 1))

    def body(a: Scalar) -> Scalar:
        inside = ac.all_of(i[a] >= 0, i[a] < n) if rng.random() < 0.5 else a < limit
        return ac.if_then_else(inside, t[i[a]], -1.0)

    c = ac.compute((count,), body, "C")
    return Gather(
        title, ac.ComputeDAG([t, i, c]), [_table(rng, (n,)), _places(rng, (count,), n, "int64")]
    )


def _clipped(rng: np.random.Generator, title: str) -> Gather:
    """Places that are moved into the table: all are right."""
    n, count = _extent(rng), _extent(rng)
    t, i = ac.placeholder((n,), "T"), ac.placeholder((count,), "I", "int64")
    clips = rng.random() < 0.5
    c = ac.compute(
        (count,),
        lambda a: t[ac.minimum(ac.maximum(i[a], 0), n - 1) if clips else i[a] % n],
        "C",
    )
    return Gather(
        title, ac.ComputeDAG([t, i, c]), [_table(rng, (n,)), _places(rng, (count,), n, "int64")]
    )


def _summed(rng: np.random.Generator, title: str) -> Gather:
    """Sums of rows: bags of an embedding."""
    n, m, bags, size = _extent(rng), _extent(rng), _extent(rng, 8), _extent(rng, 8)
    t, i = ac.placeholder((n, m), "T"), ac.placeholder((bags, size), "I", "int32")
    k = ac.reduce_axis(size, "k")
    c = ac.compute((bags, m), lambda a, b: ac.sum(t[i[a, k], b], axis=k), "C")
    return Gather(
        title,
        ac.ComputeDAG([t, i, c]),
        [_table(rng, (n, m)), _places(rng, (bags, size), n, "int32")],
    )


def _product(rng: np.random.Generator, title: str) -> Gather:
    """A product of matrices, one of them of gathered rows."""
    n, m, rows, columns = _extent(rng), _extent(rng, 8), _extent(rng), _extent(rng)
    t, i = ac.placeholder((n, m), "T"), ac.placeholder((rows,), "I", "int64")
    w, k = ac.placeholder((m, columns), "W"), ac.reduce_axis(m, "k")
    c = ac.compute((rows, columns), lambda a, b: ac.sum(t[i[a], k] * w[k, b], axis=k), "C")
    inputs = [_table(rng, (n, m)), _places(rng, (rows,), n, "int64"), _table(rng, (m, columns))]
    return Gather(title, ac.ComputeDAG([t, i, w, c]), inputs)


def _computed(rng: np.random.Generator, title: str) -> Gather:
    """Places that a stage before has computed."""
    n, m, count = _extent(rng), _extent(rng), _extent(rng)
    t, i = ac.placeholder((n, m), "T"), ac.placeholder((count,), "I", "int64")
    j = ac.compute((count,), lambda a: i[a] * 2 - i[count - 1 - a], "J")
    c = ac.compute((count, m), lambda a, b: t[j[a], b], "C")
    places = _places(rng, (count,), n, "int64")
    if rng.random() < 0.5:
        places = np.full_like(places, n // 2)
    return Gather(title, ac.ComputeDAG([t, i, c]), [_table(rng, (n, m)), places])


def _of_floats(rng: np.random.Generator, title: str) -> Gather:
    """Places that are floats, some of them infinite or not a number."""
    n, count = _extent(rng), _extent(rng)
    t, x = ac.placeholder((n,), "T"), ac.placeholder((count,), "X")
    c = ac.compute((count,), lambda a: t[ac.cast(x[a] * 2.0, "int64")], "C")
    places = (rng.integers(0, n, count) / 2.0).astype("float32")
    if rng.random() < 0.5:
        places[int(rng.integers(count))] = rng.choice([np.inf, -np.inf, -0.6, n / 2, 1e30])
    return Gather(title, ac.ComputeDAG([t, x, c]), [_table(rng, (n,)), places])


def _of_rows(rng: np.random.Generator, title: str) -> Gather:
    """Compressed rows: a sum over as many elements as there are at most."""
    n, rows, most = _extent(rng), _extent(rng, 8), _extent(rng, 8)
    x, v = ac.placeholder((n,), "x"), ac.placeholder((rows, most), "v")
    columns, counts = (
        ac.placeholder((rows, most), "j", "int32"),
        ac.placeholder((rows,), "n", "int32"),
    )
    k = ac.reduce_axis(most, "k")

    def term(a: Scalar) -> ac.Reduction:
        inside = k < ac.cast(counts[a], "int64")
        return ac.sum(ac.if_then_else(inside, v[a, k] * x[columns[a, k]], 0.0), axis=k)

    y = ac.compute((rows,), term, "y")
    inputs = [
        _table(rng, (n,)), _table(rng, (rows, most)), _places(rng, (rows, most), n, "int32"),
        rng.integers(0, most + 1, rows).astype("int32"),
    ]  # fmt: skip
    return Gather(title, ac.ComputeDAG([x, v, columns, counts, y]), inputs)


def _checked(rng: np.random.Generator, title: str) -> Gather:
    """What a program asserts of its data."""
    n, m = _extent(rng), _extent(rng)
    a = ac.placeholder((n, m), "A")
    c = ac.compute(
        (n, m), lambda i, j: ac.checked(a[i, j] + 1.0, a[i, j] < 3.0, "A is small", i, j), "C"
    )
    data = _table(rng, (n, m)).clip(-2, 2)
    if rng.random() < 0.5:
        data[int(rng.integers(n)), int(rng.integers(m))] = 5
    return Gather(title, ac.ComputeDAG([a, c]), [data])


_FORMS: tuple[Callable[[np.random.Generator, str], Gather], ...] = (
    _rows, _elements, _affine, _twice, _guarded, _clipped, _summed, _product, _computed, _of_floats,
    _of_rows, _checked,
)  # fmt: skip


def aligned(arrays: list[Array]) -> list[Array]:
    """Return copies at addresses that vectors of a GPU take."""
    found: list[Array] = []
    for array in arrays:
        copy = aligned_empty(array.shape, array.dtype)
        copy[...] = array
        found.append(copy)
    return found
