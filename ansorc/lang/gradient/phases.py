"""Split indices of an element into blocks and phases where a sum depends on quotients of them.

With a stride s the element p is reached by the taps p % s, p % s + s, …, of the outputs p // s,
p // s - 1, …. Computed for all blocks p // s and all phases p % s, as axes of their own, that is a
dense sum; another stage interleaves the phases, as in a transposed convolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ansorc.ir.arith.affine import affine, integer
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Const, Expr, Var
from ansorc.ir.node import walk
from ansorc.lang.gradient.solve import Solution
from ansorc.lang.naming import unique_name


@dataclass(frozen=True)
class Places:
    """Where a sum for each element of a tensor is computed: at its indices, or in phases."""

    extents: Mapping[str, int]
    """The indices of an element of the tensor."""
    strides: Mapping[str, tuple[int, int]]
    """For indices that are split: the stride, and the number of elements before the first."""

    @property
    def elements(self) -> dict[str, int]:
        """The axes of the sums, and their extents."""
        axes: dict[str, int] = {}
        for name, extent in self.extents.items():
            if name in self.strides:
                stride, before = self.strides[name]
                axes[name] = (extent - 1 + before) // stride + 1
                axes[self._phase(name)] = stride
            else:
                axes[name] = extent
        return axes

    @property
    def indices(self) -> dict[str, Expr]:
        """The indices of the element, by the axes of the sums."""
        return {
            name: Var(name) * stride + Var(self._phase(name)) - before
            for name, (stride, before) in self.strides.items()
        }

    @property
    def positions(self) -> dict[str, Expr]:
        """The axes of the sums that are not indices themselves, by the indices of the element."""
        positions: dict[str, Expr] = {}
        for name, (stride, before) in self.strides.items():
            moved = Var(name) + before if before else Var(name)
            positions |= {name: moved // stride, self._phase(name): moved % stride}
        return positions

    def _phase(self, name: str) -> str:
        return unique_name(f"{name}_phase", self.extents)

    def inside(self) -> Iterator[Expr]:
        """Yield the conditions under which the indices are those of an element."""
        for name, index in self.indices.items():
            yield Compare(CompareOp.GE, index, integer(0))
            yield Compare(CompareOp.LT, index, integer(self.extents[name]))


def find_places(extents: Mapping[str, int], solution: Solution) -> Places:
    """Return where the sums of a solution are computed, for elements of these extents."""
    if not solution.free:
        return Places(extents, {})
    strides_of: dict[str, set[tuple[int, int]]] = {}
    exprs = [*solution.values.values(), *solution.guards]
    for node in (node for expr in exprs for node in walk(expr)):
        match node:
            case Binary(BinaryOp.FLOORDIV | BinaryOp.MOD, inner, Const(stride, _)):
                form = affine(inner)
            case _:
                continue
        names = {} if form is None else form.terms
        for name in names:
            is_own = form is not None and len(names) == 1 and names[name] == 1
            pair = (int(stride), form.constant % int(stride)) if is_own and form else (0, 0)
            strides_of.setdefault(name, set()).add(pair)
    strides = {
        name: next(iter(pairs))
        for name, pairs in strides_of.items()
        if name in extents and len(pairs) == 1 and (0, 0) not in pairs
    }
    return Places(extents, strides)
