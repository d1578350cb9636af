"""Sampling of images and transforms of signals mean what ONNX says."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from ansorc.ir.aligned import Array
from tests.support.onnx_oracle import assert_as_onnx, node_model, random, run_node

IMAGE = random(2, 1, 4, 5)
GRID = (np.random.default_rng(1).random((2, 3, 2, 2)) * 3.2 - 1.6).astype(np.float32)


def sampled(image: Array, grid: Array, mode: str, beyond: str, corners: int) -> Array:
    """What GridSample means, place by place: each element that is read is moved by itself."""
    batch, channels, height, width = image.shape
    result = np.zeros((batch, channels, *grid.shape[1:3]))
    for n, y, x in np.ndindex(grid.shape[:3]):
        taps = [
            weighted_taps(float(grid[n, y, x, 1 - d]), extent, mode, beyond, corners)
            for d, extent in enumerate((height, width))
        ]
        for (a, row), (b, column) in product(*taps):
            result[n, :, y, x] += a * b * image[n, :, row, column]
    return result


def weighted_taps(
    along: float, extent: int, mode: str, beyond: str, corners: int
) -> list[tuple[float, int]]:
    place = (along + 1) / 2 * (extent - 1) if corners else ((along + 1) * extent - 1) / 2
    if mode == "nearest":
        taps = [(1.0, round(place))]
    elif mode == "linear":
        first, part = math.floor(place), place - math.floor(place)
        taps = [(1 - part, first), (part, first + 1)]
    else:
        first, a = math.floor(place), -0.75
        taps = list[tuple[float, int]]()
        for tap in range(first - 1, first + 3):
            x = abs(place - tap)
            near = (a + 2) * x**3 - (a + 3) * x**2 + 1
            far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
            taps.append((near if x <= 1 else far, tap))
    if beyond == "zeros":
        return [(weight, tap) for weight, tap in taps if 0 <= tap < extent]
    return [(weight, moved(tap, extent, beyond, corners)) for weight, tap in taps]


def moved(tap: int, extent: int, beyond: str, corners: int) -> int:
    while beyond == "reflection" and extent > 1 and not 0 <= tap < extent:
        low, high = (0, extent - 1) if corners else (-0.5, extent - 0.5)
        tap = int(2 * low - tap if tap < low else 2 * high - tap)
    return min(max(tap, 0), extent - 1)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("beyond", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_sampling_on_a_grid(mode: str, beyond: str, corners: int) -> None:
    options: dict[str, Any] = {"mode": mode, "padding_mode": beyond, "align_corners": corners}
    graph, found = run_node(*node_model("GridSample", [IMAGE, GRID], **options))
    expected = sampled(IMAGE, GRID, mode, beyond, corners)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    assert len(graph.nodes) == 1


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_random_grids_are_as_in_onnx_runtime() -> None:
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(3)
    for _ in range(1000):
        rank = int(rng.integers(2, 4))
        mode = str(rng.choice(["nearest", "linear", *["cubic"] * (rank == 2)]))
        image = rng.standard_normal((2, 2, *rng.integers(1, 7, rank))).astype(np.float32)
        grid = rng.uniform(-3, 3, (2, *rng.integers(1, 5, rank), rank)).astype(np.float32)
        beyond = str(rng.choice(["zeros", "border", "reflection"]))
        options: dict[str, Any] = {"padding_mode": beyond, "align_corners": int(rng.integers(2))}
        options["opset"] = 20
        model, given = node_model("GridSample", [image, grid], mode=mode, **options)
        model.ir_version = 10
        wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)[0]
        np.testing.assert_allclose(run_node(model, given)[1][0], wanted, 1e-4, 1e-4)


BOXES = np.array([[0, 0, 9, 7], [-3, -2, 4, 3.5], [2.5, 1, 2.6, 1.2], [6, 5, 20, 30]], np.float32)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("kind", ["half_pixel", "output_half_pixel"])
def test_boxes_of_images(mode: str, kind: str) -> None:
    given = [random(2, 3, 5, 6), BOXES, np.array([1, 0, 1, 0])]
    assert_as_onnx(
        "RoiAlign", given, mode=mode, coordinate_transformation_mode=kind, output_height=3,
        output_width=2, sampling_ratio=2, spatial_scale=0.5,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("kind", ["half_pixel", "output_half_pixel"])
def test_boxes_that_say_how_many_samples_are_taken(mode: str, kind: str) -> None:
    boxes = np.concatenate([BOXES, [[-9, -9, -7, -8], [4, 3, 3, 2], [0, 0, 40, 50]]])
    numbers = np.array([1, 0, 1, 0, 1, 1, 0])
    given = [random(2, 3, 5, 6), boxes.astype(np.float32), numbers]
    assert_as_onnx(
        "RoiAlign", given, mode=mode, coordinate_transformation_mode=kind, output_height=3,
        output_width=2, sampling_ratio=0, spatial_scale=0.5,
    )  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_the_largest_elements_of_boxes(scale: float) -> None:
    data = random(2, 1, 5, 6)
    boxes = np.array(
        [[1, 0, 0, 4, 3], [0, 2, 1, 5, 4], [0, 3, 3, 3, 3], [1, 9, 9, 12, 12]], np.float32
    )
    options: dict[str, Any] = {"pooled_shape": [2, 2], "spatial_scale": scale}
    found = run_node(*node_model("MaxRoiPool", [data, boxes], **options))[1][0]
    expected = np.zeros((4, 1, 2, 2))
    for r, (image, *ends) in enumerate(boxes.astype(int)):
        x0, y0, x1, y1 = (math.floor(one * scale + 0.5) for one in ends)
        for p, q in np.ndindex(2, 2):
            rows, columns = (
                slice(max(low + math.floor(n * (high - low + 1) / 2), 0),
                      max(low + math.ceil((n + 1) * (high - low + 1) / 2), 0))
                for n, low, high in ((p, y0, y1), (q, x0, x1))
            )  # fmt: skip
            part = data[image, 0, rows, columns]
            expected[r, 0, p, q] = part.max() if part.size else 0
    np.testing.assert_allclose(found, expected, 1e-6)


@pytest.mark.parametrize("size", [[2, 3, 4, 5], [2, 3, 2, 4, 3]])
@pytest.mark.parametrize("corners", [0, 1])
def test_grids(size: list[int], corners: int) -> None:
    rank = len(size) - 2
    given = [random(2, rank, rank + 1), np.array(size)]
    assert_as_onnx("AffineGrid", given, known=(1,), align_corners=corners)


def test_a_single_place_of_aligned_corners_is_in_the_middle() -> None:
    """As in PyTorch; ONNX's reference divides by zero, ONNX Runtime takes the other end."""
    theta = np.array([[[1, 0, 0], [0, 1, 0]]], np.float32)
    model = node_model("AffineGrid", [theta, np.array([1, 1, 1, 3])], known=(1,), align_corners=1)
    found = run_node(*model)[1][0]
    np.testing.assert_allclose(found[0, 0], [[-1, 0], [0, 0], [1, 0]])


def test_places_of_maxima_count_in_the_image_that_is_asked_for() -> None:
    """As in PyTorch and ONNX Runtime; ONNX's own test counts in the smallest image."""
    values, places = np.arange(1, 5, dtype=np.float32), np.array([0, 3, 10, 24])
    given = [one.reshape(1, 1, 2, 2) for one in (values, places)]
    size = np.array([1, 1, 5, 5])
    options: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2], "known": (2,)}
    found = run_node(*node_model("MaxUnpool", [*given, size], **options))[1][0]
    assert found.shape == (1, 1, 5, 5)
    np.testing.assert_array_equal(found.reshape(-1)[places], values)
    assert np.count_nonzero(found) == 4


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
