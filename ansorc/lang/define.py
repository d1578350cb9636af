"""`compute` and `compute_tuple`: define tensors element by element."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast, overload

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import Shape
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Checked,
    Expr,
    Load,
    Operand,
    OwnCall,
    Var,
    dtype_of,
)
from ansorc.ir.node import Node, rewrite, walk
from ansorc.ir.substitute import substitute
from ansorc.lang.arguments import too_deep
from ansorc.lang.body import AnyRank, Element, Elements, FixedRank, Found
from ansorc.lang.check import check_op
from ansorc.lang.complex_type import Complex
from ansorc.lang.compute_op import Axis, ComputeOp, Output, Scan, StateBuffer, sizes_of
from ansorc.lang.hints import Hints, as_hints
from ansorc.lang.inner_reductions import (
    InnerReductions,
    number_reduce_axes,
    without_reduce_axes,
)
from ansorc.lang.let import hold_lets, write_lets_out
from ansorc.lang.literal import as_list, as_number, short_text, takes
from ansorc.lang.naming import (
    AutoName,
    check_axis_name,
    check_tensor_name,
    stage_name,
)
from ansorc.lang.ragged import with_known_extent
from ansorc.lang.reducer_laws import check_laws
from ansorc.lang.reduction import ComplexProduct, Reduction, ReductionLoad, TupleReduction
from ansorc.lang.scalar import if_then_else
from ansorc.lang.scalar_type import Scalar, as_scalar, is_complex
from ansorc.lang.scan import ScanSteps, StateVar, with_extent
from ansorc.lang.scan_reductions import StepReductions
from ansorc.lang.shared_values import count_nodes, with_shared_values
from ansorc.lang.tensor import ComplexTensor, Tensor, complex_buffer, sized_extents_of
from ansorc.lang.whole import Whole

_MOST_TWICE = 128
"""The most expressions of a part of a complex number that are computed for each part in memory."""
_COMPUTE, _TUPLE = AutoName("compute"), AutoName("compute_tuple")


@overload
def compute(
    shape: Shape,
    fn: AnyRank[Element],
    name: str = ...,
    hints: Hints | None = ...,
    axes: Sequence[str] | None = ...,
) -> Tensor: ...
@overload
def compute(
    shape: Shape,
    fn: FixedRank[Element],
    name: str = ...,
    hints: Hints | None = ...,
    axes: Sequence[str] | None = ...,
) -> Tensor: ...
@overload
def compute(
    shape: Shape,
    fn: Callable[..., Element],
    name: str = ...,
    hints: Hints | None = ...,
    axes: Sequence[str] | None = ...,
) -> Tensor: ...
def compute(
    shape: Shape,
    fn: Callable[..., Element],
    name: str = _COMPUTE,
    hints: Hints | None = None,
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return the tensor of `shape` whose element at (i, j, …) is `fn(i, j, …)`.

    `fn` returns an expression, a Python number, a reduction (`sum`, `max`, `min`, `prod`, `any`,
    `all`, or one of 1-tuples), or a `scan` along one of its indices. Its parameter names, or else
    `axes`, name the axes. `hints` are for the search (lang/hints.py). Raise LanguageError on a
    wrong rank, mixed dtypes, a read outside of a tensor, or a bad name.
    """
    space, value = _trace(shape, fn, name, axes)
    if is_complex(value) or isinstance(value, ComplexProduct):
        return _complex_tensor(name, space, value, hints)
    op = _make_op((str(name),), space, _one(name, value), value, hints)
    return Tensor(op.buffer, op, isinstance(name, AutoName))


