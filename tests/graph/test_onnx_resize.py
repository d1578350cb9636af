"""Resizing of ONNX means what ONNX says."""

from typing import Any

import numpy as np
import pytest
from onnx_oracle import assert_as_onnx, node_model, random, run_node

from ansorc.errors import GraphError

IMAGE = random(1, 2, 5, 6)
SCALES = np.array([1, 1, 2.0, 0.5], np.float32)
SIZES = np.array([1, 2, 7, 4])


def as_onnx(scales: Any, sizes: Any = None, roi: Any = None, **options: Any) -> Any:
    given = [roi, scales, sizes] if sizes is not None else [roi, scales]
    known = [n for n, value in enumerate(given, 1) if value is not None]
    return assert_as_onnx("Resize", [IMAGE, *given], known=known, **options)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "coordinates",
    ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"],
)
def test_places(mode: str, coordinates: str) -> None:
    options = {"mode": mode, "coordinate_transformation_mode": coordinates}
    as_onnx(SCALES, **options)
    as_onnx(None, SIZES, **options)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_nearest_places_are_arithmetic(rounding: str) -> None:
    graph = as_onnx(SCALES, nearest_mode=rounding, coordinate_transformation_mode="asymmetric")
    assert [str(node.operator) for node in graph.nodes] == ["resize_nearest"]
    assert not graph.constants


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "linear", "antialias": 1},
        {"mode": "cubic", "antialias": 1, "exclude_outside": 1},
        {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
        {"mode": "nearest", "keep_aspect_ratio_policy": "not_larger", "axes": [2, 3]},
        {"mode": "linear", "keep_aspect_ratio_policy": "not_smaller", "axes": [3, 2]},
    ],
)
def test_ways_to_resize(options: dict[str, Any]) -> None:
    as_onnx(None, np.array([3, 4]) if "axes" in options else SIZES, **options)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_what_lies_beyond_the_image_has_one_value(mode: str) -> None:
    roi = np.array([0, 0, -0.2, 0.1, 1, 1, 0.8, 1.3], np.float32)
    options = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    as_onnx(None, SIZES, roi, mode=mode, **options)


def test_upsampling() -> None:
    scales = np.array([1, 1, 2, 3], np.float32)
    model = node_model("Upsample", [IMAGE, scales], known=(1,), opset=9)
    np.testing.assert_array_equal(run_node(*model)[1][0], IMAGE.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize(
    ("data", "scale", "options", "words"),
    [
        (random(1, 10), 0.7, {}, "may be read in two ways; give sizes"),
        (np.zeros((1, 4), np.uint8), 2.0, {"mode": "linear"}, "it interpolates uint8"),
    ],
)
def test_what_is_not_certain_is_refused(
    data: Any, scale: float, options: dict[str, Any], words: str
) -> None:
    scales = np.array([1, scale], np.float32)
    with pytest.raises(GraphError, match=words):
        run_node(*node_model("Resize", [data, None, scales], known=(2,), **options))
