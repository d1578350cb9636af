"""Batched products in float32, written in Triton and autotuned by it; needs Triton and a GPU."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_CONFIGS = [
    triton.Config({"tile_n": n, "tile_m": m, "tile_k": k}, num_stages=stages, num_warps=warps)
    for n, m, k, stages, warps in (
        (128, 128, 16, 3, 8), (128, 64, 32, 3, 4), (64, 128, 32, 3, 4), (64, 64, 32, 4, 4),
        (128, 128, 32, 2, 8), (64, 32, 32, 4, 4), (32, 64, 32, 4, 4), (32, 32, 64, 4, 4),
    )
]  # fmt: skip


@triton.autotune(configs=_CONFIGS, key=["n", "m", "k"])
@triton.jit
def _kernel(  # noqa: PLR0913, PLR0917
    a, b, c, n, m, k,
    tile_n: tl.constexpr, tile_m: tl.constexpr, tile_k: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2)
    rows = tl.program_id(0) * tile_n + tl.arange(0, tile_n)
    columns = tl.program_id(1) * tile_m + tl.arange(0, tile_m)
    depth = tl.arange(0, tile_k)
    a += batch * n * k + rows[:, None] * k + depth[None, :]
    b += batch * k * m + depth[:, None] * m + columns[None, :]
    total = tl.zeros((tile_n, tile_m), dtype=tl.float32)
    for begin in range(0, k, tile_k):
        left = k - begin
        x = tl.load(a, mask=(rows[:, None] < n) & (depth[None, :] < left), other=0.0)
        y = tl.load(b, mask=(depth[:, None] < left) & (columns[None, :] < m), other=0.0)
        total = tl.dot(x, y, total, input_precision="ieee")
        a += tile_k
        b += tile_k * m
    place = c + batch * n * m + rows[:, None] * m + columns[None, :]
    tl.store(place, total, mask=(rows[:, None] < n) & (columns[None, :] < m))


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a · b of [batch, n, k] and [batch, k, m], contiguous, on the GPU."""
    batch, n, k = a.shape
    m = b.shape[2]
    c = torch.empty(batch, n, m, device=a.device, dtype=a.dtype)

    def grid(meta: dict[str, Any]) -> tuple[int, int, int]:
        return triton.cdiv(n, meta["tile_n"]), triton.cdiv(m, meta["tile_m"]), batch

    _kernel[grid](a, b, c, n, m, k)
    return c
