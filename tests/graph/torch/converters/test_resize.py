"""Resizing and sampling of PyTorch's functions read the elements that PyTorch reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.graph_reference import run_reference
from tests.graph.onnx.converters.resizing_cases import FACTORS
from tests.graph.torch.torch_oracle import assert_as_torch, module_of, torch

pytestmark = pytest.mark.filterwarnings("ignore")
F: Any = torch.nn.functional
AT_ONCE = 10
LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def random_resizing(rng: np.random.Generator) -> tuple[str, Callable[[Any], Any], list[Any]]:
    """What a call of `interpolate` is, the call, and its image."""
    rank = int(rng.integers(1, 4))
    longest = 8 if rank == 3 else 90 if rng.random() < 0.1 else 20
    shape = [1, int(rng.integers(1, 7)), *map(int, rng.integers(1, longest, rank))]
    linear = ("linear", "bilinear", "trilinear")[rank - 1]
    modes = ["nearest", "nearest", "nearest-exact", "area", linear]
    mode = str(rng.choice([*modes, *["bicubic", "smooth", "smooth"] * (rank == 2)]))
    options: dict[str, Any] = {}
    if mode == "smooth":
        mode, options["antialias"] = str(rng.choice(["bilinear", "bicubic"])), True
    if mode in (linear, "bicubic"):
        options["align_corners"] = bool(rng.integers(2))
    if rng.random() < 0.25:
        options["size"] = tuple(map(int, rng.integers(1, 25, rank)))
    else:
        drawn = [float(rng.choice(FACTORS) if rng.random() < 0.7 else one) for one in
                 rng.uniform(0.1, 3, rank)]  # fmt: skip
        factors = [f if math.floor(n * f) else 1.0 for f, n in zip(drawn, shape[2:], strict=True)]
        options |= {"scale_factor": tuple(factors)}
        options |= {"recompute_scale_factor": True} if rng.random() < 0.2 else {}
    image = torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
    if rank > 1 and rng.random() < 0.3:
        image = image.contiguous(memory_format=LAST[rank])
    words = f"{shape} {image.stride()} {mode} {options}"
    return words, partial(F.interpolate, mode=mode, **options), [image]


def random_sampling(rng: np.random.Generator) -> tuple[str, Callable[..., Any], list[Any]]:
    """What a call of `grid_sample` is, the call, its image and its grid."""
    rank = int(rng.integers(2, 4))
    mode = str(rng.choice(["bilinear", "nearest", *["bicubic"] * (rank == 2)]))
    options = {
        "mode": mode, "padding_mode": str(rng.choice(["zeros", "border", "reflection"])),
        "align_corners": bool(rng.integers(2)),
    }  # fmt: skip
    image = rng.standard_normal((2, 2, *rng.integers(1, 7, rank))).astype(np.float32)
    size = (2, *rng.integers(1, 5, rank), rank)
    grid = rng.uniform(-3, 3, size)
    if rng.random() < 0.5:  # exact, also in the middle of two elements
        image = image[..., : 2 ** int(np.log2(image.shape[-1]))].copy()
        grid = rng.integers(-24, 25, size) / 8
    tensors = [torch.from_numpy(image), torch.from_numpy(grid.astype(np.float32))]
    words = f"{image.shape} {grid.tolist()} {options}"
    return words, partial(F.grid_sample, **options), tensors


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("draw", "count"),
    [
        (random_resizing, 40),
        (random_sampling, 10),
        pytest.param(random_resizing, 1200, marks=pytest.mark.nightly),
        pytest.param(random_sampling, 1000, marks=pytest.mark.nightly),
    ],
)
def test_random_calls_are_as_in_pytorch(draw: Any, count: int) -> None:
    rng = np.random.default_rng(9)
    for _ in range(count // AT_ONCE):
        cases = [draw(rng) for _ in range(AT_ONCE)]
        counts = np.cumsum([0, *(len(tensors) for _, _, tensors in cases)])

        def forward(*given: Any, cases: Any = cases, counts: Any = counts) -> list[Any]:
            return [
                call(*given[first:behind])
                for (_, call, _), first, behind in zip(cases, counts, counts[1:], strict=False)
            ]

        tensors = [one for _, _, own in cases for one in own]
        graph = ac.from_torch(module_of(forward), tuple(tensors))
        feeds = {name: one.numpy() for name, one in zip(graph.inputs, tensors, strict=True)}
        found = run_reference(graph, feeds).values()
        for (words, _, _), mine, wanted in zip(cases, found, forward(*tensors), strict=True):
            if "antialias" in words and wanted.shape[-1] == 1:
                continue  # PyTorch 2.13 gives all rows the values of the first
            np.testing.assert_allclose(mine, wanted.numpy(), 1e-4, 1e-4, err_msg=words)


def test_factors_that_leave_an_extent_or_double_it() -> None:
    x, y = torch.arange(12.0).reshape(1, 1, 3, 4), torch.arange(9.0).reshape(1, 1, 1, 9)

    def forward(x: Any, y: Any) -> list[Any]:
        return [
            F.interpolate(x, scale_factor=(1.3, 1.5)),
            F.interpolate(x, scale_factor=(1.3, 1.5), mode="bilinear"),
            F.interpolate(x, scale_factor=(1.3, 1.5), mode="nearest-exact"),
            F.interpolate(y, scale_factor=(1.0, 2.05)),
            F.interpolate(y[:, :, 0], scale_factor=2.05),
            torch.ops.aten.upsample_nearest2d(x, [3, 8], 1.3, 2.2),
            torch.ops.aten._upsample_nearest_exact2d(x, [3, 8], 1.3, 2.2),
        ]

    assert_as_torch(module_of(forward), (x, y))


def test_borders_move_each_element_that_a_cubic_sum_reads() -> None:
    image = torch.from_numpy(np.random.default_rng(1).standard_normal((1, 1, 3, 4), np.float32))
    grid = torch.linspace(-1.6, 1.6, 12).reshape(1, 3, 2, 2)
    options: dict[str, Any] = {"mode": "bicubic", "padding_mode": "border", "align_corners": False}

    def forward(x: Any, y: Any) -> Any:
        return F.grid_sample(x, y, **options)

    assert_as_torch(module_of(forward), (image, grid))


def test_mixtures_of_integers_are_refused() -> None:
    def forward(x: Any) -> Any:
        return F.interpolate(x, scale_factor=2.0, mode="bilinear")

    module = module_of(forward)
    with pytest.raises(GraphError, match="it interpolates uint8; convert it to floats"):
        ac.from_torch(module, (torch.zeros(1, 1, 3, 4, dtype=torch.uint8),))
