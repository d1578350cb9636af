"""What the tuner asks workers and what these answer, as messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, cast

from ansorc.codegen.package.signature import Signature
from ansorc.ir.packing import Packing
from ansorc.search.measure.cost import BuildCost, RunCost
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.options import RunOptions
from ansorc.search.measure.pool import Request
from ansorc.search.measure.result import Failure, FailureKind, Look, Measurement, Outcome, Source
from ansorc.search.measure.wire import Message

_LOAD_S = 1.0
_LOAD_BYTES_PER_S = 1e8


def build_request(directory: Path, candidate: Source, limit_s: float) -> Request:
    """Return the job to build `candidate` of the task whose data lies in `directory`."""
    fields = {
        "directory": str(directory),
        "steps": candidate.steps,
        "function": candidate.function,
    }
    return Request(Message(fields), limit_s, _LOAD_S)


@dataclass(frozen=True)
class Program:
    """The code of one kernel, as build workers answer and run workers get it."""

    signature: Signature
    code: bytes

    @staticmethod
    def of(built: Message) -> Program:
        """Return the program in a build worker's answer."""
        return Program(_signature(built.fields["signature"]), built.blob)

    @property
    def packings(self) -> tuple[Packing, ...]:
        """How those of its constants are packed that it reads in another order."""
        params = self.signature.params
        return tuple(p.packing for p in params if p.packing is not None and p.is_rewritten)


def run_request(
    data: TaskData,
    programs: Sequence[Program],
    options: RunOptions,
    limit_s: float,
    best_s: float | None = None,
    calm: Look | None = None,
) -> Request:
    """Return the job to check and time programs: against each other, or `best_s` (0: none).

    `calm` is what an earlier worker knew of the machine when it was calm.
    """
    fields = {
        "directory": str(data.directory),
        "signatures": [program.signature.to_json() for program in programs],
        "bytes": [len(program.code) for program in programs],
        "rank": int(best_s is None),
        "best_s": best_s,
        "calm": calm,
        "options": asdict(options),
    }
    load_s = _LOAD_S + data.array_bytes / _LOAD_BYTES_PER_S
    code = b"".join(program.code for program in programs)
    return Request(Message(fields, code), limit_s, load_s)


def programs_of(message: Message) -> list[Program]:
    """Return the programs that `run_request` wrote."""
    found: list[Program] = []
    begin = 0
    signatures = cast("list[object]", message.fields["signatures"])
    for signature, size in zip(signatures, message.numbers("bytes"), strict=True):
        end = begin + int(size)
        found.append(Program(_signature(signature), message.blob[begin:end]))
        begin = end
    return found


def _signature(fields: object) -> Signature:
    return Signature.from_json(cast("dict[str, Any]", fields))


def run_options_of(message: Message) -> RunOptions:
    """Return the options that `run_request` wrote."""
    return RunOptions(**cast("dict[str, Any]", message.fields["options"]))


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
