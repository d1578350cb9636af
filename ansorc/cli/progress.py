"""Show how a tuning run goes: one live line on a terminal, plain lines when piped."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live

from ansorc.search.trial import Trial

_PLAIN_EVERY_S = 5.0


class Progress:
    """Prints trials as they come; use it as a context manager.

    `flops` is the work of one run, `peak` the machine's measured FLOP/s (0 if not known).
    """

    def __init__(self, name: str, flops: float, peak: float) -> None:
        self._name, self._flops, self._peak = name, flops, peak
        self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)
        self._is_live = sys.stderr.isatty()
        self._printed_at = 0.0
        self._last: Trial | None = None

    def __enter__(self) -> Progress:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_live:
            self._live.stop()
        if self._last is not None:
            print(self.line(self._last), file=sys.stderr, flush=True)

    def __call__(self, trial: Trial) -> None:
        """Show `trial`: at once on a terminal, else when it is new best or some seconds passed."""
        self._last = trial
        if self._is_live:
            self._live.update(self.line(trial))
            return
        now = time.monotonic()
        if trial.is_new_best or now - self._printed_at >= _PLAIN_EVERY_S:
            self._printed_at = now
            print(self.line(trial), file=sys.stderr, flush=True)

    def line(self, trial: Trial) -> str:
        """Return `trial` as one line: done/total, best, rate, ETA, failures by class."""
        words = [f"{self._name} {trial.done}/{trial.total}", self._best(trial.best_s)]
        words.append(f"{trial.rate:.1f} trials/s")
        if trial.done < trial.total:
            words.append(f"ETA {_minutes(trial.eta_s)}")
        else:
            words.append(f"took {_minutes(trial.elapsed_s)}")
        if trial.failures:
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(trial.failures.items()))
            words.append(f"failed: {counts}")
        return " | ".join(words)

    def _best(self, best_s: float | None) -> str:
        if best_s is None:
            return "no result yet"
        text = f"best {best_s * 1e3:.4g} ms"
        if self._flops:
            rate = self._flops / best_s
            text += f" {rate / 1e9:.1f} GFLOP/s"
            text += f" {rate / self._peak:.0%} of peak" if self._peak else ""
        return text


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
