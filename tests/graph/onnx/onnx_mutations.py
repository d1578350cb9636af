"""Import seeded mutations of small ONNX models; print those that are neither graph nor refused.

Run as `python -m tests.graph.onnx.onnx_mutations BEGIN END` in a process of its own, whose memory
it limits.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import helper

import ansorc as ac
from ansorc.errors import AnsorcError
from tests.graph.onnx.onnx_models import bare_graph, model_of, node

MAX_SECONDS = 2.0
MAX_MORE_BYTES = 2**30
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    7,
    13,
    255,
    2**31 - 1,
    2**31,
    -(2**31),
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
]
FLOATS = [0.0, -1.0, 1e9, 1e38, float("nan"), float("inf")]


def convolutions() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    nodes = [
        node(
            "Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2], kernel_shape=[3, 3]
        ),
        node("BatchNormalization", ["c", "g", "g", "g", "g"], ["n"], epsilon=1e-3),
        node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER"),
        node("GlobalAveragePool", ["p"], ["q"]),
        node("Flatten", ["q"], ["f"], axis=1),
        node("Gemm", ["f", "m", "o"], ["y"], transB=1, alpha=0.5),
    ]
    shapes = {"w": (4, 3, 3, 3), "b": (4,), "g": (4,), "m": (5, 4), "o": (5,)}
    weights = {name: rng.random(shape).astype(np.float32) for name, shape in shapes.items()}
    return model_of(nodes, {"x": [1, 3, 8, 8]}, ["y"], weights)


def shapes() -> onnx.ModelProto:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Constant", [], ["rest"], value_ints=[-1]),
        node("Concat", ["n", "rest"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["flat"]),
        node(
            "ConstantOfShape",
            ["t2"],
            ["ones"],
            value=onnx.numpy_helper.from_array(np.ones(1, np.float32)),
        ),
        node("Range", ["start", "limit", "delta"], ["line"]),
        node("Cast", ["line"], ["row"], to=1),
        node("Tile", ["row", "times"], ["tiled"]),
        node("Expand", ["tiled", "t2"], ["wide"]),
        node("Mul", ["wide", "ones"], ["factors"]),
        node("Add", ["flat", "factors"], ["sum"]),
        node("Transpose", ["sum"], ["y"], perm=[1, 0]),
    ]
    weights = {
        "zero": np.array([0]), "t2": np.array([2, 12]), "start": np.array(0),
        "limit": np.array(6), "delta": np.array(1), "times": np.array([2]),
    }  # fmt: skip
    return model_of(nodes, {"x": [2, 4, 3]}, ["y"], weights)


def control_flow() -> onnx.ModelProto:
    then = bare_graph([node("Add", ["x", "w"], ["t"])], [], ["t"])
    other = bare_graph([node("Sub", ["x", "w"], ["t"])], [], ["t"])
    steps = [node("Identity", ["c"], ["d"]), node("Mul", ["v", "w"], ["m"])]
    body = bare_graph([*steps, node("Relu", ["m"], ["row"])], ["i", "c", "v"], ["d", "m", "row"])
    scanned = bare_graph(
        [node("Add", ["state", "part"], ["next"]), node("Tanh", ["next"], ["made"])],
        ["state", "part"], ["next", "made"],
    )  # fmt: skip
    nodes = [
        node("If", ["yes"], ["a"], then_branch=then, else_branch=other),
        node("Loop", ["count", "yes", "a"], ["b", "rows"], body=body),
        node("Scan", ["w", "rows2"], ["last", "y"], body=scanned, num_scan_inputs=1),
        node("Twice", ["b"], ["rows2"], domain="my", slope=0.5),
    ]
    weights = {"yes": np.array(True), "count": np.array(3), "w": np.arange(3, dtype=np.float32)}
    proto = model_of(nodes, {"x": [2, 3]}, ["y", "rows"], weights)
    leaky = node("LeakyRelu", ["p"], ["q"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    opsets = [helper.make_opsetid("", 17)]
    proto.functions.append(
        helper.make_function("my", "Twice", ["p"], ["q"], [leaky], opsets, ["slope"])
    )
    proto.opset_import.append(helper.make_opsetid("my", 1))
    return proto


MODELS = [convolutions, shapes, control_flow]


def mutation(seed: int) -> onnx.ModelProto | bytes:
    """A model that was changed in one to three places, or what is left of its file."""
    rng = Random(seed)
    proto = MODELS[seed % len(MODELS)]()
    data = bytearray(proto.SerializeToString())
    match rng.choice(["bytes", "truncated", "fields", "fields", "fields"]):
        case "bytes":
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(data)
        case "truncated":
            return bytes(data[: rng.randrange(len(data))])
        case _:
            for _ in range(rng.choice([1, 1, 2])):
                change_field(rng, proto)
            return proto


def change_field(rng: Random, proto: Message) -> None:
    """Change one field of one message somewhere in `proto`."""
    messages = list(all_messages(proto))
    kinds = sorted({type(one).__name__ for one in messages})
    kind = rng.choice(kinds)  # a model has few nodes, and many dimensions
    message = rng.choice([one for one in messages if type(one).__name__ == kind])
    fields = [pair for pair in message.ListFields() if pair[0].name != "doc_string"]
    if not fields:
        return
    field, value = rng.choice(fields)
    if field.is_repeated:
        change_list(rng, field, value, messages)
    elif field.message_type is not None:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, other_value(rng, field, value, messages))


def change_list(rng: Random, field: Any, values: Any, messages: list[Any]) -> None:
    place = rng.randrange(len(values))
    match rng.choice(["delete", "repeat", "change"]):
        case "delete":
            del values[place]
        case "repeat":
            values.append(values[place])
        case _ if field.message_type is None:
            values[place] = other_value(rng, field, values[place], messages)
        case _:
            same = [one for one in messages if isinstance(one, type(values[place]))]
            values[place].CopyFrom(deepcopy(rng.choice(same)))


def other_value(rng: Random, field: Any, value: Any, messages: list[Any]) -> Any:
    if field.enum_type is not None:
        return rng.choice([one.number for one in field.enum_type.values])
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        names = [
            one.name for one in messages if isinstance(one, (onnx.ValueInfoProto, onnx.TensorProto))
        ]
        found = rng.choice(
            ["", "?", value[: len(value) // 2], value + value, rng.choice(["x", *names])]
        )
        if isinstance(value, bytes):
            return found if isinstance(found, bytes) else found.encode()
        return found
    if isinstance(value, float):
        return rng.choice(FLOATS)
    limit = 2**31 if field.cpp_type == FieldDescriptor.CPPTYPE_INT32 else 2**63
    return rng.choice([one for one in NUMBERS if -limit <= one < limit])


def all_messages(proto: Message) -> Iterator[Any]:
    yield proto
    for field, value in proto.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                yield from all_messages(one)


def outcome(seed: int, path: Path) -> str:
    """What became of a mutation: "graph", "refused", or why that is wrong."""
    changed = mutation(seed)
    start = time.process_time()
    try:
        if isinstance(changed, bytes):
            path.write_bytes(changed)
        graph = ac.from_onnx(path if isinstance(changed, bytes) else changed)
        assert set(graph.outputs) <= set(graph.types)
        found = "graph"
    except AnsorcError as error:
        found = "refused" if str(error) else "refused without words"
    except Exception as error:  # noqa: BLE001 - this is what must not happen
        found = f"{type(error).__name__}: {error}"
    took = time.process_time() - start
    return found if took <= MAX_SECONDS else f"{took:.1f} s of computing, {found}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("begin", type=int)
    parser.add_argument("end", type=int)
    given = parser.parse_args()
    ac.from_onnx(convolutions())  # all that is imported and cached comes before the limit
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = now + MAX_MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        found = {seed: outcome(seed, path) for seed in range(given.begin, given.end)}
    wrong = {seed: words for seed, words in found.items() if words not in ("graph", "refused")}
    graphs = sum(words == "graph" for words in found.values())
    print(json.dumps({"wrong": wrong, "graphs": graphs, "all": len(found)}))  # noqa: T201


if __name__ == "__main__":
    main()
