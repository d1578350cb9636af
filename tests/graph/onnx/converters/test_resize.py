"""Resizing of ONNX means what ONNX Runtime computes; exceptions have tests that say so."""

from typing import Any

import numpy as np
import pytest

from ansorc.errors import GraphError
from ansorc.graph.onnx.importer import from_onnx
from ansorc.ir.aligned import Array
from tests.graph.onnx.converters.resizing_cases import ResizeCase, random_resize, resized
from tests.support.onnx_oracle import assert_as_onnx, node_model, random, run_node

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


def found_of(case: ResizeCase) -> Array:
    attributes = {**case.attributes}
    options = {"known": case.known, "opset": case.opset}
    model = node_model(case.operator, case.inputs, **options, **attributes)
    return run_node(*model)[1][0]


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.nightly)])
def test_random_nodes_read_the_elements_that_they_should(count: int) -> None:
    rng = np.random.default_rng(6)
    for _ in range(count):
        case = random_resize(rng)
        np.testing.assert_allclose(found_of(case), resized(case), 1e-4, 1e-5, err_msg=str(case))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_random_nodes_are_as_in_onnx_runtime() -> None:
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    rng, compared = np.random.default_rng(7), 0
    while compared < 2000:
        case = random_resize(rng)
        if case.differs_in_onnx_runtime():
            continue
        options = {"known": case.known, "opset": case.opset}
        model, given = node_model(case.operator, case.inputs, **options, **case.attributes)
        model.ir_version = 10
        wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)[0]
        np.testing.assert_allclose(found_of(case), wanted, 1e-4, 3e-5, err_msg=str(case))
        compared += 1


@pytest.mark.parametrize(
    ("scale", "extent"), [(0.2, 10), (1 / 3, 9), (0.6, 10), (2 / 3, 9), (0.7, 10), (0.1, 30)]
)
def test_scales_without_exact_form_give_the_size_and_the_places_that_people_mean(
    scale: float, extent: int
) -> None:
    options = {"mode": "nearest", "nearest_mode": "floor"}
    options["coordinate_transformation_mode"] = "asymmetric"
    expected = np.floor(np.arange(round(extent * scale)) / scale + 1e-9)
    data = np.arange(extent, dtype=np.float32)
    case = ResizeCase(17, data, options, [float(np.float32(scale))])
    np.testing.assert_array_equal(found_of(case), expected)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil"])
def test_the_middle_of_two_elements_is_that_up_to_a_rounding(rounding: str) -> None:
    options = {"mode": "nearest", "nearest_mode": rounding}
    case = ResizeCase(18, np.arange(20, dtype=np.float32), options, sizes=[6])
    middle = 14 if rounding.endswith("floor") else 15
    np.testing.assert_array_equal(found_of(case)[4], middle)  # place 14.5, or 14.499999 in float32


def test_before_opset_11_what_shrinks_is_rounded_up() -> None:
    case = ResizeCase(10, np.arange(10, dtype=np.float32), {"mode": "nearest"}, [0.6])
    np.testing.assert_array_equal(found_of(case), [0, 2, 4, 5, 7, 9])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_part_is_cut_though_the_size_stays(mode: str) -> None:
    """ONNX Runtime returns the whole image; what TensorFlow's crop_and_resize means is the part."""
    data = np.arange(5, dtype=np.float32) if mode != "cubic" else random(5)
    options = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}
    options["nearest_mode"] = "round_prefer_floor"
    case = ResizeCase(18, data, options, sizes=[5], roi=[0.25, 0.75])
    assert not np.allclose(found_of(case), data)
    np.testing.assert_allclose(found_of(case), resized(case), 1e-5, 1e-6)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
def test_interpolated_bytes_are_cut_off(kind: Any, coordinates: str) -> None:
    """As ONNX Runtime does; its quantiser lets Resize work on bytes."""
    info = np.iinfo(kind)
    data = np.random.default_rng(5).integers(info.min, info.max, (1, 2, 7, 6)).astype(kind)
    scales = np.array([1, 1, 1.5, 2.3], np.float32)
    options: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    floats = node_model("Resize", [data.astype(np.float32), None, scales], known=(2,), **options)
    expected = np.trunc(np.round(run_node(*floats)[1][0].astype(np.float64), 4))
    found = run_node(*node_model("Resize", [data, None, scales], known=(2,), **options))[1][0]
    assert found.dtype == kind
    np.testing.assert_array_equal(found, expected)
    even = node_model("Resize", [np.full_like(data, 7), None, scales], known=(2,), **options)
    assert (run_node(*even)[1][0] == 7).all()


@pytest.mark.parametrize(
    ("data", "scale", "options", "words"),
    [
        (np.zeros((1, 4), np.int32), 2.0, {"mode": "linear"}, "it interpolates int32"),
        (np.zeros((1, 4), np.uint8), 2.0, {"mode": "cubic"}, "it interpolates uint8"),
        (random(1, 4), 0.0, {}, "its scale 0 is not greater than 0"),
        (random(1, 4), 0.2, {}, r"its result is empty, \[1, 0\]"),
        (random(1, 4), 2.0, {"nearest_mode": "up"}, "there is no nearest_mode 'up'"),
        (random(1, 4), 2.0, {"antialias": 1}, "nearest elements are not antialiased"),
    ],
)
def test_what_has_no_meaning_is_refused(
    data: Any, scale: float, options: dict[str, Any], words: str
) -> None:
    scales = np.array([1, scale], np.float32)
    with pytest.raises(GraphError, match=words):
        run_node(*node_model("Resize", [data, None, scales], known=(2,), **options))


def test_two_sizes_and_unknown_policies_are_refused() -> None:
    sizes, scales = np.array([1, 2, 3, 4]), np.array([1, 1, 2, 2], np.float32)
    twice = node_model("Resize", [IMAGE, None, scales, sizes], known=(2, 3))
    with pytest.raises(GraphError, match="it has scales and sizes"):
        run_node(*twice)
    options: dict[str, Any] = {"known": (3,), "keep_aspect_ratio_policy": "big"}
    unknown = node_model("Resize", [IMAGE, None, None, sizes], **options)
    with pytest.raises(GraphError, match="there is no keep_aspect_ratio_policy 'big'"):
        run_node(*unknown)


def test_long_rows_are_resized_in_little_memory() -> None:
    """480,000 elements become 160,000: their matrix would have 600 GB."""
    data = np.zeros((1, 480_000), np.float32)
    options: dict[str, Any] = {"known": (3,), "mode": "linear", "antialias": 1}
    graph = from_onnx(
        node_model("Resize", [data, None, None, np.array([1, 160_000])], **options)[0]
    )
    assert sum(one.nbytes for one in graph.constants.values()) < 16e6
