"""The part of Dask distributed that ansorc.fleet.engine uses, with types."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any

class Future:
    key: str
    status: str
    def release(self) -> None: ...
    def add_done_callback(self, fn: Callable[[Future], object]) -> None: ...

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
    ) -> None: ...
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
    def sync(
        self,
        func: Callable[..., Awaitable[Any]],
        *,
        callback_timeout: float,
        n_workers: int = ...,
    ) -> Any: ...
    def close(self, timeout: float = ...) -> None: ...

class Worker:
    address: str
    handlers: dict[str, Callable[..., object]]
    def __init__(
        self,
        scheduler: str,
        *,
        nthreads: int,
        resources: Mapping[str, float],
        startup_information: Mapping[str, Callable[[Worker], object]],
        memory_limit: int,
        dashboard: bool,
    ) -> None: ...
    def __await__(self) -> Generator[Any, None, Worker]: ...
    async def finished(self) -> None: ...
    async def close(self, timeout: float = ...) -> object: ...

def get_worker() -> Worker: ...
