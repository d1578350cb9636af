"""The error message for a failed pass: the pass, its program, and where to read both."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff

from ansorc.errors import InternalError
from ansorc.ir.dump import VARIABLE, DumpFolder
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.target import Target

_MOST_LINES = 30
"""The most lines of a loop program in a message."""


def pass_fault(
    what: str,
    before: Function | None,
    after: Function | None,
    target: Target,
    dump: DumpFolder | None,
) -> InternalError:
    """Return the error for `what` went wrong on the way from `before` to `after`.

    With a `dump` folder the last program is written there; else both are in the message, shortened.
    """
    report = f"the target '{target.text}', "
    if dump is None:
        return InternalError(what, f"{report}{_shorten(before, after)}")
    wrong = after or before
    if wrong is not None:
        dump.write("FAILED", f"# {what}\n{to_text(wrong)}", "ir")
    return InternalError(what, f"{report}and the files in {dump.path}")


def diff_text(before: Function, after: Function) -> str:
    """Return the lines that a pass changed, with some lines around them."""
    return "\n".join(_diff_lines(to_text(before), to_text(after)))


def _shorten(before: Function | None, after: Function | None) -> str:
    """Return the programs shortened, and how to get all of them."""
    shown = [f"and these loops; {VARIABLE}=DIR writes all of them, and each step before, to files:"]
    if before is not None:
        shown += ["before:", *_first(to_text(before).splitlines())]
    if after is not None:
        old = "" if before is None else to_text(before)
        shown += ["after:", *_first(list(_diff_lines(old, to_text(after))))]
    return "\n".join(shown)


def _diff_lines(before: str, after: str) -> Iterator[str]:
    """Yield the changed lines, with some around them; all lines if `before` is None."""
    if not before:
        return iter(after.splitlines())
    lines = unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm="")
    return (line for line in lines if not line.startswith(("---", "+++")))


def _first(lines: list[str]) -> list[str]:
    left = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([f"… {left} more lines"] if left > 0 else [])]