def interleave(name: str, planes: tuple[Tensor, Tensor]) -> ComplexTensor:
    """Return the complex tensor with these real and imaginary parts, of one shape."""
    real, imag = planes
    flat = complex_buffer(str(name), real.shape, real.dtype)

    def part(*index: Scalar) -> Scalar:
        at = (*index[:-1], index[-1] // 2)
        return if_then_else(index[-1] % 2 == 0, real[at], imag[at])

    tensor = compute(flat.shape, part, name, axes=[f"i{d}" for d in range(len(flat.shape))])
    op = cast(ComputeOp, tensor.definition).with_buffers([flat])
    return ComplexTensor(flat, op, tensor.has_auto_name, planes=planes)


def _complex_tensor(
    name: str, space: tuple[Axis, ...], value: object, hints: Hints | None
) -> ComplexTensor:
    """Return the complex tensor of a value; its parts are stages `name.re` and `name.im`."""
    names = [stage_name(name, part) for part in ("re", "im")]
    if isinstance(value, ComplexProduct):
        parts = value.parts
        op = _make_op(tuple(map(str, names)), space, parts, parts, hints)
        first, second = (
            Tensor(b, op, isinstance(name, AutoName), n) for n, b in enumerate(op.buffers)
        )
        return interleave(name, (first, second))
    z = Complex.of(value)
    ops = [
        _make_op((str(each),), space, _one(each, part), part, hints)
        for each, part in zip(names, (z.real, z.imag), strict=True)
    ]
    first, second = (Tensor(op.buffer, op, isinstance(name, AutoName)) for op in ops)
    tensor = interleave(name, (first, second))
    parts = [write_lets_out(part.expr) for part in (z.real, z.imag)]
    if not all(map(_is_cheap, parts)):
        return tensor
    flat = [*space[:-1], Axis(space[-1].name, 2 * space[-1].extent)]
    last = Var(space[-1].name)
    real, imag = (Scalar(substitute(part, {last.name: last // 2})) for part in parts)
    both = if_then_else(Scalar(last) % 2 == 0, real, imag).expr
    op = _make_op((str(name),), tuple(flat), (both,), both, hints).with_buffers([tensor.buffer])
    return replace(tensor, definition=op)


def _is_cheap(part: Expr) -> bool:
    """Return whether a part may be computed twice, for each part of a number in memory."""
    if count_nodes(part, {}) > _MOST_TWICE:
        return False
    dear = (Call, OwnCall, Checked, ReductionLoad)
    return not any(
        isinstance(node, dear) or (isinstance(node, Binary) and node.op is BinaryOp.DIV)
        for node in walk(part)
    )


@overload
def compute_tuple(
    shape: Shape,
    fn: AnyRank[Elements],
    name: str | Sequence[str] = ...,
    hints: Hints | None = ...,
    axes: Sequence[str] | None = ...,
) -> tuple[Tensor, ...]: ...
@overload
def compute_tuple(
    shape: Shape,
    fn: FixedRank[Elements],
    name: str | Sequence[str] = ...,
    hints: Hints | None = ...,
    axes: Sequence[str] | None = ...,
) -> tuple[Tensor, ...]: ...
@overload
def compute_tuple(
    shape: Shape,
    fn: Callable[..., Elements],
    name: str | Sequence[str] = ...,
    hints: Hints | None = ...,
    axes: Sequence[str] | None = ...,
) -> tuple[Tensor, ...]: ...
def compute_tuple(
    shape: Shape,
    fn: Callable[..., Elements],
    name: str | Sequence[str] = _TUPLE,
    hints: Hints | None = None,
    axes: Sequence[str] | None = None,
) -> tuple[Tensor, ...]:
    """Return several tensors of `shape`, computed at the same time: `fn` returns their elements.

    `fn` returns a tuple of expressions, one reduction of tuples (`argmax`, `argmin`, or one made
    by `reducer`), or one `scan` of several states. `name` is a list of their names, or one name to
    which .0, .1, … is added. The rest is as in `compute`. Raise LanguageError as `compute` does,
    and on a wrong number of names.
    """
    stem = name if isinstance(name, str) else "compute"
    space, value = _trace(shape, fn, stem, axes)
    bodies = _many(stem, value)
    count = len(bodies) if isinstance(bodies, tuple) else len(bodies.bodies)
    names = [stage_name(name, f"{n}") for n in range(count)] if isinstance(name, str) else name
    if (names := as_list(names)) is None:
        raise LanguageError(f"the names are {short_text(name)}; give text, or a list of names")
    if len(names) != count:
        raise LanguageError(f"{count} tensors are computed, but the names are {tuple(names)}")
    for tensor_name in names:
        check_tensor_name(tensor_name)
    op = _make_op(tuple(map(str, names)), space, bodies, value, hints)
    return tuple(
        Tensor(buffer, op, isinstance(tensor_name, AutoName), output)
        for output, (buffer, tensor_name) in enumerate(zip(op.buffers, names, strict=True))
    )


def _trace(
    shape: Shape,
    fn: Callable[..., Element | Elements],
    name: str,
    axes: Sequence[str] | None,
) -> tuple[tuple[Axis, ...], Element | Elements]:
    """Return the axes of a compute and the result of its function for them."""
    check_tensor_name(name)
    extents, sizes = sized_extents_of(shape, name)
    if not callable(fn):
        raise LanguageError(f"'{name}' is defined by {short_text(fn)}, which is not a function")
    listed = list(axes) if isinstance(axes, str) else as_list(axes)
    if listed is None and axes is not None:
        raise LanguageError(f"the axes of '{name}' are {short_text(axes)}; give a list of names")
    names = _axis_names(fn, len(extents), name) if listed is None else tuple(listed)
    for axis in names:
        check_axis_name(axis)
    if axes is not None and not takes(fn, len(extents)):
        raise LanguageError(f"the function of '{name}' does not take {len(extents)} indices")
    if len(names) != len(extents) or len(set(names)) != len(names):
        raise LanguageError(f"'{name}' of shape {extents} needs as many different axes: {names}")
    try:
        value = fn(*(Scalar(Var(axis)) for axis in names))
    except LanguageError as error:
        raise LanguageError(f"in the definition of '{name}': {error}") from error
    axes_ = zip(names, extents, sizes or (None,) * len(extents), strict=True)
    return tuple(Axis(axis, extent, size=size) for axis, extent, size in axes_), value


def _make_op(
    names: tuple[str, ...],
    space: tuple[Axis, ...],
    bodies: Found,
    value: Element | Elements,
    hints: Hints | None,
) -> ComputeOp:
    """Return a computation; raise LanguageError if it is not legal or its reducer breaks laws."""
    try:
        op = _op(names, space, bodies, as_hints({} if hints is None else hints))
        check_op(op)
    except RecursionError as deep:
        raise too_deep(f"the definition of '{names[0]}'") from deep
    if isinstance(value, TupleReduction) and value.name:
        check_laws(op, value.name)
    return op


def _op(
    names: tuple[str, ...],
    space: tuple[Axis, ...],
    value: Found,
    hints: tuple[tuple[str, str], ...],
) -> ComputeOp:
    """Return the computation of the tensors `names` over the axes `space`."""
    if isinstance(value, ScanSteps):
        return _scan_op(names, space, value, hints)
    bodies, reduce, combiner = value, dict[int, tuple[Axis, int]](), None
    if isinstance(bodies, Reduction):
        bodies, combiner = (bodies.body,), bodies.combiner
    elif isinstance(bodies, TupleReduction):
        bodies, combiner = bodies.bodies, bodies.reducer
    if isinstance(value, Reduction | TupleReduction):
        reduce = number_reduce_axes(space, value.axes)
    shape, sizes = tuple(axis.extent for axis in space), sizes_of(space)
    outputs: list[Output] = []
    axes = tuple(axis for axis, _ in reduce.values())
    inner = InnerReductions(names[0], (*space, *axes), reduce)
    held = ((), bodies) if reduce else hold_lets(names[0], bodies, space)
    before = tuple(
        each.with_value(lambda v: without_reduce_axes(names[0], inner.take_out(v), reduce))
        for each in held[0]
    )
    for name, body in zip(names, held[1], strict=True):
        plain = without_reduce_axes(name, inner.take_out(body), reduce)
        outputs.append(Output(Buffer(name, shape, dtype_of(plain), sizes=sizes), plain))
    first, *more = outputs
    bodies = [output.body for output in outputs]
    axes = tuple(with_known_extent(axis, bodies, names[0]) for axis in axes)
    op = ComputeOp(
        names[0],
        first.buffer,
        space,
        axes,
        combiner,
        first.body,
        hints,
        tuple(more),
        temporaries=before,
    )
    return with_shared_values(op)


def _scan_op(
    names: tuple[str, ...],
    space: tuple[Axis, ...],
    steps: ScanSteps,
    hints: tuple[tuple[str, str], ...],
) -> ComputeOp:
    """Return the scan of the tensors `names` over the axes `space`."""
    along = next((axis for axis in space if axis.name == steps.axis), None)
    if along is None:
        listed = ", ".join(f"'{axis.name}'" for axis in space) or "it has none"
        raise LanguageError(
            f"'{names[0]}' is a scan along '{steps.axis}', which is none of its axes ({listed})"
        )
    inner, reductions = InnerReductions(names[0], space, {}), StepReductions(names[0], space)
    inits, bodies = (
        [without_reduce_axes(names[0], inner.take_out(expr), {}) for expr in exprs]
        for exprs in (
            steps.inits,
            [reductions.replace(body) for body in with_extent(steps, along.extent)],
        )
    )
    shape, sizes = tuple(axis.extent for axis in space), sizes_of(space)
    first, *more = (
        Output(Buffer(name, shape, dtype_of(body), sizes=sizes), body)
        for name, body in zip(names, bodies, strict=True)
    )
    sums = tuple(
        replace(each, body=without_reduce_axes(names[0], each.body, {})) for each in reductions.sums
    )
    scan = Scan(steps.axis, tuple(inits), steps.is_reversed, sums)
    op = ComputeOp(
        names[0], first.buffer, space, (), None, first.body, hints, tuple(more), scan=scan
    )
    return with_shared_values(_with_own_states(op, steps))


def _with_own_states(op: ComputeOp, steps: ScanSteps) -> ComputeOp:
    """Return the scan with loads of its tensors in the place of the states of `steps`."""
    states = {id(var): load for var, load in zip(steps.states, op.state_loads, strict=True)}

    def rule(node: Node) -> Node | None:
        place = node.buffer if isinstance(node, Load) else None
        is_place, is_state = isinstance(place, StateBuffer), isinstance(node, StateVar)
        is_own = id(node) in states or any(place is own for own in steps.places)
        if (is_place or is_state) and not is_own:
            raise LanguageError(f"'{op.name}' uses a state of another scan; read its tensor")
        if not isinstance(node, Load) or not isinstance(node.buffer, StateBuffer):
            return states.get(id(node))
        own = op.state_loads[node.buffer.output]
        if len(node.indices) != len(own.indices) - 1:
            raise LanguageError(
                f"'{op.name}' reads a state at {len(node.indices)} indices, but has "
                f"{len(own.indices) - 1} axes besides '{steps.axis}'; give one for each"
            )
        along = [axis.name for axis in op.axes].index(steps.axis)
        others = node.indices[:along], node.indices[along:]
        return Load(own.buffer, (*others[0], own.indices[along], *others[1]))

    return op.with_bodies(lambda body: rewrite(body, rule))


def _one(name: str, value: Element | Elements) -> Found:
    """Return the result of the function of a `compute`; raise LanguageError unless it is one."""
    if isinstance(value, TupleReduction | ScanSteps) and len(value.bodies) > 1:
        raise LanguageError(
            f"the function of '{name}' returned {len(value.bodies)} values; use compute_tuple, "
            "which returns as many tensors"
        )
    is_whole = isinstance(value, Reduction | TupleReduction | ScanSteps)
    return value if is_whole else (_scalar(name, value),)


def _many(name: str, value: Element | Elements) -> tuple[Expr, ...] | TupleReduction | ScanSteps:
    """Return the results of the function of a `compute_tuple`; raise LanguageError otherwise."""
    if isinstance(value, TupleReduction | ScanSteps):
        return value
    if not isinstance(value, tuple) or not value:
        raise LanguageError(
            f"the function of '{name}' returned {short_text(value)}; "
            "return a tuple of expressions, one reduction of tuples, or one scan"
        )
    return tuple(_scalar(name, element) for element in value)


def _scalar(name: str, value: object) -> Expr:
    if is_complex(value):
        raise LanguageError(
            f"the function of '{name}' returned a complex number in a tuple, whose tensors are "
            "real: return z.real and z.imag, or define it by a compute of its own"
        )
    if isinstance(value, (Scalar, Operand)) or as_number(value) is not None:
        return as_scalar(value).expr
    if isinstance(value, Whole):
        raise LanguageError(f"the function of '{name}' returned no element: {value.advice()}")
    raise LanguageError(
        f"the function of '{name}' returned {short_text(value)} ({type(value).__name__}); "
        "return one expression"
    )


def _axis_names(fn: Callable[..., object], rank: int, name: str) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        raise LanguageError(
            f"'{name}' is defined by {short_text(fn)}, whose parameters are unknown; use a lambda"
        ) from None
    names = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        names += [f"i{d}" for d in range(len(names), rank)]
    if len(names) != rank:
        raise LanguageError(
            f"'{name}' has {rank} dimensions, but its function takes {len(names)} parameters "
            f"({', '.join(names)}); it takes one index a dimension"
        )
    return tuple(names)
