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
    """What can show its loops with some lines marked."""

    def picture(self, spots: Sequence[Spot]) -> str:
        """Return the loops, one a line, those of `spots` marked."""
        ...


class AnsorcError(Exception):
    """All errors of ansorc: what a user can provoke, but for `InternalError` and `IRError`.

    The command line prints its text alone.
    """


class LanguageError(AnsorcError):
    """A tensor expression that has no meaning (wrong rank, mixed dtypes, a cycle, a bad name)."""


class UnhashableError(LanguageError, TypeError):
    """An element that is looked up in a set or a dict; what asks whether it may be has its no."""


class ArgumentError(AnsorcError):
    """An argument of a public function that is of another type than it takes."""


class GraphError(AnsorcError):
    """A network that has no meaning, or that cannot be read."""


class EmptyTensorError(GraphError):
    """A tensor without elements, which kernels do not have."""


class InternalError(AnsorcError):
    """A fault of ansorc itself, found by its own checks: nothing that its user could do better.

    `what` happened, and `report` says what somebody who mends it needs to see.
    """

    def __init__(self, what: str, report: str) -> None:
        super().__init__(what, report)
        self.what, self.report = what, report

    def __str__(self) -> str:
        advice = "this is a fault of ansorc, not of yours: please report it with"
        return f"{self.what}; {advice} ansorc {ansorc_version()} and {self.report}"


class ScheduleError(AnsorcError):
    """A step that the state refuses because it would change the meaning of the program.

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
    """A derivation rule that cannot be registered or found."""


class IRError(AnsorcError):
    """A loop program that breaks the rules of the IR, as the verifier or the interpreter says.

    Whoever writes loop programs by hand sees it. Of one that ansorc made itself it is a fault of
    ansorc: a build raises an `InternalError` then, which names the pass.
    """


class ParseError(AnsorcError):
    """Text that is not a loop program; the message shows the line and marks the column."""


class TargetError(AnsorcError):
    """A target that is unknown or cannot do what was asked of it."""


class BuildError(AnsorcError):
    """Machine code could not be made; the text of the tool that failed is attached."""


class CallError(AnsorcError):
    """A compiled kernel was called with arrays that it cannot take."""


class FaultError(CallError):
    """A call that met data which its program refuses; what it wrote so far is undefined.

    `about` is the tensor or the assertion, `values` are the integers that the message has, `call`
    is which call of a kernel it was, of a network.
    """

    def __init__(
        self, text: str, about: str = "", values: tuple[int, ...] = (), call: str = ""
    ) -> None:
        super().__init__(text)
        self.about, self.values, self.call = about, values, call


class OutOfRangeError(FaultError, IndexError, RuntimeError):
    """An index from data that a tensor does not have.

    `values` are the index, the least and the largest that there is, and the dimension; none where
    the call had no memory to keep them in. PyTorch raises an IndexError or a RuntimeError then.
    """


class DivisionByZeroError(FaultError, ZeroDivisionError, RuntimeError):
    """An integer that was divided by zero."""


class AssertionFailedError(FaultError, AssertionError, RuntimeError):
    """Something that the program asserts and that does not hold."""


class PromiseError(FaultError, ValueError):
    """An input with values other than those that it was declared with."""


class PackingWarning(UserWarning):
    """A kernel packs a weight at every call, which can take longer than the kernel."""


class DeviceError(CallError):
    """A device that failed in the midst of a call.

    `has_no_memory`: it had no room. `is_fatal`: nothing works on the device any more in this
    process; `is_lost`: and that is no fault of the kernel.
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
    """Measuring could not go on at all (not: one candidate failed)."""


class OptionError(AnsorcError):
    """An option of the search that means nothing."""


class ReportError(AnsorcError):
    """A report that cannot be made."""


class RecordError(AnsorcError):
    """A record file that cannot be read or written."""
