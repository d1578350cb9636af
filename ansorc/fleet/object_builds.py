"""Object code for any machine, made by worker processes of this one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ansorc.search.measure import MeasureOptions, ProgramText, Workers
from ansorc.search.measure.messages import build_request
from ansorc.search.measure.pool import Reply
from ansorc.search.task import Task


class ObjectBuilds:
    """Builders of any tasks; use it from a thread that lives as long, and close it."""

    def __init__(self, options: MeasureOptions) -> None:
        self._workers = Workers(options)
        self._directory = TemporaryDirectory(prefix="ansorc-build-")

    def close(self) -> None:
        """Kill the processes."""
        self._workers.close()
        self._directory.cleanup()

    def build(
        self, task: Task, programs: Sequence[ProgramText], limit_s: float
    ) -> Iterator[tuple[int, Reply]]:
        """Build programs of `task`; yield the number of each and its code or failure, as they come.

        Raise MeasureError where processes cannot be started. Nothing of them runs here.
        """
        self._workers.start(task)
        # A builder remembers a task by the directory that it came in.
        directory = Path(self._directory.name) / task.key
        directory.mkdir(exist_ok=True)
        (directory / "task.json").write_text(task.to_json())
        requests = [build_request(directory, program, limit_s) for program in programs]
        return self._workers.builders.run(requests)
