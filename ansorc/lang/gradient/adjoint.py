"""`gradient`: the adjoint definitions of a computation, by reverse accumulation over its stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Const, Expr, Load, Select, Var, const
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.define import compute
from ansorc.lang.gradient.accumulate import accumulate
from ansorc.lang.gradient.cases import Contribution
from ansorc.lang.gradient.differentiate import Differentiation, Flow
from ansorc.lang.gradient.gather import Share, gather
from ansorc.lang.gradient.ragged import find_terms
from ansorc.lang.gradient.reductions import flow_to_terms
from ansorc.lang.gradient.scans import as_steps, flow_to_states
from ansorc.lang.gradient.stages import Stages
from ansorc.lang.gradient.terms import add, zero
from ansorc.lang.literal import short_text
from ansorc.lang.naming import AutoName
from ansorc.lang.tensor import ComplexTensor, OwnedBuffer, Tensor, fixed
from ansorc.lang.trace import Key, key_of, list_tensors

_Adjoint = Tensor | Const
"""The derivative by a tensor; a number if it is the same for all elements."""


def gradient(
    loss: Tensor, tensors: Sequence[Tensor], seed: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Return the derivatives of `loss` by each of `tensors`, of their shapes and dtypes.

    They are definitions like all others. `loss` has one element; for a larger one `seed`, a tensor
    of its shape and dtype, holds what flows back to each of its elements (the derivative of a final
    loss by it), and the results are sums over the elements. Of equal elements of a maximum or
    minimum the first is the chosen one. Raise LanguageError for integers, for tensors that `loss`
    does not depend on, and for stages whose derivative is not known.
    """
    _check(loss, tensors, seed)
    return _Reverse(loss, tensors).results(const(1, loss.dtype) if seed is None else seed)


def stop_gradient(tensor: Tensor) -> Tensor:
    """Return `tensor`, whose readers are differentiated as if it did not depend on anything.

    It is the same tensor, without another stage; of a placeholder it is a copy.
    """
    computed = tensor
    if tensor.definition is None:
        name = AutoName(f"{tensor.name}.copy")
        axes = [f"i{d}" for d in range(len(tensor.shape))]
        computed = compute(tensor.shape, lambda *i: tensor[i], name, axes=axes)
    return fixed(computed)


def _check(loss: Tensor, tensors: Sequence[Tensor], seed: Tensor | None) -> None:
    for tensor in (loss, *tensors):
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LanguageError(
                f"ac.gradient takes a tensor and a list of tensors, not {short_text(tensor)}"
            )
        if isinstance(tensor, ComplexTensor):
            raise LanguageError(
                f"ac.gradient: '{tensor.name}' is {tensor.dtype}; take derivatives by real "
                "tensors, of which ac.complex makes elements, and of real and imaginary parts"
            )
        if not tensor.dtype.is_float:
            raise LanguageError(
                f"ac.gradient: '{tensor.name}' is {tensor.dtype}, and only floats have "
                "derivatives; convert it by astype where it is read, or leave it out"
            )
    if not tensors:
        raise LanguageError("ac.gradient needs a list of one tensor or more to differentiate by")
    if len({key_of(tensor) for tensor in tensors}) < len(tensors):
        raise LanguageError("ac.gradient differentiates by a tensor twice; list it once")
    if seed is None and loss.shape not in ((), (1,)):
        raise LanguageError(
            f"ac.gradient: {loss!r} has more than one element; give seed=, a tensor of its shape "
            "that holds what flows back to each, or reduce it to one, as by ac.ops.sum"
        )
    if seed is not None and (seed.shape, seed.dtype) != (loss.shape, loss.dtype):
        raise LanguageError(
            f"ac.gradient: the seed {seed!r} is unlike {loss!r}; it must have the same shape and "
            "dtype"
        )


