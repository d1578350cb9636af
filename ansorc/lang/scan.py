"""Scans: elements that are computed one after the other along an axis, each from the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

from ansorc.errors import LanguageError
from ansorc.ir.dtype import DType
from ansorc.ir.expr import CompareOp as Op
from ansorc.ir.expr import Expr, Load, Operand, Select, Var, compare, const
from ansorc.ir.node import Node, rewrite
from ansorc.ir.printer import expr_text
from ansorc.ir.substitute import free_vars, substitute
from ansorc.lang.compute_op import StateBuffer
from ansorc.lang.let import write_lets_out
from ansorc.lang.literal import as_list, as_number, as_truth, short_text, takes
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar, is_complex
from ansorc.lang.scan_form import find_accumulation
from ansorc.lang.whole import Whole

_REFUSALS = (LanguageError, TypeError, AttributeError, ValueError, ArithmeticError)
"""What a step that wants elements raises if it is given numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class StateVar(Var):
    """A state of the step before, compared by identity; `compute` replaces it by an element."""


class State(Scalar):
    """A state of the step before, at the place that is computed; `state[…]` is that of another."""

    __slots__ = ("places",)

    def __init__(self, var: StateVar, places: StateBuffer) -> None:
        super().__init__(var)
        self.places = places

    def __getitem__(self, indices: ScalarLike | tuple[ScalarLike, ...]) -> Scalar:
        """Return the state of another place, given by the indices but that of the scan."""
        given = indices if isinstance(indices, tuple) else (indices,)
        return Scalar(Load(self.places, tuple(_place(index) for index in given)))


Step: TypeAlias = Callable[[State], ScalarLike]
States: TypeAlias = Sequence[ScalarLike]
Steps: TypeAlias = (
    Callable[[State, State], States]
    | Callable[[State, State, State], States]
    | Callable[[State, State, State, State], States]
    | Callable[[State], States]
)
"""Functions of one state for each of the tuple, spelled out so that lambdas are type-checked."""


@dataclass(frozen=True, eq=False, repr=False)
class ScanSteps(Whole):
    """The states along an axis; only as the whole body of a `compute` or a `compute_tuple`."""

    axis: str
    inits: tuple[Expr, ...]
    states: tuple[StateVar, ...]
    bodies: tuple[Expr, ...]
    """The states after a step; those before it are the variables `states`."""
    is_reversed: bool
    places: tuple[StateBuffer, ...]
    """What loads of states of other places read, for each state, by all indices but the axis."""

    def advice(self) -> str:
        many = "compute_tuple" if len(self.bodies) > 1 else "compute"
        return (
            f"the scan along {self.axis} must be all that the function of a {many} returns: put it "
            "in its own, then read that"
        )

    def __repr__(self) -> str:
        return f"<{self.advice()}>"


