"""Why a call may fail for the data that it gets: what `Check` and `Checked` name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ansorc.errors import (
    AssertionFailedError,
    DivisionByZeroError,
    FaultError,
    OutOfRangeError,
    PromiseError,
)


class FaultKind(Enum):
    """What a call found, by the word in the text of a program."""

    INDEX = "index_out_of_range"
    """An element that a tensor does not have. Its arguments are the index, the least and the
    largest that there is, and the dimension."""
    DIVISION = "division_by_zero"
    """An integer divided by 0, which is the argument."""
    ASSERTION = "assertion_failed"
    """What the program asserts does not hold. Its arguments are what it wants to be told."""
    VALUE = "value_out_of_range"
    """An input that is not as it was promised. Its arguments are the value, and the least and the
    largest that were promised."""


MOST_ARGUMENTS = 4
"""Integers that a fault tells."""


@dataclass(frozen=True)
class FaultSite:
    """What a fault may be about: a kind, a tensor or the words of an assertion, and of a network
    the call of a kernel."""

    kind: FaultKind
    about: str
    arguments: int = 0
    """How many integers are told."""
    call: str = ""

    def to_json(self) -> list[object]:
        """Return what `from_json` reads back."""
        return [self.kind.value, self.about, self.arguments, self.call]

    @staticmethod
    def from_json(fields: Sequence[Any]) -> FaultSite:
        """Return the site that `to_json` wrote; raise ValueError for others."""
        kind, about, arguments, call = fields
        return FaultSite(FaultKind(kind), str(about), int(arguments), str(call))


_ERRORS = {
    FaultKind.INDEX: OutOfRangeError,
    FaultKind.DIVISION: DivisionByZeroError,
    FaultKind.ASSERTION: AssertionFailedError,
    FaultKind.VALUE: PromiseError,
}
FAULT_WORDS = {
    FaultKind.INDEX: "got an index that a tensor does not have",
    FaultKind.DIVISION: "divides an integer by zero",
    FaultKind.ASSERTION: "found that something which the program asserts does not hold",
    FaultKind.VALUE: "got an input with values other than those that were promised",
}
"""What a call did of which nothing but the kind of fault is known."""


def fault_error(subject: str, site: FaultSite, values: tuple[int, ...]) -> FaultError:
    """Return the error that says that `subject` met the fault."""
    text = f"{subject} {fault_words(site, values)}"
    return _ERRORS[site.kind](text, site.about, values, site.call)


def recorded_fault(
    subject: str, kind: FaultKind, sites: Sequence[FaultSite], record: Sequence[int]
) -> FaultError:
    """Return the error of a call that left a record: which site failed, from 1 on, and its values.

    If the record does not fit the kind, another call has written over it.
    """
    number = record[0] - 1
    if not 0 <= number < len(sites) or sites[number].kind is not kind:
        return unknown_fault(subject, kind)
    site = sites[number]
    return fault_error(subject, site, tuple(record[1 : site.arguments + 1]))


def unknown_fault(subject: str, kind: FaultKind) -> FaultError:
    """Return the error of a call of which nothing but the kind of fault is known."""
    return _ERRORS[kind](f"{subject} {FAULT_WORDS[kind]}")


def fault_words(site: FaultSite, values: tuple[int, ...]) -> str:
    """Return what happened, as the end of a sentence about a call; `values` are its arguments."""
    where = f" (in '{site.call}')" if site.call else ""
    match site.kind:
        case FaultKind.INDEX:
            index, low, high, dimension = values
            return (
                f"got the index {index} for dimension {dimension} of '{site.about}', which has "
                f"the extent {high + 1} and takes {low} to {high}{where}"
            )
        case FaultKind.DIVISION:
            return f"divides an integer by zero, in '{site.about}'{where}"
        case FaultKind.ASSERTION:
            told = ", ".join(map(str, values))
            return f"found that {site.about}{f' ({told})' if told else ''} does not hold{where}"
        case FaultKind.VALUE:
            value, low, high = values[:3]
            return (
                f"got {value} in '{site.about}', whose values were promised to be {low} to "
                f"{high}{where}"
            )
