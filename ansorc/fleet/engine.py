"""All that knows Dask distributed: a tuner's connection to a scheduler, and workers of devices.

What travels is one fixed function, `serve`, with signed bytes. Dask sends it as a pickle; the
process of a worker unpickles the names in `_ADMITTED` and nothing else, so no code that somebody
sends is executed before the signature of the bytes is checked, or at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import pickle
import queue
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import distributed
from distributed.protocol import pickle as dask_pickle

from ansorc.fleet.device import FleetDevice
from ansorc.fleet.dispatcher import ConnectionLost

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
_ANSWER_S = 5.0
"""A scheduler that does not answer for so long is gone."""


def serve(signed: bytes) -> bytes:
    """Answer a job by the device whose worker runs this; the only function that is ever sent."""
    return cast(DeviceWorker, distributed.get_worker()).device.answer(signed)


def resource(label: str) -> str:
    """Return the name of the resource of Dask that stands for a device: there is one of it."""
    return f"ansorc-{label}"


class _AdmittedUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _ADMITTED:
            raise pickle.UnpicklingError(
                f"refused: {module_name}.{global_name} is nothing that a fleet sends"
            )
        return super().find_class(module_name, global_name)


def restricted_loads(data: Any, *, buffers: Iterable[Any] = ()) -> Any:
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
            memory_limit=0,
            dashboard=False,
        )
        for name in _REFUSED:
            self.handlers.pop(name, None)


def run_devices(
    address: str, devices: Sequence[FleetDevice], tell: Callable[[str], None] = lambda words: None
) -> None:
    """Serve `devices` at the scheduler at `address`, until SIGTERM or Ctrl-C.

    Where the scheduler ends they wait for the next one. From here on this process unpickles
    nothing but what a fleet sends: it should be one of its own.
    """
    dask_pickle.loads = restricted_loads
    asyncio.run(_serving(address, devices, tell))


async def _serving(
    address: str, devices: Sequence[FleetDevice], tell: Callable[[str], None]
) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await asyncio.gather(*(_serve_device(address, one, stopped, tell) for one in devices))


async def _serve_device(
    address: str, device: FleetDevice, stopped: asyncio.Event, tell: Callable[[str], None]
) -> None:
    ending = asyncio.create_task(stopped.wait())
    while not stopped.is_set():
        worker = DeviceWorker(address, device)
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
    none at `address`.
    """

    def __init__(self, address: str, timeout_s: float = _ANSWER_S) -> None:
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._futures: dict[str, Any] = {}
        try:
            self._client = distributed.Client(
                address, timeout=timeout_s, set_as_default=False, name="ansorc-tuner"
            )
        except (OSError, ValueError, TimeoutError) as error:
            raise ConnectionLost(f"no scheduler answers at {address}: {error}") from error

    def devices(self) -> dict[str, bytes]:
        """Return the signed announcement of each worker of a fleet, by its address."""
        workers: dict[str, dict[str, Any]] = self._identity()["workers"]
        return {
            address: bytes.fromhex(worker[_EXTRA])
            for address, worker in workers.items()
            if isinstance(worker.get(_EXTRA), str) and worker["status"] == "running"
        }

    def submit(self, address: str, label: str, key: str, signed: bytes) -> None:
        """Send a job to one worker; `arrivals` tells of `key`."""
        self._require()
        future = self._client.submit(
            serve, signed, key=key, workers=[address], resources={resource(label): 1},
            pure=False, retries=0, allow_other_workers=False,
        )  # fmt: skip
        self._futures[key] = future
        done = self._done
        future.add_done_callback(lambda ended: done.put(str(ended.key)))

    def arrivals(self, timeout_s: float) -> list[tuple[str, bytes | None]]:
        """Wait for answers, and return what has come: None where a worker was lost."""
        self._require()
        keys: list[str] = []
        try:
            keys.append(self._done.get(timeout=timeout_s))
            while True:
                keys.append(self._done.get_nowait())
        except queue.Empty:
            pass
        ended = [(key, self._futures.pop(key)) for key in keys if key in self._futures]
        good = [future for _, future in ended if future.status == "finished"]
        values = self._gathered(good)
        return [(key, values.get(key)) for key, _ in ended]

    def cancel(self, key: str) -> None:
        """Forget a job, and its answer."""
        future = self._futures.pop(key, None)
        if future is not None and self._is_running:
            future.release()  # nobody else wants it: the scheduler takes it from the worker

    def close(self) -> None:
        """Leave the scheduler; what is under way is given up."""
        self._futures.clear()
        # A client that has lost its scheduler may be closing itself, and is not to be waited for.
        with contextlib.suppress(OSError, TimeoutError, AssertionError, asyncio.CancelledError):
            self._client.close(timeout=_CLOSE_S)

    @property
    def _is_running(self) -> bool:
        return self._client.status == "running"

    def _require(self) -> None:
        if not self._is_running:
            raise ConnectionLost("the scheduler has ended")

    def _identity(self) -> dict[str, Any]:
        self._require()
        try:
            return self._client.sync(self._client.scheduler.identity, callback_timeout=_ANSWER_S)
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            raise ConnectionLost(f"the scheduler does not answer: {error}") from error

    def _gathered(self, futures: Sequence[Any]) -> dict[str, bytes]:
        """Their values; of those that were lost on the way there is none."""
        try:
            values = self._fetched(futures) if futures else []
            if len(values) < len(futures):  # it does not say which
                apart = [self._fetched([one]) for one in futures]
                futures = [one for one, found in zip(futures, apart, strict=True) if found]
                values = [found[0] for found in apart if found]
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            raise ConnectionLost(f"the scheduler does not answer: {error}") from error
        pairs = zip(futures, values, strict=True)
        return {str(future.key): value for future, value in pairs if type(value) is bytes}

    def _fetched(self, futures: Sequence[Any]) -> list[Any]:
        client = self._client
        return client.sync(
            lambda: client.gather(futures, errors="skip", asynchronous=True),
            callback_timeout=_ANSWER_S,
        )
