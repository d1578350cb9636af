"""Bound the rounding errors of a DAG against its float64 reference, by a running error analysis.

Each value has a first-order bound of its error, computed from the values of the reference (Higham,
Accuracy and Stability of Numerical Algorithms, section 3.3). For example, `1.0 - x` for a computed
x carries the error of x, even if the difference is small. A sum of n terms t adds

    eps · max(1, sqrt(n) / 16) · Σ |t|

since its partial sums may be as large as Σ |t| in some order; their roundings partly cancel.
Inputs, literals and integers are exact, and so are infinite values and NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.ir.arith.scalar import NUMPY_BINARY, NUMPY_COMPARE
from ansorc.ir.dtype import DType
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Checked,
    Compare,
    Expr,
    Load,
    Not,
    OwnCall,
    Select,
    dtype_of,
)
from ansorc.ir.node import walk
from ansorc.ir.operator import BIT_FUNCTIONS, BITWISE
from ansorc.lang.c_rounding import bound_of_c_call
from ansorc.lang.compute_op import Combiner, ComputeOp
from ansorc.lang.contract import contract
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.grid import FUNCTIONS, Grid, Mask, convert
from ansorc.lang.overwritten import bounds_of_update
from ansorc.lang.ragged import Ragged
from ansorc.lang.reducer import Reducer
from ansorc.lang.reference import Evaluation, Scattering, Slices, all_tensors, boxes, factors_of
from ansorc.lang.scan_form import Accumulation, Linear, accumulation_of, linear_of
from ansorc.lang.scan_reference import accumulate, evaluate_steps, solve_linear, step_grid, steps_of
from ansorc.lang.step_sums import bound_sums

SAFETY = 8.0
"""The multiple of the bound that a correct program may reach; used to probe jumps and functions."""
_MANY = 16.0
"""The divisor of sqrt(n): roundings are a random walk. Measured: up to 0.12 sqrt(n) eps of the
magnitudes if all terms have one sign."""

Bound: TypeAlias = "Array | None"
"""Absolute errors, broadcastable to the values; None where the values are exact."""
_OneOperand: TypeAlias = Callable[[Array], Array]


def evaluate_with_rounding(
    dag: ComputeDAG, inputs: Sequence[Array]
) -> tuple[list[Array], list[Bound]]:
    """Return the outputs of `dag` in float64 (see `evaluate`), and a bound of each one's rounding.

    The error of a program that rounds by the dtypes of `dag`, with sums in any order, is at most
    `SAFETY` times the bound. Outputs that are not floats have None. Raise LanguageError as
    `evaluate` does.
    """
    tensors = all_tensors(dag, inputs)
    bounds = rounding_of(dag, tensors)
    outputs = [buffer.name for buffer in dag.outputs]
    return [tensors[name] for name in outputs], [bounds.get(name) for name in outputs]


def rounding_of(dag: ComputeDAG, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Return a bound for each computed tensor of `all_tensors` that is not exact, by name."""
    bounds: dict[str, Array] = {}
    with np.errstate(all="ignore"):
        for op in dag.ops:
            bounds |= _OpRounding(op, tensors, bounds).run()
    return bounds


