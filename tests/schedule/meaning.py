"""Whether a schedule computes what the definition says: interpreter, machine code and NumPy."""

from __future__ import annotations

import numpy as np

from ansorc.codegen.build import prepare
from ansorc.codegen.call.build import compile_module
from ansorc.ir.interpret import interpret
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.verify import verify
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.schedule import Schedule, lower, packings
from ansorc.target import Target
from tests.support.guarded_memory import guarded

Arrays = list[np.ndarray]


def inputs_of(dag: ComputeDAG, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays: Arrays = []
    for buffer in dag.inputs:
        kind = buffer.dtype.numpy
        if buffer.dtype.is_float:
            arrays.append(rng.uniform(0.25, 1.0, buffer.shape).astype(kind))
        else:
            arrays.append(rng.integers(0, 3, buffer.shape).astype(kind))
    return arrays


def poisoned(dag: ComputeDAG, inputs: Arrays) -> Arrays:
    """The arguments of a call: the inputs, and outputs full of what no kernel computes."""
    given = dict(zip((b.name for b in dag.inputs), inputs, strict=True))
    return [
        given[b.name].copy()
        if b.name in given
        else np.full(b.shape, np.nan if b.dtype.is_float else 77, b.dtype.numpy)
        for b in dag.arguments
    ]


def check(dag: ComputeDAG, arrays: Arrays, expected: Arrays, what: str) -> None:
    named = {b.name: array for b, array in zip(dag.arguments, arrays, strict=True)}
    found = [named[dag.updates.get(buffer.name, buffer.name)] for buffer in dag.outputs]
    for array, exact in zip(found, expected, strict=True):
        tolerance = 1e-9 if array.dtype == np.float64 else 2e-4
        with np.errstate(over="ignore"):  # a product of many terms may exceed float32
            wanted = exact.astype(array.dtype) if array.dtype.kind == "f" else exact
        np.testing.assert_allclose(array, wanted, tolerance, tolerance, err_msg=what)


def keeps_the_meaning(state: Schedule, *, has_text: bool = True) -> None:
    """Compare the lowered program, the prepared one and machine code with the reference.

    Programs that call C functions have no text that can be read back.
    """
    dag, target = state.dag, Target.parse("native")
    inputs = inputs_of(dag, seed=len(state.steps))
    expected = evaluate(dag, inputs)
    function = lower(state)
    verify(function)
    assert not has_text or parse(to_text(function)) == function
    laid_out = {packing.source.name: packing for packing in packings(state)}
    by_hand = [
        laid_out[b.name].apply(array) if b.name in laid_out else array
        for b, array in zip(dag.inputs, inputs, strict=True)
    ]
    interpreted = poisoned(dag, by_hand)
    interpret(function, interpreted, fresh_outputs=True)
    check(dag, interpreted, expected, "the lowered program")
    prepared = poisoned(dag, by_hand)
    interpret(prepare(function, target), prepared, fresh_outputs=True)
    check(dag, prepared, expected, "the program after the passes")
    at_end = len(state.steps) % 2 == 0
    compiled = [guarded(array, at_end=at_end) for array in poisoned(dag, inputs)]
    compile_module(function, target, "kernel", packings=packings(state))(*compiled, threads=2)
    check(dag, compiled, expected, "the machine code")
