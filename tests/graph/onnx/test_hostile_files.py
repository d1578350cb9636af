"""Files that are broken or that mean harm: refused in words, in little time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.onnx import importer
from ansorc.ir.aligned import Array
from tests.graph.onnx.onnx_models import model_of, node

ROOT = Path(__file__).parents[3]
X = {"x": [2, 3]}


def refused(proto: onnx.ModelProto, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        ac.from_onnx(proto)


def mutations_are_refused(begin: int, end: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.graph.onnx.onnx_mutations", str(begin), str(end)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == {}
    assert found["all"] == end - begin
    assert found["graphs"] > (end - begin) / 20  # not all of them break the model


def test_mutations_are_graphs_or_are_refused() -> None:
    mutations_are_refused(0, 200)


@pytest.mark.nightly
def test_many_mutations_are_graphs_or_are_refused() -> None:
    mutations_are_refused(200, 5200)


@pytest.mark.parametrize("content", [b"", b"\0", b"not a model", bytes(range(256)), b"\x08" * 99])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(GraphError):
        ac.from_onnx(path)


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="is no ONNX file that can be read"):
        ac.from_onnx(tmp_path)


@pytest.mark.parametrize("extent", [2**31, 2**62, 2**63 - 1])
def test_inputs_too_large_are_refused(extent: int) -> None:
    refused(model_of([node("Relu", ["x"], ["y"])], {"x": [extent, 3]}, ["y"]), "'x' is too large")


def test_negative_extents_are_open() -> None:
    refused(model_of([node("Relu", ["x"], ["y"])], {"x": [-2, 3]}, ["y"]), "not fixed in the file")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"dims": [-2, -3]}, r"its shape is \[-2, -3\]"),
        ({"dims": [2**31, 2**31]}, "but it has 24 bytes"),
        ({"dims": [2**62, 2**62]}, "but it has 24 bytes"),
        ({"dims": [2, 2]}, "but it has 24 bytes"),
        ({"dims": [2, 3], "data_type": TensorProto.DOUBLE}, "but it has 24 bytes"),
        ({"dims": [2, 3], "data_type": 0}, "no element type 0"),
        ({"dims": [2, 3], "data_type": 99}, "no element type 99"),
        ({"dims": [24], "data_type": TensorProto.STRING}, "the tensor 'w'|holds text"),
        ({"dims": [3], "data_type": TensorProto.COMPLEX64}, "complex64"),
    ],
)
def test_weights_that_do_not_fit_are_refused(fields: dict[str, Any], words: str) -> None:
    proto = model_of([node("Add", ["x", "w"], ["y"])], X, ["y"])
    given: dict[str, Any] = {"data_type": TensorProto.FLOAT, **fields}
    proto.graph.initializer.append(TensorProto(name="w", raw_data=bytes(24), **given))
    refused(proto, words)


HUGE = np.array([2**30, 2**30])
SMALL = np.zeros((2, 2), np.float32)


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        ([node("ConstantOfShape", ["s"], ["v"])], {"s": HUGE}),
        ([node("Expand", ["a", "s"], ["v"])], {"s": HUGE, "a": np.zeros(1, np.float32)}),
        ([node("Tile", ["a", "s"], ["v"])], {"s": HUGE, "a": SMALL}),
        (
            [node("Range", ["a", "b", "c"], ["v"])],
            {"a": np.array(0), "b": np.array(2**40), "c": np.array(1)},
        ),
        ([node("Pad", ["a", "s"], ["v"])], {"s": np.array([2**30] * 4), "a": SMALL}),
        (
            [node("OneHot", ["a", "b", "c"], ["v"])],
            {"a": np.array([0]), "b": np.array(2**40), "c": np.array([0, 1])},
        ),
        (
            [node("Resize", ["a", "", "b"], ["v"], mode="nearest")],
            {"a": SMALL, "b": np.array([1e9, 1e9], np.float32)},
        ),
        ([node("HannWindow", ["s"], ["v"])], {"s": np.array(2**40)}),
        (
            [node("ConstantOfShape", ["s"], ["a0"])]
            + [node("Concat", [f"a{n}", f"a{n}"], [f"a{n + 1}"], axis=0) for n in range(60)]
            + [node("Identity", ["a60"], ["v"])],
            {"s": np.array([2])},
        ),
        (
            [node("ConstantOfShape", ["s"], [f"a{n}"]) for n in range(9)]
            + [node("Concat", [f"a{n}" for n in range(9)], ["v"], axis=0)],
            {"s": np.array([2**22])},
        ),
    ],
)
def test_what_is_computed_at_import_is_limited(
    nodes: list[onnx.NodeProto], weights: dict[str, Array]
) -> None:
    proto = model_of([*nodes, node("Add", ["x", "v"], ["y"])], X, ["y"], weights)
    too_many = r"bytes of known values at import, of which [\d,]+ are left"
    refused(proto, f"{too_many}|is too large|has more than 2..62 elements")


def test_random_numbers_are_refused() -> None:
    nodes = [node("RandomNormal", [], ["v"], shape=[2, 3]), node("Add", ["x", "v"], ["y"])]
    refused(model_of(nodes, X, ["y"]), "RandomNormal 'v'.*is random")


def test_what_cannot_be_computed_is_named() -> None:
    nodes = [node("Reshape", ["a", "s"], ["v"]), node("Add", ["x", "v"], ["y"])]
    weights = {"a": SMALL, "s": np.array([3, 5])}
    refused(model_of(nodes, X, ["y"], weights), "Reshape 'v'.*4 elements do not make")


def test_graphs_in_graphs_in_graphs(tmp_path: Path) -> None:
    proto = model_of([], X, ["y"], {"yes": np.array(True)})
    graph = proto.graph
    for _ in range(40):
        step = graph.node.add(op_type="If", input=["yes"], output=["y"])
        graph = step.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        graph.output.add(name="y")
    refused(proto, "more than 32 deep")
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(GraphError, match="is no ONNX file that can be read"):
        ac.from_onnx(path)


def test_functions_that_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "MAX_NODES", 2000)
    opsets = [helper.make_opsetid("my", 1), helper.make_opsetid("", 17)]
    proto = model_of([node("F0", ["x"], ["y"], domain="my")], X, ["y"])
    proto.opset_import.extend(opsets[:1])
    for n in range(30):
        called = {"domain": "my"} if n < 29 else {}
        name = f"F{n + 1}" if n < 29 else "Identity"
        body = [node(name, ["a"], ["b"], **called), node(name, ["b"], ["c"], **called)]
        proto.functions.append(helper.make_function("my", f"F{n}", ["a"], ["c"], body, opsets))
    refused(proto, "more than 2,000 nodes")


@pytest.mark.parametrize(
    "malformed",
    [
        node("Relu", [], ["y"]),
        node("Add", ["x"], ["y"]),
        node("Conv", ["x"], ["y"]),
        node("Conv", ["x", "x"], ["y"], strides="wide"),
        node("Concat", ["x", "x"], ["y"], axis="first"),
        node("Transpose", ["x"], ["y"], perm=[0, 7]),
        node("Transpose", ["x"], ["y"], perm=3.5),
        node("Reshape", ["x"], ["y"]),
        node("MaxPool", ["x"], ["y"]),
        node("If", ["x"], ["y"]),
        node("Loop", ["x"], ["y"]),
        node("Scan", ["x"], ["y"], num_scan_inputs="many"),
        node("Relu", ["x"], ["z", "y"]),
        node("Constant", [], ["y"]),
        node("", ["x"], ["y"]),
    ],
    ids=lambda one: f"{one.op_type}{list(one.input)}",
)
def test_malformed_nodes_are_named(malformed: onnx.NodeProto) -> None:
    name = malformed.op_type
    refused(model_of([malformed], X, ["y"]), f"^node '|^{name} '|^{name}: ")


def test_names_that_are_no_text_are_refused() -> None:
    data = model_of([node("Relu", ["x"], ["y"])], X, ["y"]).SerializeToString()
    proto = onnx.ModelProto.FromString(data.replace(b"Relu", b"R\xff\xffu"))
    refused(proto, "is no text")
