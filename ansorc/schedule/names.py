"""Steps under canonical names, as records hold them, and under those of a definition.

A definition may call its tensors and axes as it likes: records of one computation are found and
built for all of its definitions. So what is recorded names stages, iterators and tensors as those
of `ComputeDAG.canonical` are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansorc.errors import ScheduleError
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.schedule import schedule
from ansorc.schedule.state import Renaming, Step
from ansorc.schedule.steps import Split

Steps = tuple[Step, ...]


class Names:
    """Translates steps of `dag`; what it did once for a structure it remembers."""

    def __init__(self, dag: ComputeDAG) -> None:
        self._dag = dag
        self._known: dict[tuple[bool, Steps], Steps] = {}

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
        structure = tuple(_without_lengths(step) for step in steps)
        if (is_read, structure) not in self._known:
            pair = (self._dag.canonical, self._dag) if is_read else (self._dag, self._dag.canonical)
            found = _renamed(steps, Renaming(*map(schedule, pair)))
            self._known[is_read, structure] = found
        names = self._known[is_read, structure]
        return tuple(_with_lengths(*pair) for pair in zip(names, steps, strict=True))


def _renamed(steps: Sequence[Step], names: Renaming) -> Steps:
    found: list[Step] = []
    for step in steps:
        found.append(step.renamed(names))
        try:
            names = Renaming(names.source.then(step), names.target.then(found[-1]))
        except ScheduleError:
            continue  # such a step makes no names; who applies it says what is wrong with it
    return tuple(found)


def _without_lengths(step: Step) -> Step:
    """The names of iterators do not depend on the lengths of splits."""
    return replace(step, lengths=(0,) * len(step.lengths)) if isinstance(step, Split) else step


def _with_lengths(names: Step, step: Step) -> Step:
    if isinstance(names, Split) and isinstance(step, Split):
        return replace(names, lengths=step.lengths)
    return names
