"""Faults: the reasons why a call may fail because of its data, for `Check` and `Checked`."""

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
    """The kind of a fault; its value is the word in the text of a program."""

    INDEX = "index_out_of_range"
    """An index outside of a tensor. Its arguments are the index, the least and the largest legal
    index, and the dimension."""
    DIVISION = "division_by_zero"
    """An integer divided by 0; the argument is the divisor."""
    ASSERTION = "assertion_failed"
    """An assertion of the program does not hold. Its arguments are those of the assertion."""
    VALUE = "value_out_of_range"
    """An input outside of its promised range. Its arguments are the value, and the least and the
    largest promised value."""


MOST_ARGUMENTS = 4
"""The most integers that a fault reports."""


@dataclass(frozen=True)
class FaultSite:
    """A possible fault: its kind, the tensor or the text of the assertion, and in a network the
    call of the kernel."""

    kind: FaultKind
    about: str
    arguments: int = 0
    """The number of integers that are reported."""
    call: str = ""

    def to_json(self) -> list[object]:
        """Return the fields as a JSON list that `from_json` reads."""
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
"""The end of a sentence about a call of which only the kind of fault is known."""


def fault_error(subject: str, site: FaultSite, values: tuple[int, ...]) -> FaultError:
    """Return the error for a fault that `subject` met."""
    text = f"{subject} {fault_words(site, values)}"
    return _ERRORS[site.kind](text, site.about, values, site.call)


def fault_of_record(
    subject: str, kind: FaultKind, sites: Sequence[FaultSite], record: Sequence[int]
) -> FaultError:
    """Return the error for a record of a call: the number of the site, from 1 on, and its values.

    If the record does not fit `kind`, another call has overwritten it.
    """
    number = record[0] - 1
    if not 0 <= number < len(sites) or sites[number].kind is not kind:
        return fault_of_kind(subject, kind)
    site = sites[number]
    return fault_error(subject, site, tuple(record[1 : site.arguments + 1]))


def fault_of_kind(subject: str, kind: FaultKind) -> FaultError:
    """Return the error for a call of which only the kind of fault is known."""
    return _ERRORS[kind](f"{subject} {FAULT_WORDS[kind]}")


def fault_words(site: FaultSite, values: tuple[int, ...]) -> str:
    """Return the end of a sentence about a call that met the fault, with its arguments `values`."""
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
