"""The page on what a record file holds of some tasks, which a report is and a run shows live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansorc.codegen.base import MachineLimits, backend_of
from ansorc.errors import AnsorcError
from ansorc.report.history import History
from ansorc.report.page import page
from ansorc.report.sections import file_sections, fleet_sections, task_sections
from ansorc.search.record import RecordPlace, Records, current_environment
from ansorc.search.record.database import Holding


def histories_of(records: Records, found: Sequence[Holding]) -> tuple[list[History], list[str]]:
    """Return the history of each task in `found`, under a name of its own, and what to tell.

    Of a task in several environments the one with the most programs counts.
    """
    chosen, left_out = _of_one_machine(found)
    histories = _named_apart([History.of(records, one) for one in chosen])
    notes = [
        f"{others} programs of {history.name} were measured in other environments and are left out"
        for history, others in zip(histories, left_out, strict=True)
        if others
    ]
    return histories, notes


def _of_one_machine(found: Sequence[Holding]) -> tuple[list[Holding], list[int]]:
    """Of each task what there is of the environment with the most programs; how many others."""
    chosen: dict[str, Holding] = {}
    counts: dict[str, int] = {}
    for one in found:
        counts[one.task_key] = counts.get(one.task_key, 0) + one.programs
        known = chosen.get(one.task_key)
        if known is None or known.programs < one.programs:
            chosen[one.task_key] = one
    return list(chosen.values()), [counts[key] - one.programs for key, one in chosen.items()]


def _named_apart(histories: Sequence[History]) -> list[History]:
    """The same; of names that several have, with the beginning of their tasks' keys."""
    names = [one.name for one in histories]
    return [
        replace(one, name=f"{one.name} {one.records[0].task_key[:6]}")
        if names.count(one.name) > 1
        else one
        for one in histories
    ]


def report_page(
    records: RecordPlace, histories: Sequence[History], weights: Mapping[str, int] | None, *,
    with_limits: bool, fleet: str = "",
) -> str:  # fmt: skip
    """Return the page on the tasks of a record file, the one that is there or several.

    `weights` says how often a network calls each task, by its key; `with_limits` measures the
    machine's limits (3 to 12 s); `fleet` is the scheduler whose devices are shown, too. Raise
    ReportError if what draws the charts is not installed.
    """
    if len(histories) > 1:
        counts = [weights[one.records[0].task_key] for one in histories] if weights else None
        title = f"{len(histories)} tasks of {records.name}"
        return page(
            title, "A report of ansorc", [*file_sections(histories, counts), *fleet_sections(fleet)]
        )
    (history,) = histories
    limits = _limits(history) if with_limits else None
    sections = [*task_sections(history, limits), *fleet_sections(fleet)]
    return page(f"{history.name}", f"A report of ansorc on {records.name}", sections)


def _limits(history: History) -> MachineLimits | None:
    """The limits of the machine that measured, if that is this one; they are measured now."""
    task, environment = history.task, history.environment
    try:
        if task is None or environment != current_environment(
            environment.threads, environment.cache, task.target
        ):
            return None
        return backend_of(task.target).probes.limits(task.target)
    except AnsorcError:
        return None
