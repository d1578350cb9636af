"""The jobs that workers get: build a candidate, run object code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from ansorc.ir.packing import Packing
from ansorc.search.measure.crew import Request
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.options import RunOptions
from ansorc.search.measure.result import Look, Source
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
    """The object code of one kernel, as build workers answer and run workers get it."""

    name: str
    is_parallel: bool
    """It calls the runtime's parallel-for."""
    code: bytes
    packings: tuple[Packing, ...] = ()
    """How its constants are packed before it runs."""

    @staticmethod
    def of(built: Message) -> Program:
        """Return the program in a build worker's answer."""
        return Program(
            built.text("name"),
            bool(built.number("is_parallel")),
            built.blob,
            _packings(built.fields["packings"]),
        )


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
        "names": [program.name for program in programs],
        "is_parallel": [int(program.is_parallel) for program in programs],
        "packings": [[packing.to_json() for packing in p.packings] for p in programs],
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
    sizes, parallel = message.numbers("bytes"), message.numbers("is_parallel")
    layouts = cast("list[Any]", message.fields["packings"])
    rows = zip(message.texts("names"), sizes, parallel, layouts, strict=True)
    for name, size, flag, packings in rows:
        end = begin + int(size)
        code = message.blob[begin:end]
        found.append(Program(name, bool(flag), code, _packings(packings)))
        begin = end
    return found


def _packings(fields: object) -> tuple[Packing, ...]:
    return tuple(Packing.from_json(entry) for entry in cast("list[dict[str, Any]]", fields))


def run_options_of(message: Message) -> RunOptions:
    """Return the options that `run_request` wrote."""
    return RunOptions(**cast("dict[str, Any]", message.fields["options"]))
