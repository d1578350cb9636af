"""`ac.Fleet`: the devices of one label, as the `MachinesAhead` that a tuning measures on."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Self, cast

from ansorc.codegen.base import backend_of
from ansorc.errors import OptionError, TargetError
from ansorc.fleet.announcement import Announcement
from ansorc.fleet.connection import Connection, FleetOptions
from ansorc.fleet.dispatcher import Dispatcher
from ansorc.fleet.jobs import TaskOrder, job_message
from ansorc.fleet.signing import FleetKey
from ansorc.search.machines import Arrivals, MeasurerProgram, TaskMeasurer
from ansorc.search.measure import (
    CachePolicy,
    Measurement,
    MeasureOptions,
    Outcome,
    ProgramText,
    Stopwatch,
    batch_begins,
    nothing,
)
from ansorc.search.measure.messages import Message
from ansorc.search.measure.options import eviction_limit_s, run_limit_s
from ansorc.search.record import Environment
from ansorc.search.task import Task
from ansorc.target import Target

_BUILDS = 2
"""So many times the limit of a build: starting processes takes time, too."""


def import_engine() -> ModuleType:
    """Return `ansorc.fleet.engine`; raise OptionError without Dask.

    The package is imported here, not with ansorc: it takes a second, and is an extra.
    """
    try:
        return import_module("ansorc.fleet.engine")
    except ImportError as error:
        raise OptionError(f"a fleet needs Dask ({error}); pip install 'ansorc[fleet]'") from error


def connect(address: str) -> Callable[[], Connection]:
    """Return what connects to the scheduler at `address`.

    Raise OptionError without Dask, or for an invalid address.
    """
    if not re.fullmatch(r"(tcp|tls|ws|wss)://[^/]+:\d{1,5}/?", address):
        raise OptionError(
            f"'{address}' is not the address of a scheduler, such as tcp://10.0.0.1:8786"
        )
    made = cast("Callable[[str], Connection]", import_engine().DaskConnection)
    return lambda: made(address)


class Fleet:
    """Devices called `device` at the Dask scheduler at `address`, such as "tcp://host:8786".

        with ac.Fleet("tcp://host:8786", device="a76", build_on="x86") as fleet:
            task = ac.Task(dag, fleet.target)
            result = ac.tune(task, measurer=fleet)

    `build_on`: the label of devices that compile, for boards that cannot; by default each compiles
    what it measures. `key`: the file of the fleet's key, by default where `ansorc fleet key` puts
    it. Twice as many programs are in flight as there are devices. A device that is lost, hangs or
    lies is replaced by another of its label; a tuning ends with MeasureError, all that was measured
    recorded, when there was none for `options.patience_s`.

    Raise OptionError without Dask or a key. Nothing is connected before it is needed.
    """

    def __init__(
        self,
        address: str,
        device: str,
        build_on: str = "",
        key: str | Path | None = None,
        options: FleetOptions | None = None,
    ) -> None:
        self.address, self.device = address, device
        self._options = options or FleetOptions()
        self._dispatcher: Dispatcher[FleetOrder] = Dispatcher(
            connect(address), FleetKey.read(Path(key) if key else None), (device, build_on),
            uuid.uuid4().hex[:12], self._options,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the scheduler; may be called twice. The fleet may be used again."""
        self._dispatcher.close()

    @property
    def announcement(self) -> Announcement:
        """The announcement of the devices; waits for one, raises MeasureError if none comes."""
        return self._dispatcher.wait()

    @property
    def target(self) -> Target:
        """The devices' machine, for which their tasks are to be."""
        return Target.parse(self.announcement.target)

    @property
    def ahead(self) -> int:
        """Programs in flight: two for each device, and one for each that compiles."""
        return self._dispatcher.ahead

    @property
    def summary(self) -> str:
        """The devices and the jobs under way, for people: "4 devices, 8 in flight"."""
        devices, aside, jobs = self._dispatcher.in_flight
        words = f"{devices} device{'s' * (devices != 1)}, {jobs} in flight"
        return f"{words}, {aside} set aside" if aside else words

    @property
    def notes(self) -> tuple[str, ...]:
        """The faults of devices so far, and which devices are set aside."""
        return tuple(self._dispatcher.notes)

    @property
    def traffic_bytes(self) -> tuple[int, int]:
        """Bytes of jobs sent, and of answers received, so far."""
        return self._dispatcher.bytes_sent, self._dispatcher.bytes_received

    def require(self, target: Target, cache: CachePolicy = "warm") -> None:
        """Raise TargetError where the devices cannot run code for `target`, or with such caches."""
        target_ = self.target
        if target.is_gpu or target_.triple.partition("-")[0] != target.triple.partition("-")[0]:
            raise TargetError(
                f"device '{self.device}' is {target_.text}, which does not run code for "
                f"{target.text}; make tasks for `Fleet.target`, or give --target"
            )
        if missing := sorted({*target.real.features} - {*self.announcement.features}):
            raise TargetError(
                f"device '{self.device}' lacks {', '.join(missing)}, which {target.text} has; "
                "make tasks for `Fleet.target`"
            )
        if cache.startswith("cold") and not backend_of(target).capabilities(target).cold_caches:
            raise TargetError(f"'{target.text}' cannot be measured with cold caches")

    def environment(self, threads: int, cache: CachePolicy, target: Target) -> Environment:
        """Return the environment of the devices, under which their times are recorded."""
        del target
        return self.announcement.environment(threads, cache)

    def open(
        self, task: Task, options: MeasureOptions, best_s: float, watch: Stopwatch
    ) -> TaskMeasurer:
        """Return a measurer of `task`; the devices make ready when they get a program of it."""
        return FleetMeasurer(self, TaskOrder(task, options), best_s, watch)

    def stream(self, programs: Iterator[MeasurerProgram | None]) -> Arrivals:
        """Measure `programs`, of any tasks; see `MachinesAhead.stream`."""
        orders = (
            pair and FleetOrder(_measurer_of(pair[0]), (pair[1],), "measure") for pair in programs
        )
        for order, outcome in self.measure(orders):
            yield order.measurer, order.programs[0], outcome

    def measure(self, orders: Iterator[FleetOrder | None]) -> Generator[tuple[FleetOrder, Outcome]]:
        """Measure the program of each of `orders`; yield it with the outcome, as they come."""
        for order, (outcome,) in self.carry_out(orders):
            assert outcome is not None, "only programs that are ranked together may have none"
            order.measurer.learn(outcome)
            yield order, outcome

    def carry_out(
        self, orders: Iterator[FleetOrder | None]
    ) -> Generator[tuple[FleetOrder, Sequence[Outcome | None]]]:
        """Have `orders` done; yield each with its outcomes, as they come."""
        return self._dispatcher.stream(orders)