class _Reverse:
    """Reverse accumulation over the computations behind `loss`."""

    def __init__(self, loss: Tensor, wanted: Sequence[Tensor]) -> None:
        self._loss, self._wanted = loss, wanted
        self._results = {key_of(tensor) for tensor in wanted}
        self._tensors = {key_of(tensor): tensor for tensor in list_tensors([loss])}
        for tensor in self._tensors.values():
            if tensor.definition is not None and tensor.definition.overwrites:
                raise LanguageError(
                    f"ac.gradient: '{loss.name}' follows from '{tensor.name}', which updates an "
                    "input; differentiate by what is written, before ac.update"
                )
        for tensor in wanted:
            if key_of(tensor) not in self._tensors:
                raise LanguageError(
                    f"ac.gradient: '{loss.name}' does not depend on '{tensor.name}'; leave it out"
                )
        self._stages = Stages(self._tensors.values())
        self._needed = self._find_needed()
        self._shares: dict[Key, list[Share]] = {}
        self._adjoints: dict[Key, _Adjoint] = {}

    def results(self, seed: _Adjoint) -> tuple[Tensor, ...]:
        """Return the derivatives by the wanted tensors."""
        self._adjoints[key_of(self._loss)] = seed
        ops = {
            id(tensor.definition): tensor.definition
            for key, tensor in self._tensors.items()
            if key in self._needed and tensor.definition is not None
        }
        for op in reversed(ops.values()):  # its readers, those of all its outputs, come before it
            self._flow_through(op)
        return tuple(self._result(tensor) for tensor in self._wanted)

    def _find_needed(self) -> set[Key]:
        """Return the tensors through which something flows back to a wanted one."""
        needed = {key_of(tensor) for tensor in self._wanted}
        for key, tensor in self._tensors.items():
            op = tensor.definition
            loads = () if op is None else op.loads
            if any(self._is_wanted(load, needed) for load in loads):
                needed.add(key)
        return needed

    def _is_wanted(self, load: Load, needed: set[Key]) -> bool:
        if not isinstance(load.buffer, OwnedBuffer):
            return False  # a value of `ac.let`
        owner = owner_of(load)
        return not owner.is_fixed and owner.dtype.is_float and key_of(owner) in needed

    def _result(self, tensor: Tensor) -> Tensor:
        adjoint = self._adjoint(tensor)
        if isinstance(adjoint, Tensor):
            if tensor is not self._loss:
                return adjoint
            adjoint = adjoint[tuple(map(Var, element_names(tensor)))].expr  # the seed
        value: Expr = zero(tensor.dtype) if adjoint is None else adjoint
        return self._stages.compute(tensor, value, "gradient")

    def _adjoint(self, tensor: Tensor) -> _Adjoint | None:
        """Return the derivative by `tensor`, whose readers are done; None if it is 0."""
        key = key_of(tensor)
        shares = self._shares.pop(key, [])
        if shares:
            before = self._adjoints.get(key)
            derivative = accumulate(tensor, shares, self._stages, before)
            self._adjoints[key] = derivative if key in self._results else _original(derivative)
        return self._adjoints.get(key)

    def _flow_through(self, op: ComputeOp) -> None:
        """Add the shares of what `op` reads."""
        outputs = [self._output(op, number) for number in range(len(op.buffers))]
        adjoints = [self._adjoint(output) for output in outputs]
        if all(adjoint is None for adjoint in adjoints):
            return
        held, op = self._split_lets(op)
        named = op.with_bodies(self._with_unique_names)
        place = {place.axis: place.index for place in named.places}
        terms = find_terms(named, self._stages)
        place |= {} if terms is None else {terms.axis: terms.row}
        here = tuple(place.get(axis.name, Var(axis.name)) for axis in op.axes)
        if terms is not None:
            op = named = terms.op
        flows = [self._element(adjoint, here) for adjoint in adjoints]
        if named.scan is not None:
            adjoints = flow_to_states(named, flows, outputs, self._stages)
            flows = [self._element(adjoint, here) for adjoint in adjoints]
            named = as_steps(named, outputs, self._stages)
        given = [adjoint for adjoint in adjoints if isinstance(adjoint, Tensor)]
        flow = given[0] if len(given) == 1 and not op.more and not place else None
        value_of: dict[tuple[Load, tuple[Expr, ...]], Expr] = {}

        def read(number: int) -> Expr:
            return Load(self._stages.buffer(outputs[number]), here)

        differentiation = self._differentiation(op)
        for part in flow_to_terms(named, flows, read, self._stages):
            is_alone = not op.reduce_axes and not op.more and op.scan is None
            known = {part.body: read(0)} if is_alone else {}
            guards = part.guards if terms is None else (*part.guards, *terms.guards)
            for share in differentiation.run(part.body, part.flow, guards, known):
                key = share.load, share.guards
                value_of[key] = add(value_of[key], share.value) if key in value_of else share.value
        for (load, guards), value in value_of.items():
            self._gather(op, Flow(load, guards, value), flow)
        for tensor in reversed(held):
            assert tensor.definition is not None
            self._flow_through(tensor.definition)

    def _split_lets(self, op: ComputeOp) -> tuple[list[Tensor], ComputeOp]:
        """Return a tensor for each value of `ac.let`, and the computation that reads these."""
        held: dict[str, Tensor] = {}
        here = tuple(Var(axis.name) for axis in op.axes)

        def rule(node: Node) -> Node | None:
            tensor = held.get(node.buffer.name) if isinstance(node, Load) else None
            return None if tensor is None else Load(self._stages.buffer(tensor), here)

        for temporary in op.temporaries:
            name, dtype = temporary.buffer.name, temporary.buffer.dtype
            buffer = Buffer(name, op.buffer.shape, dtype)
            value = rewrite(temporary.value, rule)
            part = ComputeOp(name, buffer, op.axes, (), None, value)
            held[name] = tensor = Tensor(buffer, part, has_auto_name=True)
            self._tensors = {**self._tensors, key_of(tensor): tensor}
            if any(self._is_wanted(load, self._needed) for load in part.loads):
                self._needed.add(key_of(tensor))
        bodies = [rewrite(body, rule) for body in op.bodies]
        pairs = zip(op.more, bodies[1:], strict=True)
        more = tuple(replace(output, body=body) for output, body in pairs)
        return [*held.values()], replace(op, body=bodies[0], more=more, temporaries=())

    def _differentiation(self, op: ComputeOp) -> Differentiation:
        return Differentiation(op.name, lambda load: self._is_wanted(load, self._needed))

    def _element(self, adjoint: _Adjoint | None, here: tuple[Expr, ...]) -> Expr | None:
        if adjoint is None or isinstance(adjoint, Const):
            return adjoint
        return Load(self._stages.buffer(adjoint), here)

    def _gather(self, op: ComputeOp, part: Flow, flow: Tensor | None) -> None:
        """Add the shares of what flows back to a load of `op`."""
        tensor = owner_of(part.load)
        view = None if key_of(tensor) in self._results else find_view(tensor)
        if view is not None:
            here = dict(zip(element_names(tensor), part.load.indices, strict=True))
            body = substitute(self._with_unique_names(view), here)
            for inner in self._differentiation(op).run(body, part.value, part.guards, {}):
                self._gather(op, inner, flow)
            return
        axes = {f"{a.name}?": (0, a.extent - 1) for a in (*op.loop_axes, *op.reduce_axes)}
        names: dict[str, Expr] = {name[:-1]: Var(name) for name in axes}
        indices = [substitute(index, names) for index in part.load.indices]
        contribution = Contribution(
            axes,
            tuple(None if _is_data(index) else index for index in indices),
            tuple(substitute(guard, names) for guard in part.guards),
            substitute(part.value, names),
            tuple(
                (name, index)
                for name, index in zip(element_names(tensor), indices, strict=True)
                if _is_data(index)
            ),
        )
        elements = dict(zip(element_names(tensor), tensor.shape, strict=True))
        shares = gather(contribution, elements, flow, self._stages)
        self._shares.setdefault(key_of(tensor), []).extend(shares)

    def _output(self, op: ComputeOp, number: int) -> Tensor:
        known = self._tensors.get((id(op), number))
        if known is not None:
            return known
        is_auto = next(t for t in self._tensors.values() if t.definition is op).has_auto_name
        tensor = Tensor(op.buffers[number], op, is_auto, number)
        self._tensors = {**self._tensors, key_of(tensor): tensor}
        return tensor

    def _with_unique_names(self, body: Expr) -> Expr:
        """Return `body` with loads whose buffers have names of their own."""

        def rule(node: Node) -> Node | None:
            if isinstance(node, Load) and isinstance(node.buffer, OwnedBuffer):
                return Load(self._stages.buffer(owner_of(node)), node.indices)
            return None

        return rewrite(body, rule)