@dataclass(frozen=True)
class _OpRounding:
    """The errors of one computation."""

    op: ComputeOp
    tensors: Mapping[str, Array]
    bounds: Mapping[str, Array]

    def run(self) -> dict[str, Array]:
        """Return a bound for each result that depends on floats."""
        op = self.op
        if not any(buffer.dtype.is_float for buffer in (*op.buffers, *op.reads)):
            return {}
        if op.c_call is not None:
            return bound_of_c_call(op, self.tensors, self.bounds)
        if op.scan is not None:
            return self._run_scan()
        if op.places:
            return self._scattered()
        if op.ragged_axis is not None:
            return self._of_rows()
        if op.overwrites:
            part = replace(self, op=op.part)
            return bounds_of_update(op, self.tensors, lambda t: replace(part, tensors=t).run())
        factors = factors_of(op)
        moved = [np.zeros(buffer.shape) for buffer in op.buffers]
        larger = [np.zeros(buffer.shape) for buffer in op.buffers]
        if op.combiner is Combiner.PROD:
            larger[0][...] = 1.0
        is_whole = isinstance(op.combiner, Reducer)
        held = [each.value for each in op.temporaries]
        for box in boxes((*op.axes, *op.reduce_axes), [*held, *factors], is_whole=is_whole):
            grid = Evaluation(op, self.tensors, np.dtype(np.float64)).grid(box)
            errors = dict(self.bounds)
            walked = _Walk(grid, replace(grid, tensors=errors))
            for each in op.temporaries:
                _, error = walked.evaluate(each.value)
                if error is not None:
                    errors[each.buffer.name] = error
            pairs = [walked.evaluate(factor) for factor in factors]
            block = (*box[: len(op.axes)], ...)
            self._add(
                pairs, box, [error[block] for error in moved], [error[block] for error in larger]
            )
        count = math.prod(axis.extent for axis in op.reduce_axes)
        return self._finish(moved, larger, count)

    def _scattered(self) -> dict[str, Array]:
        """Return the bound of a result of terms that go to places."""
        op = self.op
        moved, larger, counts = (np.zeros(op.buffer.shape) for _ in range(3))
        if op.combiner is Combiner.PROD:
            larger[...] = 1.0
        for terms in Scattering(op, self.tensors, np.dtype(np.float64)).boxes():
            walked = _Walk(terms.grid, replace(terms.grid, tensors=self.bounds))
            value, bound = walked.evaluate(op.body)
            errors = terms.broadcast(np.zeros(()) if bound is None else bound)
            magnitudes = np.abs(terms.broadcast(value))
            np.add.at(counts, terms.indices, 1.0)
            if op.combiner is Combiner.PROD:
                np.multiply.at(larger, terms.indices, magnitudes + errors)
            elif op.combiner is Combiner.SUM:
                np.add.at(larger, terms.indices, magnitudes)
                np.add.at(moved, terms.indices, errors)
            else:
                np.maximum.at(moved, terms.indices, errors)
        return self._finish([moved], [larger], int(counts.max()))

    def _of_rows(self) -> dict[str, Array]:
        """Return the bound of a reduction over ranges that are data."""
        op, double = self.op, np.dtype(np.float64)
        ragged = Ragged(op, self.tensors, double)
        moved, counts = [ragged.empty(0.0, double) for _ in op.bodies], ragged.empty(0.0, double)
        first = 1.0 if op.combiner is Combiner.PROD else 0.0
        larger = [ragged.empty(first, double) for _ in op.bodies]
        inner = tuple(range(1 + len(ragged.other_axes), ragged.rank))
        for terms in ragged.blocks():
            walked = _Walk(terms.grid, replace(terms.grid, tensors=self.bounds))
            np.add.at(counts, terms.rows, terms.broadcast(np.ones(())).sum(axis=inner))
            for body, mine, most in zip(op.bodies, moved, larger, strict=True):
                value, bound = walked.evaluate(body)
                errors = terms.broadcast(np.zeros(()) if bound is None else bound)
                magnitudes = np.abs(terms.broadcast(value))
                if op.combiner is Combiner.PROD:
                    np.multiply.at(most, terms.rows, (magnitudes + errors).prod(axis=inner))
                elif op.combiner in (Combiner.MAX, Combiner.MIN, Combiner.ANY, Combiner.ALL):
                    np.maximum.at(mine, terms.rows, errors.max(axis=inner, initial=0.0))
                else:  # a sum, or a reducer, as in _add
                    np.add.at(most, terms.rows, magnitudes.sum(axis=inner))
                    np.add.at(mine, terms.rows, errors.sum(axis=inner))
        bounds, sizes = ([ragged.result(x).copy() for x in part] for part in (moved, larger))
        return self._finish(bounds, sizes, int(counts.max()))

    def _run_scan(self) -> dict[str, Array]:
        """Return a bound for each result of a scan, whether it is computed in blocks or not."""
        op = self.op
        form, linear = accumulation_of(op), linear_of(op)
        if form is not None:
            made = [self._of_accumulation(form)]
        elif linear is not None:
            made = [self._of_linear(linear)]
        else:
            made = evaluate_steps(op, self._of_step, np.dtype(np.float64))
        return {
            buffer.name: _of_finite(self.tensors[buffer.name], bound)
            for buffer, bound in zip(op.buffers, made, strict=True)
            if bound.any()
        }

    def _whole(self, expr: Expr) -> tuple[Array, Array]:
        """Return the values of `expr` at all places, and their errors."""
        full = tuple(slice(0, axis.extent) for axis in self.op.axes)
        grid = Evaluation(self.op, self.tensors, np.dtype(np.float64)).grid(full)
        value, bound = _Walk(grid, replace(grid, tensors=self.bounds)).evaluate(expr)
        return value, np.zeros_like(value, np.float64) if bound is None else bound

    def _of_accumulation(self, form: Accumulation) -> Array:
        op = self.op
        epsilon = op.buffer.dtype.epsilon if op.buffer.dtype.is_float else 0.0
        (term, moved), (init, first) = self._whole(form.term), self._whole(op.inits[0])
        rounded = epsilon * max(1.0, math.sqrt(len(steps_of(op))) / _MANY)
        value = np.abs(self.tensors[op.name].astype(np.float64))
        if form.combiner is Combiner.SUM:
            most = accumulate(op, np.add, np.abs(term.astype(np.float64)), np.abs(init))
            return accumulate(op, np.add, moved, first) + rounded * most
        if form.combiner is Combiner.PROD:
            whole = np.abs(term) + moved, np.abs(init) + first
            return accumulate(op, np.multiply, *whole) - value + rounded * value
        return accumulate(op, np.maximum, moved, first)

    def _of_linear(self, linear: Linear) -> Array:
        """Return the errors of a linear recurrence, whose parts may be as large as magnitudes."""
        op, epsilon = self.op, self.op.buffer.dtype.epsilon
        (factor, of_factor), (term, of_term) = self._whole(linear.factor), self._whole(linear.term)
        init, first = self._whole(op.inits[0])
        sizes = np.abs(factor), np.abs(term), np.abs(init)
        most = solve_linear(op, *sizes)
        grown = (of_factor + epsilon * sizes[0]) / np.where(sizes[0] > 0, sizes[0], 1.0)
        return solve_linear(op, sizes[0], of_term + (grown + 2 * epsilon) * most, first)

    def _of_step(self, step: int, own: list[Array]) -> list[Array]:
        op = self.op
        begun = op.with_states(op.inits) if step == steps_of(op)[0] else op
        known = {**self.bounds, **{b.name: error for b, error in zip(op.buffers, own, strict=True)}}
        grid = step_grid(op, self.tensors, np.dtype(np.float64), step)
        held, moved = bound_sums(
            begun, grid, lambda g, e: _Walk(g, replace(g, tensors=known)).evaluate(e), _MANY
        )
        grid = replace(grid, tensors={**grid.tensors, **held})
        walked = _Walk(grid, replace(grid, tensors={**known, **moved}))
        bounds = (walked.evaluate(body)[1] for body in begun.bodies)
        return [np.zeros(1) if bound is None else bound for bound in bounds]

    def _add(
        self,
        pairs: Sequence[tuple[Array, Bound]],
        box: Slices,
        moved: Sequence[Array],
        larger: Sequence[Array],
    ) -> None:
        """Account for the terms of a box: errors in `moved`, magnitudes in `larger`."""
        combiner, rank = self.op.combiner, len(self.op.axes)
        shape = [part.stop - part.start for part in box]
        inner = tuple(range(rank, len(shape)))
        if combiner is Combiner.SUM:
            magnitudes = [np.abs(value) for value, _ in pairs]
            larger[0][...] += contract(magnitudes, shape, rank)
            for number, (_, bound) in enumerate(pairs):
                if bound is not None:
                    others = [*magnitudes[:number], bound, *magnitudes[number + 1 :]]
                    moved[0][...] += contract(others, shape, rank)
            return
        for (value, bound), mine, most in zip(pairs, moved, larger, strict=True):
            if combiner is Combiner.PROD:
                whole = np.abs(value) + (0.0 if bound is None else bound)
                most[...] *= np.prod(np.broadcast_to(whole, shape), axis=inner)
            elif bound is not None:
                whole = np.broadcast_to(bound, shape)
                if combiner is None:
                    mine[...] = whole
                elif isinstance(combiner, Combiner):
                    mine[...] = np.maximum(mine, whole.max(axis=inner, initial=0.0))
                else:  # whatever the reducer is, it rarely makes more of the errors than their sum
                    mine[...] += whole.sum(axis=inner)

    def _finish(
        self, moved: Sequence[Array], larger: Sequence[Array], count: int
    ) -> dict[str, Array]:
        """Return the bounds of results of `count` terms each, at most."""
        op, bounds = self.op, dict[str, Array]()
        rounded = max(1.0, math.sqrt(count) / _MANY)
        for buffer, mine, most in zip(op.buffers, moved, larger, strict=True):
            value = self.tensors[buffer.name]
            bound = mine
            if buffer.dtype.is_float and op.combiner is not None:
                if op.combiner is Combiner.SUM:
                    share = buffer.dtype.epsilon * (rounded + len(factors_of(op)) - 1)
                    bound += np.multiply(most, share, out=most)
                elif op.combiner is Combiner.PROD:
                    bound = most - np.abs(value) + buffer.dtype.epsilon * rounded * np.abs(value)
                elif isinstance(op.combiner, Reducer):
                    bound = bound + buffer.dtype.epsilon * rounded * np.abs(value)
            if bound.any():
                bounds[buffer.name] = _of_finite(value, bound)
        return bounds


