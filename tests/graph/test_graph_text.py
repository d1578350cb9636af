"""Graphs as text: what is printed is read back, and mistakes are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import GraphError, ParseError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph_operator import GraphOperator
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import dtype
from tests.support.nightly import examples

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
NAMES = st.text(st.characters(), min_size=1, max_size=6) | st.sampled_from(
    [
        "x",
        "y1",
        "input",
        "return",
        "graph",
        "constant",
        "a/b:0",
        "# no",
        '"q"',
        "a b",
        "é",
        "sha256",
    ]
)


def any_attributes(*tensors: ac.Tensor, **attributes: Any) -> ac.Tensor:
    (first, *_) = tensors
    assert all(isinstance(name, str) for name in attributes)
    return ac.ops.relu(first)


def test_an_operator_of_an_earlier_version_is_read_under_its_present_name() -> None:
    builder = GraphBuilder("pool")
    data = builder.input("x", TensorType(dtype("float32"), (1, 2, 4, 4)))
    names = builder.add_many(
        "max_pool_with_indices", [data], ("y", "at"), kernel=(2, 2), layout="NCHW"
    )
    text = builder.graph(names).to_text()
    earlier = text.replace("max_pool_with_indices", "max_pool_places")
    assert earlier != text
    assert ac.Graph.from_text(earlier, {}).to_text() == text


@st.composite
def graphs(draw: st.DrawFn) -> ac.Graph:
    """Graphs of one operator that takes any attributes; their names are anything."""
    operator = GraphOperator(draw(NAMES), any_attributes)
    names = iter(draw(st.lists(NAMES, min_size=8, max_size=8, unique=True)))
    builder = GraphBuilder(draw(NAMES))
    kinds = [TensorType(dtype(one), shape) for one, shape in (("float32", (2, 3)), ("int8", ()))]
    known = [builder.input(next(names), kind) for kind in kinds[: draw(st.integers(1, 2))]]
    values: list[Array] = [np.arange(3, dtype=np.int32), np.array(2.5)]
    known += [builder.constant(one, next(names)) for one in values[: draw(st.integers(0, 2))]]
    for _ in range(draw(st.integers(0, 3))):
        builder.source = draw(st.text(st.characters(), max_size=8))
        inputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
        keys = st.from_regex(r"[a-z]{2,5}_", fullmatch=True)
        attributes: dict[str, Any] = draw(st.dictionaries(keys, VALUES, max_size=3))
        known.append(builder.add(operator, inputs, next(names), **attributes))
    return builder.graph(draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)))


@examples(24, nightly=100)
@given(graphs())
def test_what_is_printed_is_read_back(graph: ac.Graph) -> None:
    text = str(graph)
    operators = {one.operator.name: one.operator for one in graph.nodes}
    found = ac.Graph.from_text(text, graph.constants, operators)
    assert found.to_text() == text
    for name in ("name", "inputs", "outputs", "nodes", "types"):
        assert getattr(found, name) == getattr(graph, name)
    assert list(found.constants) == list(graph.constants)


TEXT = """\
graph "my net"
input x: float32[2, 3]
constant w: float32[3] sha256 {digest}
"a/b" = add(x, w)  # Add 'first' (opset 17)
# a comment
y = leaky_relu("a/b") {{"slope": 0.5}}

return y, x
"""
W = np.arange(3, dtype=np.float32)


def written() -> str:
    builder = GraphBuilder("my net")
    x = builder.input("x", TensorType(dtype("float32"), (2, 3)))
    builder.source = "Add 'first' (opset 17)"
    mixed = builder.add("add", [x, builder.constant(W, "w")], "a/b")
    builder.source = ""
    y = builder.add("leaky_relu", [mixed], "y", slope=0.5)
    return builder.graph([y, x]).to_text()


def test_the_text_is_as_documented() -> None:
    digest = written().split("sha256 ")[1].split("\n")[0]
    text = TEXT.format(digest=digest)
    assert (
        "".join(one for one in text.splitlines(keepends=True) if one[0] not in "#\n") == written()
    )
    assert ac.Graph.from_text(text, {"w": W}).to_text() == written()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('graph "my net"', "grap", "line 1: a graph begins with 'graph'.*\n    grap\n    \\^"),
        ("x: float32", "x; float32", "line 2: expected ':'\n    input x;.*\n           \\^"),
        ("float32[2, 3]", "float32<2>", "line 2: expected a type, like"),
        ("float32[2, 3]", "float99[2, 3]", "line 2: .*float99"),
        ("float32[2, 3]", "float32[2 3]", "line 2: "),
        ("constant w", "constant x", "line 3: there are two tensors 'x'"),
        ("sha256 ", "sha256 q", "line 3: expected 16 hexadecimal digits"),
        ("add(x, w)", "add(x, w", "line 4: expected '\\)'"),
        ("add(x, w)", "add(x w)", "line 4: expected '\\)'"),
        ('"a/b" =', '"a/b =', "line 4: expected a name, or a JSON string: "),
        ('{"slope": 0.5}', '{"slope": }', "line 5: expected attributes: .*\n.*\n {36}\\^"),
        ("0.5}", "0.5} again", "line 5: expected the end of the line"),
        ("return y, x\n", "", "line 5: the graph has no line 'return …'"),
        ("return y, x\n", "return y, x\nz = relu(x)", "line 7: nothing may follow"),
    ],
)
def test_mistakes_are_shown(old: str, new: str, words: str) -> None:
    assert old in written()
    with pytest.raises(ParseError, match=words):
        ac.Graph.from_text(written().replace(old, new), {"w": W})


def test_constants_are_checked() -> None:
    with pytest.raises(GraphError, match="values of the constant 'w' are missing"):
        ac.Graph.from_text(written(), {})
    for other in (W + 1, W.astype(np.float64), W[:2]):
        with pytest.raises(GraphError, match="the constant 'w' has other values"):
            ac.Graph.from_text(written(), {"w": other})


def test_nodes_are_checked() -> None:
    with pytest.raises(GraphError, match="no operator 'frobnicate'"):
        ac.Graph.from_text(written().replace("leaky_relu", "frobnicate"), {"w": W})
    with pytest.raises(GraphError, match="reads 'q' before it is computed"):
        ac.Graph.from_text(written().replace("add(x, w)", "add(x, q)"), {"w": W})
