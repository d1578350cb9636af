"""The node tests of the package `onnx`: what is imported and computed right, wrong, or refused.

`python -m bench onnx_nodes` prints the counts. A test qualifies unless `disqualified` says why not.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ansorc.codegen.call.network_module import link_network
from ansorc.errors import AnsorcError
from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.network_plan import compile_kernel, plan_networks
from ansorc.graph.onnx.importer import from_onnx
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import SCALARS
from ansorc.search.programs import default_program

RIGHT, WRONG, REFUSED = "right", "wrong", "refused"
MAX_OPSET = 26
BUILT_UNITS = 8
"""Of the last place of the largest number, by which machine code may differ; else 1, for what is
expected is rounded, too."""
_OF_NETWORKS = """
Add And ArgMax ArgMin AveragePool BatchNormalization Cast Ceil Clip Concat Constant
ConstantOfShape Conv ConvTranspose Cos CumSum DepthToSpace Div Dropout Einsum Elu Equal Erf Exp
Expand Flatten Floor Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool
Greater GreaterOrEqual GroupNormalization GRU HardSigmoid HardSwish Identity
InstanceNormalization IsInf IsNaN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
LRN LSTM MatMul Max MaxPool Mean Min Mish Mod Mul Neg Not OneHot Or Pad Pow PRelu Range
Reciprocal ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape Resize
Round ScatterElements ScatterND Selu Shape Sigmoid Sign Sin Size Slice Softmax Softplus Softsign
SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh Tile TopK Transpose Trilu Unsqueeze Where Xor
"""
NETWORK_OPERATORS = frozenset(_OF_NETWORKS.split())
"""What the exporters of PyTorch make of the networks in torchvision and transformers."""

AS_USERS_REFERENCES = (
    "test_maxunpool_export_with_output_shape",
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
)
"""Tests of what PyTorch and ONNX Runtime agree to compute otherwise (docs/decisions/0119)."""

_GIVE_CONSTANT = re.compile(r"constants=\{'([^']*)'")
_TRIES = 8


@dataclass(frozen=True)
class NodeTest:
    """One test: a model, its inputs by name, and what comes out."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    outputs: Sequence[Array]
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        """The operator that is tested; an expanded one is named by its test."""
        nodes = self.model.graph.node
        is_alone = len(nodes) == 1
        return nodes[0].op_type if is_alone else "a function's body"


@dataclass(frozen=True)
class Outcome:
    """What became of one test."""

    name: str
    operator: str
    verdict: str
    words: str = ""
    is_folded: bool = False
    """No input was left: the shapes needed the values of all of them."""


