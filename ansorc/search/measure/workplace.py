"""The processes and files that measuring one task needs, from start to end."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from ansorc.errors import MeasureError
from ansorc.search.measure.crew import Crew, CrewOptions
from ansorc.search.measure.data import TaskData
from ansorc.search.measure.options import MeasureOptions
from ansorc.search.measure.process import ZygoteProcess
from ansorc.search.measure.result import FailureKind
from ansorc.search.task import Task

_THREAD_BYTES = 16 << 20  # address space of a thread's stack, with room to spare


class Workplace:
    """One run worker, the build workers, and the task's data; all gone after `close`.

    Raises MeasureError where a process cannot be started or the data cannot be written.
    """

    def __init__(self, task: Task, options: MeasureOptions) -> None:
        self._crews: list[Crew] = []
        self._zygote = ZygoteProcess()
        self._data: TaskData | None = None
        memory = options.memory_bytes
        arrays = 4 * sum(b.elements * max(b.dtype.bytes, 8) for b in task.dag.params)
        threads = _THREAD_BYTES * max(options.run.threads, task.target.cores)
        try:
            # The processes start while this one draws the inputs and evaluates the reference.
            self.runner = self._crew("run", 1, memory + arrays + threads, options)
            self.builders = self._crew("build", options.builders, memory, options)
            self._data = TaskData.create(task, np.random.default_rng(options.seed))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Workplace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def data(self) -> TaskData:
        """Where the task's data lies; raises MeasureError once closed."""
        if self._data is None:
            raise MeasureError("the measurer is closed; make a new one")
        return self._data

    def quiet(self) -> None:
        """Wait until no worker is starting or building: only then a time is worth something."""
        self.builders.settle()
        self.runner.settle()

    def pids(self) -> list[int]:
        """Return the process ids of all workers."""
        return [pid for crew in self._crews for pid in crew.pids()]

    def close(self) -> None:
        """Kill the workers and delete the data; may be called twice."""
        for crew in self._crews:
            crew.close()
        self._zygote.close()
        if self._data is not None:
            self._data.remove()
            self._data = None

    def _crew(self, role: str, size: int, memory_bytes: int, options: MeasureOptions) -> Crew:
        kind = FailureKind.RUN_TIMEOUT if role == "run" else FailureKind.BUILD_TIMEOUT
        crew = Crew(
            CrewOptions(
                self._zygote,
                role,
                size,
                kind,
                memory_bytes,
                options.start_timeout_s,
                options.recycle_after,
                options.recycle_rss_bytes,
            )
        )
        self._crews.append(crew)
        return crew
