"""All that knows Dask distributed: a tuner's connection to a scheduler, and workers of devices.

What travels is one fixed function, `serve`, with signed bytes. Dask sends it as a pickle; the
process of a worker unpickles the names in `_ADMITTED` and nothing else, so no code that somebody
sends is executed before the signature of the bytes is checked, or at all.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import io
import pickle
import queue
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import asdict
from typing import Any, cast

import distributed
from distributed.protocol import pickle as dask_pickle
from distributed.security import Security

from ansorc.errors import OptionError
from ansorc.fleet.announcement import DeviceReport, Presence
from ansorc.fleet.connection import ConnectionLost
from ansorc.fleet.device import FleetDevice

_ADMITTED = {
    ("ansorc.fleet.engine", "serve"),
    ("dask._task_spec", "Task"),
    ("distributed.shuffle._worker_plugin", "ShuffleWorkerPlugin"),
}
_REFUSED = (
    "upload_file", "actor_execute", "actor_attribute", "run", "run_coroutine", "update_data",
    "benchmark_disk", "benchmark_memory", "benchmark_network",
)  # fmt: skip
"""Requests that a worker of Dask answers and that of a fleet does not: they run what they bring."""
_EXTRA = "ansorc"
_RECONNECT_S, _CLOSE_S = 1.0, 2.0
JOIN_S = 30.0
"""Seconds after which a worker that has not joined starts again: its scheduler may be gone."""
_ANSWER_S = 5.0
"""Seconds without an answer after which a scheduler counts as lost."""
_FAULTS = (OSError, TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError)
"""Errors that Dask raises when a scheduler is lost."""


def serve(signed: bytes) -> bytes:
    """Answer a job by the device whose worker runs this; the only function that is ever sent."""
    return cast(DeviceWorker, distributed.get_worker()).device.answer(signed)


def resource(label: str) -> str:
    """Return the name of the resource of Dask that stands for a device: there is one of it."""
    return f"ansorc-{label}"


def require_certificate(address: str, role: str) -> None:
    """Raise OptionError for tls:// where Dask knows no certificate of a "client" or "worker"."""
    known = Security().get_connection_args(role)
    if address.startswith("tls") and known["ssl_context"] is None:
        raise OptionError(
            f"{address} needs a certificate, distributed.comm.tls.{role}.cert of Dask's "
            "configuration, and its key; see docs/fleet.md, Encrypted"
        )


class _AdmittedUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _ADMITTED:
            raise pickle.UnpicklingError(
                f"refused: {module_name}.{global_name} is nothing that a fleet sends"
            )
        return super().find_class(module_name, global_name)


def load_admitted(data: Any, *, buffers: Iterable[Any] = ()) -> Any:
    """Return what was pickled; raise UnpicklingError for a name that is not admitted."""
    return _AdmittedUnpickler(io.BytesIO(data), buffers=buffers).load()


class DeviceWorker(distributed.Worker):
    """A worker of Dask that serves one device, one job at a time, and nothing else."""

    def __init__(self, address: str, device: FleetDevice) -> None:
        self.device = device
        super().__init__(
            address,
            nthreads=1,
            resources={resource(device.label): 1},
            startup_information={_EXTRA: lambda _: device.announcement.hex()},
            metrics={_EXTRA: _report},
            memory_limit=0,
            dashboard=False,
            death_timeout=JOIN_S,
        )
        for name in _REFUSED:
            self.handlers.pop(name, None)


def _report(worker: DeviceWorker) -> dict[str, Any]:
    waiting = len(worker.state.tasks) - len(worker.state.executing)
    return asdict(worker.device.report(waiting))


def run_devices(
    address: str, devices: Sequence[FleetDevice], tell: Callable[[str], None] = lambda words: None
) -> None:
    """Serve `devices` at the scheduler at `address`, until SIGTERM or Ctrl-C.

    Where the scheduler ends they wait for the next one. From here on this process unpickles
    nothing but what a fleet sends: it should be one of its own.
    """
    require_certificate(address, "worker")
    dask_pickle.loads = load_admitted
    asyncio.run(_serving(address, devices, tell))


