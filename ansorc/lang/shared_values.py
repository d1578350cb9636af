"""Split a definition in which values are shared so often that it would be too long without sharing.

v = x[i]                                       y.shared0[i] = … of x[i] …
for _ in range(40): v = v + v         ->       y.shared1[i] = … of y.shared0[i] …
y[i] = v                                       y[i] = … of y.shared1[i] …

Without sharing, the value on the left has 2^40 loads. Shared values become tensors. A schedule
computes them where they are read, once for each element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Operand, Select, Var, dtype_of
from ansorc.ir.node import Node, children, map_children, walk_children_first
from ansorc.lang.compute_op import ComputeOp, Output
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

LONG = 4096
"""A definition with at least this many nodes, without sharing, is split."""
MOST = 1 << 18
"""The most nodes of a definition without sharing."""
_PART = 64
"""The least nodes of a value that becomes a tensor."""


def with_shared_values(op: ComputeOp) -> ComputeOp:
    """Return `op` with its shared values as separate tensors, if it is long.

    Raise LanguageError if more than MOST nodes are left, in a reduction or a scan, or under
    conditions.
    """
    sizes: dict[int, int] = {}
    if max(count_nodes(body, sizes) for body in op.parts) <= LONG:
        return op
    if not op.reduce_axes and not op.temporaries and op.scan is None:
        op = _Parts(op).result()
        sizes = {}
    size = max(count_nodes(body, sizes) for body in op.parts)
    if size > MOST:
        raise LanguageError(
            f"the definition of '{op.name}' uses values again and again: written out it has {size} "
            f"expressions, the most are {MOST}; define the values as tensors, by compute"
        )
    return op


def count_nodes(root: Node, known: dict[int, int]) -> int:
    """Return the number of nodes of `root` without sharing; keep those of all nodes in `known`."""
    for node in walk_children_first(root, known):
        known[id(node)] = 1 + sum(known[id(child)] for child in children(node))
    return known[id(root)]


class _Parts:
    def __init__(self, op: ComputeOp) -> None:
        self._op = op
        self._count = 0
        self._uses: dict[int, int] = {}
        self._always: set[int] = set()
        """The values that are computed for each element, whatever the conditions."""
        for body in op.bodies:
            self._count_uses(body)

    def result(self) -> ComputeOp:
        """Return the computation with its shared values as tensors."""
        made: dict[int, Node] = {}
        sizes: dict[int, int] = {}
        body, *others = (self._replace_shared(body, made, sizes) for body in self._op.bodies)
        more = tuple(
            Output(output.buffer, other)
            for output, other in zip(self._op.more, others, strict=True)
        )
        return replace(self._op, body=body, more=more)

    def _count_uses(self, body: Node) -> None:
        """Count the uses of each node, and note which are always computed."""
        self._uses[id(body)] = self._uses.get(id(body), 0) + 1
        for node in walk_children_first(body):
            for child in children(node):
                self._uses[id(child)] = self._uses.get(id(child), 0) + 1
        stack = [body]
        while stack:
            node = stack.pop()
            if id(node) not in self._always:
                self._always.add(id(node))
                stack += children(node)[: 1 if isinstance(node, Select) else None]

    def _replace_shared(self, body: Expr, made: dict[int, Node], sizes: dict[int, int]) -> Expr:
        """Return `body` with shared values loaded from tensors; `made` maps nodes to results."""
        for node in walk_children_first(body, frozenset(made)):
            new = map_children(node, lambda child: made[id(child)])
            is_shared = self._uses[id(node)] > 1 and id(node) in self._always
            if is_shared and isinstance(new, Operand) and count_nodes(new, sizes) > _PART:
                new = self._tensor(cast(Expr, new))
            made[id(node)] = new
        result = made[id(body)]
        return cast(Expr, result)

    def _tensor(self, value: Expr) -> Expr:
        """Return the load of a new tensor of the values."""
        op = self._op
        name = f"{op.name}.shared{self._count}"
        self._count += 1
        buffer = Buffer(name, op.buffer.shape, dtype_of(value))
        part = ComputeOp(name, buffer, op.axes, (), None, value)
        axes = tuple(Scalar(Var(axis.name)) for axis in op.axes)
        return Tensor(buffer, part, has_auto_name=True)[axes].expr
