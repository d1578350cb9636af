"""What a worker answers, as messages: a failure, or the figures of a build or a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

from ansorc.search.measure.result import BuildCost, Failure, FailureKind, Measurement
from ansorc.search.measure.wire import Message


def failure_message(failure: Failure) -> Message:
    """Return the answer that a job failed."""
    fields = {"failure": failure.kind.value, "message": failure.message, "detail": failure.detail}
    return Message(fields)


def failure_of(message: Message) -> Failure | None:
    """Return the failure that `message` reports, or None."""
    kind = message.text("failure")
    if not kind:
        return None
    return Failure.of(FailureKind(kind), message.text("message"), message.text("detail"))


def measurements_message(found: Sequence[Measurement]) -> Message:
    """Return the answer that kernels were timed."""
    return Message({"timings": [asdict(timing) for timing in found]})


def measurements_of(message: Message) -> list[Measurement]:
    """Return the timings that `message` reports."""
    rows = cast("list[dict[str, Any]]", message.fields["timings"])
    return [
        Measurement(tuple(row["seconds"]), row["checked"], row["hopeless"], row["max_error"])
        for row in rows
    ]


def build_cost_of(message: Message) -> BuildCost:
    """Return what the build that `message` reports has cost."""
    names = "lower_s", "passes_s", "emit_s", "llvm_s"
    return BuildCost(*(message.number(name) for name in names))
