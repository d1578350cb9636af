"""Values that a definition computes once for each element, however often it uses them.

    t = ac.let(x[i] - m[0])              y.let0: float32[] = x[i] - m[0]
    return t * t * ac.exp(t)      ->     y[i] = y.let0[] * y.let0[] * exp(y.let0[])

While a definition is being written, such a value is a leaf of the expressions that use it, so a
value that is built of shared values takes no more steps than there are values. `hold_lets` then
makes a `Temporary` of each value that is used more than once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import INT64, DType
from ansorc.ir.expr import Binary, Checked, Const, Expr, Load, Select, Var, dtype_of
from ansorc.ir.node import (
    Node,
    children,
    map_children,
    rewrite,
    walk_children_first,
    walk_distinct,
)
from ansorc.ir.operator import DIVISIONS
from ansorc.ir.passes.accesses import is_inside
from ansorc.lang.compute_op import Axis, Temporary
from ansorc.lang.held_load import HeldLoad
from ansorc.lang.literal import refuse_bool
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LetLoad(HeldLoad):
    """A value of `let`."""

    @property
    def value(self) -> Expr:
        """The value as an expression."""
        return self.held  # pyright: ignore[reportReturnType]


def let(value: ScalarLike) -> Scalar:
    """Return `value`, which is computed once for each element, however often it is used.

    In a reduction the value is written out wherever it is used, and so it is where it may not be
    computed: if it is used under a condition only, and reads tensors at places that may be outside
    of them, divides integers, or checks data.
    """
    refuse_bool(value)
    scalar = as_scalar(value)
    if scalar.is_complex:
        return scalar.hold_parts(let)
    if isinstance(scalar.expr, Const | Var | Load):
        return scalar
    return Scalar(LetLoad(_buffer("let", scalar.dtype), (), scalar.expr))


def hold_shared(value: Scalar) -> Scalar:
    """Return `value` with each part that it uses more than once held as by `let`."""
    uses: dict[int, int] = {}
    made: dict[int, Expr] = {}
    known: dict[Expr, Expr] = {}
    order = list(walk_children_first(value.expr))
    for node in order:
        rebuilt = cast(Expr, map_children(node, lambda child: made[id(child)]))
        made[id(node)] = known.setdefault(rebuilt, rebuilt)
    kept = list(walk_children_first(made[id(value.expr)]))
    for node in kept:
        for child in children(node):
            uses[id(child)] = uses.get(id(child), 0) + 1
    held: dict[int, Node] = {}
    for node in kept:
        new = map_children(node, lambda child: held[id(child)])
        is_shared = uses.get(id(node), 0) > 1 and not isinstance(new, Const | Var | Load)
        held[id(node)] = let(cast(Expr, new)).expr if is_shared else new
    return Scalar(cast(Expr, held[id(made[id(value.expr)])]))


def write_lets_out(expr: Expr) -> Expr:
    """Return `expr` with the values of `let` where they are used."""
    values: dict[int, Expr] = {}
    for each in _in_order([expr]):
        values[id(each)] = _with_values(each.value, values)
    return _with_values(expr, values) if values else expr


def hold_lets(
    name: str, bodies: Sequence[Expr], axes: Sequence[Axis]
) -> tuple[tuple[Temporary, ...], list[Expr]]:
    """Return the temporaries of the computation `name` and its bodies, which load them.

    A value that is used once stays an expression.
    """
    lets = list(_in_order(bodies))
    if not lets:
        return (), list(bodies)
    uses = _count_uses(bodies, lets)
    always = _find_always(bodies)
    ranges = {axis.name: (0, axis.extent - 1) for axis in axes}
    made: list[Temporary] = []
    values: dict[int, Expr] = {}
    for each in lets:
        value = _with_values(each.value, values)
        is_held = uses[id(each)] > 1 and _is_worth_it(value)
        if is_held and (id(each) in always or _is_harmless(value, ranges)):
            buffer = _buffer(f"{name}.let{len(made)}", dtype_of(value))
            made.append(Temporary(buffer, value))
            value = Load(buffer, ())
        values[id(each)] = value
    return tuple(made), [_with_values(body, values) for body in bodies]


def _buffer(name: str, dtype: DType) -> Buffer:
    return Buffer(name, (), dtype, Scope.LOCAL)


def _lets_in(expr: Expr) -> Iterator[LetLoad]:
    return (node for node in walk_distinct(expr) if isinstance(node, LetLoad))


def _in_order(bodies: Iterable[Expr]) -> Iterator[LetLoad]:
    """Yield each value that the bodies use, directly or not, behind those that it uses."""
    done = set[int]()
    stack = [(each, False) for body in reversed([*bodies]) for each in _lets_in(body)]
    while stack:
        each, is_ready = stack.pop()
        if id(each) in done:
            continue
        if is_ready:
            done.add(id(each))
            yield each
            continue
        stack.append((each, True))
        stack += [(below, False) for below in _lets_in(each.value)]


def _count_uses(bodies: Iterable[Expr], lets: Iterable[LetLoad]) -> dict[int, int]:
    """Return how often each value is used where all others are written out, by id."""
    uses: dict[int, int] = {}
    for expr in (*bodies, *(each.value for each in lets)):
        copies = {id(expr): 1}
        for node in reversed(list(walk_children_first(expr))):
            if isinstance(node, LetLoad):
                uses[id(node)] = uses.get(id(node), 0) + copies[id(node)]
            for child in children(node):
                copies[id(child)] = copies.get(id(child), 0) + copies[id(node)]
    return uses


def _find_always(bodies: Iterable[Expr]) -> set[int]:
    """Return the nodes that are computed for each element, whatever the conditions, by id."""
    always = set[int]()
    stack: list[Node] = list(bodies)
    while stack:
        node = stack.pop()
        if id(node) in always:
            continue
        always.add(id(node))
        if isinstance(node, LetLoad):
            stack.append(node.value)
        else:
            stack += children(node)[: 1 if isinstance(node, Select) else None]
    return always


def _is_worth_it(value: Expr) -> bool:
    """Return whether `value` is held: not a load, nor an index, whose bounds are known of axes."""
    if isinstance(value, Load | Const | Var):
        return False
    return dtype_of(value) != INT64 or any(isinstance(node, Load) for node in walk_distinct(value))


def _is_harmless(value: Expr, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Return whether `value` may be computed though a condition says that it is not needed."""
    for node in walk_distinct(value):
        if isinstance(node, Checked) or (isinstance(node, Binary) and node.op in DIVISIONS):
            return False
        if isinstance(node, Load) and not is_inside(node.buffer, node.indices, ranges):
            return False
    return True


def _with_values(expr: Expr, values: Mapping[int, Expr]) -> Expr:
    return rewrite(expr, lambda node: values.get(id(node)))
