"""Turn contributions to elements of a tensor into sums over the axes of that tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansorc.ir.arith.affine import integer
from ansorc.ir.arith.interval import Interval, bounds
from ansorc.ir.arith.simplify import Simplifier, simplify
from ansorc.ir.dtype import BOOL
from ansorc.ir.expr import Compare, CompareOp, Const, Expr, Load, Var
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.substitute import free_vars, substitute
from ansorc.lang.gradient.cases import Contribution, split_cases
from ansorc.lang.gradient.phases import Places, find_places
from ansorc.lang.gradient.solve import Equations, Solution
from ansorc.lang.gradient.stages import Stages
from ansorc.lang.gradient.terms import under
from ansorc.lang.tensor import OwnedBuffer, Tensor

_Limits = Mapping[str, tuple[Expr, int]]
_LARGEST_MARGIN = 2
"""A margin of zeros is at most this many times the extent, and a few elements."""
_FEW = 16


@dataclass(frozen=True)
class Share:
    """A part of each element: the sum of `value` over the axes `free`, where `guards` hold.

    Along the axes of `scattered`, each term goes to the index that is given.
    """

    places: Places
    free: tuple[tuple[str, int], ...]
    guards: tuple[Expr, ...]
    value: Expr
    scattered: tuple[tuple[str, Expr], ...] = ()

    @property
    def term(self) -> Expr:
        """The value, or 0 where a guard does not hold."""
        return under(self.guards, self.value)


def gather(
    contribution: Contribution, elements: Mapping[str, int], flow: Tensor | None, stages: Stages
) -> Iterator[Share]:
    """Yield the shares of the element whose indices are `elements`, with their extents.

    `flow` is the tensor whose elements flow back, one for each element of the computation: where
    nothing else depends on an axis that may leave it, it is padded instead of guarded.
    """
    for case in split_cases(contribution):
        share = _Case(case, elements).share(flow, stages)
        if share is not None:
            yield share


class _Case:
    """A contribution whose indices are sums, quotients and remainders of axes, from 0."""

    def __init__(self, case: Contribution, elements: Mapping[str, int]) -> None:
        firsts = {name: Var(name) + low for name, (low, _) in case.axes.items() if low}
        self._extents = {name: high - low + 1 for name, (low, high) in case.axes.items()}
        self._elements = elements
        self._indices = [
            index if index is None else substitute(index, firsts) for index in case.indices
        ]
        self._guards = [substitute(guard, firsts) for guard in case.guards]
        self._value = substitute(case.value, firsts)
        self._scattered = [(name, substitute(index, firsts)) for name, index in case.places]
        self._has_all = not firsts
        """Whether each axis begins at 0, so that elements of the flow are at the axes."""

    def share(self, flow: Tensor | None, stages: Stages) -> Share | None:
        """Return the share of an element; None if it is 0."""
        solution = self._solve()
        places = find_places(self._elements, solution)
        ranges = _ranges(places.elements) | _ranges(solution.free)
        values = {
            name: simplify(substitute(value, places.indices), ranges)
            for name, value in solution.values.items()
        }
        limits = {
            name: (values[name], extent)
            for name, (_, extent) in solution.limits.items()
            if _may_leave(values[name], extent, ranges)
        }
        inside = Simplifier(dict(ranges))
        for condition in places.inside():
            inside = inside.assuming(inside.expr(condition))
        guards = [
            guard
            for guard in self._guards
            if inside.expr(substitute(guard, values | places.indices)) != Const(True, BOOL)
        ]
        if flow is not None and solution.free and self._has_all:
            limits = self._pad(flow, stages, limits, (ranges, guards))
        of_places = [substitute(guard, places.indices) for guard in solution.guards]
        of_case = [substitute(guard, values | places.indices) for guard in guards]
        kept, simplifier = _simplify_guards([*_within(limits), *of_places, *of_case], ranges)
        if kept is None:
            return None
        value = simplifier.expr(substitute(self._value, values | places.indices))
        if leaves_tensor((value, *kept), ranges, simplifier):
            outer, simplifier = _simplify_guards([*places.inside(), *kept], ranges)
            kept, value = outer or [], simplifier.expr(value)
        scattered = tuple(
            (name, under(kept, simplifier.expr(substitute(index, values | places.indices))))
            for name, index in self._scattered
        )
        if (
            not solution.free
        ):  # a term for each element of the other axes: it is at its place or not
            kept += [Compare(CompareOp.EQ, Var(name), index) for name, index in scattered]
            scattered = ()
        return Share(places, tuple(solution.free.items()), tuple(kept), value, scattered)

    def _solve(self) -> Solution:
        equations = Equations(self._extents, _ranges(self._elements))
        ranges = _ranges(self._extents)
        for element, index in zip(self._elements, self._indices, strict=True):
            if index is not None:
                equations.require(simplify(index, ranges), element)
        return equations.solve()

    def _pad(
        self,
        flow: Tensor,
        stages: Stages,
        limits: _Limits,
        known: tuple[Mapping[str, Interval], Sequence[Expr]],
    ) -> _Limits:
        """Read the flow with a margin where only it depends on an axis; return other limits.

        `known` are the bounds of axes, and the guards.
        """
        ranges, guards = known
        before, after = [0] * len(flow.shape), [0] * len(flow.shape)
        left = dict(limits)
        for name, (value, extent) in limits.items():
            place = self._find_place(flow, name, guards)
            interval = bounds(value, ranges)
            if place is None or interval is None or flow.shape[place] != extent:
                continue  # a shortened axis: elements beyond it are not zeros
            margin = max(0, -interval[0]), max(0, interval[1] - extent + 1)
            if sum(margin) <= _LARGEST_MARGIN * extent + _FEW:
                before[place], after[place] = margin
                del left[name]
        if any((*before, *after)):
            padded = stages.buffer(stages.pad(flow, before, after))
            self._value = _read_instead(self._value, flow, padded, before)
        return left

    def _find_place(self, flow: Tensor, name: str, guards: Sequence[Expr]) -> int | None:
        """Return the dimension of `flow` that the axis indexes, if it is in no other index."""
        if any(name in free_vars(guard) for guard in guards):
            return None
        place: int | None = None

        def rule(node: Node) -> Node | None:
            nonlocal place
            if not _is_load_of(node, flow):
                return None
            assert isinstance(node, Load)
            place = next((d for d, i in enumerate(node.indices) if i == Var(name)), place)
            return Const(0.0, node.buffer.dtype)

        rest = rewrite(self._value, rule)
        return None if name in free_vars(rest) else place


def _ranges(extents: Mapping[str, int]) -> dict[str, Interval]:
    return {name: (0, extent - 1) for name, extent in extents.items()}


def _may_leave(value: Expr, extent: int, ranges: Mapping[str, Interval]) -> bool:
    interval = bounds(value, ranges)
    return interval is None or interval[0] < 0 or interval[1] >= extent


def _within(limits: _Limits) -> Iterator[Expr]:
    for value, extent in limits.values():
        yield Compare(CompareOp.GE, value, integer(0))
        yield Compare(CompareOp.LT, value, integer(extent))


def _simplify_guards(
    guards: Sequence[Expr], ranges: Mapping[str, Interval]
) -> tuple[list[Expr] | None, Simplifier]:
    """Return guards without those that follow from others, and what follows from all of them.

    They are None if they never hold.
    """
    simplifier, kept = Simplifier(dict(ranges)), list[Expr]()
    for guard in guards:
        simpler = simplifier.expr(guard)
        if isinstance(simpler, Const):
            if not simpler.value:
                return None, simplifier
            continue
        kept.append(simpler)
        simplifier = simplifier.assuming(simpler)
    return kept, simplifier


def leaves_tensor(
    exprs: Sequence[Expr], ranges: Mapping[str, Interval], known: Simplifier | None = None
) -> bool:
    """Return whether a load may be outside of its tensor, as far as is `known`."""
    return any(
        _may_leave(index, extent, ranges) and not _is_inside(index, extent, known)
        for expr in exprs
        for node in walk(expr)
        if isinstance(node, Load)
        for index, extent in zip(node.indices, node.buffer.shape, strict=True)
    )


def _is_inside(index: Expr, extent: int, known: Simplifier | None) -> bool:
    tests = [known.expr(test) for test in _within({"": (index, extent)})] if known else [None]
    return all(isinstance(test, Const) and bool(test.value) for test in tests)


def _is_load_of(node: Node, tensor: Tensor) -> bool:
    buffer = node.buffer if isinstance(node, Load) else None
    return isinstance(buffer, OwnedBuffer) and buffer.owner is tensor


def _read_instead(value: Expr, old: Tensor, new: OwnedBuffer, before: Sequence[int]) -> Expr:
    def rule(node: Node) -> Node | None:
        if not _is_load_of(node, old):
            return None
        assert isinstance(node, Load)
        pairs = zip(node.indices, before, strict=True)
        return Load(new, tuple(index + low if low else index for index, low in pairs))

    return rewrite(value, rule)
