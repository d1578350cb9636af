"""The exceptions of ansorc: one class for each kind of mistake, each saying what to do instead."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, TypeAlias

Spot: TypeAlias = tuple[str, str]
"""A line in the picture of a program: a stage and its iterator, or "" for its statement."""


def ansorc_version() -> str:
    """Return the version of this ansorc, for reports of faults."""
    return import_module("importlib.metadata").version("ansorc")  # slow to import


class Pictured(Protocol):
    """An object that can show its loops with some lines marked."""

    def picture(self, spots: Sequence[Spot]) -> str:
        """Return the loops, one in each line, with those of `spots` marked."""
        ...


class AnsorcError(Exception):
    """Base of all errors of ansorc. Users cause all of them but `InternalError` and `IRError`.

    The command line prints the text without a traceback.
    """


class LanguageError(AnsorcError):
    """A tensor expression is invalid (wrong rank, mixed dtypes, a cycle, a bad name)."""


class UnhashableError(LanguageError, TypeError):
    """An element was looked up in a set or a dict; elements cannot be hashed."""


class ArgumentError(AnsorcError):
    """An argument of a public function has a type that the function does not accept."""


class GraphError(AnsorcError):
    """A network is invalid, unsupported or cannot be read."""


class EmptyTensorError(GraphError):
    """A tensor has no elements, which kernels do not support."""


class InternalError(AnsorcError):
    """A fault of ansorc itself, found by its own checks; no mistake of the user.

    `what` says what happened; `report` is the information that is needed to fix it.
    """

    def __init__(self, what: str, report: str) -> None:
        super().__init__(what, report)
        self.what, self.report = what, report

    def __str__(self) -> str:
        advice = "this is a fault of ansorc, not of yours: please report it with"
        return f"{self.what}; {advice} ansorc {ansorc_version()} and {self.report}"


class ScheduleError(AnsorcError):
    """A step is refused because it would change the meaning of the program.

    `step` and `state`, the program before it, are kept as they are and rendered only when somebody
    reads the message, because the search throws thousands of refusals away. `spots` are the loops
    that are the reason.
    """

    def __init__(
        self, step: object, state: Pictured, reason: str, spots: Sequence[Spot] = ()
    ) -> None:
        super().__init__(step, state, reason, spots)
        self.step, self.state, self.reason, self.spots = step, state, reason, spots

    def __str__(self) -> str:
        picture = self.state.picture(self.spots)
        return f"{self.step} does not fit this program:\n  {self.reason}\n\n{picture}"


class RuleError(AnsorcError):
    """A sketch rule cannot be registered or found."""


class IRError(AnsorcError):
    """A loop program breaks the rules of the IR, according to the verifier or the interpreter.

    It is raised for loop programs that are written by hand. If ansorc made the program, it is a
    fault of ansorc: a build then raises an `InternalError` that names the pass.
    """


class ParseError(AnsorcError):
    """Text that is not a loop program; the message shows the line and marks the column."""


class TargetError(AnsorcError):
    """A target is unknown, or lacks what was asked for."""


class BuildError(AnsorcError):
    """Machine code could not be made; the text of the tool that failed is attached."""


class CallError(AnsorcError):
    """A compiled kernel was called with arrays that it cannot take."""


class FaultError(CallError):
    """A call met data that its program refuses; the contents of its outputs are undefined.

    `about` is the tensor or the assertion, `values` are the integers in the message, `call` names
    the kernel call in a network.
    """

    def __init__(
        self, text: str, about: str = "", values: tuple[int, ...] = (), call: str = ""
    ) -> None:
        super().__init__(text)
        self.about, self.values, self.call = about, values, call


class OutOfRangeError(FaultError, IndexError, RuntimeError):
    """An index from data is out of range.

    `values` are the index, the least and the largest allowed index, and the dimension; empty if
    the call had no memory for them. PyTorch raises an IndexError or a RuntimeError in this case.
    """


class DivisionByZeroError(FaultError, ZeroDivisionError, RuntimeError):
    """An integer was divided by zero."""


class AssertionFailedError(FaultError, AssertionError, RuntimeError):
    """An assertion of the program does not hold."""


class PromiseError(FaultError, ValueError):
    """An input has values outside of its declared `range`, or is not `sorted` as declared."""


class PackingWarning(UserWarning):
    """A kernel packs a weight at every call, which can take longer than the kernel."""


class DeviceError(CallError):
    """A device failed during a call.

    `has_no_memory`: its memory was full. `is_fatal`: the device cannot be used any more in this
    process. `is_lost`: the device is gone, which is not a fault of the kernel.
    """

    def __init__(
        self,
        text: str,
        *,
        has_no_memory: bool = False,
        is_fatal: bool = False,
        is_lost: bool = False,
    ) -> None:
        super().__init__(text)
        self.has_no_memory, self.is_fatal, self.is_lost = has_no_memory, is_fatal, is_lost


class MeasureError(AnsorcError):
    """Measuring as a whole cannot go on (not for the failure of one candidate)."""


class OptionError(AnsorcError):
    """An option has an invalid value, or does not fit the others."""


class ReportError(AnsorcError):
    """A report cannot be made."""


class RecordError(AnsorcError):
    """A record file cannot be read or written."""