@dataclass(frozen=True)
class _Walk:
    """Values and errors of an expression over a box of axis values."""

    grid: Grid
    bounds: Grid
    """A grid of the same box; its tensors are the errors of those of `grid`."""

    def evaluate(self, expr: Expr, mask: Mask = None) -> tuple[Array, Bound]:
        """Return the values of `expr`, as `Grid.evaluate` does, and their errors."""
        if not self._may_round(expr):
            return self.grid.evaluate(expr, mask), None
        match expr:
            case Load(buffer):
                value, errors = self.grid.evaluate(expr, mask), self.bounds.tensors
                known = errors.get(buffer.name)  # at the place that the values say
                return value, None if known is None else self.grid.load(expr, mask, known)
            case Checked(inner):
                self.grid.check(expr, mask)
                return self.evaluate(inner, mask)
            case Binary(op, left, right):
                sides = self.evaluate(left, mask), self.evaluate(right, mask)
                value = NUMPY_BINARY[op](sides[0][0], sides[1][0])
                bound = _of_binary(op, value, *sides)
            case Compare(op, left, right):
                sides = self.evaluate(left, mask), self.evaluate(right, mask)
                return NUMPY_COMPARE[op](sides[0][0], sides[1][0]), _of_comparison(*sides)
            case Not(operand):
                value, bound = self.evaluate(operand, mask)
                return np.logical_not(value), bound
            case Select():
                return self._select(expr, mask)
            case Cast(dtype, operand):
                value, bound = self.evaluate(operand, mask)
                numpy_type = self.grid.numpy_type(dtype)
                new = convert(value, numpy_type)
                if bound is not None and not dtype.is_float:
                    bound = _move_by(lambda x: convert(x, numpy_type), new, value, bound)
                value = new
            case Call():
                value, bound = self._call(expr, mask)
            case _:
                raise LanguageError(f"nothing is known of the rounding of {type(expr).__name__}")
        dtype = dtype_of(expr)
        return value, _after_rounding(value, bound, dtype) if _rounds(expr) else bound

    def _may_round(self, expr: Expr) -> bool:
        """Return whether `expr` rounds or reads rounded values; if not, the grid evaluates it."""
        return any(
            part.buffer.name in self.bounds.tensors if isinstance(part, Load) else _rounds(part)
            for part in walk(expr)
            if isinstance(part, Binary | Call | Cast | Load)
        )

    def _select(self, expr: Select, mask: Mask) -> tuple[Array, Bound]:
        test, unsure = self.evaluate(expr.condition, mask)
        outer = np.True_ if mask is None else mask
        taken, first = self.evaluate(expr.then, np.logical_and(outer, test))
        other, second = self.evaluate(expr.otherwise, np.logical_and(outer, np.logical_not(test)))
        value = np.where(test, taken, other)
        if first is None and second is None and unsure is None:
            return value, None
        zero = np.zeros((1,) * self.grid.rank)
        bound = np.where(test, zero if first is None else first, zero if second is None else second)
        if unsure is not None and value.dtype.kind != "b":
            bound = np.where(unsure > 0, np.maximum(bound, np.abs(taken - other) / SAFETY), bound)
        return value, bound

    def _own_call(self, expr: OwnCall, mask: Mask) -> tuple[Array, Bound]:
        """Return the value, and how far it moves if an operand moves by its error."""
        pairs = [self.evaluate(arg, mask) for arg in expr.args]
        values, function = [value for value, _ in pairs], expr.function.evaluate
        numpy_type = self.grid.numpy_type(expr.function.result)
        result = convert(function(*values), numpy_type)
        total: Bound = None
        for position, (value, bound) in enumerate(pairs):
            if bound is None:
                continue
            before, behind = values[:position], values[position + 1 :]
            share = _move_by(
                lambda x, b=before, e=behind: convert(function(*b, x, *e), numpy_type),
                result, value, bound,
            )  # fmt: skip
            total = share if total is None else total + share
        return result, total

    def _call(self, expr: Call, mask: Mask) -> tuple[Array, Bound]:
        if isinstance(expr, OwnCall):
            return self._own_call(expr, mask)
        pairs = [self.evaluate(arg, mask) for arg in expr.args]
        function = FUNCTIONS[expr.name]
        values = [value for value, _ in pairs]
        result = function(*values)
        total: Bound = None
        for position, (value, bound) in enumerate(pairs):
            if bound is None:
                continue
            if expr.name in BIT_FUNCTIONS:
                share = np.where(bound > 0, np.inf, 0.0)
            elif expr.name in _STEEPEST:
                share = _STEEPEST[expr.name] * bound
            else:
                others = [*values[:position]], [*values[position + 1 :]]
                share = _move_by(
                    lambda x, o=others: function(*o[0], x, *o[1]), result, value, bound
                )
                if expr.name in ("fmod", "mod"):
                    share = _of_remainder(share, values, position, bound)
            total = share if total is None else total + share
        return result, total


