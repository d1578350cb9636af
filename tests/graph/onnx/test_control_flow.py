"""Branches that are known are taken, loops whose length is known are unrolled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.onnx.control_flow import MAX_NODE_COPIES
from ansorc.ir.aligned import Array
from tests.graph.onnx.onnx_models import assert_as_onnx, bare_graph, model_of, node, random_inputs

X = {"x": [2, 3]}
ROW = np.arange(3, dtype=np.float32)


def if_node(condition: str) -> Any:
    return node(
        "If", [condition], ["y"], name="i",
        then_branch=bare_graph([node("Add", ["a", "w"], ["t"])], [], ["t"]),
        else_branch=bare_graph([node("Mul", ["a", "w"], ["e"])], [], ["e"]),
    )  # fmt: skip


def loop_node(body: Any, *inputs: str, outputs: tuple[str, ...] = ("y", "s")) -> Any:
    return node("Loop", list(inputs), list(outputs), name="l", body=body)


def adding_body(*more: Any, goes_on: str = "c_in", scanned: str = "sum") -> Any:
    nodes = [node("Identity", [goes_on], ["c_out"]), node("Add", ["v", "x"], ["sum"])]
    return bare_graph([*nodes, *more], ["i", "c_in", "v"], ["c_out", "sum", scanned])


@pytest.mark.parametrize("extent", [2, 3])
def test_a_known_branch_is_taken(extent: int) -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Shape", ["x"], ["n"], start=1, end=2),
        node("Equal", ["n", "three"], ["c"]),
        if_node("c"),
    ]
    proto = model_of(nodes, {"x": [2, "n"]}, ["y"], {"three": np.array([3]), "w": ROW[:extent]})
    graph = ac.from_onnx(proto, inputs={"x": (2, extent)})
    assert [str(one.operator) for one in graph.nodes] == [
        "relu",
        "add" if extent == 3 else "multiply",
    ]
    assert_as_onnx(graph, proto)


def test_branches_lie_in_branches() -> None:
    inner = bare_graph(
        [node("Constant", [], ["w"], value_floats=[1.0, 2.0, 3.0]), if_node("yes")], [], ["y"]
    )
    outer = node("If", ["yes"], ["z"], then_branch=inner, else_branch=inner)
    nodes = [outer, node("Relu", ["x"], ["a"])]
    proto = model_of(nodes, X, ["z"], {"yes": np.array(True)})
    graph = ac.from_onnx(proto)
    assert [str(one.operator) for one in graph.nodes] == ["relu", "add"]


def chosen(then: Any, other: Any, **weights: Array) -> Any:
    """A model whose condition is an input: one of two nodes computes 'y' of a = Relu(x)."""
    branches: dict[str, Any] = {
        f"{name}_branch": bare_graph([one], [], list(one.output))
        for name, one in (("then", then), ("else", other))
    }
    choice = node("If", ["c"], ["y"], name="i", **branches)
    proto = model_of([node("Relu", ["x"], ["a"]), choice], {**X, "c": []}, ["y"], weights)
    proto.graph.input[1].type.tensor_type.elem_type = 9
    return proto


@pytest.mark.parametrize("test", [True, False])
def test_data_chooses_one_of_two_results(*, test: bool) -> None:
    proto = chosen(node("Add", ["a", "w"], ["t"]), node("Sqrt", ["x"], ["e"]), w=ROW)
    graph = ac.from_onnx(proto)
    x = np.array([[1, 4, 9], [-1, 0, 16]], np.float32)
    feeds = {"x": x, "c": np.array(test)}
    with np.errstate(invalid="ignore"):
        expected = np.maximum(x, 0) + ROW if test else np.sqrt(x)
    for found in (run_reference(graph, feeds)["y"], ac.build(graph).run(feeds)["y"]):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


def test_what_fails_in_the_other_branch_is_no_error() -> None:
    """A place outside of a table, and a division of integers by 0, where nobody asks for them."""
    gather = node("Gather", ["w", "k"], ["t"])
    for then, weights in ((gather, {"w": np.arange(6.0, dtype=np.float32).reshape(2, 3)}),):
        proto = chosen(then, node("ReduceMax", ["x"], ["e"], axes=[0], keepdims=0), **weights)
        proto.graph.input.append(helper.make_tensor_value_info("k", TensorProto.INT64, []))
        built = ac.build(ac.from_onnx(proto))
        x = np.ones((2, 3), np.float32)
        found = built.run({"x": x, "c": np.array(False), "k": np.array(10**12)})["y"]
        np.testing.assert_array_equal(np.asarray(found), [1, 1, 1])
        found = built.run({"x": x, "c": np.array(True), "k": np.array(1)})["y"]
        np.testing.assert_array_equal(np.asarray(found), [3, 4, 5])
    divided = node("Div", ["n", "d"], ["t"])
    proto = chosen(divided, node("Identity", ["n"], ["e"]))
    for name in "nd":
        proto.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, [2]))
    built = ac.build(ac.from_onnx(proto))
    feeds = {"x": x, "c": np.array(False), "n": np.array([7, 8]), "d": np.array([0, 2])}
    np.testing.assert_array_equal(np.asarray(built.run(feeds)["y"]), [7, 8])
    feeds |= {"c": np.array(True), "d": np.array([3, 2])}
    np.testing.assert_array_equal(np.asarray(built.run(feeds)["y"]), [2, 4])


def test_branches_of_two_shapes_are_refused_where_data_chooses() -> None:
    proto = chosen(node("Add", ["a", "w"], ["t"]), node("Transpose", ["a"], ["e"]), w=ROW)
    words = r"If 'i'.*its branches make float32\[2, 3\] and float32\[3, 2\]; .*constants="
    with pytest.raises(GraphError, match=words):
        ac.from_onnx(proto)
    graph = ac.from_onnx(proto, constants={"c": True})
    assert [str(one.operator) for one in graph.nodes] == ["relu", "add"]


@pytest.mark.parametrize("inputs", [("none", "", "x"), ("n", "no", "x")])
def test_a_loop_may_run_not_even_once(inputs: tuple[str, ...]) -> None:
    weights = {"none": np.array(0), "n": np.array(4), "no": np.array(False)}
    proto = model_of([loop_node(adding_body(), *inputs, outputs=("y", ""))], X, ["y"], weights)
    graph = ac.from_onnx(proto)
    given = random_inputs(graph)
    np.testing.assert_array_equal(run_reference(graph, given)["y"], given["x"])
    joined = node("Concat", ["s", "w"], ["z"], axis=0)
    loop = loop_node(adding_body(), *inputs)
    proto = model_of([loop, joined, node("Add", ["z", "y"], ["o"])], X, ["o"],
                     {**weights, "w": np.ones((1, 2, 3), np.float32)})  # fmt: skip
    graph = ac.from_onnx(proto)
    given = random_inputs(graph)
    np.testing.assert_allclose(run_reference(graph, given)["o"], 1 + given["x"][None], rtol=1e-6)


def test_a_loop_is_unrolled() -> None:
    loop = loop_node(adding_body(), "n", "", "x")
    proto = model_of([loop], X, ["y", "s"], {"n": np.array(3)})
    graph = ac.from_onnx(proto)
    assert [str(one.operator) for one in graph.nodes] == ["add"] * 3 + ["stack"]
    inputs = random_inputs(graph)
    found, x = run_reference(graph, inputs), inputs["x"]
    np.testing.assert_allclose(found["y"], 4 * x, rtol=1e-6)
    np.testing.assert_allclose(found["s"], np.stack([2 * x, 3 * x, 4 * x]), rtol=1e-6)


def test_a_loop_ends_where_its_condition_says() -> None:
    less = node("Less", ["i", "two"], ["goes_on"])
    cast = node("Cast", ["i"], ["f"], to=1)
    body = adding_body(less, cast, goes_on="goes_on", scanned="f")
    weights = {"n": np.array(2**40), "yes": np.array(True), "two": np.array(2)}
    for inputs in (("n", "yes", "x"), ("", "yes", "x")):
        proto = model_of([loop_node(body, *inputs)], X, ["y", "s"], weights)
        graph = ac.from_onnx(proto)
        assert [str(one.operator) for one in graph.nodes] == ["add"] * 3
        np.testing.assert_array_equal(graph.constants["s"], [0, 1, 2])


def test_loops_that_cannot_be_unrolled() -> None:
    weights = {"n": np.array(MAX_NODE_COPIES), "yes": np.array(True), "none": np.array(0)}
    x = {**X, "m": []}

    def imported(*inputs: str, body: Any = None) -> None:
        loop = loop_node(body or adding_body(), *inputs)
        proto = model_of([loop], x, ["y", "s"], weights)
        proto.graph.input[1].type.tensor_type.elem_type = 7
        ac.from_onnx(proto)

    with pytest.raises(GraphError, match=r"Loop 'l'.*more than 1000 nodes"):
        imported("n", "yes", "x")
    with pytest.raises(GraphError, match=r"its trip count \('m'\) depends on .*constants="):
        imported("m", "yes", "x")
    with pytest.raises(GraphError, match="the tensor 's' is empty"):
        imported("none", "yes", "x")
    nodes = [node("Add", ["v", "x"], ["sum"])]
    from_data = bare_graph(nodes, ["i", "c", "v"], ["sum", "sum", "sum"])
    with pytest.raises(GraphError, match=r"its condition depends on .*fixed number of runs"):
        imported("n", "yes", "x", body=from_data)


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_scan_is_unrolled(*, back: int, weighted: bool) -> None:
    nodes = [node("Add", ["state", "part"], ["next"]), node("Mul", ["next", "part"], ["row"])]
    body = bare_graph(nodes, ["state", "part"], ["next", "row"])
    scan = node(
        "Scan", ["x", "w"], ["last", "y"], body=body, num_scan_inputs=1, scan_input_axes=[1],
        scan_input_directions=[back], scan_output_axes=[-1], scan_output_directions=[back],
    )  # fmt: skip
    w = np.random.default_rng(2).random((2, 4)).astype(np.float32)
    inputs: dict[str, Any] = {"x": [2]} if weighted else {"x": [2], "w": [2, 4]}
    proto = model_of([scan], inputs, ["last", "y"], {"w": w} if weighted else {})
    graph = ac.from_onnx(proto)
    assert sum(str(one.operator) == "add" for one in graph.nodes) == 4
    given = random_inputs(graph)
    found = run_reference(graph, given)
    parts = given.get("w", w)[:, :: -1 if back else 1]
    states = given["x"][:, None] + np.cumsum(parts, axis=1)
    np.testing.assert_allclose(found["last"], states[:, -1], rtol=1e-6)
    rows = (states * parts)[:, :: -1 if back else 1]
    np.testing.assert_allclose(found["y"], rows, rtol=1e-6)


def test_a_scan_over_batches_is_refused() -> None:
    body = bare_graph([node("Add", ["s", "p"], ["n"])], ["s", "p"], ["n"])
    scan = node("Scan", ["", "x", "w"], ["y"], body=body, num_scan_inputs=1)
    proto = model_of([scan], {"x": [1, 2], "w": [1, 3, 2]}, ["y"], opset=8)
    with pytest.raises(GraphError, match="a Scan before opset 9 scans each sequence of a batch"):
        ac.from_onnx(proto)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"num_scan_inputs": 3}, "2 inputs, of which 3 are scanned"),
        ({"num_scan_inputs": 1, "scan_input_axes": [5]}, "no axis 5"),
        ({"num_scan_inputs": 1, "scan_input_axes": [0, 0]}, "has 2 numbers, not 1"),
        ({"num_scan_inputs": 2}, "different lengths"),
    ],
)
def test_scans_that_have_no_meaning(attributes: dict[str, Any], words: str) -> None:
    body = bare_graph([node("Add", ["s", "p"], ["n"])], ["s", "p"], ["n", "n"])
    scan = node("Scan", ["x", "w"], ["y", "z"], body=body, **attributes)
    proto = model_of([scan], {"x": [2], "w": [3, 2]}, ["y"])
    with pytest.raises(GraphError, match=words):
        ac.from_onnx(proto)
