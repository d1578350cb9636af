"""The page about tasks of a record file, for `ansorc report` and for live runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansorc.codegen.base import MachineLimits, backend_of
from ansorc.errors import AnsorcError
from ansorc.report.history import History
from ansorc.report.page import page
from ansorc.report.sections import file_sections, fleet_sections, task_sections
from ansorc.search.record import RecordLocation, Records, current_environment
from ansorc.search.record.database import Holding


def histories_of(records: Records, holdings: Sequence[Holding]) -> tuple[list[History], list[str]]:
    """Return the history of each task in `holdings`, under a unique name, and notes.

    If a task has several environments, the one with the most programs is used.
    """
    chosen, left_out = _of_one_machine(holdings)
    histories = _with_unique_names([History.of(records, holding) for holding in chosen])
    notes = [
        f"{others} programs of {history.name} were measured in other environments and are left out"
        for history, others in zip(histories, left_out, strict=True)
        if others
    ]
    return histories, notes


def _of_one_machine(holdings: Sequence[Holding]) -> tuple[list[Holding], list[int]]:
    """Return for each task the environment with the most programs, and the number of others."""
    chosen: dict[str, Holding] = {}
    counts: dict[str, int] = {}
    for holding in holdings:
        counts[holding.task_key] = counts.get(holding.task_key, 0) + holding.programs
        known = chosen.get(holding.task_key)
        if known is None or known.programs < holding.programs:
            chosen[holding.task_key] = holding
    return list(chosen.values()), [
        counts[key] - holding.programs for key, holding in chosen.items()
    ]


def _with_unique_names(histories: Sequence[History]) -> list[History]:
    """The same; of names that several have, with the beginning of their tasks' keys."""
    names = [history.name for history in histories]
    return [
        replace(history, name=f"{history.name} {history.records[0].task_key[:6]}")
        if names.count(history.name) > 1
        else history
        for history in histories
    ]


def report_page(
    records: RecordLocation, histories: Sequence[History], weights: Mapping[str, int] | None, *,
    with_limits: bool, fleet: str = "",
) -> str:  # fmt: skip
    """Return the page about one or more tasks of a record file.

    `weights` gives the number of calls of each task in a network, by key. `with_limits` measures
    the machine's limits (3 to 12 s). `fleet` is the scheduler whose devices are shown, too. Raise
    ReportError if the chart library is not installed.
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
    """Measure and return the limits of this machine; None if another machine has measured."""
    task, environment = history.task, history.environment
    try:
        if task is None or environment != current_environment(
            environment.threads, environment.cache, task.target
        ):
            return None
        return backend_of(task.target).probes.limits(task.target)
    except AnsorcError:
        return None
