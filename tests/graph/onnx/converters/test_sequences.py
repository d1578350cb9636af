"""Sequences whose length is known, and optional values, are gone when a file is imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.graph_reference import run_reference
from ansorc.ir.aligned import Array
from tests.graph.onnx.onnx_models import assert_as_onnx, bare_graph, model_of, node, random_inputs

X = {"x": [4, 3], "z": [4, 3]}
ONE, MINUS = np.array(1), np.array(-1)


def imported(nodes: list[Any], **weights: Array) -> ac.Graph:
    return ac.from_onnx(model_of(nodes, X, ["y"], weights))


@pytest.mark.parametrize(
    ("split", "options"),
    [
        (None, {"axis": 0}),
        (None, {"axis": 1, "keepdims": 0}),
        (np.array(3), {"axis": 0}),
        (np.array(2), {"axis": -1}),
        (np.array([1, 3]), {"axis": 0, "keepdims": 0}),
    ],
)
@pytest.mark.parametrize("position", [0, -1])
def test_parts(split: Array | None, options: dict[str, Any], position: int) -> None:
    inputs = ["x", "n"] if split is not None else ["x"]
    weights = {"i": np.array(position), **({} if split is None else {"n": split})}
    nodes = [node("SplitToSequence", inputs, ["s"], **options),
             node("SequenceAt", ["s", "i"], ["v"]), node("Relu", ["v"], ["y"])]  # fmt: skip
    proto = model_of(nodes, X, ["y"], weights)
    assert_as_onnx(ac.from_onnx(proto), proto)


@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joined_again(new_axis: int, axis: int) -> None:
    nodes = [
        node("SequenceConstruct", ["x", "z"], ["s"]),
        node("Relu", ["z"], ["r"]),
        node("SequenceInsert", ["s", "r", "i"], ["t"]),
        node("SequenceErase", ["t", "j"], ["u"]),
        node("SequenceInsert", ["u", "x"], ["w"]),
        node("ConcatFromSequence", ["w"], ["y"], axis=axis, new_axis=new_axis),
    ]
    proto = model_of(nodes, X, ["y"], {"i": ONE, "j": MINUS})
    assert_as_onnx(ac.from_onnx(proto), proto)


def test_known_values_stay_known() -> None:
    nodes = [
        node("SplitToSequence", ["w"], ["s"], axis=0),
        node("SequenceLength", ["s"], ["n"]),
        node("ConcatFromSequence", ["s"], ["v"], axis=0),
        node("Reshape", ["n", "minus"], ["m"]),
        node("Concat", ["m", "minus"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["r"]),
        node("Add", ["r", "v"], ["y"]),
    ]
    weights = {"w": np.arange(6, dtype=np.float32).reshape(6, 1), "minus": np.array([-1])}
    proto = model_of(nodes, X, ["y"], weights)
    graph = ac.from_onnx(proto)
    assert graph.types["y"].shape == (6, 2)
    assert_as_onnx(graph, proto)


def test_a_loop_carries_a_sequence() -> None:
    body = bare_graph(
        [
            node("Identity", ["c"], ["c_out"]),
            node("Gather", ["x", "i"], ["row"]),
            node("SequenceInsert", ["s", "row"], ["s_out"]),
        ],
        ["i", "c", "s"],
        ["c_out", "s_out"],
    )
    body.input[2].type.CopyFrom(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    )
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("Loop", ["n", "", "none"], ["s"], body=body),
        node("ConcatFromSequence", ["s"], ["y"], axis=1, new_axis=1),
    ]
    graph = ac.from_onnx(model_of(nodes, X, ["y"], {"n": np.array(3)}))
    given = random_inputs(graph)
    np.testing.assert_array_equal(run_reference(graph, given)["y"], given["x"][:3].T)


def test_a_graph_for_each_tensor() -> None:
    body = bare_graph([node("Mul", ["a", "b"], ["ab"])], ["a", "b"], ["ab"])
    nodes = [
        node("SequenceConstruct", ["x", "z"], ["s"]),
        node("SequenceMap", ["s", "z"], ["t"], body=body),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    graph = imported(nodes)
    assert [str(one.operator) for one in graph.nodes] == ["multiply", "multiply", "concat"]


def test_optional_values() -> None:
    then = bare_graph([node("OptionalGetElement", ["o"], ["t"])], [], ["t"])
    other = bare_graph([node("Relu", ["z"], ["e"])], [], ["e"])
    nodes = [
        node("Optional", ["x"], ["o"]),
        node("OptionalHasElement", ["o"], ["has"]),
        node("If", ["has"], ["v"], then_branch=then, else_branch=other),
        node("Neg", ["v"], ["y"]),
    ]
    assert [str(one.operator) for one in imported(nodes).nodes] == ["negative"]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("SequenceConstruct", ["x"], ["y"])], "the output 'y' is a sequence"),
        ([node("SequenceConstruct", ["x"], ["s"]), node("Relu", ["s"], ["y"])],
         "its input 0 is a sequence, and it takes a tensor"),
        ([node("SequenceLength", ["x"], ["y"])], "its input 0 is no sequence"),
        ([node("SequenceConstruct", ["x"], ["s"]), node("SequenceAt", ["s", "one"], ["y"])],
         "there is no position 1 in a sequence of 1 tensors"),
        ([node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)],
         "its sequence is empty"),
        ([node("SplitToSequence", ["x", "two"], ["s"]), node("SequenceAt", ["s", "one"], ["y"])],
         r"the lengths \[1, 1\] of its parts do not make 4 elements"),
        ([node("ReduceMax", ["x"], ["m"], keepdims=0), node("Cast", ["m"], ["i"], to=7),
          node("SequenceConstruct", ["x", "z"], ["s"]), node("SequenceAt", ["s", "i"], ["y"])],
         "the position in the sequence .* depends on the network's input"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(nodes: list[Any], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        imported(nodes, one=ONE, two=np.array([1, 1]))
