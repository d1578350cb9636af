"""Programs for a GPU, scheduled by hand: what a search should find, on small extents."""

from __future__ import annotations

from collections.abc import Sequence

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reduction import Reduction
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import Schedule


def matmul_dag(m: int, n: int, k: int, dtype: str = "float32") -> ComputeDAG:
    a = ac.placeholder((m, k), name="A", dtype=dtype)
    b = ac.placeholder((k, n), name="B", dtype=dtype)
    r = ac.reduce_axis(k, name="k")
    c = ac.compute((m, n), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    return ComputeDAG([a, b, c])


def tiled_matmul(
    dag: ComputeDAG, rows: Sequence[int], columns: Sequence[int], depth: int, lanes: int
) -> Schedule:
    """Tiles as (virtual threads, threads, elements) of rows and columns, A and B in shared memory.

    `depth` terms are shared at a time; `lanes` elements are loaded and stored at once.
    """
    s = ac.schedule(dag).cache_write("C", "local").split("C", "i", rows).split("C", "j", columns)
    s = s.reorder("C", ["i.0", "j.0", "i.1", "j.1", "i.2", "j.2", "i.3", "j.3"])
    s = s.fuse("C", ["i.0", "j.0"]).fuse("C", ["i.1", "j.1"]).fuse("C", ["i.2", "j.2"])
    s = s.bind("C", "i.0@j.0", "blockIdx.x").bind("C", "i.1@j.1", "vthread")
    s = s.bind("C", "i.2@j.2", "threadIdx.x").vectorize("C", "j.3")
    s = s.compute_at("C.local", "C", "i.2@j.2").split("C.local", "k", [depth])
    s = s.reorder("C.local", ["k.0", "k.1", "i", "j"]).unroll("C.local", "k.1")
    s = s.unroll("C.local", "i").vectorize("C.local", "j")
    for tensor in "AB":
        s = fetch_together(s, tensor, ("C.local", "k.0"), rows[1] * columns[1], lanes)
    return s


def fetch_together(
    s: Schedule, tensor: str, place: tuple[str, str], threads: int, lanes: int = 1
) -> Schedule:
    """Copy what the reader `place[0]` needs of a tensor to shared memory in its loop `place[1]`."""
    shared = f"{tensor}.shared"
    s = s.cache_read(tensor, "shared", [place[0]]).compute_at(shared, *place)
    names = [iterator.name for iterator in s.stage(shared).iterators]
    s = s.fuse(shared, names) if len(names) > 1 else s
    whole = "@".join(names)
    s = s.split(shared, whole, [threads, lanes]).bind(shared, f"{whole}.1", "threadIdx.x")
    return s.vectorize(shared, f"{whole}.2") if lanes > 1 else s


def matrix_dag(
    m: int, n: int, k: int, dtype: str, layout: str = "mk,kn", sums: str = "float32"
) -> ComputeDAG:
    """C = A B with sums in `sums`, operands lying as `layout` says."""
    shapes = {"mk": (m, k), "km": (k, m), "kn": (k, n), "nk": (n, k)}
    first, second = layout.split(",")
    a = ac.placeholder(shapes[first], name="A", dtype=dtype)
    b = ac.placeholder(shapes[second], name="B", dtype=dtype)
    r = ac.reduce_axis(k, name="k")

    def product(i: Scalar, j: Scalar) -> Reduction:
        left = a[i, r] if first == "mk" else a[r, i]
        right = b[r, j] if second == "kn" else b[j, r]
        if dtype != sums:
            left, right = left.astype(sums), right.astype(sums)
        return ac.sum(left * right, axis=r)

    return ComputeDAG([a, b, ac.compute((m, n), product, name="C")])


def matrix_matmul(
    dag: ComputeDAG,
    rows: tuple[int, int],
    columns: tuple[int, int],
    function: str,
    *,
    steps: int = 2,
    lanes: int = 8,
    stages: int = 0,
) -> Schedule:
    """Warps, and tiles of 16 x 8 of each, along rows and columns; `steps` tiles of terms a copy."""
    terms = {"mma_tf32": 8, "mma_s8": 32}.get(function, 16)
    s = ac.schedule(dag).cache_write("C", "local")
    s = s.split("C", "i", [*rows, 2, 8]).split("C", "j", [*columns, 4, 2])
    s = s.reorder("C", ["i.0", "j.0", "i.2", "i.3", "j.2", "i.1", "j.1", "i.4", "j.3", "j.4"])
    s = s.fuse("C", ["i.0", "j.0"]).fuse("C", ["i.2", "i.3", "j.2"])
    s = s.fuse("C", ["i.1", "j.1", "i.4", "j.3"])
    s = s.bind("C", "i.0@j.0", "blockIdx.x").bind("C", "i.2@i.3@j.2", "vthread")
    s = s.bind("C", "i.1@j.1@i.4@j.3", "threadIdx.x").vectorize("C", "j.4")
    s = s.compute_at("C.local", "C", "i.1@j.1@i.4@j.3").split("C.local", "k", [steps, terms])
    s = s.reorder("C.local", ["k.0", "k.1", "i", "j", "k.2"]).unroll("C.local", "k.1")
    s = s.tensorize("C.local", "k.2", function)
    for tensor in "AB":
        s = fetch_together(s, tensor, ("C.local", "k.0"), rows[0] * columns[0] * 32, lanes)
    return s.pragma("C.local", "async_stages", stages) if stages else s


def transpose(n: int, m: int, tile: int = 8) -> Schedule:
    """Tiles through shared memory, padded against bank conflicts."""
    a = ac.placeholder((n, m), name="A")
    s = ac.schedule(ComputeDAG([a, ac.compute((m, n), lambda i, j: a[j, i], name="T")]))
    s = s.split("T", "i", [tile]).split("T", "j", [tile])
    s = s.reorder("T", ["i.0", "j.0", "i.1", "j.1"])
    s = s.bind("T", "i.0", "blockIdx.y").bind("T", "j.0", "blockIdx.x")
    s = s.bind("T", "j.1", "threadIdx.x")
    s = s.cache_read("A", "shared", ["T"]).compute_at("A.shared", "T", "j.0")
    s = s.storage_align("A.shared", "ax0", 2, 1)
    return s.bind("A.shared", "ax1", "threadIdx.x")


def elementwise(n: int, threads: int, dtype: str = "float32", lanes: int = 1) -> Schedule:
    a, b = (ac.placeholder((n,), name=name, dtype=dtype) for name in "AB")
    s = ac.schedule(ComputeDAG([a, b, ac.compute((n,), lambda i: a[i] + b[i], name="C")]))
    s = s.split("C", "i", [threads, lanes])
    s = s.bind("C", "i.0", "blockIdx.x").bind("C", "i.1", "threadIdx.x")
    return s.vectorize("C", "i.2")


def softmax(rows: int, columns: int, threads: int) -> Schedule:
    """A block for each row; each thread has a share of the columns, then they reduce together."""
    a = ac.placeholder((rows, columns), name="A")
    k, m = ac.reduce_axis(columns, name="k"), ac.reduce_axis(columns, name="m")
    top = ac.compute((rows,), lambda i: ac.max(a[i, k], axis=k), name="M")
    power = ac.compute((rows, columns), lambda i, j: ac.exp(a[i, j] - top[i]), name="E")
    total = ac.compute((rows,), lambda i: ac.sum(power[i, m], axis=m), name="S")
    out = ac.compute((rows, columns), lambda i, j: power[i, j] / total[i], name="P")
    s = ac.schedule(ComputeDAG([a, out])).compute_inline("E")
    s = s.split("M", "k", [threads]).split("S", "m", [threads])
    s = s.rfactor("M", "k.1").rfactor("S", "m.1")
    s = s.split("P", "j", [threads]).bind("P", "i", "blockIdx.x").bind("P", "j.1", "threadIdx.x")
    for stage, axis in (("S", "m.1"), ("M", "k.1")):
        s = s.compute_at(stage, "P", "i").bind(stage, axis, "threadIdx.x")
        s = s.compute_at(f"{stage}.rf", stage, axis)
    return s


def argmax(rows: int, columns: int, threads: int) -> Schedule:
    """Several rows for a block; the threads of each find the largest element and its place."""
    a = ac.placeholder((rows, columns), name="A")
    k = ac.reduce_axis(columns, name="k")
    best = ac.compute_tuple((rows,), lambda i: ac.argmax(a[i, k], axis=k), name=["B", "at"])
    s = ac.schedule(ComputeDAG([a, *best]))
    s = s.split("B", "k", [threads]).rfactor("B", "k.1").split("B", "i", [2])
    s = s.bind("B", "i.0", "blockIdx.x").bind("B", "i.1", "threadIdx.y")
    s = s.bind("B", "k.1", "threadIdx.x")
    return s.compute_at("B.rf", "B", "k.1")


def row_sums(rows: int, columns: int) -> Schedule:
    """A thread for each row, unrolled in part, with a tail."""
    a = ac.placeholder((rows, columns), name="A")
    k = ac.reduce_axis(columns, name="k")
    s = ac.schedule(
        ComputeDAG([a, ac.compute((rows,), lambda i: ac.sum(a[i, k], axis=k), name="S")])
    )
    s = s.split("S", "i", [32]).bind("S", "i.0", "blockIdx.x").bind("S", "i.1", "threadIdx.x")
    return s.split("S", "k", [4]).unroll("S", "k.1")


def tiled_conv2d(size: int, inputs: int, outputs: int, threads: int = 4) -> Schedule:
    """A 3x3 convolution, padded in shared memory; a thread has two rows of several channels."""
    x = ac.placeholder((size, size, inputs), name="X")
    w = ac.placeholder((3, 3, inputs, outputs), name="W")
    r, q = ac.reduce_axis(3, name="r"), ac.reduce_axis(3, name="q")
    c = ac.reduce_axis(inputs, name="c")
    inside = size - 1

    def padded(i: Scalar, j: Scalar, k: Scalar) -> Scalar:
        is_inside = ac.all_of(i >= 1, i <= inside + 1, j >= 1, j <= inside + 1)
        return ac.if_then_else(is_inside, x[i - 1, j - 1, k], 0.0)

    p = ac.compute((size + 2, size + 2, inputs), padded, name="P")
    y = ac.compute(
        (size, size, outputs),
        lambda i, j, o: ac.sum(p[i + r, j + q, c] * w[r, q, c, o], axis=(r, q, c)),
        name="Y",
    )
    s = ac.schedule(ComputeDAG([x, w, y])).cache_write("Y", "local")
    s = s.split("Y", "i", [2]).split("Y", "j", [threads]).split("Y", "o", [threads, 4])
    s = s.reorder("Y", ["i.0", "j.0", "o.0", "j.1", "o.1", "i.1", "o.2"])
    s = s.fuse("Y", ["i.0", "j.0", "o.0"]).fuse("Y", ["j.1", "o.1"])
    s = s.bind("Y", "i.0@j.0@o.0", "blockIdx.x").bind("Y", "j.1@o.1", "threadIdx.x")
    s = s.vectorize("Y", "o.2").compute_at("Y.local", "Y", "j.1@o.1").split("Y.local", "c", [4])
    s = s.reorder("Y.local", ["c.0", "r", "q", "c.1", "i", "j", "o"]).vectorize("Y.local", "o")
    s = s.unroll("Y.local", "c.1").unroll("Y.local", "i")
    for tensor in "PW":
        s = fetch_together(s, tensor, ("Y.local", "c.0"), threads * threads, 4)
    return s.compute_inline("P")
