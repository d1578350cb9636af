"""Convolutions, pools, products of matrices and norms of ONNX mean what ONNX says."""

from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import GraphError
from tests.support.onnx_oracle import assert_as_onnx, node_model, random, run_node

IMAGE = random(2, 4, 7, 6)


@pytest.mark.parametrize(
    "options",
    [
        {"strides": [2, 3], "pads": [1, 0, 2, 1]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "SAME_UPPER", "group": 2},
        {"auto_pad": "VALID", "dilations": [2, 1]},
    ],
)
def test_convolutions(options: dict[str, Any]) -> None:
    weight = random(6, 4 // options.get("group", 1), 3, 2, seed=1)
    assert_as_onnx("Conv", [IMAGE, weight, random(6, seed=2)], known=(1, 2), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"strides": [2, 3], "pads": [1, 0, 1, 1], "output_padding": [1, 1]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"dilations": [2, 2]},
    ],
)
def test_transposed_convolutions(options: dict[str, Any]) -> None:
    assert_as_onnx("ConvTranspose", [IMAGE, random(4, 3, 3, 3, seed=1)], known=(1,), **options)


def test_an_output_shape_stands_for_margins() -> None:
    tensors, strides = [IMAGE, random(4, 3, 3, 3, seed=1)], [3, 2]
    options: dict[str, Any] = {"strides": strides, "pads": [1, 0, 0, 0]}
    expected = run_node(*node_model("ConvTranspose", tensors, **options))[1][0]
    model = node_model("ConvTranspose", tensors, strides=strides, output_shape=[20, 14])
    np.testing.assert_allclose(run_node(*model)[1][0], np.pad(expected, [(0, 0)] * 3 + [(0, 1)]))


