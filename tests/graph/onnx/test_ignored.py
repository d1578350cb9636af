"""No attribute and no input of a node is ignored without a word."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

from ansorc.errors import GraphError
from ansorc.graph.onnx.control_flow import FLOW
from ansorc.graph.onnx.converters import CONVERTERS
from ansorc.graph.onnx.converters.refused import REFUSED
from ansorc.graph.onnx.ignored import WITHOUT_EFFECT
from ansorc.graph.onnx.model import MAX_OPSET, MIN_OPSET
from tests.support.onnx_oracle import node_model, random, run_node

PARTS: dict[str, list[str]] = {
    "BitShift": ["direction"], "ConstantOfShape": ["value"], "If": ["then_branch", "else_branch"],
    "HardSigmoid": ["beta"], "Shrink": ["bias", "lambd"],
    "RoiAlign": ["output_height", "output_width"], "Scan": ["directions"],
    "Attention": ["left_window_size", "right_window_size"],
}  # fmt: skip
"""Attributes whose names are put together, or are parameters of functions; node tests use them.

`directions` is of Scan before opset 9, which is refused.
"""
KNOWN_ALONE = (
    "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", "NonZero", "Range",
    "Unique",
)  # fmt: skip
"""Operators that are folded or refused: what they mean is not said here."""


def converted() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, converter in {**CONVERTERS, **FLOW}.items():
        is_own = "::" not in name and name not in REFUSED and name not in KNOWN_ALONE
        if is_own and name != "SimplifiedLayerNormalization":
            yield name, converter


@cache
def strings_of(module: str) -> frozenset[str]:
    """The texts in a module of converters, and in those that it imports."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    found = {one.value for one in ast.walk(tree) if isinstance(one, ast.Constant)
             and isinstance(one.value, str)}  # fmt: skip
    for one in ast.walk(tree):
        if isinstance(one, ast.ImportFrom) and (one.module or "").startswith(
            "ansorc.graph.onnx.converters."
        ):
            found |= strings_of(str(one.module))
    return frozenset(found)


@pytest.mark.parametrize(
    ("name", "converter"),
    [*converted()],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_converters_name_all_attributes_of_the_schema(name: str, converter: Any) -> None:
    schemas = [
        one
        for one in onnx.defs.get_all_schemas_with_history()
        if (one.name, one.domain) == (name, "")
    ]
    last_old = max((s.since_version for s in schemas if s.since_version <= MIN_OPSET), default=0)
    wanted = {
        attribute
        for one in schemas
        if last_old <= one.since_version <= MAX_OPSET and not one.deprecated
        for attribute in one.attributes
    }
    named = {*strings_of(converter.__module__), *PARTS.get(name, ()), *WITHOUT_EFFECT.get(name, ())}
    assert wanted <= named, f"{name} never reads {sorted(wanted - named)}"


def test_what_may_be_ignored_is_an_attribute_of_the_schema() -> None:
    for name, attributes in WITHOUT_EFFECT.items():
        if "::" not in name:
            histories = [
                one for one in onnx.defs.get_all_schemas_with_history() if one.name == name
            ]
            assert attributes <= {each for one in histories for each in one.attributes}


def test_an_unknown_attribute_is_refused() -> None:
    model = node_model("Relu", [random(2, 3)], slope=0.5)
    with pytest.raises(GraphError, match="ansorc does not know its attribute 'slope'"):
        run_node(*model)


def test_an_input_that_nobody_reads_is_refused() -> None:
    model = node_model("Relu", [random(2, 3), np.ones(3, np.float32)])
    with pytest.raises(GraphError, match=r"ansorc would ignore its input 1 \('x1'\)"):
        run_node(*model)


@pytest.mark.parametrize(
    ("operator", "inputs", "options", "words"),
    [
        ("Conv", [random(1, 1, 4, 4), random(1, 1, 2, 2)], {"kernel_shape": [3, 3]},
         r"its kernel_shape is \[3, 3\], its weights have \[2, 2\]"),
        ("MaxPool", [random(1, 1, 4, 4)], {"kernel_shape": [2, 2], "auto_pad": "SOME"},
         "there is no auto_pad 'SOME'"),
        ("LSTM", [random(2, 1, 3), random(1, 8, 3), random(1, 8, 2)], {"hidden_size": 3},
         "its hidden_size is not 2, as its weights say"),
        ("RoiAlign", [random(1, 1, 4, 4), random(1, 4), np.zeros(1, np.int64)],
         {"coordinate_transformation_mode": "corners"}, "no coordinate_transformation_mode"),
    ],
)  # fmt: skip
def test_attributes_that_contradict_are_refused(
    operator: str, inputs: list[Any], options: dict[str, Any], words: str
) -> None:
    model = node_model(operator, inputs, **options)
    with pytest.raises(GraphError, match=words):
        run_node(*model)
