"""Detect races between the threads of a GPU while the interpreter runs a program.

Two threads of a block race if they touch one element, at least one stores it, and no barrier is
between. Threads of different blocks race if that happens anywhere within one kernel.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn, SupportsIndex

import numpy as np

from ansorc.errors import IRError
from ansorc.ir.buffer import Buffer
from ansorc.ir.printer import buffer_text


class Toucher(NamedTuple):
    """The thread that touched an element, and the time."""

    kernel: int
    block: tuple[int, ...]
    phase: int
    """The number of barriers before the access."""
    thread: tuple[tuple[str, int], ...]
    is_atomic: bool = False


class ThreadClock:
    """The thread and block that the interpreter is running."""

    def __init__(self, kernel: str) -> None:
        self.name = kernel
        self._kernel = 0
        self._block: tuple[int, ...] = ()
        self._phase = 0
        self._thread: list[tuple[str, int]] = []
        self._is_atomic = False
        self.now = Toucher(0, (), 0, ())

    def launch(self) -> None:
        """Begin or end a kernel."""
        self._kernel += 1
        self._update()

    def enter_block(self, *block: int) -> None:
        """Begin the block with these numbers."""
        self._block = block
        self._update()

    def wait(self) -> None:
        """Record that all threads of the block have reached a barrier, or their end."""
        self._phase += 1
        self._update()

    def run(self, depth: int, name: str, index: int) -> None:
        """Continue thread `index` along `name`, inside `depth` other loops over threads."""
        self._thread[depth:] = [(name, index)]
        self._update()

    def rest(self, depth: int) -> None:
        """Leave the threads inside more than `depth` loops over threads."""
        del self._thread[depth:]
        self._update()

    def set_atomic(self, is_atomic: bool) -> None:  # noqa: FBT001 - called by compiled source
        """Begin or end accesses that do not race with others of their kind."""
        self._is_atomic = is_atomic
        self._update()

    def _update(self) -> None:
        thread = tuple(self._thread)
        self.now = Toucher(self._kernel, self._block, self._phase, thread, self._is_atomic)


class WatchedMemory(list[Any]):
    """The elements of a buffer, in order; reading and writing them finds races."""

    def __init__(self, elements: list[Any], buffer: Buffer, clock: ThreadClock) -> None:
        super().__init__(elements)
        self._buffer, self._clock = buffer, clock
        self._stores: list[Toucher | None] = [None] * len(elements)
        """The thread that stored each element last."""
        self._loads: list[tuple[Toucher, ...]] = [()] * len(elements)
        """The threads that loaded each element, as far as a later store may race with them."""

    def __getitem__(self, offset: SupportsIndex | slice) -> Any:
        assert isinstance(offset, int)
        now = self._clock.now
        store = self._stores[offset]
        if store is not None and store is not now and _is_race(store, now):
            self._refuse(offset, store, "stores", "loads")
        loads = self._loads[offset]
        if not loads or loads[-1] is not now:
            self._loads[offset] = _with_load(loads, now)
        return super().__getitem__(offset)

    def __setitem__(self, offset: SupportsIndex | slice, value: Any) -> None:
        assert isinstance(offset, int)
        now = self._clock.now
        store = self._stores[offset]
        if store is not None and _is_race(store, now):
            self._refuse(offset, store, "stores", "stores")
        for load in self._loads[offset]:
            if _is_race(load, now):
                self._refuse(offset, load, "loads", "stores")
        self._stores[offset] = now
        super().__setitem__(offset, value)

    def _refuse(self, offset: int, old: Toucher, first: str, second: str) -> NoReturn:
        now = self._clock.now
        index = ", ".join(str(int(n)) for n in np.unravel_index(offset, self._buffer.shape))
        if old.block != now.block:
            who = (f"blocks {_list(old.block)} and {_list(now.block)}", "blocks cannot wait")
        else:
            who = (
                f"threads {_name_thread(old)} and {_name_thread(now)} of a block",
                "no barrier is between",
            )
        raise IRError(
            f"kernel '{self._clock.name}' has a race: {who[0]} both go to "
            f"{self._buffer.name}[{index}] of {buffer_text(self._buffer)}; the first {first} it, "
            f"the second {second} it, and {who[1]}"
        )


def _is_race(old: Toucher, new: Toucher) -> bool:
    if old.kernel != new.kernel or (old.is_atomic and new.is_atomic):
        return False
    if old.block != new.block:
        return True
    return old.phase == new.phase and old.thread != new.thread


def _are_together(old: Toucher, new: Toucher) -> bool:
    """Tell whether no barrier is between two accesses of one block."""
    return old.phase == new.phase and old.block == new.block and old.kernel == new.kernel


def _with_load(loads: tuple[Toucher, ...], now: Toucher) -> tuple[Toucher, ...]:
    """Return the loads with which a later store may race; a few of them are enough.

    These are two of different blocks, and two of different threads since the last barrier.
    """
    have_two = len(loads) > 1 and _are_together(loads[-1], now) and _are_together(loads[-2], now)
    if have_two or now in loads:
        return loads
    kept: dict[tuple[int, ...], Toucher] = {}
    together: list[Toucher] = []
    for load in loads:
        if load.kernel == now.kernel:
            if len(kept) < 2:
                kept.setdefault(load.block, load)
            if _are_together(load, now):
                together.append(load)
    return tuple(dict.fromkeys((*kept.values(), *together[:1], now)))


def _name_thread(who: Toucher) -> str:
    return " ".join(f"{name}={index}" for name, index in who.thread) or "outside the loops"


def _list(numbers: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, numbers))})"
