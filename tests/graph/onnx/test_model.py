"""What ONNX files of the real world are like, and what is refused of them in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.graph_reference import run_reference
from tests.graph.onnx.onnx_models import assert_as_onnx, model_of, node, tensor_info

X = {"x": [2, 3]}
RELU = node("Relu", ["x"], ["y"])
W = np.random.default_rng(1).random((2, 3)).astype(np.float32)


def external(name: str, shape: list[int], kind: int = TensorProto.FLOAT, **entries: Any) -> Any:
    tensor = TensorProto(name=name, dims=shape, data_type=kind)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def with_external(*tensors: Any) -> onnx.ModelProto:
    proto = model_of([node("Add", ["x", "w"], ["y"])], X, ["y"])
    proto.graph.initializer.extend(tensors)
    return proto


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize("opset", [7, 26])
def test_opsets_that_are_known(opset: int) -> None:
    proto = model_of([RELU], X, ["y"], opset=opset)
    assert_as_onnx(ac.from_onnx(proto), proto)


@pytest.mark.parametrize("opset", [6, 27])
def test_opsets_that_are_not(opset: int) -> None:
    with pytest.raises(GraphError, match=f"opset {opset}; 7 to 26 are known: convert it by"):
        ac.from_onnx(model_of([RELU], X, ["y"], opset=opset))


@pytest.mark.parametrize("version", [2, 99])
def test_versions_of_the_format(version: int) -> None:
    proto = model_of([RELU], X, ["y"])
    proto.ir_version = version
    with pytest.raises(GraphError, match=f"version {version} of ONNX's format; 3 to"):
        ac.from_onnx(proto)


def test_a_domain_without_a_version_is_named() -> None:
    proto = model_of([node("Relu", ["x"], ["y"], domain="a.b", name="r")], X, ["y"])
    with pytest.raises(GraphError, match=r"of 'a\.b' are, as of a\.b::Relu 'r'"):
        ac.from_onnx(proto)


def test_onnx_has_two_names_for_its_domain() -> None:
    proto = model_of([node("Relu", ["x"], ["y"], domain="ai.onnx")], X, ["y"])
    assert ac.from_onnx(proto).outputs == ("y",)


def test_an_initializer_may_be_an_input_too() -> None:
    proto = model_of([node("Add", ["x", "w"], ["y"])], {**X, "w": [2, 3]}, ["y"], {"w": W})
    graph = ac.from_onnx(proto)
    assert list(graph.inputs) == ["x"]
    assert list(graph.constants) == ["w"]
    assert_as_onnx(graph, proto)


def test_a_weight_is_one_constant_for_all_its_readers() -> None:
    nodes = [node("Add", ["x", "w"], ["a"]), node("Mul", ["a", "w"], ["y"])]
    proto = model_of(nodes, X, ["y"], {"w": W})
    graph = ac.from_onnx(proto)
    assert list(graph.constants) == ["w"]
    assert_as_onnx(graph, proto)


def test_weights_in_other_files_are_mapped(tmp_path: Path) -> None:
    other = np.arange(3, dtype=np.float32)
    (tmp_path / "a.bin").write_bytes(b"\0" * 64 + W.tobytes())
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.bin").write_bytes(other.tobytes())
    proto = with_external(
        external("w", [2, 3], location="a.bin", offset=64, length=24),
        external("v", [3], location="sub/b.bin"),
    )
    proto.graph.node.extend([node("Mul", ["y", "v"], ["z"])])
    proto.graph.output.extend([tensor_info("z", None)])
    graph = ac.from_onnx(saved(proto, tmp_path))
    assert list(graph.constants) == ["w", "v"]
    assert not graph.constants["w"].flags.owndata
    owner: Any = graph.constants["w"]
    while not isinstance(owner, np.memmap):
        owner = owner.base
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(run_reference(graph, {"x": x})["z"], (1 + W) * other, rtol=1e-6)


def test_weights_at_odd_places_are_copied(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0" + W.tobytes())
    graph = ac.from_onnx(
        saved(with_external(external("w", [2, 3], location="a.bin", offset=1)), tmp_path)
    )
    np.testing.assert_array_equal(graph.constants["w"], W)


def test_a_file_of_more_than_2_gib_is_mapped(tmp_path: Path) -> None:
    with (tmp_path / "a.bin").open("wb") as file:  # sparse: it takes no space
        file.seek(3 * 2**30)
        file.write(W.tobytes())
    proto = with_external(external("w", [2, 3], location="a.bin", offset=3 * 2**30))
    np.testing.assert_array_equal(ac.from_onnx(saved(proto, tmp_path)).constants["w"], W)


def test_a_model_of_more_than_2_gib_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(GraphError, match=r"more than 2 GiB.*as external data"):
        ac.from_onnx(path)


def test_a_model_in_memory_does_not_lead_to_files() -> None:
    with pytest.raises(GraphError, match=r"lie in a file, 'a\.bin', that a model in memory"):
        ac.from_onnx(with_external(external("w", [2, 3], location="a.bin")))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"location": "no.bin"}, "there is no file"),
        ({"location": "."}, "there is no file"),
        ({"location": ""}, "there is no file"),
        ({"location": "../out.bin"}, "outside the folder of the model"),
        ({"location": "link.bin"}, "outside the folder of the model"),
        ({"location": "{root}/out.bin"}, "outside the folder of the model"),
        ({"location": "{root}/in/a.bin"}, "outside the folder of the model"),
        ({"location": "a.bin", "offset": 8}, "has the bytes 8 to 32 of 'a.bin', which has 24"),
        ({"location": "a.bin", "offset": -8}, "offset .* is '-8', no such number"),
        ({"location": "a.bin", "offset": "9" * 30}, "no such number"),
        ({"location": "a.bin", "length": 20}, "has 24 bytes, but 20"),
        ({"location": "empty.bin"}, "which has 0"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, entries: dict[str, Any], words: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.bin").write_bytes(W.tobytes())
    (folder / "empty.bin").touch()
    (tmp_path / "out.bin").write_bytes(W.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "out.bin")
    given: dict[str, Any] = {
        key: str(value).replace("{root}", str(tmp_path)) for key, value in entries.items()
    }
    path = saved(with_external(external("w", [2, 3], **given)), folder)
    with pytest.raises(GraphError, match=words):
        ac.from_onnx(path)


def test_functions_of_a_model_are_inlined() -> None:
    scaled = helper.make_function(
        "my", "Scaled", ["a", "b"], ["c"],
        [
            node("Constant", [], ["k"], value_float=2.0),
            node("Mul", ["a", "k"], ["d"]),
            _with_reference(node("LeakyRelu", ["d"], ["e"]), "alpha", "slope"),
            node("Add", ["e", "b"], ["c"]),
        ],
        [helper.make_opsetid("", 18)], ["slope"],
    )  # fmt: skip
    twice = helper.make_function(
        "my", "Twice", ["a"], ["c"],
        [
            node("Scaled", ["a", "a"], ["d"], domain="my", slope=0.5),
            node("Scaled", ["d", "a"], ["c"], domain="my", slope=0.25),
        ],
        [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)],
    )  # fmt: skip
    nodes = [node("Sub", ["x", "w"], ["d"]), node("Twice", ["d"], ["y"], domain="my")]
    proto = model_of(nodes, X, ["y"], {"w": W})
    proto.opset_import.extend([helper.make_opsetid("my", 1)])
    proto.functions.extend([scaled, twice])
    graph = ac.from_onnx(proto)
    slopes = [dict(n.attributes)["slope"] for n in graph.nodes if n.attributes]
    assert slopes == [0.5, 0.25]
    x = np.random.default_rng(0).random((2, 3)).astype(np.float32)
    d = 2 * (x - W)
    d = np.where(d < 0, 0.5 * d, d) + (x - W)
    expected = np.where(d < 0, 0.25 * 2 * d, 2 * d) + (x - W)
    np.testing.assert_allclose(run_reference(graph, {"x": x})["y"], expected, rtol=1e-5)


def _with_reference(proto: onnx.NodeProto, name: str, parameter: str) -> onnx.NodeProto:
    one = proto.attribute.add(name=name, ref_attr_name=parameter)
    one.type = onnx.AttributeProto.FLOAT
    return proto


@pytest.mark.parametrize("calls", [1, 2])
def test_functions_that_call_themselves_are_refused(calls: int) -> None:
    opsets = [helper.make_opsetid("my", 1), helper.make_opsetid("", 17)]
    body = [node("F", ["a"], [f"c{n}"], domain="my") for n in range(calls)]
    body.append(node("Add", ["c0", f"c{calls - 1}"], ["c"]))
    function = helper.make_function("my", "F", ["a"], ["c"], body, opsets)
    proto = model_of([node("F", ["x"], ["y"], domain="my")], X, ["y"])
    proto.opset_import.extend(opsets[:1])
    proto.functions.append(function)
    with pytest.raises(GraphError, match="more than 32 deep"):
        ac.from_onnx(proto)


def test_sparse_weights_are_refused() -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [2])
    proto = model_of([node("Add", ["x", "w"], ["y"])], X, ["y"])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    with pytest.raises(GraphError, match="initializer 'w' is sparse; store it as a dense one"):
        ac.from_onnx(proto)


def test_text_is_refused_unless_it_is_folded() -> None:
    words = numpy_helper.from_array(np.array(["a", "b"], object), "s")
    nodes = [node("Shape", ["s"], ["n"]), node("Cast", ["n"], ["f"], to=TensorProto.FLOAT)]
    proto = model_of([*nodes, node("Add", ["x", "f"], ["y"])], X, ["y"])
    proto.graph.initializer.append(words)
    assert_as_onnx(ac.from_onnx(proto), proto)
    proto = model_of([node("Add", ["x", "s"], ["y"])], X, ["y"])
    proto.graph.initializer.append(words)
    with pytest.raises(GraphError, match=r"Add 'y'.*'s' holds text; ansorc has numbers"):
        ac.from_onnx(proto)


def test_inputs_of_text_and_sequences_are_refused() -> None:
    proto = model_of([node("Identity", ["x"], ["y"])], X, ["y"])
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    with pytest.raises(GraphError, match="the input 'x': it holds text"):
        ac.from_onnx(proto)
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    for outer in (helper.make_sequence_type_proto, helper.make_optional_type_proto):
        proto.graph.input[0].type.CopyFrom(outer(kind))
        with pytest.raises(GraphError, match="the input 'x' is no tensor"):
            ac.from_onnx(proto)


def test_names_are_the_files_own() -> None:
    nodes = [
        node("Relu", ["in/x:0"], ["layer.1/out put"]),
        node("Identity", ["layer.1/out put"], ["relu_1"]),
        node("Identity", ["in/x:0"], ["same"]),
        node("Identity", ["w"], ["weight"]),
    ]
    outputs = ["layer.1/out put", "relu_1", "in/x:0", "same", "w", "weight"]
    proto = model_of(nodes, {"in/x:0": [2, 3]}, outputs, {"w": W})
    graph = ac.from_onnx(proto)
    assert list(graph.outputs) == outputs
    assert_as_onnx(graph, proto)


def test_nodes_may_come_in_any_order_and_be_of_no_use() -> None:
    nodes = [
        node("Mul", ["b", "a"], ["y"]),
        node("Frobnicate", ["a"], ["unused"]),
        node("Add", ["a", "x"], ["b"]),
        node("Relu", ["x"], ["a"]),
    ]
    proto = model_of(nodes, X, ["y"])
    graph = ac.from_onnx(proto)
    assert [str(one.operator) for one in graph.nodes] == ["relu", "add", "multiply"]
    del proto.graph.node[1]
    proto.graph.node.sort(key=lambda one: -"yba".index(one.output[0]))
    assert_as_onnx(graph, proto)


@pytest.mark.parametrize(
    ("nodes", "outputs", "words"),
    [
        ([RELU, RELU], ["y"], "computes 'y', which is the name of an output of another"),
        ([node("Relu", ["x"], ["x"])], ["x"], "the name of an input or an initializer, too"),
        ([RELU], ["y", "y"], "two outputs of 'net' are called 'y'"),
        ([RELU], ["z"], "nothing computes the output 'z' of 'net'"),
        ([RELU], [], "its graph has no outputs"),
        ([node("Relu", ["q"], ["y"])], ["y"], "reads 'q', which nothing computes"),
        ([node("Add", ["x", "y"], ["y"])], ["y"], "depends on its own output: .* a cycle"),
        (
            [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), RELU],
            ["y", "b"],
            "Add 'a' .*depends on its own output",
        ),
    ],
)
def test_graphs_without_meaning(nodes: list[Any], outputs: list[str], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        ac.from_onnx(model_of(nodes, X, outputs))


def test_inputs_that_are_always_the_same() -> None:
    proto = model_of([node("Add", ["x", "w"], ["y"])], {**X, "w": ["n", 3]}, ["y", "w"])
    graph = ac.from_onnx(proto, constants={"w": W.astype(np.float64).tolist()})
    assert list(graph.inputs) == ["x"]
    assert_as_onnx(graph, proto, w=W)
    with pytest.raises(GraphError, match="the input 'w' is"):
        ac.from_onnx(proto, constants={"w": W[:, :2]})
    with pytest.raises(GraphError, match="the values of the input 'w'"):
        ac.from_onnx(proto, constants={"w": "many"})


def test_shapes_are_integers() -> None:
    proto = model_of([RELU], {"x": ["n", 3]}, ["y"])
    shape: Any = (2.5, 3)
    with pytest.raises(GraphError, match=r"the shape of the input 'x' is \(2.5, 3\)"):
        ac.from_onnx(proto, inputs={"x": shape})


def test_floats_of_16_bits_are_computed_in_32() -> None:
    proto = model_of([node("Add", ["x", "w"], ["y"])], X, ["y", "x"], {"w": W.astype(np.float16)})
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    graph = ac.from_onnx(proto)
    assert [str(graph.types[name].dtype) for name in graph.outputs] == ["float32", "float16"]
