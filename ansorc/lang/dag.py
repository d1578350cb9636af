"""ComputeDAG: a whole computation, from inputs to outputs, as an immutable value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ansorc.errors import LanguageError, ParseError
from ansorc.ir.aligned import Array
from ansorc.ir.buffer import Buffer
from ansorc.ir.complex_view import view_complex
from ansorc.ir.dim import Dim
from ansorc.ir.infer_sizes import Shaped, infer_sizes
from ansorc.ir.specialize import resized_buffer
from ansorc.lang.arguments import too_deep
from ansorc.lang.canonical import in_order, rename_canonically
from ansorc.lang.check import check_ops
from ansorc.lang.check_sizes import check_dims
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.dag_text import dag_text, parse_dag
from ansorc.lang.dimension import (
    dims_of_buffers,
    narrow_dim,
    require_sizes,
    resized_op,
)
from ansorc.lang.flops import op_flops
from ansorc.lang.literal import short_text
from ansorc.lang.loop_program import inputs_of, interpret_definition, outputs_of
from ansorc.lang.reference import evaluate
from ansorc.lang.tensor import Tensor
from ansorc.lang.trace import trace

Arrays: TypeAlias = Array | tuple[Array, ...]
"""One array, or several."""


@dataclass(frozen=True, init=False, repr=False)
class ComputeDAG:
    """The computations `ops`, producers first, behind a kernel with the parameters `params`.

    Two DAGs are equal if they have the same names and structure; `key` leaves names out.
    """

    params: tuple[Buffer, ...]
    """The inputs and outputs, in call order."""
    ops: tuple[ComputeOp, ...]
    """In the order in which the outputs need them (`in_order`)."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        """Build the DAG of `tensors`, all its inputs and outputs in call order.

        Raise LanguageError where inputs are missing, tensors are listed twice or share a name.
        """
        self._hold(*trace(tensors))

    @classmethod
    def of_ops(cls, params: tuple[Buffer, ...], ops: tuple[ComputeOp, ...]) -> Self:
        """Return the DAG of `ops`, producers first; raise LanguageError if they do not fit."""
        dag = cls.__new__(cls)
        dag._hold(params, ops)
        return dag

    def _hold(self, params: tuple[Buffer, ...], ops: tuple[ComputeOp, ...]) -> None:
        try:
            check_ops(params, ops)
            check_dims(params, ops)
            _refuse_updates_of_c_calls(params, ops)
        except RecursionError as deep:
            raise too_deep("the DAG") from deep
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "ops", in_order(params, ops))

    @cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        """The parameters that the caller fills, in call order."""
        return inputs_of(self)

    @cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        """The parameters that the kernel fills, in call order."""
        return outputs_of(self)

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions whose size the caller gives, by name."""
        return dims_of_buffers(self.params)

    def at(self, sizes: Mapping[str, int]) -> ComputeDAG:
        """Return the computation at these sizes of its dimensions, all extents known.

        Raise LanguageError if one is missing, or out of its range.
        """
        if not self.dims:
            return self
        require_sizes(self.dims, sizes)
        params = tuple(resized_buffer(buffer, sizes) for buffer in self.params)
        return ComputeDAG.of_ops(params, tuple(resized_op(op, sizes, self.dims) for op in self.ops))

    def within(self, ranges: Mapping[str, tuple[int, int]]) -> ComputeDAG:
        """Return the computation for parts of the ranges of its dimensions, ends included.

        A dimension of one size is known.
        """
        parts = [narrow_dim(dim, *ranges.get(dim.name, (dim.low, dim.high))) for dim in self.dims]
        sizes = {dim.name: size for dim, size in zip(self.dims, parts, strict=True)}
        params = tuple(resized_buffer(buffer, sizes) for buffer in self.params)
        return ComputeDAG.of_ops(params, tuple(resized_op(op, sizes, self.dims) for op in self.ops))

    def sizes_of(self, inputs: Sequence[ArrayLike]) -> dict[str, int]:
        """Return the sizes of the dimensions that `inputs` have; raise ArgumentError."""
        return self.sizes_of_shapes([np.asarray(array).shape for array in inputs])

    def sizes_of_shapes(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """Return the sizes of the dimensions for the shapes of all inputs; raise ArgumentError."""
        pairs = zip(self.inputs, shapes, strict=True)
        shaped = [Shaped(buffer.name, buffer.extents, shape) for buffer, shape in pairs]
        return infer_sizes("the definition", self.dims, shaped)

    @cached_property
    def updates(self) -> dict[str, str]:
        """The inputs that are overwritten, by the names of the outputs which they become."""
        return {
            buffer.name: load.buffer.name
            for op in self.ops
            for buffer, load in zip(op.buffers, op.overwrites, strict=False)
        }

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The arguments of a kernel, in call order; an input that is updated is there once."""
        return tuple(buffer for buffer in self.params if buffer.name not in self.updates)

    def op(self, name: str) -> ComputeOp:
        """Return the computation of the tensor `name`; raise LanguageError if there is none."""
        is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        named = self._by_name.get(name) if is_text else None
        if named is None:
            known = ", ".join(f"'{op.name}'" for op in self.ops)
            raise LanguageError(f"nothing computes '{name}'; there are {known}")
        return named

    def producers(self, name: str) -> tuple[str, ...]:
        """Return the names of the inputs and computations that `name` reads, in reading order."""
        return tuple(dict.fromkeys(self._source(buffer) for buffer in self.op(name).reads))

    def readers(self, name: str) -> tuple[str, ...]:
        """Return the names of the computations that read an input or computation `name`.

        Producers come first.
        """
        is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        return self._readers.get(name, ()) if is_text else ()

    @cached_property
    def flops(self) -> float:
        """The operations of one run (reference: `op_flops`), at the largest sizes."""
        if self.dims:
            return self.at({dim.name: dim.high for dim in self.dims}).flops
        return sum(op_flops(op) for op in self.ops)

    @cached_property
    def plain(self) -> ComputeDAG:
        """The computation without checks (`ComputeOp.plain`) and without promises of inputs.

        It is this DAG itself if it has neither.
        """
        ops = tuple(op.plain for op in self.ops)
        promised = [b for b in self.params if b.promised is not None or b.is_sorted]
        if not promised and all(new is old for new, old in zip(ops, self.ops, strict=True)):
            return self
        plain = {b.name: replace(b, promised=None, is_sorted=False) for b in promised}
        for buffer in promised:
            ops = tuple(op.reading(buffer, plain[buffer.name]) for op in ops)
        params = tuple(plain.get(buffer.name, buffer) for buffer in self.params)
        return ComputeDAG.of_ops(params, ops)

    @cached_property
    def canonical(self) -> ComputeDAG:
        """The same computation with tensors t0, t1, … and axes a0, a1, …: equal for equal keys."""
        return ComputeDAG.of_ops(*rename_canonically(self.params, self.ops))

    @cached_property
    def key(self) -> str:
        """A hash of the mathematics.

        It does not depend on names of tensors and axes, nor on checks of values that are read.
        """
        return hashlib.sha256(self.plain.canonical.to_text().encode()).hexdigest()[:20]

    def evaluate(self, *inputs: ArrayLike) -> Arrays:
        """Return what the outputs should be, by NumPy: all floats in float64, integers as declared.

        `inputs` are in call order. There is one array, or a tuple of several; complex numbers are
        complex128. This is the reference that every tuned program is checked against. Raise
        LanguageError if the inputs do not fit.
        """
        if self.dims and len(inputs) == len(self.inputs):
            return self.at(self.sizes_of(inputs)).evaluate(*inputs)
        return self._arrays(evaluate(self, [np.asarray(each) for each in inputs]))

    def interpret(self, *inputs: ArrayLike) -> Arrays:
        """Return the outputs, each operation done in its dtype, one element after another.

        It is slow, for small tensors: what a kernel computes but for the order of sums. The rest
        is as in `evaluate`.
        """
        if self.dims and len(inputs) == len(self.inputs):
            return self.at(self.sizes_of(inputs)).interpret(*inputs)
        return self._arrays(interpret_definition(self, [np.asarray(each) for each in inputs]))

    def _arrays(self, outputs: Sequence[Array]) -> Arrays:
        """Return the outputs, one or several; parts of complex numbers become these."""
        pairs = zip(self.outputs, outputs, strict=True)
        arrays = [view_complex(array) if b.is_complex else array for b, array in pairs]
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    def to_text(self) -> str:
        """Return the DAG as lines that `from_text` reads back exactly."""
        return dag_text(self.params, self.ops)

    @staticmethod
    def from_text(text: str) -> ComputeDAG:
        """Return the DAG that `to_text` wrote; raise ParseError or LanguageError on other text."""
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParseError(f"the text of a DAG is {short_text(text)}; give what to_text wrote")
        return ComputeDAG.of_ops(*parse_dag(text))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        names = ", ".join(f"{b.name}: {b.dtype}{list(b.extents)}" for b in self.params)
        return f"ComputeDAG({names})"

    @cached_property
    def _by_name(self) -> dict[str, ComputeOp]:
        return {buffer.name: op for op in self.ops for buffer in op.buffers}

    @cached_property
    def _readers(self) -> dict[str, tuple[str, ...]]:
        readers: dict[str, tuple[str, ...]] = {}
        for op in self.ops:
            for name in self.producers(op.name):
                readers[name] = (*readers.get(name, ()), op.name)
        return readers

    def _source(self, buffer: Buffer) -> str:
        """Return the name of the computation that fills `buffer`, or of the input itself."""
        op = self._by_name.get(buffer.name)
        return buffer.name if op is None else op.name


def _refuse_updates_of_c_calls(params: tuple[Buffer, ...], ops: tuple[ComputeOp, ...]) -> None:
    """Raise LanguageError if a DAG updates inputs and has a stage that a C function computes.

    It is not known which elements the function reads, so nothing could be written in place.
    """
    calls = [op.name for op in ops if op.c_call is not None]
    if calls and any(buffer.is_updated for buffer in params):
        raise LanguageError(
            f"'{calls[0]}' is computed by a C function, in a DAG that updates its inputs: compute "
            "it in a DAG of its own"
        )
