"""ONNX nodes that run graphs of their own.

Known branches are taken, known loops are unrolled. Of branches that data chooses both are computed,
and one result is taken; they have no effects, and what cannot be computed in one is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.model import OnnxGraph
from ansorc.graph.onnx.node_call import NodeCall, OnnxItem, OnnxSequence
from ansorc.ir.aligned import Array

_SCAN_WITHOUT_BATCHES = 9
MAX_NODE_COPIES = 1000
"""The most copies of nodes of one unrolled loop."""

SubgraphRunner: TypeAlias = "Callable[[OnnxGraph, Sequence[OnnxItem]], list[OnnxItem]]"
"""Adds a graph for values of its inputs, where it sees what is around the node; its outputs."""
FlowConverter: TypeAlias = "Callable[[NodeCall, SubgraphRunner], list[OnnxItem]]"


def _if(call: NodeCall, run: SubgraphRunner) -> list[OnnxItem]:
    branches = [_graph(call, f"{name}_branch") for name in ("then", "else")]
    condition = call.item(0)
    if not isinstance(condition, str):
        is_true = _truth(call, call.require_known(0, "its condition"))
        return run(branches[0 if is_true else 1], [])
    if call.type(0).elements != 1:
        call.refuse(f"its condition has {call.type(0).elements} elements, not one")
    test = call.add("reshape", [condition], shape=())
    with call.builder.under(test):
        first = run(branches[0], [])
    with call.builder.under(call.add("logical_not", [test])):
        second = run(branches[1], [])
    if len(first) != len(second):
        call.refuse(f"its branches have {len(first)} and {len(second)} outputs")
    return [_choose(call, test, a, b) for a, b in zip(first, second, strict=True)]


def _choose(call: NodeCall, test: str, a: OnnxItem, b: OnnxItem) -> OnnxItem:
    """Return the first of two values where the test holds, else the second."""
    if isinstance(a, OnnxSequence) or isinstance(b, OnnxSequence):
        if not (isinstance(a, OnnxSequence) and isinstance(b, OnnxSequence)):
            call.refuse("one of its branches makes a sequence, the other a tensor")
        if len(a.items) != len(b.items):
            call.refuse(f"its branches make sequences of {len(a.items)} and {len(b.items)} tensors")
        pairs = zip(a.items, b.items, strict=True)
        return OnnxSequence(tuple(_choose_tensor(call, test, *pair) for pair in pairs))
    return _choose_tensor(call, test, a, b)


def _choose_tensor(call: NodeCall, test: str, a: Value, b: Value) -> Value:
    if isinstance(a, str) and a == b:
        return a
    first, second = (call.type_of_value(value) for value in (a, b))
    if first != second:
        call.refuse(
            f"its condition depends on the network's input, and its branches make {first} and "
            f"{second}; ansorc has one shape for all inputs: export the model for one of them, or "
            "give the condition by constants={...}"
        )
    are_known = not isinstance(a, str) and not isinstance(b, str)
    if are_known and (not first.elements or np.array_equal(a, b)):
        return a
    names = [value if isinstance(value, str) else call.constant(value) for value in (a, b)]
    return call.add("where", [test, *names])


def _loop(call: NodeCall, run: SubgraphRunner) -> list[OnnxItem]:
    body = _graph(call, "body")
    trips = int(_one(call, call.require_known(0, "its trip count"))) if call.has(0) else None
    goes_on = not call.has(1) or _truth(call, call.require_known(1, "its condition"))
    carried = [call.item(position) for position in range(2, call.count)]
    rows: list[list[OnnxItem]] = []
    copies = _Copies(call, body)
    while goes_on and (trips is None or len(rows) < trips):
        copies.add()
        condition, carried, row = _turn(call, run, body, len(rows), goes_on, carried)
        if isinstance(condition, (str, OnnxSequence)):
            call.refuse(
                "its condition depends on the network's input, so that nobody knows how often it "
                "runs; export the network with a fixed number of runs"
            )
        goes_on = _truth(call, condition)
        rows.append(row)
    if not rows and any(call.node.outputs[len(carried) :]):
        _, _, row = _turn(call, run, body, 0, True, carried)  # what a run would make
        return [*carried, *(_empty_column(call, item) for item in row)]
    return [*carried, *_columns(call, rows, [0] * len(body.outputs), [])]


def _turn(
    call: NodeCall,
    run: SubgraphRunner,
    body: OnnxGraph,
    number: int,
    goes_on: bool,  # noqa: FBT001
    carried: Sequence[OnnxItem],
) -> tuple[OnnxItem, list[OnnxItem], list[OnnxItem]]:
    """Run a loop's body once; return whether it goes on, what it carries, and its other results."""
    results = run(body, [np.array(number, np.int64), np.array(goes_on), *carried])
    if len(results) < 1 + len(carried):
        call.refuse("its body has fewer outputs than it carries on")
    return results[0], results[1 : 1 + len(carried)], results[1 + len(carried) :]


def _empty_column(call: NodeCall, made: OnnxItem) -> Value:
    """Return the collected result of a loop that never runs, from what a run would have made."""
    if isinstance(made, OnnxSequence):
        call.refuse("each of its runs makes a sequence; it may carry one, but not collect them")
    kind = call.type_of_value(made)
    return np.zeros((0, *kind.shape), kind.dtype.numpy)


