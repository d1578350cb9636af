"""Steps under canonical names, as records hold them, and under those of a definition.

A definition may call its tensors and axes as it likes: records of one computation are found and
built for all of its definitions. So what is recorded names stages, iterators and tensors as those
of `ComputeDAG.canonical` are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ansorc.errors import ScheduleError
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.schedule import schedule
from ansorc.schedule.state import Renaming, Step
from ansorc.schedule.steps import Pragma, Split

Steps = tuple[Step, ...]


@dataclass(eq=False)
class _Prefix:
    """Where some first steps lead: the names that are known there, and the steps seen after."""

    names: Renaming
    following: dict[Step, tuple[Step, _Prefix]] = field(
        default_factory=dict["Step", "tuple[Step, _Prefix]"]
    )
    """By a step without its numbers: the step under the other names, and where it leads."""


class Names:
    """Translates steps of `dag`; what it did once for the first steps of a program it remembers."""

    def __init__(self, dag: ComputeDAG) -> None:
        self._dag = dag
        self._begins: dict[bool, _Prefix] = {}

    def canonical(self, steps: Sequence[Step]) -> Steps:
        """Return steps of the definition under canonical names.

        Raise ScheduleError if they name what is not there; a step that does not fit otherwise is
        translated as it is.
        """
        return self._translated(steps, is_read=False)

    def own(self, steps: Sequence[Step]) -> Steps:
        """Return steps under canonical names under those of the definition; raise as above."""
        return self._translated(steps, is_read=True)

    def _translated(self, steps: Sequence[Step], *, is_read: bool) -> Steps:
        prefix = self._begins.get(is_read)
        if prefix is None:
            prefix = self._begins[is_read] = _Prefix(self._begin(is_read=is_read))
        found: list[Step] = []
        for step in steps:
            known = _without_numbers(step)
            if known not in prefix.following:
                try:
                    renamed = step.renamed(prefix.names)
                    prefix.following[known] = renamed, _Prefix(_after(prefix.names, step, renamed))
                except ScheduleError:
                    # The numbers of what is remembered may be others than those of these steps.
                    return _renamed(steps, self._begin(is_read=is_read))
            renamed, prefix = prefix.following[known]
            found.append(_with_numbers(renamed, step))
        return tuple(found)

    def _begin(self, *, is_read: bool) -> Renaming:
        pair = (self._dag.canonical, self._dag) if is_read else (self._dag, self._dag.canonical)
        return Renaming(*map(schedule, pair))


def _after(names: Renaming, step: Step, renamed: Step) -> Renaming:
    return Renaming(names.source.then(step), names.target.then(renamed))


def _renamed(steps: Sequence[Step], names: Renaming) -> Steps:
    found: list[Step] = []
    for step in steps:
        found.append(step.renamed(names))
        try:
            names = _after(names, step, found[-1])
        except ScheduleError:
            continue  # such a step makes no names; who applies it says what is wrong with it
    return tuple(found)


def _without_numbers(step: Step) -> Step:
    """No name depends on the lengths of splits, or on the value of a pragma."""
    if isinstance(step, Split):
        return replace(step, lengths=(0,) * len(step.lengths))
    return replace(step, value=0) if isinstance(step, Pragma) else step


def _with_numbers(names: Step, step: Step) -> Step:
    if isinstance(names, Split) and isinstance(step, Split):
        return replace(names, lengths=step.lengths)
    if isinstance(names, Pragma) and isinstance(step, Pragma):
        return replace(names, value=step.value)
    return names
