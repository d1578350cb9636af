"""ONNX nodes that run graphs of their own: known branches are taken, known loops are unrolled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from ansorc.graph.onnx.model import OnnxGraph
from ansorc.graph.onnx.node_call import NodeCall, OnnxValue
from ansorc.ir.aligned import Array

MAX_NODE_COPIES = 1000
"""Of one loop that is unrolled."""

SubgraphRunner: TypeAlias = "Callable[[OnnxGraph, Sequence[OnnxValue]], list[OnnxValue]]"
"""Adds a graph for values of its inputs, where it sees what is around the node; its outputs."""
FlowConverter: TypeAlias = "Callable[[NodeCall, SubgraphRunner], list[OnnxValue]]"


def _if(call: NodeCall, run: SubgraphRunner) -> list[OnnxValue]:
    is_true = _truth(call, call.known(0, "its condition"))
    return run(_graph(call, "then_branch" if is_true else "else_branch"), [])


def _loop(call: NodeCall, run: SubgraphRunner) -> list[OnnxValue]:
    body = _graph(call, "body")
    trips = int(_one(call, call.known(0, "its trip count"))) if call.has(0) else None
    goes_on = not call.has(1) or _truth(call, call.known(1, "its condition"))
    carried = _given(call, 2, call.count)
    rows: list[list[OnnxValue]] = []
    copies = _Copies(call, body)
    while goes_on and (trips is None or len(rows) < trips):
        copies.add()
        count: list[OnnxValue] = [np.array(len(rows), np.int64), np.array(goes_on)]
        results = run(body, [*count, *carried])
        if len(results) < 1 + len(carried):
            call.refuse("its body has fewer outputs than it carries on")
        condition = results[0]
        if isinstance(condition, str):
            call.refuse(
                "its condition depends on the network's input, so that nobody knows how often it "
                "runs; export the network with a fixed number of runs"
            )
        goes_on = _truth(call, condition)
        carried = results[1 : 1 + len(carried)]
        rows.append(results[1 + len(carried) :])
    return [*carried, *_columns(call, rows, [0] * len(body.outputs), [])]


def _scan(call: NodeCall, run: SubgraphRunner) -> list[OnnxValue]:
    body = _graph(call, "body")
    scanned = int(call.attribute("num_scan_inputs", 0))
    states = call.count - scanned
    if scanned < 1 or states < 0:
        call.refuse(f"it has {call.count} inputs, of which {scanned} are scanned")
    carried = _given(call, 0, states)
    inputs = range(states, call.count)
    axes = [
        call.axis(axis, call.rank(place))
        for place, axis in zip(inputs, _each(call, "scan_input_axes", scanned), strict=True)
    ]
    backwards = _each(call, "scan_input_directions", scanned)
    trips = {call.type(place).shape[axis] for place, axis in zip(inputs, axes, strict=True)}
    if len(trips) != 1:
        call.refuse(f"it scans inputs of different lengths, {sorted(trips)}")
    (trip,) = trips
    rows: list[list[OnnxValue]] = []
    copies = _Copies(call, body)
    for step in range(trip):
        copies.add()
        slices = [
            _slice(call, place, axis, trip - 1 - step if back else step)
            for place, axis, back in zip(inputs, axes, backwards, strict=True)
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
    found = call.attribute(name)
    if not isinstance(found, OnnxGraph):
        call.refuse(f"its attribute '{name}' is missing, or no graph")
    return found


def _given(call: NodeCall, begin: int, end: int) -> list[OnnxValue]:
    """Inputs as they are: known values, or tensors of the graph by name."""
    found: list[OnnxValue] = []
    for place in range(begin, end):
        value = call.value(place)
        found.append(call.input(place) if value is None else value)
    return found


def _one(call: NodeCall, value: Array) -> Array:
    if value.size != 1:
        call.refuse(f"one number should say how often it runs, not {value.size}")
    return value.reshape(())


def _truth(call: NodeCall, value: Array) -> bool:
    return bool(_one(call, value))


def _each(call: NodeCall, name: str, count: int) -> list[int]:
    """One integer for each of `count` inputs or outputs."""
    found = cast("Sequence[int]", call.attribute(name) or [0] * count)
    if len(found) != count:
        call.refuse(f"its attribute '{name}' has {len(found)} numbers, not {count}")
    return [int(one) for one in found]


def _slice(call: NodeCall, place: int, axis: int, step: int) -> OnnxValue:
    known = call.value(place)
    if known is not None:
        return np.take(known, step, axis)
    shape = call.type(place).shape
    begin, end = [0] * len(shape), list(shape)
    begin[axis], end[axis] = step, step + 1
    part = call.add("slice", [call.input(place)], begin=begin, end=end)
    return call.add("squeeze", [part], axis=axis)


def _columns(
    call: NodeCall, rows: Sequence[Sequence[OnnxValue]], axes: Sequence[int], back: Sequence[int]
) -> list[OnnxValue]:
    """What each run made, joined along a new axis for each output."""
    if not rows:
        if any(call.node.outputs):
            call.refuse("it runs not even once")
        return []
    found: list[OnnxValue] = []
    for place, column in enumerate(zip(*rows, strict=True)):
        values = list(reversed(column)) if back and back[place] else list(column)
        known = [one for one in values if not isinstance(one, str)]
        if len(known) == len(values):
            found.append(np.stack(known, axes[place]))
            continue
        names = [one if isinstance(one, str) else call.constant(one) for one in values]
        rank = len(call.builder.type(names[0]).shape) + 1
        found.append(call.add("stack", names, axis=call.axis(axes[place], rank)))
    return found


FLOW: Mapping[str, FlowConverter] = {"If": _if, "Loop": _loop, "Scan": _scan}
"""What they mean, by the name of the operator."""