async def _serving(
    address: str, devices: Sequence[FleetDevice], tell: Callable[[str], None]
) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    def say(words: str) -> None:
        with contextlib.suppress(OSError):  # the disk may be full that this is written to
            tell(words)

    await asyncio.gather(*(_serve_device(address, device, stopped, say) for device in devices))


async def _serve_device(
    address: str, device: FleetDevice, stopped: asyncio.Event, tell: Callable[[str], None]
) -> None:
    ending = asyncio.create_task(stopped.wait())
    while not stopped.is_set():
        try:
            worker = DeviceWorker(address, device)
        except OSError as error:  # Dask makes a folder, for which the disk may be too full
            tell(f"device '{device.label}' cannot begin: {error}")
            await asyncio.wait({ending}, timeout=_RECONNECT_S)
            continue
        starting = asyncio.ensure_future(worker)
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            break
        if (error := starting.exception()) is not None:
            tell(f"device '{device.label}' cannot join {address}: {error}")
        else:
            tell(f"device '{device.label}' serves {address} as {worker.address}")
            finished = asyncio.create_task(worker.finished())
            await asyncio.wait({finished, ending}, return_when=asyncio.FIRST_COMPLETED)
            await worker.close(timeout=2)
            finished.cancel()
        if not stopped.is_set():
            tell(f"device '{device.label}' waits for a scheduler at {address}")
            await asyncio.wait({ending}, timeout=_RECONNECT_S)
    ending.cancel()


