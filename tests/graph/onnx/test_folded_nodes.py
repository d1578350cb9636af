"""A node of constants gives what it gives for inputs: random nodes of every operator of ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.onnx.converters import CONVERTERS
from ansorc.graph.onnx.converters.sequences import SEQUENCES
from ansorc.graph.onnx.importer import from_onnx
from ansorc.ir.aligned import Array
from tests.graph.onnx.node_case import NodeCase
from tests.graph.onnx.onnx_peer import run_onnx_runtime
from tests.graph.onnx.random_nodes import CASES, RandomNode, random_node

NOT_DRAWN = (
    "Bernoulli", "BitCast", "ImageDecoder", "MelWeightMatrix", "Multinomial", "NonMaxSuppression",
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
    "SimplifiedLayerNormalization", "TfIdfVectorizer",
)  # fmt: skip
"""Random, refused, or not one of ONNX's own."""


def test_every_operator_is_drawn() -> None:
    own = {name for name in CONVERTERS if "::" not in name and name not in SEQUENCES}
    assert own - set(CASES) == set(NOT_DRAWN)
    assert set(CASES) <= set(CONVERTERS)


@pytest.mark.parametrize("operator", CASES)
def test_constants_give_what_inputs_would(operator: str) -> None:
    assert_folded_as_run(random_node(operator, 0))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("operator", CASES)
def test_many_constants_give_what_inputs_would(operator: str) -> None:
    """67 of each of 182 operators: more than 10,000."""
    assert 67 * len(CASES) >= 10_000
    for seed in range(100, 167):
        node = random_node(operator, seed)
        folded = assert_folded_as_run(node, is_built=seed % 8 == 0)
        if folded is not None and node.case.has_peer:
            assert_as_onnx_runtime(node, folded)


def assert_folded_as_run(node: RandomNode, *, is_built: bool = False) -> list[Array] | None:
    """Hold a node of constants against the same node of inputs; None where both are refused."""
    where = described(node)
    model, _ = node.model(folded=True)
    found = run_graph(node)
    if isinstance(found, GraphError):
        assert "malformed" not in str(found), where
        with pytest.raises(GraphError):
            from_onnx(model)
        return None
    graph, given = found
    folded = from_onnx(model)
    assert not folded.nodes, where
    values = [folded.constants[name] for name in folded.outputs]
    run = run_reference(graph, given, None)
    assert_close(values, [run[name] for name in graph.outputs], node.case, where)
    if is_built:
        built = ac.build(graph).run(given)
        assert_close(values, [built[name] for name in graph.outputs], node.case, f"{where}, built")
    return values


def run_graph(node: RandomNode) -> tuple[ac.Graph, dict[str, Array]] | GraphError:
    """Return the graph of a node of inputs, and these; or why it is refused."""
    model, inputs = node.model(folded=False)
    try:
        graph = from_onnx(model)
    except GraphError as error:
        return error
    return graph, {name: inputs[name] for name in graph.inputs}


NOT_THERE = ("NOT_IMPLEMENTED", "not implemented", "opset", "not supported", "must be non-negative")
"""What ONNX Runtime says of what it does not have."""


def assert_as_onnx_runtime(node: RandomNode, values: Sequence[Array]) -> None:
    """Hold the values of a node against ONNX Runtime, if that has the operator."""
    model, _ = node.model(folded=False)
    try:
        theirs = run_onnx_runtime(model, node.model(folded=False)[1])
    except Exception as error:
        if any(words in str(error) for words in NOT_THERE):
            return
        raise
    assert_close(values, theirs, node.case, f"{described(node)}, beside ONNX Runtime")


def described(node: RandomNode) -> str:
    shapes = [None if one is None else f"{one.dtype}{list(one.shape)}" for one in node.case.inputs]
    return f"{node.operator} of opset {node.opset} {dict(node.case.attributes)} of {shapes}"


def assert_close(
    found: Sequence[Array], wanted: Sequence[Array], case: NodeCase, where: str
) -> None:
    assert len(found) == len(wanted), where
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape, where
        assert one.dtype == other.dtype, where
        if one.dtype.kind in "iu" and case.steps:
            difference = np.abs(one.astype(np.int64) - other.astype(np.int64))
            assert difference.max(initial=0) <= case.steps, where
        elif one.dtype.kind != "f":
            np.testing.assert_array_equal(one, other, err_msg=where)
        else:
            size = float(np.abs(other[np.isfinite(other)]).max(initial=1.0))
            np.testing.assert_allclose(
                one, other, rtol=case.tolerance, atol=case.tolerance * min(size, 1e6), err_msg=where
            )