_STEEPEST = {"tanh": 1.0, "erf": 1.13, "sigmoid": 0.25, "sin": 1.0, "cos": 1.0, "abs": 1.0}
"""The greatest slope of functions with a bounded slope."""


_EXACT = (BinaryOp.MIN, BinaryOp.MAX, "abs", "floor", "ceil", "round", "trunc", "copysign", "fmod")


def _rounds(expr: Expr) -> bool:
    """Return whether the result of an operation is rounded to its dtype."""
    dtype = dtype_of(expr)
    match expr:
        case Binary(op):
            return dtype.is_float and op not in _EXACT
        case Call(name):
            return dtype.is_float and name not in _EXACT
        case Cast(operand=operand):
            source = dtype_of(operand)
            return dtype.is_float and not (source.is_float and source.epsilon >= dtype.epsilon)
        case _:
            return False


def _after_rounding(value: Array, bound: Bound, dtype: DType) -> Array:
    """Return the error after the value has been rounded."""
    rounding = dtype.epsilon * np.abs(value)
    return _of_finite(value, rounding if bound is None else bound + rounding)


def _of_finite(value: Array, bound: Array) -> Array:
    """Return `bound`, but 0 where the value is not finite, and infinity where it is unknown."""
    error = np.where(np.isfinite(value), bound, 0.0)
    error[np.isnan(error)] = np.inf
    return error


