"""Hand-made schedules of matrix products: the blocking of GotoBLAS in the words of the compiler."""

from __future__ import annotations

from dataclasses import dataclass

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule
from ansorc.target import Target


@dataclass(frozen=True)
class Blocking:
    """The lengths of the tiles of C[i, j] += A[i, k] * B[k, j]."""

    rows: int
    """Of the register tile."""
    vectors: int
    """Of the register tile, along j."""
    depth: int
    """The steps of k whose panel of B is packed and kept in the second-level cache."""
    width: int
    """The columns of that panel, in register tiles."""
    block: int = 1
    """The rows of A, in register tiles, that a thread takes at a time."""
    unroll: int = 4
    """The steps of k without a jump."""


def product(n: int, m: int, k: int) -> ComputeDAG:
    """Return C[n, m] = A[n, k] · B[k, m], both operands row-major."""
    a, b = ac.placeholder((n, k), name="A"), ac.placeholder((k, m), name="B")
    r = ac.reduce_axis(k, name="k")
    c = ac.compute((n, m), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    return ac.ComputeDAG([a, b, c])


def packed_product(dag: ComputeDAG, target: Target, blocking: Blocking) -> Schedule:
    """Pack panels of B; a few rows of A stay in the first cache while they pass; threads share
    columns of C."""
    columns = blocking.vectors * target.vector_bytes // 4
    s = ac.schedule(dag).cache_read("B", "local", ["C"])
    s = s.split("C", "i", [blocking.rows])
    s = s.split("C", "j", [blocking.width, columns])
    s = s.split("C", "k", [blocking.depth // blocking.unroll, blocking.unroll])
    s = s.reorder("C", ["j.0", "k.0", "i.0", "j.1", "k.1", "k.2", "i.1", "j.2"])
    s = _in_panels(s.compute_at("B.local", "C", "k.0"), "B.local", columns)
    s = s.vectorize("C", "j.2").unroll("C", "i.1").unroll("C", "k.2")
    return s.parallel("C", "j.0")


def narrow_product(dag: ComputeDAG, target: Target, blocking: Blocking) -> Schedule:
    """Pack nothing: the few columns of B stay in a cache; threads share rows of C."""
    lanes = target.vector_bytes // 4
    s = ac.schedule(dag)
    s = s.split("C", "i", [blocking.block, blocking.rows])
    s = s.split("C", "j", [blocking.vectors * lanes])
    s = s.split("C", "k", [blocking.unroll])
    s = s.reorder("C", ["i.0", "j.0", "i.1", "k.0", "k.1", "i.2", "j.1"])
    s = s.vectorize("C", "j.1").unroll("C", "i.2").unroll("C", "k.1")
    return s.parallel("C", "i.0")


def _in_panels(s: Schedule, stage: str, columns: int) -> Schedule:
    """Copy [k, j] in panels of `columns` columns, each contiguous."""
    rows, along = (iterator.name for iterator in s.stage(stage).iterators)
    s = s.split(stage, along, [columns])
    s = s.reorder(stage, [f"{along}.0", rows, f"{along}.1"])
    return s.panel(stage, f"{along}.1").vectorize(stage, f"{along}.1")
