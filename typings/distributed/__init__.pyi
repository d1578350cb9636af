"""The part of Dask distributed that ansorc.fleet.engine uses, with types."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

class Future:
    key: str
    status: str
    def release(self) -> None: ...

class _Scheduler:
    def identity(self, *, n_workers: int = ...) -> Awaitable[dict[str, Any]]: ...

class Client:
    status: str
    scheduler: _Scheduler
    def __init__(
        self,
        address: str,
        *,
        timeout: float,
        set_as_default: bool,
        name: str,
        asynchronous: bool,
    ) -> None: ...
    def __await__(self) -> Generator[Any, None, Client]: ...
    def submit(
        self,
        func: Callable[[bytes], bytes],
        data: bytes,
        /,
        *,
        key: str,
        workers: Sequence[str],
        resources: Mapping[str, float],
        pure: bool,
        retries: int,
        allow_other_workers: bool,
    ) -> Future: ...
    def gather(
        self, futures: Sequence[Future], *, errors: str, asynchronous: bool
    ) -> Awaitable[list[Any]]: ...
    def as_current(self) -> AbstractContextManager[None]: ...
    def close(self) -> Awaitable[None]: ...

class _WorkerState:
    tasks: Mapping[str, object]
    executing: set[Any]

class Worker:
    address: str
    state: _WorkerState
    handlers: dict[str, Callable[..., object]]
    def __init__(
        self,
        scheduler: str,
        *,
        nthreads: int,
        resources: Mapping[str, float],
        startup_information: Mapping[str, Callable[[Worker], object]],
        metrics: Mapping[str, Callable[[Any], object]],
        memory_limit: int,
        dashboard: bool,
        death_timeout: float,
    ) -> None: ...
    def __await__(self) -> Generator[Any, None, Worker]: ...
    async def finished(self) -> None: ...
    async def close(self, timeout: float = ...) -> object: ...

def wait(futures: Sequence[Future]) -> Awaitable[object]: ...
def get_worker() -> Worker: ...
