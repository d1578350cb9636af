"""A TCP proxy that stops forwarding when it is told to: a network that is cut for some seconds."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

_PIECE = 1 << 16


class Proxy:
    """Listens at `port` of this machine, forwards to `goal`; runs in a thread of its own."""

    def __init__(self, goal: int) -> None:
        self._goal = goal
        self._loop = asyncio.new_event_loop()
        self._open: asyncio.Event | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def hold(self) -> None:
        """Forward nothing from now on, and close nothing: a host that does not answer."""
        self._tell(lambda is_open: is_open.clear())

    def release(self) -> None:
        """Forward again, what came meanwhile first."""
        self._tell(lambda is_open: is_open.set())

    def cut(self) -> None:
        """Reset all connections; new ones are taken."""
        self._loop.call_soon_threadsafe(self._reset)

    def close(self) -> None:
        """End the thread and all connections."""
        self._loop.call_soon_threadsafe(self._reset)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _tell(self, action: Callable[[asyncio.Event], None]) -> None:
        assert self._open is not None
        self._loop.call_soon_threadsafe(action, self._open)

    def _reset(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._open = asyncio.Event()
        self._open.set()
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_PIECE)
        )
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await self._connect(reader, writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._open is not None
        await self._open.wait()  # a network that is cut makes no new connections, either
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._goal)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(far_writer)
        await asyncio.gather(self._forward(reader, far_writer), self._forward(far_reader, writer))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._open is not None
        try:
            while piece := await reader.read(_PIECE):
                await self._open.wait()
                writer.write(piece)
                await writer.drain()
            writer.close()
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
