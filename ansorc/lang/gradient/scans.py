"""The derivative of a scan: what flows back to its states is a scan in the other direction.

With s[t] = f(s[t-1], t) and a[t] what flows back to s[t] from its readers, all that flows back to
it is  g[t] = a[t] + g[t+1] · (df/ds at step t + 1),  computed from the last step to the first. With
g the steps are independent of each other: each reads the state before it from the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansorc.errors import LanguageError
from ansorc.ir.arith.affine import integer
from ansorc.ir.expr import Compare, CompareOp, Expr, Load, Var, dtype_of
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import ComputeOp, Scan, StateBuffer
from ansorc.lang.define import compute, compute_tuple
from ansorc.lang.gradient.differentiate import Differentiation
from ansorc.lang.gradient.stages import Stages
from ansorc.lang.gradient.terms import add, choose, under, zero
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.scan import ScanSteps, scan
from ansorc.lang.tensor import Tensor, fixed


def as_steps(op: ComputeOp, outputs: Sequence[Tensor], stages: Stages) -> ComputeOp:
    """Return the scan `op` as a computation whose elements read the states before from `outputs`.

    In front of the first element are the values that the scan begins with.
    """
    assert op.scan is not None
    is_first = _is_first(op, op.scan)

    def rule(node: Node) -> Node | None:
        if not _is_state(node):
            return None
        assert isinstance(node, Load)
        assert isinstance(node.buffer, StateBuffer)
        number = node.buffer.output
        before = Load(stages.buffer(fixed(outputs[number])), node.indices)
        return choose(is_first, op.inits[number], before)

    return replace(op.with_bodies(lambda body: rewrite(body, rule)), scan=None)


def flow_to_states(
    op: ComputeOp, flows: Sequence[Expr | None], outputs: Sequence[Tensor], stages: Stages
) -> list[Tensor | None]:
    """Return what flows back to each state in all, from the readers' `flows`; None for integers.

    Raise LanguageError if a step reads states of other places than its own, or reduces them in a
    loop.
    """
    assert op.scan is not None
    _refuse_mixed(op)
    numbers = [n for n, buffer in enumerate(op.buffers) if buffer.dtype.is_float]
    terms = _terms(op, numbers, outputs, stages)
    filled = [flow if flow is not None else zero(op.buffers[0].dtype) for flow in flows]
    names = [axis.name for axis in op.axes]

    def body(*indices: Scalar) -> ScanSteps:
        here: Mapping[str, Expr] = {
            name: index.expr for name, index in zip(names, indices, strict=True)
        }

        def step(*states: Scalar) -> list[Scalar]:
            known = {_flow(n).name: s.expr for n, s in zip(numbers, states, strict=True)}
            return [
                Scalar(
                    substitute(stages.use_own_buffers(add(filled[n], terms[n])), {**here, **known})
                )
                for n in numbers
            ]

        assert op.scan is not None
        axis = indices[names.index(op.scan.axis)]
        inits = [zero(op.buffers[n].dtype) for n in numbers]
        return scan(inits, step, axis, reverse=not op.scan.is_reversed)

    stage_names = [stages.name(op.buffers[n].name, "gradient.steps") for n in numbers]
    shape = op.buffer.shape
    if len(numbers) == 1:
        results = (compute(shape, body, stage_names[0], axes=names),)
    else:
        results = compute_tuple(shape, body, stage_names, axes=names)
    tensors: list[Tensor | None] = [None] * len(op.buffers)
    for number, tensor in zip(numbers, results, strict=True):
        tensors[number] = stages.keep(tensor)
    return tensors


def _terms(
    op: ComputeOp, numbers: Sequence[int], outputs: Sequence[Tensor], stages: Stages
) -> dict[int, Expr]:
    """Return what the step behind lets flow back to each state, of the variables `_flow`."""
    scan_ = op.scan
    assert scan_ is not None
    terms: dict[int, Expr] = {n: zero(op.buffers[n].dtype) for n in numbers}
    behind = Var(scan_.axis) - 1 if scan_.is_reversed else Var(scan_.axis) + 1
    is_last = _is_last(op, scan_)

    def rule(node: Node) -> Node | None:
        """Return the state before the step behind: it is that of this step."""
        if not _is_state(node):
            return None
        assert isinstance(node, Load)
        assert isinstance(node.buffer, StateBuffer)
        here = tuple(Var(axis.name) for axis in op.axes)
        return Load(stages.buffer(fixed(outputs[node.buffer.output])), here)

    for number in numbers:
        flow = _flow(number, op)
        for part in Differentiation(op.name, _is_state).run(op.bodies[number], flow, (), {}):
            assert isinstance(part.load.buffer, StateBuffer)
            value = substitute(under(part.guards, part.value), {scan_.axis: behind})
            share = rewrite(value, rule)
            if any(isinstance(node, Load) for node in walk(share)):
                share = choose(is_last, zero(dtype_of(share)), share)
            state = part.load.buffer.output
            terms[state] = add(terms[state], share)
    return terms


def _flow(number: int, op: ComputeOp | None = None) -> Var:
    """Return the variable of what flows back to a state one step behind."""
    name = f"flow{number}?"
    return Var(name) if op is None else Var(name, op.buffers[number].dtype)


def _is_state(node: Node) -> bool:
    return isinstance(node, Load) and isinstance(node.buffer, StateBuffer)


def _refuse_mixed(op: ComputeOp) -> None:
    what = "read states of other places than their own" if op.mixed_axes else "reduce states"
    if op.mixed_axes or op.step_sums:
        raise LanguageError(
            f"ac.gradient: the steps of the scan '{op.name}' {what}, and the derivative of such a "
            "scan is not known; write the steps as computes, one after the other, or leave it out "
            "by ac.stop_gradient"
        )


def _is_first(op: ComputeOp, scan_: Scan) -> Expr:
    return _is_at_end(op, scan_, is_front=not scan_.is_reversed)


def _is_last(op: ComputeOp, scan_: Scan) -> Expr:
    return _is_at_end(op, scan_, is_front=scan_.is_reversed)


def _is_at_end(op: ComputeOp, scan_: Scan, *, is_front: bool) -> Expr:
    extent = next(axis.extent for axis in op.axes if axis.name == scan_.axis)
    end = 0 if is_front else extent - 1
    return Compare(CompareOp.EQ, Var(scan_.axis), integer(end))
