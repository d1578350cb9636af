"""The table of cases: each operator with its hand-made schedule and its goals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule
from ansorc.target import Target
from ansorc.target.ways import way_bytes
from bench.codegen.case import Case, Limit
from bench.codegen.convolutions import (
    Tile,
    by_phases,
    convolution,
    depthwise,
    direct,
    sliding,
    transposed_convolution,
)
from bench.codegen.matrix_products import Blocking, narrow_product, packed_product, product
from bench.codegen.rows import by_default, layer_norm, norm, softmax

Scheduling = Callable[[ComputeDAG, Target, int], Schedule]
Lengths = TypeVar("Lengths")
_MANY_REGISTERS = 32
"""Vector registers from which on the large tiles are used."""
_TALL, _WIDE = Blocking(12, 2, 512, 16), Blocking(6, 4, 1024, 2)
"""Of large products: many rows and a panel of 1 MiB, or fewer, wider ones and half of that."""


def _by(
    make: Callable[[ComputeDAG, Target, Lengths], Schedule], large: Lengths, small: Lengths
) -> Scheduling:
    """Schedule by `make` with the lengths that suit the number of registers."""

    def scheduled(dag: ComputeDAG, target: Target, _threads: int) -> Schedule:
        return make(dag, target, large if target.vector_registers >= _MANY_REGISTERS else small)

    return scheduled


def _large_product(dag: ComputeDAG, target: Target, threads: int) -> Schedule:
    """Take 12 rows of A where the first cache has as many ways, the second space for two panels.

    With 8 ways (Zen 4) the former reached 63 % of the peak, the latter 94 %; with 12 ways and a
    second cache of 1 MiB (Zen 5) it was 90 and 95 %.
    """
    first, second = target.cache_bytes[0], max(target.cache_bytes[:2])
    is_tall = first // way_bytes(first) >= 12 and second >= 2 * _panel_bytes(_TALL, target)
    large = _TALL if is_tall else _WIDE
    return _by(packed_product, large, Blocking(6, 2, 256, 32))(dag, target, threads)


def _panel_bytes(blocking: Blocking, target: Target) -> int:
    return blocking.depth * blocking.width * blocking.vectors * target.vector_bytes


CASES: tuple[Case, ...] = (
    Case(
        "matmul 1024x1024x1024",
        lambda: product(1024, 1024, 1024),
        _large_product,
        Limit.FMA,
        (0.92, 0.88),
    ),
    Case(
        "matmul 512x32x512",
        lambda: product(512, 32, 512),
        _by(narrow_product, Blocking(8, 2, 512, 1, 8), Blocking(4, 2, 512, 1, 16)),
        Limit.FMA,
        (0.80, 0.70),
    ),
    Case(
        "conv2d 14x14, 256 to 256, 3x3",
        lambda: convolution((14, 14, 256, 256, 3, 1, 1)),
        _by(direct, Tile(7, 2, 2), Tile(2, 3, 2)),
        Limit.FMA,
        (0.88, 0.80),
    ),
    Case(
        "conv2d 56x56, 64 to 64, 1x1",
        lambda: convolution((56, 56, 64, 64, 1, 1, 0)),
        _by(
            direct,
            Tile(14, 2, unroll=8, has_rows_outside=True),
            Tile(2, 2, 3, has_rows_outside=True),
        ),
        Limit.FMA,
        (0.88, 0.80),
    ),
    Case(
        "conv2d 7x7, 512 to 512, 3x3",
        lambda: convolution((7, 7, 512, 512, 3, 1, 1)),
        _by(direct, Tile(7, 2, 2, has_taps_outside=True), Tile(2, 2, 3)),
        Limit.FMA,
        (0.80, 0.75),
    ),
    Case(
        "conv2d 224x224, 3 to 64, 7x7, stride 2",
        lambda: convolution((224, 224, 3, 64, 7, 2, 3)),
        _by(
            direct,
            Tile(14, 2, unroll=3, has_rows_outside=True, copies_padding=True),
            Tile(4, 3, unroll=3, has_rows_outside=True, copies_padding=True),
        ),
        Limit.FMA,
        (0.75, 0.70),
    ),
    Case(
        "transposed conv2d 4x4, 512 to 256, 4x4, stride 2",
        lambda: transposed_convolution((4, 4, 512, 256, 4, 2, 1)),
        _by(by_phases, Tile(4, 1, 4), Tile(4, 3)),
        Limit.FMA,
        (0.65, 0.65),
    ),
    Case(
        "depthwise conv2d 112x112, 32, 3x3",
        lambda: depthwise((112, 112, 32, 3, 1, 1)),
        _by(sliding, Tile(3, 1, 3), Tile(2, 1, 3)),
        Limit.COPY,
        (0.85, 0.85),
    ),
    Case("norm 4096x4096", lambda: norm(4096, 4096), by_default, Limit.READ, (0.85, 0.85)),
    Case("softmax 1024x1024", lambda: softmax(1024, 1024), by_default, Limit.COPY, (0.85, 0.85)),
    Case(
        "layer norm 1024x1024", lambda: layer_norm(1024, 1024), by_default, Limit.COPY, (0.85, 0.85)
    ),
)
