"""Show the progress of a tuning run: one live line on a terminal, plain lines when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress import Progress as RichProgress
from rich.text import Text

from ansorc.search.live_line import progress_line
from ansorc.search.task import Task
from ansorc.search.tune_result import RunProgress

_PLAIN_EVERY_S = 5.0


class Progress:
    """Prints trials on the error output as they come; use it as a context manager.

    `flops` is the work of one call, `peak` the machine's measured FLOP/s (0 if unknown). `where`
    returns a text about work on other machines, or "".
    """

    def __init__(
        self, name: str, flops: float, peak: float, where: Callable[[], str] = str
    ) -> None:
        self._name, self._flops, self._peak, self._where = name, flops, peak, where
        self._live: Live | None = None
        if sys.stderr.isatty():
            console = Console(stderr=True)
            self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._printed_at = 0.0
        self._last: RunProgress | None = None
        self._printed: RunProgress | None = None

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        if self._last is not None and self._last is not self._printed:
            self._print(self._last)

    def __call__(self, progress: RunProgress) -> None:
        """Show it: at once on a terminal, else if there is a new best or after some seconds."""
        self._last = progress
        if self._live is not None:
            self._live.update(Text(self.line(progress), no_wrap=True, overflow="ellipsis"))
        elif progress.is_new_best or time.monotonic() - self._printed_at >= _PLAIN_EVERY_S:
            self._print(progress)

    def line(self, progress: RunProgress) -> str:
        """Return `progress` as one line."""
        words = progress_line(self._name, progress, self._flops, self._peak)
        return " | ".join((words, *filter(None, [self._where()])))

    def _print(self, progress: RunProgress) -> None:
        self._printed, self._printed_at = progress, time.monotonic()
        print(self.line(progress), file=sys.stderr, flush=True)


@contextmanager
def task_progress(total: int) -> Generator[Callable[[Task], None]]:
    """Show how many tasks of a network are compiled; nothing if the output is not a terminal."""
    console = Console(stderr=True)
    bar = RichProgress(console=console, transient=True, disable=not console.is_terminal)
    with bar:
        number = bar.add_task("compiling", total=total)

        def tell(task: Task) -> None:
            bar.update(number, advance=1, description=f"compiling {task.name}")

        yield tell