class FleetMeasurer:
    """Measures programs of one task on the devices of a fleet."""

    def __init__(self, fleet: Fleet, order: TaskOrder, best_s: float, watch: Stopwatch) -> None:
        self.order, self.best_s = order, best_s
        self._fleet, self._watch = fleet, watch

    def measure(
        self, candidates: Sequence[ProgramText], meanwhile: Callable[[], None] = nothing
    ) -> Iterator[Outcome]:
        """Measure `candidates`; yield the outcomes in this order.

        `meanwhile` is done beside the last of them, and before their outcomes are seen: as
        `Measurer.measure`, so that what is chosen then is the same.
        """
        orders = (
            FleetOrder(self, (program,), "measure", number)
            for number, program in enumerate(candidates)
        )
        *_, last = 0, *batch_begins(len(candidates), self.order.options.batch)
        early: dict[int, Outcome] = {}
        following = 0
        with ThreadPoolExecutor(1) as pool:
            doing = None if last else pool.submit(meanwhile)
            for order, outcome in self._fleet.measure(orders):
                early[order.number] = outcome
                while following in early and (doing is None or doing.done()):
                    yield early.pop(following)
                    following += 1
                    if following == last:
                        doing = pool.submit(meanwhile)
            if doing is not None:
                doing.result()
            yield from (early[number] for number in sorted(early))

    def rank(self, candidates: Sequence[ProgramText]) -> list[Outcome | None]:
        """Time `candidates` in turns, all on one device; return the outcomes in this order."""
        with self._watch.phase("contest"):
            for _, outcomes in self._fleet.carry_out(
                iter([FleetOrder(self, tuple(candidates), "rank")])
            ):
                return list(outcomes)
        return [None] * len(candidates)

    def learn(self, outcome: Outcome) -> None:
        """Take note of the best time: others are not timed as long."""
        if isinstance(outcome, Measurement):
            self.best_s = min(self.best_s or outcome.median_s, outcome.median_s)

    def close(self) -> None:
        """The devices forget the task when they have others."""


@dataclass(frozen=True)
class FleetOrder:
    """An order for a device, and the measurer that gave it."""

    measurer: FleetMeasurer
    programs: tuple[ProgramText, ...]
    kind: str
    number: int = 0
    """The place of its program among those that are measured together."""

    @property
    def limit_s(self) -> float:
        """Seconds that a device may take: what its own processes may, and then some."""
        order, best_s = self.measurer.order, self.measurer.best_s
        run, dag = order.options.run, order.task.dag
        array_bytes = sum(8 * buffer.elements for buffer in dag.params)
        each_s = run_limit_s(run, best_s, dag.flops, array_bytes)
        each_s += _BUILDS * order.options.build_timeout_s
        if self.kind == "rank":
            each_s += run.rank_rounds * (4 * best_s + 2 * run.rank_repeat_s)
            each_s += eviction_limit_s(run, array_bytes, run.rank_rounds)
        return each_s * len(self.programs)

    def message(self, job: str, kind: str) -> Message:
        """Return the job called `job`."""
        return job_message(self.measurer.order, kind, job, self.programs, self.measurer.best_s)


def _measurer_of(measurer: TaskMeasurer) -> FleetMeasurer:
    assert isinstance(measurer, FleetMeasurer), "a fleet has opened the measurers of its programs"
    return measurer