def node_tests(modules: Sequence[str] = ()) -> list[Any]:
    """Return the node tests of `onnx`; of some modules of onnx.backend.test.case.node if named.

    They are made when a module is imported, so that all of them take many seconds.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not modules:
            loader: Any = import_module("onnx.backend.test.loader")
            return list(loader.load_model_tests(kind="node"))
        node: Any = import_module("onnx.backend.test.case.node")
        for module in modules:
            import_module(f"onnx.backend.test.case.node.{module}")
        return list(node._NodeTestCases)


def disqualified(test: Any) -> str:
    """Return why ansorc is not asked about a test, "" if it is."""
    if test.name in AS_USERS_REFERENCES:
        return "another meaning in PyTorch and ONNX Runtime"
    model: onnx.ModelProto = test.model
    for one in (*model.graph.input, *model.graph.output):
        kind = one.type.WhichOneof("value")
        if kind != "tensor_type":
            return f"a {(kind or 'value of no type').removesuffix('_type')}, no tensor"
        if (name := _dtype_name(one.type.tensor_type.elem_type)) not in SCALARS:
            return f"elements of {name}"
    for opset in model.opset_import:
        if opset.domain not in ("", "ai.onnx"):
            return f"operators of {opset.domain}"
        if opset.version > MAX_OPSET:
            return f"an opset after {MAX_OPSET}"
    for node in _all_nodes(model.graph):
        if node.op_type in ("Loop", "Scan", "SequenceMap"):
            return f"a subgraph ({node.op_type})"
    return ""


def node_test(test: Any) -> NodeTest:
    """Return a test of `onnx` as a plain value."""
    ((given, expected),) = test.data_sets
    names = [one.name for one in test.model.graph.input]
    return NodeTest(
        str(test.name),
        test.model,
        {name: _array(value) for name, value in zip(names, given, strict=True)},
        [_array(value) for value in expected],
        float(test.rtol),
        float(test.atol),
    )


def outcome(test: NodeTest, *, is_built: bool = False) -> Outcome:
    """Import, run and compare one test, in float64 or as machine code without any tuning."""
    try:
        graph, constants = _imported(test)
    except AnsorcError as error:
        return Outcome(test.name, test.operator, REFUSED, str(error))
    except Exception as error:  # noqa: BLE001 - a crash is what the report is for
        return Outcome(test.name, test.operator, WRONG, f"{type(error).__name__}: {error}")
    is_compiled = is_built and bool(graph.nodes)
    try:
        inputs = {name: test.inputs[name] for name in graph.inputs}
        found = _run_built(graph, inputs) if is_compiled else run_reference(graph, inputs)
        words = _difference(test, graph, found, BUILT_UNITS if is_compiled else 1)
        if words and not is_compiled:  # what float64 rounds to another integer than float32
            found = run_reference(graph, inputs, np.float32)
            words = _difference(test, graph, found, 1)
    except Exception as error:  # noqa: BLE001 - what is imported must run
        return Outcome(test.name, test.operator, WRONG, f"{type(error).__name__}: {error}")
    is_folded = bool(constants) and not graph.inputs
    return Outcome(test.name, test.operator, WRONG if words else RIGHT, words, is_folded)


def outcomes(
    tests: Iterable[NodeTest], processes: int, *, is_built: bool = False
) -> Iterator[Outcome]:
    """Return the outcome of each test, in any order."""
    run_one = partial(outcome, is_built=is_built)
    if processes < 2:
        yield from map(run_one, tests)
        return
    with get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(run_one, tests, chunksize=16)


def print_report(found: Sequence[Outcome], left_out: Mapping[str, int]) -> None:
    """Print what was asked, the counts, all that is wrong, and the refusals by operator."""
    total = len(found) + sum(left_out.values())
    print(f"{total} tests, {len(found)} of them qualify; not those with")
    for reason, count in sorted(left_out.items(), key=lambda pair: -pair[1]):
        print(f"  {count:4}  {reason}")
    print(f"all:             {counts_text(found)}")
    own = [one for one in found if one.operator in NETWORK_OPERATORS]
    print(f"of networks:     {counts_text(own)}")
    folded = [one for one in found if one.is_folded and one.verdict == RIGHT]
    print(f"{len(folded)} of the right ones were computed at import, their inputs being shapes")
    for one in found:
        if one.verdict == WRONG:
            print(f"WRONG {one.name} ({one.operator}): {one.words}")
    refusals: defaultdict[str, list[Outcome]] = defaultdict(list)
    for one in found:
        if one.verdict == REFUSED:
            refusals[one.operator].append(one)
    for operator, group in sorted(refusals.items()):
        print(f"refused: {operator}, {len(group)} tests")
        for one in group:
            print(f"    {one.name}: {one.words}")


def counts_text(found: Sequence[Outcome]) -> str:
    """Return how many are right, wrong and refused."""
    counts = Counter(one.verdict for one in found)
    return ", ".join(f"{counts[word]} {word}" for word in (RIGHT, WRONG, REFUSED))


def run(pattern: str, processes: int, *, is_built: bool = False) -> list[Outcome]:
    """Run the tests whose names have `pattern` in them, print the report and return it."""
    tests: list[NodeTest] = []
    left_out = Counter[str]()
    for test in node_tests():
        if re.search(pattern, test.name):
            reason = disqualified(test)
            left_out[reason] += 1
            if not reason:
                tests.append(node_test(test))
    del left_out[""]
    found = sorted(outcomes(tests, processes, is_built=is_built), key=lambda one: one.name)
    print_report(found, left_out)
    sys.stdout.flush()
    return found


def _imported(test: NodeTest) -> tuple[Graph, Mapping[str, Array]]:
    """Return the network, with those inputs constant that shapes are made of."""
    shapes = {name: array.shape for name, array in test.inputs.items()}
    constants: dict[str, Array] = {}
    for _ in range(_TRIES):
        free = {name: shape for name, shape in shapes.items() if name not in constants}
        try:
            return from_onnx(test.model, free, constants), constants
        except AnsorcError as error:
            asked = _GIVE_CONSTANT.search(str(error))
            needed = _sources(test.model.graph, asked[1]) if asked else set[str]()
            if not needed - constants.keys():
                raise
            constants |= {name: test.inputs[name] for name in needed}
    raise AssertionError("each try gives one input more")


def _sources(graph: onnx.GraphProto, name: str) -> set[str]:
    """Return the inputs that a tensor is computed from."""
    inputs = {one.name for one in graph.input}
    found, seen, left = set[str](), set[str](), [name]
    nodes = list(_all_nodes(graph))
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        if one in inputs:
            found.add(one)
        left += [source for node in nodes if one in node.output for source in node.input]
    return found


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of all branches in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)


def _run_built(graph: Graph, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return the outputs that machine code gives, each kernel by the untuned default."""
    network = Network.of(graph)
    kernels = {
        key: compile_kernel(task, default_program(task), f"kernel{number}")
        for number, (key, task) in enumerate(network.tasks.items())
    }
    module = link_network(plan_networks({"net": network}, kernels)[0], network.target)
    return module.run({name: array.copy(order="C") for name, array in inputs.items()})


def _difference(test: NodeTest, graph: Graph, found: Mapping[str, Array], units: int) -> str:
    """Return how results differ from what is expected, "" if they do not.

    They may by some `units` of the last place of the largest number, too.
    """
    if len(found) != len(test.outputs):
        return f"{len(found)} outputs, not {len(test.outputs)}"
    for name, theirs in zip(graph.outputs, test.outputs, strict=True):
        mine = found[name]
        kind = graph.types[name].dtype
        if kind.numpy != theirs.dtype:
            return f"'{name}' is {kind}, not {theirs.dtype}"
        if mine.shape != theirs.shape:
            return f"'{name}' has shape {mine.shape}, not {theirs.shape}"
        rtol = max(test.rtol, 4 * kind.epsilon) if kind.is_float else 0.0
        with np.errstate(all="ignore"):
            rounded = mine.astype(theirs.dtype)
        wide = np.float64 if kind.is_float else theirs.dtype
        sizes = np.abs(theirs.astype(np.float64))
        scale = float(sizes[np.isfinite(sizes)].max(initial=0.0))
        atol = max(test.atol, units * kind.epsilon * scale) if kind.is_float else 0.0
        try:
            np.testing.assert_allclose(
                rounded.astype(wide), theirs.astype(wide), rtol=rtol, atol=atol
            )
        except AssertionError as error:
            return f"'{name}': {' '.join(str(error).split())[:400]}"
    return ""


def _array(value: Any) -> Array:
    return (
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    )


def _dtype_name(element: int) -> str:
    try:
        return str(helper.tensor_dtype_to_np_dtype(element).name)
    except KeyError:
        return "no known type"
