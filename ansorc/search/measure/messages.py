"""Messages between the tuner and its workers: what is asked and answered, and its bytes on a pipe.

On the pipe a message is two big-endian 32-bit lengths, the UTF-8 JSON header, and the bytes.
Nothing on the pipe is ever executed or unpickled.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, cast

from ansorc.codegen.package.signature import Signature
from ansorc.errors import MeasureError
from ansorc.ir.packing import Packing
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.options import RunOptions, first_call_limits_s
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.measure.result import (
    BuildCost,
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    ProbeTime,
    RunCost,
)

_LENGTHS = struct.Struct(">II")
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Message:
    """Named JSON values and, optionally, a block of bytes such as object code."""

    fields: Mapping[str, object]
    blob: bytes = b""

    def text(self, name: str) -> str:
        """Return the string called `name`; an absent one is empty."""
        value = self.fields.get(name, "")
        if not isinstance(value, str):
            raise MeasureError(f"message field '{name}' is {value!r}, not text")
        return value

    def number(self, name: str, default: float = 0.0) -> float:
        """Return the number called `name`, or `default` where it is absent or null."""
        value = self.fields.get(name)
        if value is None:
            return default
        if not isinstance(value, int | float):
            raise MeasureError(f"message field '{name}' is {value!r}, not a number")
        return float(value)

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return the list of numbers called `name`; an absent one is empty."""
        value = self.fields.get(name)
        if not isinstance(value, list):
            return ()
        items = cast("list[object]", value)
        return tuple(float(item) for item in items if isinstance(item, int | float))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the list of strings called `name`; an absent one is empty."""
        items = cast("list[object]", self.fields.get(name, []))
        return tuple(item for item in items if isinstance(item, str))

    def encode(self) -> bytes:
        """Return the bytes that stand for this message on a pipe."""
        header = json.dumps(self.fields).encode()
        return _LENGTHS.pack(len(header), len(self.blob)) + header + self.blob


class Decoder:
    """Collects bytes in pieces of any size and hands out the messages that are complete."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes that arrived."""
        self._pending += data

    def next(self) -> Message | None:
        """Remove and return the oldest complete message, or None while there is none."""
        if len(self._pending) < _LENGTHS.size:
            return None
        header_bytes, blob_bytes = _LENGTHS.unpack_from(self._pending)
        split = _LENGTHS.size + header_bytes
        end = split + blob_bytes
        if len(self._pending) < end:
            return None
        header = bytes(self._pending[_LENGTHS.size : split])
        blob = bytes(self._pending[split:end])
        del self._pending[:end]
        return Message(_object(header), blob)


def read_message(descriptor: int, decoder: Decoder) -> Message | None:
    """Wait for the next message on a blocking pipe; None at its end."""
    while (message := decoder.next()) is None:
        data = os.read(descriptor, _CHUNK_BYTES)
        if not data:
            return None
        decoder.feed(data)
    return message


def write_message(descriptor: int, message: Message) -> None:
    """Write `message` to a blocking pipe."""
    view = memoryview(message.encode())
    while view:
        view = view[os.write(descriptor, view) :]


def _object(header: bytes) -> dict[str, object]:
    value: object = json.loads(header)
    if not isinstance(value, dict):
        raise MeasureError("a message header is not a JSON object")
    return cast("dict[str, object]", value)


_LOAD_S, _DEVICE_START_S = 1.0, 20.0
_LOAD_BYTES_PER_S = 1e8


@dataclass(frozen=True)
class Request:
    """A message for any worker of a pool, and how long the answer may take."""

    message: Message
    limit_s: float
    first_limit_s: float = 0.0
    """Added to the limit when the worker is new and still has to load the task's data."""


def build_request(directory: Path, program: ProgramText, limit_s: float) -> Request:
    """Return the job to build `program`, of the task whose data lies in `directory`."""
    fields = {
        "directory": str(directory),
        "steps": program.steps,
        "function": program.function,
    }
    return Request(Message(fields), limit_s, _LOAD_S)


def program_of(message: Message) -> ProgramText:
    """Return the program that `build_request` wrote."""
    return ProgramText(message.text("steps"), message.text("function"))


