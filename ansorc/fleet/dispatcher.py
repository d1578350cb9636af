"""Assign jobs to devices, and repeat jobs of devices that fail.

Each device has at most two jobs, one that it does and one that waits there. A job is open until its
answer is taken, once: answers of attempts that were given up are not looked at. An attempt is given
up where its device is gone, is at fault, or takes too long; the job then goes to another device, or
to the same one where there is no other. After `most_attempts` it ends as a failure of the
measuring. A failure that may be the device's (a wrong result, a crash) counts once three devices of
the label agree, or all where there are fewer; a right result counts whoever called it wrong.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Generic, Protocol, TypeAlias, TypeVar

from ansorc.errors import MeasureError
from ansorc.fleet.announcement import Announcement
from ansorc.fleet.connection import Connection, ConnectionLost, FleetOptions
from ansorc.fleet.jobs import ANSWER, JOB, decode, results_of, with_object_code
from ansorc.fleet.members import DeviceState, Members
from ansorc.fleet.signing import FleetKey, SignatureError
from ansorc.search.measure import Failure, FailureKind, Outcome, ProgramText
from ansorc.search.measure.messages import Message

_JOBS_A_DEVICE = 2
_DOUBTED = {FailureKind.WRONG_RESULT, FailureKind.CRASH, FailureKind.UNKNOWN}
"""Kinds of failures that may be a fault of the device."""
_OPINIONS = 3
"""So many devices must call a program wrong: two that failed one after the other once agreed."""
_POLL_S, _SHORT_POLL_S = 0.25, 0.005
"""So long it waits for answers; the second while the next program is being chosen."""


class DeviceOrder(Protocol):
    """An order for one device: to measure a program, or to rank several."""

    @property
    def programs(self) -> tuple[ProgramText, ...]:
        """The programs of the order."""
        ...

    @property
    def kind(self) -> str:
        """That of the job: "measure" or "rank"."""
        ...

    @property
    def limit_s(self) -> float:
        """The most seconds that a device may take."""
        ...

    def message(self, job: str, kind: str) -> Message:
        """Return the job, or that of its "build"."""
        ...


AnyOrder = TypeVar("AnyOrder", bound=DeviceOrder)
_Outcomes: TypeAlias = Sequence[Outcome | None]
"""The outcomes of an order's programs. None: a program that was right and could not be timed."""


@dataclass(eq=False)
class _Job(Generic[AnyOrder]):
    name: str
    order: AnyOrder
    attempts: int = 0
    tried: set[str] = field(default_factory=set[str])
    built: Message | None = None
    doubted: dict[str, _Outcomes] = field(default_factory=dict[str, _Outcomes])
    """Failures that devices reported, by identity, and that others have to confirm."""
    is_built: bool = False
    """Whether it needs no builder, or has seen one."""


