"""A worker process that chooses untuned programs; `ansorc.search.default_programs` starts it."""

from __future__ import annotations

from ansorc.schedule import Names
from ansorc.search.default import default_steps
from ansorc.search.measure.messages import Message
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.measure.worker import Handler, serve
from ansorc.search.task import Task


def main(role: str) -> None:
    """Serve until the input ends; there is one role."""
    serve(_handler)


def _handler() -> Handler:
    return _choose


def _choose(message: Message) -> Message:
    """Answer a job with the steps of the program, under canonical names."""
    task = Task.from_json(message.text("task"))
    steps = default_steps(task.dag, task.target)
    return Message({"steps": ProgramText.encode(steps, Names(task.dag)).steps})
