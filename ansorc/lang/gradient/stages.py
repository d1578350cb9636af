"""Make the stages of a gradient, with names of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Load, dtype_of
from ansorc.ir.node import Node, rewrite
from ansorc.ir.substitute import substitute
from ansorc.lang.body import Element
from ansorc.lang.check import check_op
from ansorc.lang.compute_op import Axis, Combiner, ComputeOp, Place
from ansorc.lang.define import compute, number_reduce_axes, without_reduce_axes
from ansorc.lang.hints import Hints
from ansorc.lang.naming import AutoName, unique_name
from ansorc.lang.operators.pad import pad
from ansorc.lang.reduction import reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import OwnedBuffer, Tensor
from ansorc.lang.trace import Key, key_of


class Stages:
    """Names for tensors, and the stages that several parts of a gradient share.

    Expressions are compared by structure, so the buffers of different tensors need different names,
    which default names are not.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._taken: set[str] = set()
        self._buffers: dict[tuple[Key, bool], OwnedBuffer] = {}
        self._by_name: dict[str, OwnedBuffer] = {}
        self._pads: dict[tuple[Key, tuple[int, ...], tuple[int, ...]], Tensor] = {}
        self._kept: list[Tensor] = []
        for tensor in tensors:
            self.buffer(tensor)

    def buffer(self, tensor: Tensor) -> OwnedBuffer:
        """Return the buffer of `tensor` under a name that no other tensor has.

        A tensor that is not differentiated has another name than the same tensor where it is.
        """
        key = key_of(tensor), tensor.is_fixed
        known = self._buffers.get(key)
        if known is None:
            known = tensor.buffer_called(self._own_name(tensor.name))
            self._add(tensor, known)
        return known

    def _add(self, tensor: Tensor, buffer: OwnedBuffer) -> None:
        self._buffers[key_of(tensor), tensor.is_fixed] = self._by_name[buffer.name] = buffer

    def use_own_buffers(self, expr: Expr) -> Expr:
        """Return `expr` with loads of the tensors of this gradient.

        Simplified indices come from a cache, in which those of another gradient may be equal.
        """

        def rule(node: Node) -> Node | None:
            if isinstance(node, Load):
                return Load(self._by_name[node.buffer.name], node.indices)
            return None

        return rewrite(expr, rule)

    def name(self, stem: str, suffix: str) -> AutoName:
        """Return a new name for a stage."""
        return AutoName(self._own_name(f"{stem}.{suffix}"))

    def _own_name(self, stem: str) -> str:
        name = unique_name(stem, self._taken)
        self._taken.add(name)
        return name

    def pad(self, tensor: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
        """Return `tensor` with margins of zeros; the same one for the same margins."""
        key = key_of(tensor), tuple(before), tuple(after)
        if key not in self._pads:
            name = self.name(self.buffer(tensor).name, "pad")
            axes = None if tensor.definition is None else [a.name for a in tensor.definition.axes]
            self._pads[key] = self.keep(pad(tensor, before, after, 0.0, name, axes))
        return self._pads[key]

    def compute(
        self, tensor: Tensor, value: Expr, suffix: str, hints: Hints | None = None
    ) -> Tensor:
        """Return a tensor like `tensor` whose elements are `value`."""
        op = tensor.definition
        names = [f"i{d}" for d in range(len(tensor.shape))]
        names = names if op is None else [axis.name for axis in op.axes]
        axes = dict(zip(names, tensor.shape, strict=True))
        return self.define(axes, value, {}, (tensor, suffix), hints)

    def define(
        self,
        axes: Mapping[str, int],
        value: Expr,
        terms: Mapping[str, int],
        named: tuple[Tensor, str],
        hints: Hints | None = None,
    ) -> Tensor:
        """Return the tensor of `value`, summed over the axes `terms` if there are any."""
        tensor, suffix = named
        over = [reduce_axis(extent, name.rstrip("?")) for name, extent in terms.items()]
        values = {name: axis.expr for name, axis in zip(terms, over, strict=True)}
        owned = self.use_own_buffers(value)

        def body(*indices: Scalar) -> Element:
            here = {name: index.expr for name, index in zip(axes, indices, strict=True)}
            element = substitute(owned, {**here, **values})
            return sum(Scalar(element), axis=over) if over else Scalar(element)

        name = self.name(self.buffer(tensor).name, suffix)
        return self.keep(compute(tuple(axes.values()), body, name, hints, list(axes)))

    def scatter(
        self,
        axes: Mapping[str, int],
        value: Expr,
        terms: tuple[Mapping[str, int], Mapping[str, Expr]],
        named: tuple[Tensor, str],
    ) -> Tensor:
        """Return the sums of `value` at places, for all values of the axes of `terms`.

        `terms` are these axes, and the place along each axis of the result that has one.
        """
        tensor, suffix = named
        over = [reduce_axis(extent, name.rstrip("?")) for name, extent in terms[0].items()]
        space = tuple(Axis(name, extent) for name, extent in axes.items())
        numbered = number_reduce_axes(space, over)
        values: dict[str, Expr] = dict(zip(terms[0], (axis.expr for axis in over), strict=True))
        name = self.name(self.buffer(tensor).name, suffix)

        def plain(expr: Expr) -> Expr:
            return without_reduce_axes(
                name, substitute(self.use_own_buffers(expr), values), numbered
            )

        body = plain(value)
        buffer = Buffer(str(name), tuple(axes.values()), dtype_of(body))
        op = ComputeOp(
            str(name), buffer, space, tuple(axis for axis, _ in numbered.values()), Combiner.SUM,
            body, places=tuple(Place(axis, plain(index)) for axis, index in terms[1].items()),
        )  # fmt: skip
        check_op(op)
        return self.keep(Tensor(buffer, op, has_auto_name=True))

    def keep(self, tensor: Tensor) -> Tensor:
        """Keep the name of a new tensor, and the tensor: keys are identities."""
        self._add(tensor, tensor.buffer_called(tensor.name))
        self._kept.append(tensor)
        return tensor
