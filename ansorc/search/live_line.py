"""The progress line of a tuning run, which a notebook's cell changes in place."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from ansorc.search.task import Task
from ansorc.search.tune_result import RunProgress
from ansorc.target.units import seconds_text

_EVERY_S = 0.25


def progress_line(name: str, progress: RunProgress, flops: float = 0.0, peak: float = 0.0) -> str:
    """Return `progress` as one line: done/total, best, rate, ETA, failures by class.

    `flops` is the work of one call, `peak` the machine's measured FLOP/s (0 if not known).
    """
    words = [f"{name} {progress.done}/{progress.total}", _best(progress.best_s, flops, peak)]
    words.append(f"{progress.rate:.1f} trials/s")
    is_last = progress.done >= progress.total
    words.append(
        f"took {minutes(progress.elapsed_s)}" if is_last else f"ETA {minutes(progress.eta_s)}"
    )
    if progress.failures:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(progress.failures.items()))
        words.append(f"failed: {counts}")
    return " | ".join(words)


def minutes(seconds: float) -> str:
    """Return `seconds` as minutes and seconds, such as 1:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _best(best_s: float | None, flops: float, peak: float) -> str:
    if best_s is None:
        return "no result yet"
    text = f"best {seconds_text(best_s)}"
    if flops:
        text += f" {flops / best_s / 1e9:.1f} GFLOP/s"
        text += f" {flops / best_s / peak:.0%} of peak" if peak else ""
    return text


class DisplayHandle(Protocol):
    """The result of IPython's `display`: an output of a cell that can be changed."""

    def update(self, data: Mapping[str, str], *, raw: bool) -> None:
        """Show `data`, by MIME type, in the place of what is shown."""
        ...


class NotebookLine:
    """One output of a notebook's cell: a bar and a line. Nothing is shown outside of notebooks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._shown_at = clock, -_EVERY_S
        self._display = _display()
        self._handle: DisplayHandle | None = None

    def show(self, line: str, done: int, total: int) -> None:
        """Show `line`, and how much of `total` is done: 4 times a second, and at the end."""
        if self._display is None:
            return
        now = self._clock()
        if done < total and now - self._shown_at < _EVERY_S:
            return
        self._shown_at = now
        bar = f"<progress value='{done}' max='{total}'></progress> "
        data = {
            "text/plain": line,
            "text/html": f"<div>{bar}<code>{html.escape(line)}</code></div>",
        }
        if self._handle is None:
            self._handle = cast("DisplayHandle", self._display(data, raw=True, display_id=True))
        else:
            self._handle.update(data, raw=True)


def show_in_notebooks(task: Task) -> Callable[[RunProgress], None]:
    """Return what shows trials of `task` in a notebook's cell, and nowhere else."""
    line = NotebookLine()
    return lambda progress: line.show(
        progress_line(task.name, progress, task.dag.flops), progress.done, progress.total
    )


def _display() -> Callable[..., Any] | None:
    """IPython's `display` where this is a kernel of Jupyter, which has imported it already."""
    module = cast("Any", sys.modules.get("IPython"))
    shell = module and module.get_ipython()
    return module.display.display if getattr(shell, "kernel", None) is not None else None
