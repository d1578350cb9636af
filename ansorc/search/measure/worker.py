"""The worker process, of one role; see `zygote` for its start.

It says that it is ready, then answers each message with one message until its input ends.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

from ansorc.codegen.base import backend_of
from ansorc.search.measure.build import Builder
from ansorc.search.measure.messages import failure_message
from ansorc.search.measure.result import Failure, FailureKind
from ansorc.search.measure.run import Runner
from ansorc.search.measure.sandbox import resident_bytes, set_alarm
from ansorc.search.measure.wire import Decoder, Message, read_message, write_message
from ansorc.target import detect

Handler = Callable[[Message], Message]
ROLES: dict[str, Callable[[], Handler]] = {
    "build": lambda: Builder().handle,
    "run": lambda: Runner().handle,
}


backend_of(detect())  # imported once, before the workers are forked; others when they are needed


def main(role: str) -> None:
    """Serve `role` until the input ends."""
    requests, answers = _private_pipes()
    handler = ROLES[role]()
    write_message(answers, Message({"ready": True}))
    decoder = Decoder()
    while (message := read_message(requests, decoder)) is not None:
        set_alarm(message.number("alarm_s"))
        answer = _answer(handler, message)
        set_alarm(0)
        fields = {**answer.fields, "rss_bytes": resident_bytes()}
        write_message(answers, Message(fields, answer.blob))


def _private_pipes() -> tuple[int, int]:
    """Move the pipes away from descriptors 0 and 1, where a library might read or print."""
    requests, answers = os.dup(0), os.dup(1)
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return requests, answers


def _answer(handler: Handler, message: Message) -> Message:
    try:
        return handler(message)
    except MemoryError:
        kind, words = FailureKind.OUT_OF_MEMORY, "the worker's memory limit was reached"
    except Exception as error:  # noqa: BLE001 - the one place: any fault is one failed record
        kind, words = FailureKind.UNKNOWN, f"{type(error).__name__}: {error}"
    return failure_message(Failure.of(kind, words, traceback.format_exc()))
