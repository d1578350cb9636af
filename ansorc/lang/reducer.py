"""Reducer: a user-defined way to combine the terms of a reduction, tuple by tuple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansorc.errors import LanguageError
from ansorc.ir.dtype import DType
from ansorc.ir.expr import Const, Expr, Load, Var, dtype_of
from ansorc.ir.node import walk
from ansorc.ir.substitute import substitute
from ansorc.lang.literal import short_text, takes
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar

Combine = Callable[[tuple[Scalar, ...], tuple[Scalar, ...]], Sequence[ScalarLike]]


@dataclass(frozen=True)
class Reducer:
    """A function that combines the tuples (l0, l1, …) and (r0, r1, …) to the tuple `results`.

    It must be associative and commutative, up to rounding: schedules combine terms in any order.
    The tuple `identities` is neutral.
    """

    identities: tuple[Const, ...]
    results: tuple[Expr, ...]

    @property
    def value(self) -> str:
        """The word for it in texts in which a Combiner has its name."""
        return "tuple"

    @property
    def operands(self) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
        """The variables of `results`: those of the left and of the right tuple."""
        return operands([identity.dtype for identity in self.identities])

    def combine(self, left: Sequence[Expr], right: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the results `left` combined with the terms `right`."""
        mine, theirs = self.operands
        values = {var.name: expr for var, expr in zip(mine, left, strict=True)}
        values |= {var.name: expr for var, expr in zip(theirs, right, strict=True)}
        return tuple(substitute(result, values) for result in self.results)


def operands(dtypes: Sequence[DType]) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
    """Return variables l0, l1, … and r0, r1, … for two tuples of elements of `dtypes`."""
    left = tuple(Var(f"l{number}", dtype) for number, dtype in enumerate(dtypes))
    return left, tuple(Var(f"r{number}", var.dtype) for number, var in enumerate(left))


def reducer_of(
    combine: Combine, identities: Sequence[ScalarLike], dtypes: Sequence[DType], name: str
) -> Reducer:
    """Return `combine` as a Reducer of tuples of `dtypes`; raise LanguageError if not valid."""
    if len(identities) != len(dtypes):
        raise LanguageError(
            f"the reducer '{name}' has {len(identities)} identities, but is given {len(dtypes)} "
            "terms; give one for each"
        )
    literals = tuple(_literal(v, dtype, name) for v, dtype in zip(identities, dtypes, strict=True))
    left, right = operands(dtypes)
    if not takes(combine, 2):
        raise LanguageError(
            f"the function of the reducer '{name}' takes two tuples: lambda a, b: …"
        )
    values = combine(tuple(map(Scalar, left)), tuple(map(Scalar, right)))
    if not isinstance(values, (tuple, list)) or len(values) != len(dtypes):
        raise LanguageError(
            f"the reducer '{name}' combines two tuples of {len(dtypes)} to {short_text(values)}; "
            f"return a tuple of {len(dtypes)}"
        )
    results = tuple(as_scalar(v, t).expr for v, t in zip(values, dtypes, strict=True))
    reducer = Reducer(literals, results)
    check_reducer(reducer, dtypes, name)
    return reducer


def check_reducer(reducer: Reducer, dtypes: Sequence[DType], name: str) -> None:
    """Raise LanguageError unless `reducer` returns `dtypes` and reads only its operands."""
    if not len(reducer.identities) == len(reducer.results) == len(dtypes):
        raise LanguageError(f"the reducer of '{name}' is not one of {len(dtypes)} values")
    known = {var for side in operands(dtypes) for var in side}
    triples = zip(reducer.identities, reducer.results, dtypes, strict=True)
    for number, (identity, result, dtype) in enumerate(triples):
        if identity.dtype != dtype or dtype_of(result) != dtype:
            raise LanguageError(
                f"element {number} of the reducer of '{name}' is {dtype_of(result)} from "
                f"{identity.dtype}, but its term is {dtype}; cast the term or the result"
            )
        for node in walk(result):
            if isinstance(node, Load) or (isinstance(node, Var) and node not in known):
                raise LanguageError(
                    f"the reducer of '{name}' reads '{_name(node)}'; it may read its two tuples "
                    "alone, so put the rest into the terms"
                )


def _literal(value: ScalarLike, dtype: DType, name: str) -> Const:
    expr = as_scalar(value, dtype).expr
    if not isinstance(expr, Const):
        raise LanguageError(f"the identities of the reducer '{name}' must be numbers")
    if expr.dtype != dtype:
        raise LanguageError(
            f"the reducer '{name}' begins at a {expr.dtype}, but its term is {dtype}; "
            "give a plain number"
        )
    return expr


def _name(node: Load | Var) -> str:
    return node.buffer.name if isinstance(node, Load) else node.name
