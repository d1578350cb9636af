"""Translate steps between the names of a definition and the canonical names of records.

A definition may name its tensors and axes freely, but records of one computation serve all of its
definitions. So records use the names of `ComputeDAG.canonical` for stages, iterators and tensors.
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
    """A prefix of steps: the names after it, and the next steps that were seen."""

    names: Renaming
    following: dict[Step, tuple[Step, _Prefix]] = field(
        default_factory=dict["Step", "tuple[Step, _Prefix]"]
    )
    """For each next step, without its numbers: its translation, and the prefix after it."""


class Names:
    """Translates steps of `dag`; remembers translations of common prefixes."""

    def __init__(self, dag: ComputeDAG) -> None:
        self._dag = dag
        self._begins: dict[bool, _Prefix] = {}

    def to_canonical(self, steps: Sequence[Step]) -> Steps:
        """Return steps of the definition under canonical names.

        Raise ScheduleError if they name an unknown stage or iterator. Whether a step is legal is
        not checked.
        """
        return self._translate(steps, is_read=False)

    def from_canonical(self, steps: Sequence[Step]) -> Steps:
        """Return steps under canonical names under those of the definition; raise as above."""
        return self._translate(steps, is_read=True)

    def _translate(self, steps: Sequence[Step], *, is_read: bool) -> Steps:
        prefix = self._begins.get(is_read)
        if prefix is None:
            prefix = self._begins[is_read] = _Prefix(self._begin(is_read=is_read))
        translated: list[Step] = []
        for step in steps:
            known = without_numbers(step)
            if known not in prefix.following:
                try:
                    renamed = step.rename(prefix.names)
                    prefix.following[known] = renamed, _Prefix(_after(prefix.names, step, renamed))
                except ScheduleError:
                    # The numbers of what is remembered may be others than those of these steps.
                    return _rename(steps, self._begin(is_read=is_read))
            renamed, prefix = prefix.following[known]
            translated.append(_with_numbers(renamed, step))
        return tuple(translated)

    def _begin(self, *, is_read: bool) -> Renaming:
        pair = (self._dag.canonical, self._dag) if is_read else (self._dag, self._dag.canonical)
        return Renaming(*map(schedule, pair))


def _after(names: Renaming, step: Step, renamed: Step) -> Renaming:
    return Renaming(names.source.then(step), names.target.then(renamed))


def _rename(steps: Sequence[Step], names: Renaming) -> Steps:
    renamed: list[Step] = []
    for step in steps:
        renamed.append(step.rename(names))
        try:
            names = _after(names, step, renamed[-1])
        except ScheduleError:
            continue  # such a step makes no names; who applies it says what is wrong with it
    return tuple(renamed)


def without_numbers(step: Step) -> Step:
    """Return the step without lengths of splits and values of pragmas: no name depends on them."""
    if isinstance(step, Split):
        return replace(step, lengths=(0,) * len(step.lengths))
    return replace(step, value=0) if isinstance(step, Pragma) else step


def _with_numbers(names: Step, step: Step) -> Step:
    if isinstance(names, Split) and isinstance(step, Split):
        return replace(names, lengths=step.lengths)
    if isinstance(names, Pragma) and isinstance(step, Pragma):
        return replace(names, value=step.value)
    return names
