"""Jobs for devices and their answers, as bytes: JSON and object code, nothing that is executed.

A job is a `Message`. Its "kind" is "build" (programs to object code), "measure" (one program, from
its text or from object code) or "rank" (several in turns). It names itself ("job"), so that an
answer is taken once and for what was asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, cast

from ansorc.errors import MeasureError
from ansorc.search.measure.messages import (
    Decoder,
    Message,
    failure_of,
    outcome_fields,
    outcome_of,
)
from ansorc.search.measure.options import MeasureOptions, RunOptions
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.measure.result import Failure, Outcome
from ansorc.search.task import Task

JOB, ANSWER = "job", "answer"
"""The purposes for which messages are signed."""
_ORDERS = 16
"""Orders that a device keeps in its cache."""


@dataclass(frozen=True)
class TaskOrder:
    """The part that all jobs of a task share: the task, and how it is measured."""

    task: Task
    options: MeasureOptions

    def fields(self) -> dict[str, object]:
        """Return the fields of a message, without the tuner's own numbers of processes."""
        options = asdict(self.options)
        for local in ("builders", "batch"):
            del options[local]
        return {"task": self.task.to_json(), "options": options}

    @staticmethod
    def of(message: Message) -> TaskOrder:
        """Return what `fields` wrote."""
        return _read_order(message.text("task"), json.dumps(message.fields["options"]))

    @cached_property
    def key(self) -> str:
        """The key of the measurer: equal orders share one."""
        return json.dumps(self.fields(), sort_keys=True)


@lru_cache(maxsize=_ORDERS)
def _read_order(task: str, options: str) -> TaskOrder:
    """The order of a job: devices get many jobs of few tasks, and reading one takes 2 ms."""
    fields = json.loads(options)
    run = RunOptions(**fields.pop("run"))
    return TaskOrder(Task.from_json(task), MeasureOptions(run, **fields))


def job_message(
    order: TaskOrder, kind: str, job: str, programs: Sequence[ProgramText], best_s: float = 0.0
) -> Message:
    """Return a job; `best_s` is the time of the best program that the tuner knows, 0: none."""
    texts = [[program.steps, program.function] for program in programs]
    fields = {"kind": kind, "job": job, "programs": texts, "best_s": best_s}
    return Message({**order.fields(), **fields})


def with_object_code(job: Message, built: Message) -> Message:
    """Return the job with the code of its only program, as a builder answered."""
    names = "signature", "lower_s", "passes_s", "emit_s", "llvm_s"
    return replace(
        job,
        fields={**job.fields, "built": {name: built.fields[name] for name in names}},
        blob=built.blob,
    )


def programs_of(job: Message) -> list[ProgramText]:
    """Return the programs of a job."""
    rows = cast("list[list[str]]", job.fields["programs"])
    return [ProgramText(steps, function) for steps, function in rows]


def find_build_answer(job: Message) -> Message | None:
    """Return the builder's answer in a job, or None if it is to be built where it is measured."""
    fields = job.fields.get("built")
    return Message(cast("dict[str, object]", fields), job.blob) if fields else None


def results_message(job: Message, outcomes: Sequence[Outcome | None]) -> Message:
    """Return the answer to a job that measured, with an outcome for each of its programs.

    None stands for a program that was not timed, though it did not fail.
    """
    rows = [None if outcome is None else outcome_fields(outcome) for outcome in outcomes]
    return Message({"job": job.text("job"), "outcomes": rows})


def results_of(answer: Message, count: int) -> list[Outcome | None] | None:
    """Return the outcomes of the `count` programs of a job, in their order, from its answer.

    None if it has none, but object code or a fault. Raise MeasureError where it has others, as
    another version of ansorc may.
    """
    if "outcomes" not in answer.fields:
        return None
    rows = cast("list[dict[str, Any] | None]", answer.fields["outcomes"])
    try:
        outcomes = [None if row is None else outcome_of(row) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise MeasureError(
            f"an answer that this ansorc cannot read ({type(error).__name__}: {error}); install "
            "the same version of ansorc on the device"
        ) from error
    if len(outcomes) != count:
        raise MeasureError(f"an answer with {len(outcomes)} outcomes for {count} programs")
    return outcomes


def answer_build(job: Message, reply: Message | Failure) -> Message:
    """Return the answer to a job that built: object code, or the failure that says why not."""
    failure = reply if isinstance(reply, Failure) else failure_of(reply)
    if failure is not None:
        return results_message(job, [failure])
    assert isinstance(reply, Message)
    return replace(reply, fields={**reply.fields, "job": job.text("job")})


def fault_message(job: str, words: str) -> Message:
    """Return the answer that the device, not the program, is at fault."""
    return Message({"job": job, "fault": words})


def decode(data: bytes) -> Message:
    """Return the message that `data` is; raise MeasureError if it is none."""
    decoder = Decoder()
    decoder.feed(data)
    message = decoder.next()
    if message is None:
        raise MeasureError(f"{len(data)} bytes that are not a message")
    return message
