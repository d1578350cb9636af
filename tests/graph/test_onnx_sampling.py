"""Sampling of images and transforms of signals mean what ONNX says."""

from typing import Any

import numpy as np
import pytest
from onnx_oracle import assert_as_onnx, random

from ansorc.errors import GraphError

IMAGE = random(2, 1, 4, 5)
GRID = (np.random.default_rng(1).random((2, 3, 2, 2)) * 3.2 - 1.6).astype(np.float32)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("beyond", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_sampling_on_a_grid(mode: str, beyond: str, corners: int) -> None:
    options: dict[str, Any] = {"mode": mode, "padding_mode": beyond, "align_corners": corners}
    assert len(assert_as_onnx("GridSample", [IMAGE, GRID], **options).nodes) == 1


BOXES = np.array([[0, 0, 9, 7], [-3, -2, 4, 3.5], [2.5, 1, 2.6, 1.2], [6, 5, 20, 30]], np.float32)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("kind", ["half_pixel", "output_half_pixel"])
def test_boxes_of_images(mode: str, kind: str) -> None:
    given = [random(2, 3, 5, 6), BOXES, np.array([1, 0, 1, 0])]
    assert_as_onnx(
        "RoiAlign", given, mode=mode, coordinate_transformation_mode=kind, output_height=3,
        output_width=2, sampling_ratio=2, spatial_scale=0.5,
    )  # fmt: skip


def test_boxes_that_say_how_many_samples_are_taken_are_refused() -> None:
    with pytest.raises(GraphError, match="with sampling_ratio 0 the boxes say how many samples"):
        assert_as_onnx("RoiAlign", [random(1, 1, 4, 4), BOXES, np.zeros(4, np.int64)])


@pytest.mark.parametrize("size", [[2, 3, 4, 5], [2, 3, 2, 4, 3]])
@pytest.mark.parametrize("corners", [0, 1])
def test_grids(size: list[int], corners: int) -> None:
    rank = len(size) - 2
    given = [random(2, rank, rank + 1), np.array(size)]
    assert_as_onnx("AffineGrid", given, known=(1,), align_corners=corners)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 6, 1), {}),
        ((2, 6, 1), {"onesided": 1, "length": 9}),
        ((2, 6, 2), {"inverse": 1, "length": 4}),
        ((2, 5, 2), {"inverse": 1, "onesided": 1}),
        ((3, 2, 4, 2), {"axis": 1}),
    ],
)
def test_fourier_transforms(shape: tuple[int, ...], options: dict[str, int]) -> None:
    length, axis = options.pop("length", None), options.pop("axis", -2)
    rest = [None if n is None else np.array(n) for n in (length, axis)]
    known = [n for n, value in enumerate(rest, 1) if value is not None]
    assert_as_onnx("DFT", [random(*shape), *rest], known=known, **options)


@pytest.mark.parametrize("known", [(1, 2), (1,)])
def test_transforms_of_frames(known: tuple[int, ...]) -> None:
    given = [random(2, 20, 1), np.array(3), random(8, seed=1)]
    assert_as_onnx("STFT", given, known=known)