@pytest.mark.parametrize("automatic", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("more", [1, 2, 3])
def test_a_larger_output_shape_has_zeros_at_the_end(automatic: str, more: int) -> None:
    """ONNX divides what is missing; ONNX Runtime, which users see, has no negative margins."""
    tensors, strides = [IMAGE, random(4, 3, 3, 3, seed=1)], [2, 2]
    plain = run_node(*node_model("ConvTranspose", tensors, strides=strides))[1][0]
    size = [plain.shape[2] + more, plain.shape[3]]
    model = node_model(
        "ConvTranspose", tensors, strides=strides, output_shape=size, auto_pad=automatic
    )
    expected = np.pad(plain, [(0, 0), (0, 0), (0, more), (0, 0)])
    np.testing.assert_allclose(run_node(*model)[1][0], expected)


def test_a_transposed_convolution_in_groups_is_one_of_each_group() -> None:
    weight = random(4, 3, 3, 2, seed=1)
    options: dict[str, Any] = {"strides": [2, 2], "pads": [1, 0, 0, 1]}
    whole = run_node(*node_model("ConvTranspose", [IMAGE, weight], group=2, **options))[1][0]
    halves = [
        run_node(*node_model("ConvTranspose", [IMAGE[:, s], weight[s]], **options))[1][0]
        for s in (slice(0, 2), slice(2, 4))
    ]
    np.testing.assert_allclose(whole, np.concatenate(halves, axis=1))


def test_deformable_convolutions() -> None:
    offset, mask = random(2, 24, 5, 5, seed=2), abs(random(2, 12, 5, 5, seed=3))
    tensors = [IMAGE, random(6, 2, 3, 2, seed=1), offset, random(6, seed=4), mask]
    assert_as_onnx("DeformConv", tensors, group=2, offset_group=2)


@pytest.mark.parametrize(
    "options", [{"strides": [2, 2]}, {"pads": [0, 1, 1, 0]}, {"dilations": [1, 2]}]
)
def test_patches_add_up(options: dict[str, Any]) -> None:
    counts = {"strides": 4, "pads": 20, "dilations": 4}
    data = random(2, 3 * 6, counts[next(iter(options))])
    tensors = [data, np.array([5, 5]), np.array([2, 3])]
    assert_as_onnx("Col2Im", tensors, known=(1, 2), **options)


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("AveragePool", {"strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
        ("AveragePool", {"pads": [1, 0, 1, 1], "count_include_pad": 1}),
        ("AveragePool", {"auto_pad": "SAME_UPPER", "strides": [2, 1]}),
        ("LpPool", {"p": 3, "strides": [2, 2]}),
        ("MaxPool", {"dilations": [2, 2], "pads": [1, 1, 1, 1]}),
        ("MaxPool", {"pads": [1, 1, 1, 1], "strides": [2, 3], "ceil_mode": 1, "outputs": 2}),
    ],
)
def test_pools(operator: str, options: dict[str, Any]) -> None:
    assert_as_onnx(operator, [IMAGE], kernel_shape=[3, 2], **options)


def test_places_in_column_order_are_transposed_ones() -> None:
    options: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2], "outputs": 2}
    rows = run_node(*node_model("MaxPool", [IMAGE], **options))[1][1]
    columns = run_node(*node_model("MaxPool", [IMAGE], storage_order=1, **options))[1][1]
    image, rest = np.divmod(rows, 42)
    np.testing.assert_array_equal(columns, image * 42 + rest % 6 * 7 + rest // 6)


def test_an_unpool_undoes_a_pool() -> None:
    options: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    even = IMAGE[:, :, :6]
    values, places = run_node(*node_model("MaxPool", [even], outputs=2, **options))[1]
    graph = assert_as_onnx("MaxUnpool", [values.astype(np.float32), places], **options)
    assert len(graph.nodes) == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((4,), (2, 4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (4,)),
        ((2, 1, 3, 4), (6, 4, 5)),
    ],
)
def test_products_of_matrices(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    graph = assert_as_onnx("MatMul", [random(*left), random(*right, seed=1)])
    assert len(graph.nodes) == 1


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_transposed_factors_take_no_nodes(flags: tuple[int, int]) -> None:
    left, right = random(3, 4), random(4, 5, seed=1)
    factors = [left.T if flags[0] else left, right.T if flags[1] else right]
    options = {"transA": flags[0], "transB": flags[1]}
    assert len(assert_as_onnx("Gemm", factors, **options).nodes) == 1
    assert_as_onnx("Gemm", [*factors, random(5, seed=2)], alpha=0.5, beta=2.0, **options)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (1, 3, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->", [(2, 3)]),
        ("bi,bj", [(2, 3), (2, 4)]),
        ("b...->...b", [(2, 3, 4)]),
        ("i,j,ijk->k", [(2,), (3,), (2, 3, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    tensors = [random(*shape, seed=n) for n, shape in enumerate(shapes)]
    assert len(assert_as_onnx("Einsum", tensors, equation=equation).nodes) == 1


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij->ijj", "i->i", "ij->k"])
def test_an_equation_that_does_not_fit_is_refused(equation: str) -> None:
    with pytest.raises(GraphError, match="einsum"):
        run_node(*node_model("Einsum", [random(2, 3)], equation=equation))


@pytest.mark.parametrize(
    ("operator", "shapes", "options"),
    [
        ("InstanceNormalization", [(4,), (4,)], {}),
        ("LayerNormalization", [(6,), (6,)], {}),
        ("LayerNormalization", [(7, 1)], {"axis": -2}),
        ("LayerNormalization", [(7, 6), (6,)], {"axis": 2, "outputs": 3}),
        ("RMSNormalization", [(7, 6)], {"axis": 2, "opset": 23}),
        ("RMSNormalization", [(1,)], {"axis": 2, "opset": 23}),
        ("BatchNormalization", [(4,), (4,), (4,), (4,)], {}),
        ("LpNormalization", [], {"axis": 1, "p": 2}),
        ("MeanVarianceNormalization", [], {"axes": [1, 3]}),
    ],
)
def test_norms(operator: str, shapes: list[tuple[int, ...]], options: dict[str, Any]) -> None:
    vectors = [abs(random(*shape, seed=n)) for n, shape in enumerate(shapes)]
    assert_as_onnx(operator, [IMAGE, *vectors], **options)


@pytest.mark.parametrize("known", [(), (1, 2, 3, 4)])
@pytest.mark.parametrize(
    ("data", "extents", "options"),
    [(random(6), (1,), {}), (IMAGE, IMAGE.shape[1:], {"opset": 7, "spatial": 0})],
)
def test_batch_norms_of_one_channel_and_of_each_element(
    data: Any, extents: tuple[int, ...], options: dict[str, Any], known: tuple[int, ...]
) -> None:
    scale, shift, mean = (random(*extents, seed=n) for n in range(1, 4))
    variance = abs(random(*extents, seed=4)) + np.float32(0.5)
    expected = (data - mean) / np.sqrt(variance.astype(np.float64) + 1e-5) * scale + shift
    vectors = [scale, shift, mean, variance]
    model = node_model("BatchNormalization", [data, *vectors], known=known, **options)
    np.testing.assert_allclose(run_node(*model)[1][0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [18, 21])
def test_group_norm_has_numbers_of_groups_and_later_of_channels(opset: int) -> None:
    scale, shift = random(2), random(2, seed=1)
    groups = IMAGE.astype(np.float64).reshape(2, 2, 2 * 7 * 6)
    expected = (groups - groups.mean(2, keepdims=True)) / np.sqrt(
        groups.var(2, keepdims=True) + 1e-5
    )
    expected = (expected * scale[:, None] + shift[:, None]).reshape(IMAGE.shape)
    vectors = [scale, shift] if opset == 18 else [scale.repeat(2), shift.repeat(2)]
    model = node_model("GroupNormalization", [IMAGE, *vectors], num_groups=2, opset=opset)
    np.testing.assert_allclose(run_node(*model)[1][0], expected, rtol=1e-5)


def test_local_response_norm_sums_over_all_channels() -> None:
    squares = np.pad(IMAGE.astype(np.float64) ** 2, ((0, 0), (1, 2), (0, 0), (0, 0)))
    total = sum(squares[:, n : n + 4] for n in range(4))
    expected = IMAGE / (1.5 + 0.2 / 4 * total) ** 0.7
    model = node_model("LRN", [IMAGE], size=4, alpha=0.2, beta=0.7, bias=1.5)
    np.testing.assert_allclose(run_node(*model)[1][0], expected, rtol=1e-5)


def test_outputs_of_training_without_its_mode_are_refused() -> None:
    vectors = [random(4) for _ in range(4)]
    model = node_model("BatchNormalization", [IMAGE, *vectors], outputs=3, opset=9)
    with pytest.raises(GraphError, match="in training mode; export the network for inference"):
        run_node(*model)


def test_a_batch_norm_in_training_mode_takes_the_statistics_of_its_batch() -> None:
    scale, shift = random(4, seed=1), random(4, seed=2)
    vectors = [scale, shift, random(4, seed=3), abs(random(4, seed=4))]
    model = node_model("BatchNormalization", [IMAGE, *vectors], training_mode=1, opset=15)
    data = IMAGE.astype(np.float64)
    mean, variance = (f(data, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.var))
    expected = (data - mean) / np.sqrt(variance + 1e-5)
    expected = expected * scale[:, None, None] + shift[:, None, None]
    np.testing.assert_allclose(run_node(*model)[1][0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pads", [[-1, 0, 2, 1], [1, -2, -1, -1], [-2, -2, 0, 0]])
def test_negative_pads_cut(pads: list[int]) -> None:
    data, weight = random(1, 4, 6, 7), random(6, 2, 2, 3, seed=1)
    low, high = [max(0, -one) for one in pads[:2]], [max(0, -one) for one in pads[2:]]
    cut = data[:, :, low[0] : 6 - high[0], low[1] : 7 - high[1]].copy()
    options: dict[str, Any] = {"strides": [1, 2], "group": 2}
    found = run_node(*node_model("Conv", [data, weight], pads=pads, **options))[1][0]
    rest = [max(0, one) for one in pads]
    expected = run_node(*node_model("Conv", [cut, weight], pads=rest, **options))[1][0]
    np.testing.assert_allclose(found, expected, 1e-6)


def test_pads_that_cut_all_are_refused() -> None:
    model = node_model("Conv", [random(1, 1, 3, 3), random(1, 1, 1, 1)], pads=[-2, 0, -1, 0])
    with pytest.raises(GraphError, match=r"its pads \[-2, 0, -1, 0\] cut away all"):
        run_node(*model)


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_the_value_of_a_padding_may_be_an_input(shape: tuple[int, ...], kind: Any) -> None:
    data, value = (random(2, 3) * 9).astype(kind), np.full(shape, 2.5).astype(kind)
    pads = np.array([0, 2, -1, 1])
    model, given = node_model("Pad", [data, pads, value], known=(1,))
    expected = np.pad(data[:1], ((0, 0), (2, 1)), constant_values=value.item())
    np.testing.assert_array_equal(run_node(model, given)[1][0], expected)
    built = ac.build(ac.from_onnx(model)).run(given)
    np.testing.assert_array_equal(np.asarray(built["y0"]), expected)


@pytest.mark.parametrize(
    ("pads", "mode", "words"),
    [([-2, 0, -1, 1], "constant", "cut away all"), ([0, 1, 0, 1], "odd", "no mode 'odd'")],
)
def test_paddings_without_meaning_are_refused(pads: list[int], mode: str, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        run_node(*node_model("Pad", [random(2, 3), np.array(pads)], known=(1,), mode=mode))