def _move_by(function: _OneOperand, result: Array, value: Array, bound: Array) -> Array:
    """Return the change of a function when its operand moves by `bound`, including jumps."""
    ends = [np.abs(function(value + sign * SAFETY * bound) - result) for sign in (-1.0, 1.0)]
    return np.where(bound > 0, np.maximum(*ends) / SAFETY, 0.0)


def _of_remainder(share: Array, values: Sequence[Array], position: int, bound: Array) -> Array:
    """Return the error of a remainder that the error of one operand causes.

    It is `share` (from the ends of the operand's error), or the whole range if it may wrap around.
    """
    size, step = np.abs(values[0]), np.abs(values[1])
    way = bound if position == 0 else bound * (size / step + 1.0)
    return np.where((bound > 0) & (2.0 * SAFETY * way >= step), step / SAFETY, share)


def _of_comparison(left: tuple[Array, Bound], right: tuple[Array, Bound]) -> Bound:
    """Return 1 where the errors of both sides may change the comparison."""
    apart = _sum(left[1], right[1])
    if apart is None:
        return None
    near = np.abs(left[0].astype(np.float64) - right[0]) <= SAFETY * apart
    return (near & (apart > 0)).astype(np.float64)


def _of_binary(
    op: BinaryOp, value: Array, left: tuple[Array, Bound], right: tuple[Array, Bound]
) -> Bound:
    """Return the error of the result from the errors of the operands."""
    (a, of_a), (b, of_b) = left, right
    match op:
        case BinaryOp.MUL:
            return _sum(_scale(of_a, b), _scale(of_b, a))
        case BinaryOp.DIV:
            least = np.abs(b) if of_b is None else np.maximum(np.abs(b) - SAFETY * of_b, 0.0)
            whole = _sum(of_a, _scale(of_b, value))
            return None if whole is None else np.where(whole > 0, whole / least, 0.0)
        case BinaryOp.MIN | BinaryOp.MAX | BinaryOp.AND | BinaryOp.OR:
            if of_a is None or of_b is None:
                return _sum(of_a, of_b)
            return np.maximum(of_a, of_b)
        case _ if op in (BinaryOp.FLOORDIV, BinaryOp.MOD, *BITWISE):
            whole = _sum(of_a, of_b)
            return None if whole is None else np.where(whole > 0, np.inf, 0.0)
        case _:
            return _sum(of_a, of_b)


def _scale(bound: Bound, by: Array) -> Bound:
    return None if bound is None else bound * np.abs(by)


def _sum(left: Bound, right: Bound) -> Bound:
    if left is None or right is None:
        return right if left is None else left
    return left + right
