"""Integer index arithmetic done while code is written: sums of run-time atoms plus a constant."""

from __future__ import annotations

from dataclasses import dataclass, field

_LIMIT = 1 << 62


@dataclass(eq=False, slots=True)
class Atom:
    """An `i64` known only at run time, defined `depth` scopes deep, within [low, high]."""

    name: str
    depth: int
    order: int
    """Later atoms have larger numbers: with `depth`, a stable order of terms."""
    low: int
    high: int


Terms = dict[Atom, int]


@dataclass(slots=True)
class Linear:
    """The sum of coefficient x atom, plus `constant`; lane `l` of a vector has `step * l` more."""

    terms: Terms = field(default_factory=dict[Atom, int])
    constant: int = 0
    lanes: int = 1
    step: int = 0

    @property
    def is_constant(self) -> bool:
        """Whether it is one number, known now."""
        return not self.terms and not self.step

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        """Return `self + sign * other`."""
        terms = self.terms
        if other.terms:
            terms = dict(terms)
            for atom, coefficient in other.terms.items():
                if total := terms.get(atom, 0) + sign * coefficient:
                    terms[atom] = total
                else:
                    del terms[atom]
        return Linear(
            terms,
            self.constant + sign * other.constant,
            max(self.lanes, other.lanes),
            self.step + sign * other.step,
        )

    def times(self, factor: int) -> Linear:
        """Return `self * factor`."""
        terms = {a: c * factor for a, c in self.terms.items()} if factor else {}
        return Linear(terms, self.constant * factor, self.lanes, self.step * factor)

    def shifted(self, constant: int) -> Linear:
        """Return `self + constant`."""
        return Linear(self.terms, self.constant + constant, self.lanes, self.step)

    def base(self) -> Linear:
        """Return the scalar without the constant."""
        return Linear(self.terms)

    def lane(self, number: int) -> Linear:
        """Return one lane as a scalar."""
        return Linear(self.terms, self.constant + number * self.step)

    def bounds(self) -> tuple[int, int] | None:
        """The smallest and largest value over all lanes; None if a part of it may overflow."""
        low = high = self.constant
        size = abs(low)
        for atom, coefficient in self.terms.items():
            ends = (atom.low * coefficient, atom.high * coefficient)
            low, high = low + min(ends), high + max(ends)
            size += max(-min(ends), *ends)
        last = self.step * (self.lanes - 1)
        low, high = low + min(0, last), high + max(0, last)
        return (low, high) if size + abs(last) < _LIMIT else None

    def ordered(self) -> list[tuple[Atom, int]]:
        """The terms, those of outer scopes first."""
        return sorted(self.terms.items(), key=_order)

    def divided(self, divisor: int) -> tuple[Linear, Linear] | None:
        """Split into `q, r` with `self == q * divisor + r`, `q` as large as possible.

        None if overflow could make the split wrong; for a scalar and `divisor > 0` only.
        """
        if self.bounds() is None:
            return None
        quotient: Terms = {}
        rest: Terms = {}
        for atom, coefficient in self.terms.items():
            if whole := coefficient // divisor:
                quotient[atom] = whole
            if coefficient % divisor:
                rest[atom] = coefficient % divisor
        whole, left = divmod(self.constant, divisor)
        return Linear(quotient, whole), Linear(rest, left)


def _order(term: tuple[Atom, int]) -> tuple[int, int]:
    return term[0].depth, term[0].order
