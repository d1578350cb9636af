"""One trial as it is recorded, and the machine and settings under which it was measured."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import metadata
from typing import Any

from ansorc.codegen.base import DeviceBackend, backend_of
from ansorc.errors import RecordError
from ansorc.schedule.steps import RewriteLayout
from ansorc.search.measure.options import CachePolicy
from ansorc.search.measure.program_text import ProgramText
from ansorc.search.measure.result import Failure, FailureKind, Outcome
from ansorc.target import Target, cpu_model, detect


@dataclass(frozen=True)
class Environment:
    """The settings that must be equal for two times to be comparable, the machine among them."""

    cpu: str
    """The model name that the CPU gives itself, or the GPU."""
    features: tuple[str, ...]
    """Its instruction sets, by their LLVM names, or its architecture."""
    cores: int
    """Cores that the measuring process could use, or multiprocessors."""
    threads: int
    """Threads of the kernel; 0 means all of `cores`, and is what as many as `cores` become."""
    cache: CachePolicy = "warm"
    """The caches' contents when the timed calls began."""

    def __post_init__(self) -> None:
        if self.threads == self.cores:
            object.__setattr__(self, "threads", 0)

    @property
    def running(self) -> int:
        """The threads that run a kernel."""
        return self.threads or self.cores

    @property
    def key(self) -> str:
        """A short content hash."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Return the fields as JSON text."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Environment:
        """Return the environment that `to_json` wrote; older ones knew warm caches alone."""
        fields = json.loads(text)
        return Environment(
            str(fields["cpu"]),
            tuple(str(name) for name in fields["features"]),
            int(fields["cores"]),
            int(fields["threads"]),
            fields.get("cache", "warm"),
        )


def current_environment(
    threads: int = 0, cache: CachePolicy = "warm", target: Target | None = None
) -> Environment:
    """Return the environment of this process for kernels of `threads` threads (0: all cores).

    Kernels for a `target` that run on a device have the device's; raise BuildError if there is
    none.
    """
    if target is not None and isinstance(backend := backend_of(target), DeviceBackend):
        device = backend.machine(target)
        return Environment(device.name, device.features, device.units, 0, cache)
    here = detect()
    return Environment(cpu_model(), here.features, here.cores, threads, cache)


DATA = " data: "
"""The mark in a record's message before the description of the data it was measured with."""
CANONICAL = "canonical"
"""How the steps of a record name stages and iterators; absent in lines of earlier versions."""


@dataclass(frozen=True)
class Record:
    """One program of one task after measuring it in one environment: the text with its outcome.

    This is the one value of a program that was measured. Of a `Measurement` it keeps what a time
    is compared by, and of the costs their sums, as a record file does.
    """

    task_key: str
    program_key: str
    steps: str
    """The schedule's steps as JSON text, under canonical names (`ansorc.schedule.Names`)."""
    function: str
    """The loop program's text if the candidate was one, else empty."""
    environment: Environment
    median_s: float | None
    """Seconds for one call; None after a failure."""
    spread_s: float = 0.0
    """Distance between the quartiles of the repeats, in seconds."""
    repeats: int = 0
    failure: FailureKind | None = None
    message: str = ""
    """The message of a failure; else a device's note on its clock, and after DATA the data it was
    measured with, if not the usual."""
    checked: bool = False
    """The output agreed with the float64 reference; only such a record can be the best."""
    build_s: float = 0.0
    created: float = 0.0
    """Unix time in seconds."""
    seed: int = 0
    version: str = ""
    """The ansorc and compiler that measured, as `current_version` says it."""
    run_s: float = 0.0
    """Seconds that its run took in all: preparing, checking, timing."""
    known: int = 0
    """Trials of the task that had been recorded when this program was chosen."""

    @staticmethod
    def of(
        task_key: str,
        program: ProgramText,
        outcome: Outcome,
        environment: Environment,
        seed: int = 0,
        known: int = 0,
        data: str = "",
    ) -> Record:
        """Return the record of a program, stamped with the time and this ansorc's version.

        `data` says which data it was measured with (`drawn_data.describe_data`).
        """
        base = Record(
            task_key,
            program.key,
            program.steps,
            program.function,
            environment,
            None,
            build_s=outcome.build.total_s,
            created=time.time(),
            seed=seed,
            version=current_version(),
            run_s=outcome.run.total_s,
            known=known,
        )
        if isinstance(outcome, Failure):
            return replace(base, failure=outcome.kind, message=outcome.message)
        return replace(
            base,
            median_s=outcome.median_s,
            spread_s=outcome.spread_s,
            repeats=len(outcome.seconds),
            message=f"{outcome.note}{DATA}{data}".lstrip() if data else outcome.note,
            checked=outcome.checked,
        )

    @property
    def data(self) -> str:
        """Which data it was measured with; "" if it was the usual, or before that was recorded."""
        return "" if self.failure else self.message.partition(DATA.lstrip())[2]

    @property
    def program(self) -> ProgramText:
        """The program, as it is given to a `Measurer`."""
        return ProgramText(self.steps, self.function)

    @property
    def packed_before(self) -> tuple[str, ...]:
        """The constant inputs that were packed before the timing, under canonical names."""
        genes = json.loads(self.steps)
        return tuple(gene["tensor"] for name, gene in genes if name == RewriteLayout.__name__)

    def to_json(self) -> dict[str, object]:
        """Return the record as a JSON object."""
        return {
            "task": self.task_key,
            "program": self.program_key,
            "steps": json.loads(self.steps),
            "names": CANONICAL,
            "function": self.function,
            "packed_before": list(self.packed_before),
            "environment": json.loads(self.environment.to_json()),
            "median_s": self.median_s,
            "spread_s": self.spread_s,
            "repeats": self.repeats,
            "failure": self.failure.value if self.failure else None,
            "message": self.message,
            "checked": self.checked,
            "build_s": self.build_s,
            "created": self.created,
            "seed": self.seed,
            "version": self.version,
            "run_s": self.run_s,
            "known": self.known,
        }

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Record:
        """Return the record that `to_json` wrote; raise RecordError naming what is missing."""
        try:
            failure = fields["failure"]
            median_s = fields["median_s"]
            return Record(
                str(fields["task"]),
                str(fields["program"]),
                json.dumps(fields["steps"], separators=(",", ":")),
                str(fields["function"]),
                Environment.from_json(json.dumps(fields["environment"])),
                None if median_s is None else float(median_s),
                float(fields["spread_s"]),
                int(fields["repeats"]),
                None if failure is None else FailureKind(failure),
                str(fields["message"]),
                bool(fields["checked"]),
                float(fields["build_s"]),
                float(fields["created"]),
                int(fields["seed"]),
                str(fields["version"]),
                float(fields.get("run_s", 0.0)),  # unknown before version 3 of the record file
                int(fields.get("known", 0)),  # and before version 5
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"not a record: {type(error).__name__}: {error}") from error


@lru_cache(maxsize=1)
def current_version() -> str:
    """Return this ansorc and the package that its compiler is in, e.g. "0.1.0, llvmlite 0.45.1"."""
    try:
        return f"{metadata.version('ansorc')}, llvmlite {metadata.version('llvmlite')}"
    except metadata.PackageNotFoundError:
        return "unknown"
