"""Scans in blocks: blocks of an associative scan do not wait for each other, but for its totals.

    y[t] = y[t - 1] + x[t]    ->    y.total[b] = Σ x[b * L + j]                   all b at once
                                    y.start[b] = y.start[b - 1] + y.total[b - 1]
                                    y.blocks[b, j] = y.blocks[b, j - 1] + x[b * L + j],
                                                     from y.start[b]              all b at once
                                    y[t] = y.blocks[t // L, t % L]

Blelloch, "Prefix Sums and Their Applications" (1990). A step `a * state + x` is associative as well
if pairs of a factor and a term are combined: blocks are first scanned from 0, and a block begins
with the product of the factors of the one before, times its start, plus its last state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import BinaryOp as Op
from ansorc.ir.expr import CompareOp, Const, Expr, Load, Select, Var, binary, compare, const
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp, Scan
from ansorc.lang.definitions.redefinition import Redefinition
from ansorc.lang.naming import unique_name
from ansorc.lang.scan_form import Accumulation, Linear, accumulation_of, linear_of

Step: TypeAlias = Callable[[Expr], Expr]
"""A state → the state after a step."""

LEAST_STEPS = 64
"""A shorter scan is over before blocks are begun."""
SHORTEST, LONGEST = 16, 512
"""Steps of a block: those of several blocks stay in the first cache."""


@lru_cache(maxsize=256)
def scan_in_blocks(op: ComputeOp) -> Redefinition | None:
    """Return `op` in blocks; None unless it is a scan of one state whose step is associative."""
    if op.scan is None:
        return None
    scan = op.scan
    steps = next(axis.extent for axis in op.axes if axis.name == scan.axis)
    accumulation = accumulation_of(op)
    linear = None if accumulation is not None else linear_of(op)
    if steps < LEAST_STEPS or (accumulation is None and linear is None):
        return None
    blocks = _Blocks(op, scan, steps, _length(steps))
    return Redefinition(
        blocks.of_accumulation(accumulation)
        if accumulation is not None
        else blocks.of_linear(linear)
        if linear is not None
        else ()
    )


def _length(steps: int) -> int:
    """Return the steps of a block, a power of two: about half of the root of all."""
    length = SHORTEST
    while length < LONGEST and 4 * (2 * length) ** 2 <= 2 * steps:
        length *= 2
    return length


@dataclass(frozen=True)
class _Blocks:
    """The stages of a scan of `steps` steps in blocks of `length`."""

    op: ComputeOp
    scan: Scan
    steps: int
    length: int

    @cached_property
    def names(self) -> tuple[str, str]:
        """The names of the axes over blocks, and over the steps of one."""
        taken = [axis.name for axis in self.op.axes]
        block = unique_name("block", taken)
        return block, unique_name("step", [*taken, block])

    @property
    def others(self) -> tuple[Axis, ...]:
        """The axes of the scan but its own."""
        return tuple(axis for axis in self.op.axes if axis.name != self.scan.axis)

    @property
    def block(self) -> Axis:
        return Axis(self.names[0], -(-self.steps // self.length))

    @property
    def step(self) -> Axis:
        return Axis(self.names[1], self.length)

    def of_accumulation(self, form: Accumulation) -> tuple[ComputeOp, ...]:
        """Return the stages of a scan that combines its state with a term."""
        term = self._inside(form.term, form.identity)
        total = self._reduce("total", form.combiner, term)
        before = self._of_block_before(total.buffer)
        start = self._scan_of_blocks(
            lambda state: form.combine(state, Select(self._is_first, form.identity, before))
        )
        blocks = self._scan_in_blocks("blocks", start, lambda state: form.combine(state, term))
        return total, start, blocks, self._result(blocks)

    def of_linear(self, form: Linear) -> tuple[ComputeOp, ...]:
        """Return the stages of a scan `factor * state + term`."""
        dtype = self.op.buffer.dtype
        factor = self._inside(form.factor, const(1.0, dtype))
        term = self._inside(form.term, const(0.0, dtype))

        def advance(state: Expr, by: Expr, more: Expr) -> Expr:
            return binary(Op.ADD, binary(Op.MUL, by, state), more)

        gain = self._reduce("gain", Combiner.PROD, factor)
        part = self._scan_in_blocks("part", None, lambda state: advance(state, factor, term))
        last = const(0 if self.scan.is_reversed else self.length - 1)
        axes = (*self.others, self.block)
        carry = self._op("carry", axes, Load(part.buffer, (*map(_var, axes), last)))
        by, more = (self._of_block_before(each.buffer) for each in (gain, carry))
        start = self._scan_of_blocks(
            lambda state: Select(self._is_first, state, advance(state, by, more))
        )
        blocks = self._scan_in_blocks("blocks", start, lambda state: advance(state, factor, term))
        return gain, part, carry, start, blocks, self._result(blocks)

    @property
    def _is_first(self) -> Expr:
        first = self.block.extent - 1 if self.scan.is_reversed else 0
        return compare(CompareOp.EQ, _var(self.block), const(first))

    def _of_block_before(self, buffer: Buffer) -> Expr:
        block = _var(self.block)
        before = block + 1 if self.scan.is_reversed else block - 1
        return Load(buffer, (*map(_var, self.others), before))

    def _inside(self, value: Expr, nothing: Const) -> Expr:
        """Return `value` at a step of a block, `nothing` after the last step."""
        place = binary(
            Op.ADD, binary(Op.MUL, _var(self.block), const(self.length)), _var(self.step)
        )
        there = substitute(value, {self.scan.axis: place})
        if self.steps % self.length == 0 or there == nothing:
            return there
        return Select(compare(CompareOp.LT, place, const(self.steps)), there, nothing)

    def _reduce(self, name: str, combiner: Combiner, term: Expr) -> ComputeOp:
        """Return the stage that combines the terms of each block."""
        made = self._op(name, (*self.others, self.block), term)
        return replace(made, reduce_axes=(self.step,), combiner=combiner)

    def _scan_of_blocks(self, step: Step) -> ComputeOp:
        """Return the scan of the states with which the blocks begin."""
        axes = (*self.others, self.block)
        scan = Scan(self.block.name, self.op.inits, self.scan.is_reversed)
        return self._scan("start", axes, scan, step)

    def _scan_in_blocks(self, name: str, start: ComputeOp | None, step: Step) -> ComputeOp:
        """Return the scans of all blocks, from their `start` or from 0."""
        axes = (*self.others, self.block, self.step)
        first: Expr = const(0.0, self.op.buffer.dtype)
        if start is not None:
            first = Load(start.buffer, tuple(map(_var, axes[:-1])))
        scan = Scan(self.step.name, (first,), self.scan.is_reversed)
        return self._scan(name, axes, scan, step)

    def _scan(self, name: str, axes: tuple[Axis, ...], scan: Scan, step: Step) -> ComputeOp:
        made = replace(self._op(name, axes, const(0.0, self.op.buffer.dtype)), scan=scan)
        return replace(made, body=step(made.state_loads[0]))

    def _result(self, blocks: ComputeOp) -> ComputeOp:
        """Return the stage of the result, each element one of a block."""
        along, length = Var(self.scan.axis), const(self.length)
        places = (binary(Op.FLOORDIV, along, length), binary(Op.MOD, along, length))
        load = Load(blocks.buffer, (*map(_var, self.others), *places))
        return replace(self.op, body=load, scan=None, hints=())

    def _op(self, name: str, axes: Sequence[Axis], body: Expr) -> ComputeOp:
        taken = [buffer.name for buffer in self.op.reads]
        full = unique_name(f"{self.op.name}.{name}", taken)
        buffer = Buffer(full, tuple(axis.extent for axis in axes), self.op.buffer.dtype)
        return ComputeOp(full, buffer, tuple(axes), (), None, body)


def _var(axis: Axis) -> Var:
    return Var(axis.name)
