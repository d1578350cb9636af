"""A definition run by everything that runs definitions: reference, interpreter, both back ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import ansorc.lang as ac
from ansorc.graph.api import build
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.interpret import interpret
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, schedule


def outputs_of(dag: ac.ComputeDAG) -> list[Array]:
    """Return outputs full of what no program computes."""
    arrays = [aligned_empty(buffer.shape, buffer.dtype.numpy) for buffer in dag.outputs]
    for array in arrays:
        array.reshape(-1).view(np.uint8)[...] = 0xFF >> array.dtype.kind.count("b") * 7
    return arrays


def interpreted(dag: ac.ComputeDAG, inputs: Sequence[Array]) -> list[Array]:
    """Return the outputs by the interpreter, of the plain loops."""
    found = outputs_of(dag)
    given = dict(zip((buffer.name for buffer in dag.inputs), inputs, strict=True))
    given |= dict(zip((buffer.name for buffer in dag.outputs), found, strict=True))
    function = lower(schedule(dag))
    interpret(function, [given[buffer.name] for buffer in dag.params], fresh_outputs=True)
    return found


def built(dag: ac.ComputeDAG, inputs: Sequence[Array], target: str = "") -> list[Array]:
    """Return the outputs by machine code, of the untuned program."""
    found = outputs_of(dag)
    given = dict(zip((buffer.name for buffer in dag.inputs), inputs, strict=True))
    given |= dict(zip((buffer.name for buffer in dag.outputs), found, strict=True))
    module = build(dag, target=target) if target else build(dag)
    module(*(given[buffer.name] for buffer in dag.params))
    return found


def everywhere(
    dag: ac.ComputeDAG, inputs: Sequence[Array], *, emulates: bool = True
) -> Iterator[tuple[str, list[Array]]]:
    """Yield the name of each way to run `dag`, and its outputs.

    `emulates`: also the CUDA text, on this CPU, which takes a second or more to compile.
    """
    yield "reference", evaluate(dag, inputs, None)
    yield "interpreter", interpreted(dag, inputs)
    yield "llvm", built(dag, inputs)
    if emulates:
        yield "cuda", built(dag, inputs, "cuda-emulated -arch=sm_80")