class Dispatcher(Generic[AnyOrder]):
    """Keeps the devices of one label busy with jobs of one tuner; may be used again and again.

    `connect` makes a connection, or raises ConnectionLost. `builders` is the label of the devices
    that compile, or empty: each compiles what it measures. `run` names this tuner in keys of jobs.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        key: FleetKey,
        labels: tuple[str, str],
        run: str,
        options: FleetOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._key, self._run, self._options = connect, key, run, options
        self._clock = clock
        self.notes: dict[str, None] = {}
        """Notes for the user, each once, oldest first."""
        self._members = Members(key, labels, run, clock, self._tell)
        self._connection: Connection | None = None
        self._attempts: dict[str, tuple[_Job[AnyOrder], str]] = {}
        """By key: the job, and the address of the device."""
        self._waiting: deque[_Job[AnyOrder]] = deque()
        self._open: dict[str, _Job[AnyOrder]] = {}
        self._ended: deque[tuple[_Job[AnyOrder], _Outcomes]] = deque()
        """Jobs with their outcomes, which nobody has taken yet."""
        self._count = self._sent = 0
        self._refreshed = float("-inf")
        self._obstacle = ""
        """The reason why there is no connection."""
        self._alone_since: float | None = None
        self._most = 1
        """The largest number of devices that measured at the same time."""
        self._few_since: dict[int, float] = {}
        """The time since when that number was not exceeded, and at least one device was there."""
        self.bytes_sent = self.bytes_received = 0

    @property
    def devices(self) -> list[DeviceState]:
        """The devices that measure, including those that are set aside for now."""
        return self._members.measuring

    @property
    def ahead(self) -> int:
        """The number of open jobs: two for each device, one more for each that compiles."""
        members = self._members
        return max(1, _JOBS_A_DEVICE * len(members.measuring) + len(members.building))

    def wait(self) -> Announcement:
        """Return what the devices are, as soon as there is one; and one that compiles, if need be.

        Raise MeasureError if there is none for `start_s`.
        """
        while self._members.lacks():
            self._look(self._options.start_s)
            if self._members.lacks():
                time.sleep(min(_POLL_S, self._options.refresh_s))
        assert self._members.like is not None
        return self._members.like

    @property
    def in_flight(self) -> tuple[int, int, int]:
        """(devices that measure or compile, of these set aside, jobs that they have now)."""
        known = {state.address: state for state in self._members.building + self._members.measuring}
        aside = len(known) - len(self._members.usable(list(known.values())))
        return len(known), aside, sum(len(state.attempts) for state in known.values())

    def stream(self, orders: Iterator[AnyOrder | None]) -> Generator[tuple[AnyOrder, _Outcomes]]:
        """Yield each order with its outcomes as they come, each once; see `MachinesAhead.stream`.

        Raise MeasureError if there is no device for `patience_s`.
        """
        is_more = True
        try:
            while True:
                self._look()
                is_short = False
                while is_more and not is_short and len(self._open) < self.ahead:
                    try:
                        order = next(orders)
                    except StopIteration:
                        is_more = False
                    else:
                        is_short = order is None
                        if order is not None:
                            self._take_in(order)
                self._hand_out()
                if not is_more and not self._open:
                    return
                self._receive(_SHORT_POLL_S if is_short else _POLL_S)
                self._give_up_late()
                while self._ended:
                    job, outcomes = self._ended.popleft()
                    del self._open[job.name]
                    yield job.order, outcomes
        finally:
            self._drop_all()

    def close(self) -> None:
        """Leave the scheduler; may be called twice."""
        self._drop_all()
        self._disconnect()

    def _take_in(self, order: AnyOrder) -> None:
        self._count += 1
        job = _Job(f"{self._run}-{self._count}", order)
        job.is_built = not self._members.builders or order.kind != "measure"
        self._open[job.name] = job
        self._waiting.append(job)

    def _look(self, patience_s: float | None = None) -> None:
        """Ask the scheduler for its devices, if it is time to.

        Raise MeasureError after `patience_s` without any, by default that of the options.
        """
        if self._clock() - self._refreshed < self._options.refresh_s:
            return
        self._refreshed = self._clock()
        try:
            if self._connection is None:
                self._connection = self._connect()
            announced = self._connection.devices()
            self._obstacle = ""
            for state in self._members.all:
                if state.address not in announced:
                    self._lose_device(state)
            self._members.refresh(announced)
        except ConnectionLost as error:
            self._lose_connection(str(error))
        self._see_company(len(self._members.usable(self._members.measuring)))
        if not self._members.lacks(self._members.usable):
            self._alone_since = None
            return
        now = self._clock()  # connecting may take seconds, too
        since = self._alone_since = now if self._alone_since is None else self._alone_since
        if now - since >= (self._options.patience_s if patience_s is None else patience_s):
            missing = self._members.lacks(self._members.usable)
            self._alone_since = None  # the next tuning waits as long again
            words = f"no device '{missing}' for {now - since:.0f} s"
            words += (
                f": {self._obstacle}" if self._obstacle else f"; {self._members.describe_labels()}"
            )
            if patience_s is None:
                words += "; what was measured is recorded, the same tuning goes on later"
            raise MeasureError("\n".join((words, *self.notes)))

    def _see_company(self, usable: int) -> None:
        """Note how many devices measure now."""
        self._most = max(self._most, usable)
        for count in range(1, _OPINIONS):
            if 1 <= usable <= count:
                self._few_since.setdefault(count, self._clock())
            else:
                self._few_since.pop(count, None)

    def _hand_out(self) -> None:
        """Send waiting jobs, the oldest first, to the devices with the fewest jobs."""
        left: deque[_Job[AnyOrder]] = deque()
        while self._waiting and self._connection is not None:
            job = self._waiting.popleft()
            if job.doubted and self._are_few(len(job.doubted)) and not self._able(job):
                if len(job.doubted) > 1:
                    self._ended.append((job, next(iter(job.doubted.values()))))
                else:
                    self._end_in_doubt(job, "no other device was there")
                continue
            state = self._choose(job)
            if state is None:
                left.append(job)
                continue
            try:
                self._send(job, state)
            except ConnectionLost as error:
                self._waiting.appendleft(job)
                self._lose_connection(str(error))
        self._waiting.extendleft(reversed(left))

    def _choose(self, job: _Job[AnyOrder]) -> DeviceState | None:
        able = self._able(job)
        fresh = [state for state in able if state.identity not in job.tried]
        free = [state for state in fresh or able if len(state.attempts) < _JOBS_A_DEVICE]
        return min(free, key=lambda state: (len(state.attempts), state.done), default=None)

    def _able(self, job: _Job[AnyOrder]) -> list[DeviceState]:
        """Return the devices that may do a job: not those whose failure others have to confirm."""
        members = self._members
        able = members.usable(members.measuring if job.is_built else members.building)
        return [state for state in able if state.identity not in job.doubted]

    def _send(self, job: _Job[AnyOrder], state: DeviceState) -> None:
        assert self._connection is not None
        job.attempts += 1
        self._sent += 1
        key = f"ansorc-{job.name}-{self._sent}"
        message = job.order.message(key, job.order.kind if job.is_built else "build")
        if job.built is not None:
            message = with_object_code(message, job.built)
        signed = self._key.sign(JOB, message.encode())
        self._connection.submit(state.address, state.label, key, signed)
        self.bytes_sent += len(signed)
        if not state.attempts:
            state.heard = self._clock()
        state.attempts[key] = job.order.limit_s + self._options.grace_s
        self._attempts[key] = job, state.address

    def _receive(self, poll_s: float) -> None:
        """Wait for answers, for a moment, and take them."""
        if self._connection is None:
            time.sleep(min(poll_s, self._options.refresh_s))
            return
        try:
            arrivals = self._connection.arrivals(min(poll_s, self._options.refresh_s))
        except ConnectionLost as error:
            self._lose_connection(str(error))
            return
        for key, signed in arrivals:
            if (attempt := self._end(key)) is None:
                continue
            job, state = attempt
            outcomes = self._outcomes(job, state, key, signed)
            if outcomes is None:
                self._again(job)
            else:
                self._ended.append((job, outcomes))

    def _outcomes(
        self, job: _Job[AnyOrder], state: DeviceState, key: str, signed: bytes | None
    ) -> _Outcomes | None:
        """Return the outcomes of a job, or None if it goes on."""
        job.tried.add(state.identity)
        if signed is None:
            return None  # the worker was lost: nobody's fault yet
        self.bytes_received += len(signed)
        try:
            answer = decode(self._key.verify(ANSWER, signed))
            outcomes = results_of(answer, len(job.order.programs))
        except (SignatureError, MeasureError) as error:
            self._fault(state, str(error))
            return None
        if fault := answer.text("fault"):
            self._fault(state, fault)
            return None
        if answer.text("job") != key:
            self._fault(state, f"it answered {answer.text('job')} when it was asked for {key}")
            return None
        state.done += 1
        state.faults = 0
        if outcomes is None:  # object code: the next device measures it
            job.built, job.is_built, job.attempts = answer, True, 0
            job.tried.clear()
            return None
        return self._confirm(job, state, outcomes)

    def _confirm(
        self, job: _Job[AnyOrder], state: DeviceState, outcomes: _Outcomes
    ) -> _Outcomes | None:
        """Return the outcomes, or None if another device has to confirm their failures."""
        failing = _doubtful(outcomes)
        if not failing:
            for identity, wrong in job.doubted.items():
                self._note_refuted(identity, wrong, state)
        if not failing or not job.is_built:
            return outcomes
        job.doubted = {who: was for who, was in job.doubted.items() if _doubtful(was) == failing}
        job.doubted[state.identity] = outcomes
        return outcomes if len(job.doubted) >= min(_OPINIONS, self._most) else None

    def _note_refuted(self, who: str, wrong: _Outcomes, by: DeviceState) -> None:
        """Count a fault of a device, if it is still here, that calls right programs wrong."""
        liar = self._members.with_identity(who)
        if liar is None or liar is by:
            return
        liar.unconfirmed += 1
        self._tell(
            f"a program failed on device '{liar.label}' at {liar.address} and was right on another "
            f"({_first_failure(wrong)})"
        )
        if liar.unconfirmed >= self._options.most_faults:
            self._set_aside(liar, "its failures are not confirmed by other devices")

    def _are_few(self, count: int) -> bool:
        """Return whether there have long been too few devices to confirm failures.

        A device that is set aside, or whose worker starts again, may be back in that time.
        """
        return self._clock() - self._few_since.get(count, inf) > self._options.aside_s

    def _again(self, job: _Job[AnyOrder]) -> None:
        """Give a job to another device, before newer jobs, or end it."""
        if job.attempts < self._options.most_attempts:
            self._waiting.appendleft(job)
            return
        words = f"{job.attempts} devices were lost, or at fault, while they had the program"
        self._end_in_doubt(job, words)

    def _end_in_doubt(self, job: _Job[AnyOrder], words: str) -> None:
        """End a job as a failure of the measuring, which may be tried again."""
        if job.doubted:
            words = f"{_first_failure(next(iter(job.doubted.values())))}; not confirmed: {words}"
        failure = Failure.of(FailureKind.UNKNOWN, words)
        self._ended.append((job, [failure] * len(job.order.programs)))

    def _end(self, key: str) -> tuple[_Job[AnyOrder], DeviceState] | None:
        """Take an attempt from its device; None if it was given up before."""
        attempt = self._attempts.pop(key, None)
        if attempt is None:
            return None
        job, address = attempt
        state = self._members[address]
        state.attempts.pop(key)
        state.heard = self._clock()
        return job, state

    def _fault(self, state: DeviceState, words: str) -> None:
        state.faults += 1
        self._tell(f"device '{state.label}' at {state.address}: {words}")
        if state.faults >= self._options.most_faults:
            self._set_aside(state, f"{state.faults} faults in a row")

    def _set_aside(self, state: DeviceState, why: str) -> None:
        state.aside_until = self._clock() + self._options.aside_s
        state.faults = state.unconfirmed = 0
        self._tell(f"device '{state.label}' at {state.address} is set aside: {why}")
        self._give_up(state)

    def _give_up(self, state: DeviceState) -> None:
        """Take all attempts from a device."""
        for key in list(state.attempts):
            if self._connection is not None:
                self._connection.cancel(key)
            if (attempt := self._end(key)) is not None:
                attempt[0].tried.add(state.identity)
                self._again(attempt[0])

    def _give_up_late(self) -> None:
        now = self._clock()
        for state in [late for late in self._members.all if late.deadline <= now]:
            self._set_aside(state, f"no answer for {now - state.heard:.0f} s")

    def _lose_device(self, state: DeviceState) -> None:
        if state.attempts:
            self._tell(f"device '{state.label}' at {state.address} left at work")
        self._give_up(state)
        self._members.remove(state.address)

    def _lose_connection(self, words: str) -> None:
        """Repeat all jobs in flight as soon as there is a scheduler."""
        if self._connection is not None:
            self._tell(f"the scheduler was lost: {words}")
        self._obstacle = words
        self._disconnect()
        for key, (job, _) in list(self._attempts.items()):
            self._attempts.pop(key)
            job.attempts -= 1  # not for anything that the program did
            self._waiting.appendleft(job)
        self._members.clear()

    def _tell(self, note: str) -> None:
        self.notes[note] = None

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _drop_all(self) -> None:
        """Give up everything that is open: nobody waits for it."""
        for key, (_, address) in self._attempts.items():
            if self._connection is not None:
                self._connection.cancel(key)
            if (state := self._members.get(address)) is not None:
                state.attempts.pop(key, None)
        self._attempts.clear()
        self._waiting.clear()
        self._ended.clear()
        self._open.clear()


def _doubtful(outcomes: _Outcomes) -> frozenset[int]:
    """The numbers of the programs whose failures may be the device's."""
    return frozenset(
        number
        for number, outcome in enumerate(outcomes)
        if isinstance(outcome, Failure) and outcome.kind in _DOUBTED
    )


def _first_failure(outcomes: _Outcomes) -> str:
    return next((outcome.message for outcome in outcomes if isinstance(outcome, Failure)), "")