@overload
def scan(
    init: ScalarLike,
    step: Step,
    axis: Scalar,
    *,
    reverse: bool = ...,
    exclusive: bool = ...,
) -> ScanSteps: ...
@overload
def scan(
    init: States,
    step: Steps,
    axis: Scalar,
    *,
    reverse: bool = ...,
    exclusive: bool = ...,
) -> ScanSteps: ...
def scan(
    init: ScalarLike | States,
    step: Callable[..., Any],
    axis: Scalar,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> ScanSteps:
    """Return the states along `axis`: the whole body of a `compute`, whose index `axis` is.

    `step(state)` returns the state after a step, given the one before; `init` is the state before
    the first step, and does not depend on `axis`. The element at t is the state after step t, or
    before it if `exclusive`. With `reverse` the steps go from the last index to the first.

        running = ac.compute((m, n), lambda i, t: ac.scan(0.0, lambda s: s + A[i, t], axis=t))

    In a `compute_tuple`, `init` is a tuple, and `step` takes as many states and returns as many.
    The state is that of the place that is computed; `state[j, …]` is that of another place, with
    an index for each axis but that of the scan. A number as `init` has the dtype that the step
    makes of it. Sums, products, extremes, and steps `a * state + b` may be computed in blocks, so
    floats are rounded in another order. Raise LanguageError on other arguments, and on a step that
    does not return the dtypes of its states.
    """
    name = _axis_name(axis)
    given = as_list(init)
    firsts = [init] if given is None else given
    _require_takes(step, len(firsts), name)
    is_exclusive = as_truth(exclusive, "exclusive= of a scan")
    is_reversed = as_truth(reverse, "reverse= of a scan")
    inits = _inits(firsts, step, name)
    states = tuple(StateVar(f"state{n}", value.dtype) for n, value in enumerate(inits))
    places = tuple(
        StateBuffer(var.name, (), var.dtype, output=number) for number, var in enumerate(states)
    )
    given_states = map(State, states, places)
    results = _results(step(*given_states), len(states), name)
    _refuse_complex(results, name)
    bodies = tuple(
        write_lets_out(as_scalar(result, state.dtype).expr)
        for result, state in zip(results, states, strict=True)
    )
    for value, body in zip(inits, bodies, strict=True):
        _check_state(name, value, Scalar(body))
    if is_exclusive:
        bodies = _one_step_later(bodies, states, name, is_reversed=is_reversed)
    return ScanSteps(
        name, tuple(write_lets_out(v.expr) for v in inits), states, bodies, is_reversed,
        places,
    )  # fmt: skip


def with_extent(steps: ScanSteps, extent: int) -> tuple[Expr, ...]:
    """Return the bodies of `steps` along an axis of `extent` steps."""

    def rule(node: Node) -> Node | None:
        return const(extent - 1) if isinstance(node, LastStep) else None

    return tuple(rewrite(body, rule) for body in steps.bodies)


@dataclass(frozen=True, slots=True, eq=False)
class LastStep(Var):
    """The last index of the axis, which only the compute around the scan knows."""


def _require_takes(step: Callable[..., Any], count: int, axis: str) -> None:
    if not count or not takes(step, count):
        raise LanguageError(
            f"the step of the scan along '{axis}' takes {count} states, one for each value of "
            "init: lambda s: …"
        )


def _axis_name(axis: object) -> str:
    if isinstance(axis, Scalar) and type(axis.expr) is Var:
        return axis.expr.name
    raise LanguageError(
        f"a scan runs along {short_text(axis)}; axis= is an index of the compute around it: "
        "ac.compute((m, n), lambda i, t: ac.scan(init, step, axis=t))"
    )


def _inits(firsts: Sequence[Any], step: Callable[..., Any], axis: str) -> list[Scalar]:
    """Return the values in front of a scan; numbers get the dtypes that the step makes of them."""
    _refuse_complex(firsts, axis)
    dtypes: Sequence[DType | None] = [None] * len(firsts)
    if any(as_number(first) is not None for first in firsts):
        try:
            results = _results(step(*firsts), len(firsts), axis)
        except _REFUSALS:  # it is asked again with a state
            results = []
        _refuse_complex(results, axis)
        dtypes = [r.dtype if isinstance(r, Scalar) else None for r in results] or dtypes
    inits = [as_scalar(first, dtype) for first, dtype in zip(firsts, dtypes, strict=True)]
    for value in inits:
        if axis in free_vars(value.expr):
            raise LanguageError(
                f"the init of a scan along '{axis}' is {expr_text(value.expr)}, which depends on "
                f"'{axis}'; it is the state before the first step"
            )
    return inits


def _refuse_complex(states: Sequence[object], axis: str) -> None:
    if any(map(is_complex, states)):
        raise LanguageError(
            f"the scan along '{axis}' has a complex state; states are real: use compute_tuple, and "
            "make the real and the imaginary part a state each"
        )


def _results(made: object, count: int, axis: str) -> list[Any]:
    listed = as_list(made)
    results = [made] if listed is None else listed
    if len(results) != count:
        raise LanguageError(
            f"the step of the scan along '{axis}' returns {len(results)} states, but init has "
            f"{count}; return one for each"
        )
    for result in results:
        if isinstance(result, Whole):
            raise LanguageError(f"the step of the scan along '{axis}' is {result!r}")
        if not isinstance(result, Scalar) and as_number(result) is None:
            raise LanguageError(
                f"the step of the scan along '{axis}' returns {short_text(result)}; return an "
                "expression of the state"
            )
    return results


def _check_state(axis: str, before: Scalar, after: Scalar) -> None:
    if before.dtype != after.dtype:
        raise LanguageError(
            f"the scan along '{axis}' begins with a {before.dtype}, but its step returns a "
            f"{after.dtype}; begin with ac.const(…, '{after.dtype}'), or cast the result"
        )


def _one_step_later(
    bodies: Sequence[Expr], states: Sequence[StateVar], axis: str, *, is_reversed: bool
) -> tuple[Expr, ...]:
    """Return steps by which the element at t is the state before step t.

    The step at t is the one that was at t - 1, and the first does nothing.
    """
    var = Var(axis)
    first: Expr = LastStep("last") if is_reversed else const(0)
    is_first = compare(Op.EQ, var, first)
    before = {axis: var + 1 if is_reversed else var - 1}
    later: list[Expr] = []
    for body, state in zip(bodies, states, strict=True):
        form = find_accumulation(body, state)
        if form is not None:
            term = Select(is_first, form.identity, substitute(form.term, before))
            later.append(form.combine(state, term))
        else:
            later.append(Select(is_first, state, substitute(body, before)))
    return tuple(later)


def _place(index: object) -> Expr:
    """Return the index of another place; raise LanguageError unless it is an integer."""
    if isinstance(index, (Scalar, Operand)) or as_number(index) is not None:
        place = as_scalar(index)
        if place.dtype.is_integer:
            return place.astype("int64").expr
    raise LanguageError(f"a state is read at {short_text(index)}; give an integer for each axis")
