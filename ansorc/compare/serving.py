"""The process of a side: JSON lines in and out, and what is said where something is missing."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO, TypeAlias

from ansorc.compare.program import Unsupported

_PR_SET_PDEATHSIG = 1
JsonFields = dict[str, Any]
Handlers: TypeAlias = Mapping[str, Callable[[JsonFields], JsonFields]]
"""Functions that answer messages, by the messages' `do`."""


def gap(kind: str, words: str) -> JsonFields:
    """Return the answer that there is nothing; `kind` is "missing", "cannot" or "failed"."""
    return {"kind": kind, "gap": words}


def gap_of(error: Exception) -> JsonFields:
    """Return the answer that says why there is none."""
    if isinstance(error, Unsupported):
        return gap("cannot", str(error))
    if isinstance(error, ImportError):
        return gap("missing", str(error))
    traceback.print_exception(error)
    return gap("failed", f"{type(error).__name__}: {first_line(error)}")


def first_line(error: Exception) -> str:
    """Return the first line of what an error says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else "without words"


def private_pipes() -> tuple[TextIO, TextIO]:
    """Move the pipes away from descriptors 0 and 1, where a library might read or print."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return os.fdopen(requests), os.fdopen(answers, "w", buffering=1)


def answer(message: JsonFields, handlers: Handlers) -> JsonFields:
    """Return the answer to `message`; any ordinary exception of its handler is a gap."""
    handler = handlers.get(message["do"])
    if handler is None:
        return gap("failed", f"there is no request '{message['do']}'")
    try:
        return handler(message)
    except Exception as error:  # noqa: BLE001 - any fault of a side is one named gap
        return gap_of(error)


def serve(handlers: Handlers) -> None:
    """Answer until the input ends; die with the process that started this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    requests, answers = private_pipes()
    for line in requests:
        answers.write(json.dumps(answer(json.loads(line), handlers)) + "\n")