@dataclass(frozen=True)
class CompiledKernel:
    """The code of one kernel, as build workers answer and run workers get it."""

    signature: Signature
    code: bytes
    """By `CompiledProgram.to_bytes`."""

    @staticmethod
    def of(built: Message) -> CompiledKernel:
        """Return the kernel in a build worker's answer."""
        return CompiledKernel(_signature(built.fields["signature"]), built.blob)

    @property
    def packings(self) -> tuple[Packing, ...]:
        """How those of its constants are packed that it reads in another order."""
        params = self.signature.params
        return tuple(p.packing for p in params if p.packing is not None and p.is_rewritten)


def run_request(
    data: TaskData,
    kernels: Sequence[CompiledKernel],
    options: RunOptions,
    limit_s: float,
    best_s: float | None = None,
    probe_time: ProbeTime | None = None,
) -> Request:
    """Return the job to check and time kernels: against each other, or `best_s` (0: none).

    `probe_time` is the shortest one that an earlier worker has seen. First calls on a CPU have
    limits as soon as a best time is known (`first_call_limits_s`).
    """
    fields = {
        "directory": str(data.directory),
        "signatures": [kernel.signature.to_json() for kernel in kernels],
        "bytes": [len(kernel.code) for kernel in kernels],
        "rank": int(best_s is None),
        "best_s": best_s,
        "probe_time": probe_time,
        "options": asdict(options),
    }
    slow_s, killed_s = first_call_limits_s(options, best_s or 0.0, data.array_bytes)
    if best_s and not data.is_for_device:
        fields |= {"slow_s": slow_s, "killed_s": killed_s}
    load_s = (
        _DEVICE_START_S if data.is_for_device else _LOAD_S
    ) + data.array_bytes / _LOAD_BYTES_PER_S
    code = b"".join(kernel.code for kernel in kernels)
    return Request(Message(fields, code), limit_s, load_s)


def kernels_of(message: Message) -> list[CompiledKernel]:
    """Return the kernels that `run_request` wrote."""
    kernels: list[CompiledKernel] = []
    begin = 0
    signatures = cast("list[object]", message.fields["signatures"])
    for signature, size in zip(signatures, message.numbers("bytes"), strict=True):
        end = begin + int(size)
        kernels.append(CompiledKernel(_signature(signature), message.blob[begin:end]))
        begin = end
    return kernels


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


def outcomes_message(outcomes: Sequence[Outcome], probe_time: ProbeTime | None = None) -> Message:
    """Return the answer that programs were run, each with its outcome.

    `probe_time` is the shortest one that the worker knows, if it has probed.
    """
    rows = [outcome_fields(outcome) for outcome in outcomes]
    return Message({"outcomes": rows, "probe_time": probe_time})


def outcomes_of(message: Message) -> list[Outcome]:
    """Return the outcomes that `message` reports."""
    return [outcome_of(row) for row in cast("list[dict[str, Any]]", message.fields["outcomes"])]


def outcome_fields(outcome: Outcome) -> dict[str, object]:
    """Return an outcome, with what it cost, as fields of a message."""
    costs = {"build": astuple(outcome.build), "run": astuple(outcome.run)}
    if isinstance(outcome, Failure):
        return {**_failure_fields(outcome), **costs}
    return {**asdict(outcome), **costs}


def outcome_of(fields: dict[str, Any]) -> Outcome:
    """Return the outcome that `outcome_fields` wrote."""
    build, run = BuildCost(*fields["build"]), RunCost(*fields["run"])
    if "failure" in fields:
        return replace(_failure(fields), build=build, run=run)
    return Measurement(
        tuple(fields["seconds"]), fields["checked"], fields["stopped_early"], fields["max_error"],
        fields["note"], build=build, run=run,
    )  # fmt: skip


def probe_time_of(message: Message) -> ProbeTime | None:
    """Return the shortest time of a probe in `message`, a job of a run worker or its answer."""
    numbers = message.numbers("probe_time")
    return (numbers[0], numbers[1]) if numbers else None


def build_cost_of(message: Message) -> BuildCost:
    """Return what the build that `message` reports has cost."""
    names = "lower_s", "passes_s", "emit_s", "llvm_s"
    return BuildCost(*(message.number(name) for name in names))


def _failure(fields: dict[str, Any]) -> Failure:
    kind = FailureKind(fields["failure"])
    return Failure.of(kind, str(fields["message"]), str(fields["detail"]))


def _failure_fields(failure: Failure) -> dict[str, object]:
    return {"failure": failure.kind.value, "message": failure.message, "detail": failure.detail}
