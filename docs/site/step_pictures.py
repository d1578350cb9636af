"""A small program for each step, as it is before the step and after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ansorc as ac
from ansorc.ir.printer import to_text


@dataclass(frozen=True)
class Picture:
    """A call of a `Schedule`, and the loop program before and after it."""

    call: str
    before: str
    after: str


def matmul() -> ac.Schedule:
    """Return D = max(A B, 0) of 8 x 12 x 16 numbers, as it is defined; B is constant."""
    a = ac.placeholder((8, 16), name="A")
    b = ac.placeholder((16, 12), name="B", constant=True)
    r = ac.reduce_axis(16, name="k")
    c = ac.compute((8, 12), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = ac.compute((8, 12), lambda i, j: ac.maximum(c[i, j], 0.0), name="D")
    return ac.schedule(ac.ComputeDAG([a, b, d]))


def elementwise() -> ac.Schedule:
    """Return C = (A + 1) * 2 of 4 x 8 numbers, in two stages."""
    a = ac.placeholder((4, 8), name="A")
    p = ac.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="P")
    c = ac.compute((4, 8), lambda i, j: p[i, j] * 2.0, name="C")
    return ac.schedule(ac.ComputeDAG([a, c]))


def stencil() -> ac.Schedule:
    """Return sums of two neighbours of 1 / A, in two stages."""
    a = ac.placeholder((9, 8), name="A")
    p = ac.compute((9, 8), lambda i, j: 1.0 / a[i, j], name="P")
    c = ac.compute((8, 8), lambda i, j: p[i, j] + p[i + 1, j], name="C")
    return ac.schedule(ac.ComputeDAG([a, c]))


def integers() -> ac.Schedule:
    """Return sums of four products of bytes."""
    a = ac.placeholder((4,), name="A", dtype="uint8")
    b = ac.placeholder((8, 4), name="B", dtype="int8")
    r = ac.reduce_axis(4, name="k")
    return ac.schedule(
        ac.ComputeDAG(
            [a, b, ac.compute(
                (8,), lambda j: ac.sum(a[r].astype("int32") * b[j, r].astype("int32"), axis=r),
                name="C")]
        )
    )  # fmt: skip


def convolution() -> ac.Schedule:
    """Return a convolution of a row, 10 long, by 3 weights for each pair of channels."""
    x = ac.placeholder((1, 10, 4), name="X")
    w = ac.placeholder((3, 4, 4), name="W", constant=True)
    return ac.schedule(ac.ComputeDAG([x, w, ac.ops.conv1d(x, w, name="Y")]))


def cached() -> ac.Schedule:
    """Return `matmul` with a copy of B."""
    return matmul().cache_read("B", "local", ["C"])


_CALLS: dict[str, tuple[Callable[[], ac.Schedule], str]] = {
    "Split": (elementwise, '.split("C", "j", [3])'),
    "Fuse": (elementwise, '.fuse("C", ["i", "j"])'),
    "Reorder": (elementwise, '.reorder("C", ["j", "i"])'),
    "ComputeAt": (elementwise, '.compute_at("P", "C", "i")'),
    "StoreAt": (
        lambda: stencil().split("C", "i", [4]).compute_at("P", "C", "i.1"),
        '.store_at("P", "C", "i.0")',
    ),
    "ComputeRoot": (lambda: elementwise().compute_at("P", "C", "i"), '.compute_root("P")'),
    "ReverseComputeAt": (
        lambda: elementwise().split("P", "i", [2]).parallel("P", "i.0"),
        '.reverse_compute_at("C", "P", "i.0")',
    ),
    "ComputeInline": (elementwise, '.compute_inline("P")'),
    "CacheRead": (matmul, '.cache_read("B", "local", ["C"])'),
    "CacheWrite": (matmul, '.cache_write("C")'),
    "RFactor": (lambda: matmul().split("C", "k", [4]), '.rfactor("C", "k.1")'),
    "DecomposeReduction": (matmul, '.decompose_reduction("C", "i")'),
    "StorageAlign": (cached, '.storage_align("B.local", "ax0", 16)'),
    "Panel": (lambda: cached().split("C", "j", [4]).split("B.local", "ax1", [4]),
              '.panel("B.local", "ax1.1")'),
    "RewriteLayout": (
        lambda: matmul().split("C", "j", [4]).reorder("C", ["i", "j.0", "k", "j.1"]),
        '.rewrite_layout("C", "B")',
    ),
    "Parallelize": (elementwise, '.parallel("C", "i")'),
    "Vectorize": (elementwise, '.vectorize("C", "j")'),
    "Unroll": (elementwise, '.unroll("C", "i")'),
    "BindThread": (elementwise, '.bind("C", "i", "threadIdx.x")'),
    "Pragma": (elementwise, '.pragma("C", "auto_unroll_max_step", 16)'),
    "Tensorize": (integers, '.tensorize("C", "k", "dot4")'),
    "Redefine": (convolution, '.redefine("Y", "winograd")'),
}  # fmt: skip


def pictures() -> dict[str, list[Picture]]:
    """Return the pictures of each step by its name."""
    found: dict[str, list[Picture]] = {}
    for name, (make, call) in _CALLS.items():
        before = make()
        after = eval(f"before{call}", {"before": before})
        texts = [to_text(ac.lower(state)).rstrip() for state in (before, after)]
        found[name] = [Picture(f"state{call}", *texts)]
    return found