def find_view(tensor: Tensor) -> Expr | None:
    """Return the body of `tensor` if it only chooses which elements of others it has, or None.

    Such are pads, slices, permutations and joined tensors. What flows back to them goes on to the
    others at once: the derivative of a padded tensor is not computed in its margins.
    """
    op = tensor.definition
    if op is None or op.reduce_axes or op.more or op.scan is not None or op.temporaries:
        return None
    return op.body if _is_choice(op.body) else None


def _is_choice(body: Expr) -> bool:
    if isinstance(body, Select):
        return _is_choice(body.then) and _is_choice(body.otherwise)
    return isinstance(body, Const) or (
        isinstance(body, Load) and not any(map(_is_data, body.indices))
    )


def _is_data(index: Expr) -> bool:
    return any(isinstance(node, Load) for node in walk(index))


def _original(adjoint: _Adjoint) -> _Adjoint:
    """Return the tensor that `adjoint` is a copy of, or itself."""
    op = None if isinstance(adjoint, Const) else adjoint.definition
    if op is None or op.reduce_axes or not isinstance(op.body, Load):
        return adjoint
    is_whole = op.body.indices == tuple(Var(axis.name) for axis in op.axes)
    original = owner_of(op.body)
    return original if is_whole and original.shape == op.buffer.shape else adjoint


def element_names(tensor: Tensor) -> list[str]:
    """Return names for the axes of a tensor."""
    op = tensor.definition
    return [f"i{d}" for d in range(len(tensor.shape))] if op is None else [a.name for a in op.axes]


def owner_of(load: Load) -> Tensor:
    """Return the tensor that `load` reads."""
    buffer: Buffer = load.buffer
    assert isinstance(buffer, OwnedBuffer)
    assert buffer.owner is not None
    return buffer.owner