def _scan(call: NodeCall, run: SubgraphRunner) -> list[OnnxItem]:
    if call.opset < _SCAN_WITHOUT_BATCHES:
        call.refuse(
            f"a Scan before opset {_SCAN_WITHOUT_BATCHES} scans each sequence of a batch; convert "
            "the file by onnx.version_converter"
        )
    body = _graph(call, "body")
    scanned = int(call.attribute("num_scan_inputs", 0))
    states = call.count - scanned
    if scanned < 1 or states < 0:
        call.refuse(f"it has {call.count} inputs, of which {scanned} are scanned")
    carried = [call.item(position) for position in range(states)]
    inputs = range(states, call.count)
    axes = [
        call.axis(axis, call.rank(position))
        for position, axis in zip(inputs, _each(call, "scan_input_axes", scanned), strict=True)
    ]
    backwards = _each(call, "scan_input_directions", scanned)
    trips = {call.type(position).shape[axis] for position, axis in zip(inputs, axes, strict=True)}
    if len(trips) != 1:
        call.refuse(f"it scans inputs of different lengths, {sorted(trips)}")
    (trip,) = trips
    rows: list[list[OnnxItem]] = []
    copies = _Copies(call, body)
    for step in range(trip):
        copies.add()
        slices = [
            _slice(call, position, axis, trip - 1 - step if back else step)
            for position, axis, back in zip(inputs, axes, backwards, strict=True)
        ]
        results = run(body, [*carried, *slices])
        carried, row = results[:states], results[states:]
        rows.append(row)
    made = len(body.outputs) - states
    return [
        *carried,
        *_columns(
            call,
            rows,
            _each(call, "scan_output_axes", made),
            _each(call, "scan_output_directions", made),
        ),
    ]


class _Copies:
    """Counts the copies that a loop makes of its nodes."""

    def __init__(self, call: NodeCall, body: OnnxGraph) -> None:
        self._call = call
        self._nodes = max(1, len(body.nodes))
        self._made = 0

    def add(self) -> None:
        """Count one more; refuse the node when there are too many."""
        self._made += self._nodes
        if self._made > MAX_NODE_COPIES:
            self._call.refuse(
                f"unrolled, it would be more than {MAX_NODE_COPIES} nodes; "
                "export the network with fewer runs of the loop, or with its operators instead"
            )


def _graph(call: NodeCall, name: str) -> OnnxGraph:
    graph = call.attribute(name)
    if not isinstance(graph, OnnxGraph):
        call.refuse(f"its attribute '{name}' is missing, or no graph")
    return graph


def _one(call: NodeCall, value: Array) -> Array:
    if value.size != 1:
        call.refuse(f"one number should say how often it runs, not {value.size}")
    return value.reshape(())


def _truth(call: NodeCall, value: Array) -> bool:
    return bool(_one(call, value))


def _each(call: NodeCall, name: str, count: int) -> list[int]:
    """Return an integer for each of `count` inputs or outputs."""
    numbers = cast("Sequence[int]", call.attribute(name) or [0] * count)
    if len(numbers) != count:
        call.refuse(f"its attribute '{name}' has {len(numbers)} numbers, not {count}")
    return [int(number) for number in numbers]


def _slice(call: NodeCall, position: int, axis: int, step: int) -> Value:
    known = call.value(position)
    if known is not None:
        return np.take(known, step, axis)
    shape = call.type(position).shape
    begin, end = [0] * len(shape), list(shape)
    begin[axis], end[axis] = step, step + 1
    part = call.add("slice", [call.input(position)], begin=begin, end=end)
    return call.add("squeeze", [part], axis=axis)


def _columns(
    call: NodeCall, rows: Sequence[Sequence[OnnxItem]], axes: Sequence[int], back: Sequence[int]
) -> list[Value]:
    """Return what the runs made, joined along a new axis for each output."""
    joined: list[Value] = []
    for position, column in enumerate(zip(*rows, strict=True)):
        values = [_tensor(call, value) for value in column]
        values = values[::-1] if back and back[position] else values
        known = [value for value in values if not isinstance(value, str)]
        if len(known) == len(values):
            joined.append(np.stack(known, axes[position]))
            continue
        names = [value if isinstance(value, str) else call.constant(value) for value in values]
        rank = len(call.builder.type(names[0]).shape) + 1
        joined.append(call.add("stack", names, axis=call.axis(axes[position], rank)))
    return joined


def _tensor(call: NodeCall, made: OnnxItem) -> Value:
    if isinstance(made, OnnxSequence):
        call.refuse("each of its runs makes a sequence; it may carry one, but not collect them")
    return made


def _sequence_map(call: NodeCall, run: SubgraphRunner) -> list[OnnxItem]:
    body, count = _graph(call, "body"), len(call.sequence(0))
    given = [call.item(position) for position in range(call.count)]
    lengths = {len(item.items) for item in given if isinstance(item, OnnxSequence)}
    if lengths != {count}:
        call.refuse(f"its sequences have different lengths, {sorted(lengths)}")
    rows: list[list[OnnxItem]] = []
    copies = _Copies(call, body)
    for n in range(count):
        copies.add()
        rows.append(run(body, [item.items[n] if isinstance(item, OnnxSequence) else item
                               for item in given]))  # fmt: skip
    columns = zip(*rows, strict=True) if rows else [()] * len(body.outputs)
    return [OnnxSequence(tuple(_tensor(call, item) for item in column)) for column in columns]


FLOW: Mapping[str, FlowConverter] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
}
"""The converters of control flow, by the names of the operators."""
