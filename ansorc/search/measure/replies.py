"""What a worker answers, as messages: failures, or the figures of a build or a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple
from typing import Any, cast

from ansorc.search.measure.cost import BuildCost, RunCost
from ansorc.search.measure.result import Failure, FailureKind, Look, Measurement, Outcome
from ansorc.search.measure.wire import Message


def failure_message(failure: Failure) -> Message:
    """Return the answer that a job failed."""
    return Message(_failure_fields(failure))


def failure_of(message: Message) -> Failure | None:
    """Return the failure of the job that `message` reports, or None."""
    if not message.text("failure"):
        return None
    return _failure(cast("dict[str, Any]", message.fields))


def outcomes_message(
    outcomes: Sequence[Outcome], costs: Sequence[RunCost], calm: Look | None = None
) -> Message:
    """Return the answer that programs were run, each with its outcome and its cost.

    `calm` is what the worker knows of the machine when it is calm, if it has looked.
    """
    rows = [_failure_fields(one) if isinstance(one, Failure) else asdict(one) for one in outcomes]
    paid = [astuple(cost) for cost in costs]
    return Message({"outcomes": rows, "costs": paid, "calm": calm})


def outcomes_of(message: Message) -> list[tuple[Outcome, RunCost]]:
    """Return the outcomes that `message` reports, and what each has cost."""
    rows = cast("list[dict[str, Any]]", message.fields["outcomes"])
    costs = cast("list[list[float]]", message.fields["costs"])
    return [(_outcome(row), RunCost(*cost)) for row, cost in zip(rows, costs, strict=True)]


def calm_of(message: Message) -> Look | None:
    """Return what `message`, a job to run programs or its answer, knows of a calm machine."""
    found = message.numbers("calm")
    return (found[0], found[1]) if found else None


def build_cost_of(message: Message) -> BuildCost:
    """Return what the build that `message` reports has cost."""
    names = "lower_s", "passes_s", "emit_s", "llvm_s"
    return BuildCost(*(message.number(name) for name in names))


def _outcome(row: dict[str, Any]) -> Outcome:
    if "failure" in row:
        return _failure(row)
    return Measurement(tuple(row["seconds"]), row["checked"], row["hopeless"], row["max_error"])


def _failure(fields: dict[str, Any]) -> Failure:
    kind = FailureKind(fields["failure"])
    return Failure.of(kind, str(fields["message"]), str(fields["detail"]))


def _failure_fields(failure: Failure) -> dict[str, object]:
    return {"failure": failure.kind.value, "message": failure.message, "detail": failure.detail}
