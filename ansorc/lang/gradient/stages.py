"""Make the stages of a gradient, with names of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansorc.ir.expr import Expr
from ansorc.ir.substitute import substitute
from ansorc.lang.body import Element
from ansorc.lang.define import compute
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
        self._buffers: dict[Key, OwnedBuffer] = {}
        self._pads: dict[tuple[Key, tuple[int, ...], tuple[int, ...]], Tensor] = {}
        self._kept: list[Tensor] = []
        for tensor in tensors:
            self.buffer(tensor)

    def buffer(self, tensor: Tensor) -> OwnedBuffer:
        """Return the buffer of `tensor` under a name that no other tensor has."""
        key = key_of(tensor)
        known = self._buffers.get(key)
        if known is None:
            known = self._buffers[key] = tensor.buffer_called(self._own_name(tensor.name))
        return known if known.owner is tensor else tensor.buffer_called(known.name)

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
            self._pads[key] = self._new(pad(tensor, before, after, 0.0, name, axes))
        return self._pads[key]

    def compute(self, tensor: Tensor, value: Expr, suffix: str) -> Tensor:
        """Return a tensor like `tensor` whose elements are `value`."""
        op = tensor.definition
        names = [f"i{d}" for d in range(len(tensor.shape))]
        names = names if op is None else [axis.name for axis in op.axes]
        return self.define(dict(zip(names, tensor.shape, strict=True)), value, {}, (tensor, suffix))

    def define(
        self,
        axes: Mapping[str, int],
        value: Expr,
        terms: Mapping[str, int],
        named: tuple[Tensor, str],
    ) -> Tensor:
        """Return the tensor of `value`, summed over the axes `terms` if there are any."""
        tensor, suffix = named
        over = [reduce_axis(extent, name.rstrip("?")) for name, extent in terms.items()]
        values = {name: axis.expr for name, axis in zip(terms, over, strict=True)}

        def body(*indices: Scalar) -> Element:
            here = {name: index.expr for name, index in zip(axes, indices, strict=True)}
            element = substitute(value, {**here, **values})
            return sum(Scalar(element), axis=over) if over else Scalar(element)

        name = self.name(self.buffer(tensor).name, suffix)
        return self._new(compute(tuple(axes.values()), body, name, axes=list(axes)))

    def _new(self, tensor: Tensor) -> Tensor:
        """Keep the name of a new tensor, and the tensor: keys are identities."""
        self._buffers[key_of(tensor)] = tensor.buffer_called(tensor.name)
        self._kept.append(tensor)
        return tensor