class DaskConnection:
    """A tuner's side: which workers there are, jobs to each of them, answers as they come.

    Every method raises ConnectionLost once the scheduler is gone. Raise it, too, where there is
    none at `address`. All of Dask runs in one thread of its own: its blocking client may wait for
    itself where it is freed.
    """

    def __init__(self, address: str, timeout_s: float = _ANSWER_S) -> None:
        require_certificate(address, "client")
        self._arrived: queue.SimpleQueue[tuple[str, bytes | None]] = queue.SimpleQueue()
        self._jobs: dict[str, Any] = {}
        """Futures by key."""
        self._ended: list[str] = []
        """Keys of jobs whose answers are to be fetched."""
        self._is_fetching = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen: dict[str, tuple[float, float]] = {}
        """By address: when the scheduler heard of a worker, by its clock, and by that of here."""
        self._lost = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="ansorc-fleet", daemon=True
        )
        self._thread.start()
        try:
            self._client = self._result(self._join(address, timeout_s), 2 * timeout_s)
        except ConnectionLost as error:
            self._stop()
            raise ConnectionLost(f"no scheduler answers at {address} ({error})") from error

    def devices(self) -> dict[str, Presence]:
        """Return each worker of a fleet, by its address."""
        self._require()
        known = self._result(self._identity(), _ANSWER_S)
        workers: dict[str, dict[str, Any]] = known["workers"]
        now, seen = time.monotonic(), self._seen
        self._seen = {}
        devices_: dict[str, Presence] = {}
        for address, worker in workers.items():
            if not isinstance(worker.get(_EXTRA), str) or worker["status"] != "running":
                continue
            told, at = worker["last_seen"], now
            if address in seen and seen[address][0] == told:
                at = seen[address][1]
            self._seen[address] = told, at
            report = DeviceReport(**worker["metrics"].get(_EXTRA, {}))
            devices_[address] = Presence(bytes.fromhex(worker[_EXTRA]), report, now - at)
        return devices_

    def submit(self, address: str, label: str, key: str, signed: bytes) -> None:
        """Send a job to one worker; its answer arrives with `key` in `arrivals`."""
        self._require()
        self._loop.call_soon_threadsafe(self._send, address, label, key, signed)

    def arrivals(self, timeout_s: float) -> list[tuple[str, bytes | None]]:
        """Wait for answers, and return what has come: None where a worker was lost."""
        self._require()
        answers: list[tuple[str, bytes | None]] = []
        with contextlib.suppress(queue.Empty):
            answers.append(self._arrived.get(timeout=timeout_s))
            while True:
                answers.append(self._arrived.get_nowait())
        if not answers:
            self._require()
        return answers

    def cancel(self, key: str) -> None:
        """Forget a job, and its answer."""
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(self._forget, key)

    def close(self) -> None:
        """Leave the scheduler; what is under way is given up."""
        if self._loop.is_running():
            with contextlib.suppress(ConnectionLost):
                self._result(self._leave(), 2 * _CLOSE_S)
            self._stop()

    def _require(self) -> None:
        if not self._lost and self._client.status != "running":
            self._lost = "the scheduler has ended"
        if self._lost:
            raise ConnectionLost(self._lost)

    def _result(self, work: Coroutine[Any, Any, Any], timeout_s: float) -> Any:
        """Return what `work` returns in the thread of Dask; raise ConnectionLost if it fails."""
        doing = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return doing.result(timeout_s)
        except _FAULTS as error:
            doing.cancel()
            words = str(error) or f"no answer for {timeout_s:.0f} s"
            raise ConnectionLost(words) from error

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()

    # What follows runs in the thread of Dask.

    async def _join(self, address: str, timeout_s: float) -> Any:
        client = distributed.Client(
            address, timeout=timeout_s, set_as_default=False, name="ansorc-tuner", asynchronous=True
        )
        try:
            await client
        except BaseException:
            client.status = "closed"  # so that nothing is done where it is freed
            raise
        return client

    async def _identity(self) -> dict[str, Any]:
        return await self._client.scheduler.identity()

    async def _leave(self) -> None:
        self._lost = self._lost or "the connection was closed"
        for task in self._tasks:
            task.cancel()
        self._jobs.clear()
        # A client that has lost its scheduler may be closing itself.
        with contextlib.suppress(AssertionError, *_FAULTS):
            await asyncio.wait_for(self._client.close(), _CLOSE_S)
        self._client.status = "closed"

    def _send(self, address: str, label: str, key: str, signed: bytes) -> None:
        if self._lost:
            return
        future = self._client.submit(
            serve, signed, key=key, workers=[address], resources={resource(label): 1},
            pure=False, retries=0, allow_other_workers=False,
        )  # fmt: skip
        self._jobs[key] = future
        self._begin(self._wait_for(key, future))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        """Let nothing that goes wrong here go by: the tuner would wait for ever."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._lost = self._lost or f"{type(error).__name__}: {error}"

    def _forget(self, key: str) -> None:
        if (future := self._jobs.pop(key, None)) is not None and not self._lost:
            future.release()  # nobody else wants it: the scheduler takes it from the worker

    async def _wait_for(self, key: str, future: Any) -> None:
        """Have the answer of a job fetched once it is there, together with others."""
        with contextlib.suppress(*_FAULTS), self._client.as_current():
            await distributed.wait([future])
        if key not in self._jobs:
            return
        if future.status == "cancelled":  # which happens where the scheduler is lost
            self._lost = self._lost or "the scheduler has ended"
            return
        self._ended.append(key)
        if not self._is_fetching:
            self._is_fetching = True
            self._begin(self._fetch())

    async def _fetch(self) -> None:
        """Fetch answers until there are no more; some were lost on the way."""
        try:
            while self._ended:
                keys, self._ended = self._ended, []
                jobs = {key: self._jobs.pop(key) for key in keys if key in self._jobs}
                good = {key: future for key, future in jobs.items() if future.status == "finished"}
                values = await self._values(list(good.values()))
                if len(values) < len(good):  # it does not say which
                    values = [await self._values([future]) for future in good.values()]
                    values = [answer[0] if answer else None for answer in values]
                answers = dict(zip(good, values, strict=True))
                for key in jobs:
                    value = answers.get(key)
                    self._arrived.put((key, value if type(value) is bytes else None))
        except _FAULTS as error:
            self._lost = f"the scheduler does not answer: {error}"
        finally:
            self._is_fetching = False

    async def _values(self, futures: Sequence[Any]) -> list[Any]:
        if not futures:
            return []
        gathered = self._client.gather(futures, errors="skip", asynchronous=True)
        return await asyncio.wait_for(gathered, _ANSWER_S)
