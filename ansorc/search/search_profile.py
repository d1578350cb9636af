"""Where the time of a tuning run goes: `SearchProfile`, which looks at the stack now and then.

Nothing in the search is slower for it, and nothing at all when it is off: a thread looks every few
milliseconds which function the tuner's thread is in, and counts the time since it looked last as
that of the function's category. So the times sum to the wall time.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import FrameType, TracebackType
from typing import Self

_EVERY_S, _EVERY_WHILE_TIMED_S = 0.003, 0.02
"""Seconds between two looks; a program that is timed should be alone on the machine."""
OTHER, MEASURING, WAITING = "other", "measuring", "waiting"

_WHOLE: Mapping[tuple[str, str], str] = {
    ("ansorc.search.programs", "default_program"): "untuned default",
    ("ansorc.search.measure.measurer", "rank"): "contest",
    ("ansorc.search.measure.data", "create"): "inputs and reference",
}
"""Functions that form one category with all that they call, by module and name."""
_FUNCTIONS: Mapping[tuple[str, str], str] = {
    ("ansorc.search.model.trees", "update"): "model training",
    ("ansorc.search.model.choice", "update"): "model training",
    ("ansorc.search.model.trees", "predict_statements"): "predictions",
    ("ansorc.search.model.trees", "predict"): "predictions",
    ("ansorc.search.model.choice", "predict"): "predictions",
    ("ansorc.search.evolution.population", "fitness_of"): "predictions",
    ("ansorc.search.evolution.population", "preselect"): "predictions",
    ("ansorc.search.measure.measurer", "_build"): "build",
    ("ansorc.search.measure.measurer", "_run"): MEASURING,
    ("ansorc.search.measure.measurer", "_contest"): "contest",
    ("ansorc.search.measure.measurer", "__init__"): "starting workers",
    ("ansorc.search.measure.workers", "start"): "starting workers",
    ("ansorc.search.measure.measurer", "concurrently"): WAITING,
    ("ansorc.schedule.lower", "lower"): "lowering",
    ("importlib._bootstrap", "_find_and_load"): "imports",
}
_MODULES: tuple[tuple[str, str], ...] = (
    ("ansorc.search.record", "records"),
    ("ansorc.search.evolution.sampling", "sampling"),
    ("ansorc.search.cpu.sampling", "sampling"),
    ("ansorc.search.gpu.sampling", "sampling"),
    ("ansorc.search.features", "features"),
    ("ansorc.search.gpu.features", "features"),
    ("ansorc.search.gpu.description", "features"),
    ("ansorc.search.gpu.statements", "features"),
    ("ansorc.search.space.features", "features"),
    ("ansorc.search.sketch", "sketches"),
    ("ansorc.search.gpu.rules", "sketches"),
    ("ansorc.search.evolution", "evolution"),
    ("ansorc.search.space", "evolution"),
    ("ansorc.search.candidate", "evolution"),
    ("ansorc.search.paper", "evolution"),
    ("ansorc.fleet", WAITING),
    ("ansorc.cli.progress", "progress"),
    ("rich", "progress"),
)
"""The categories of all other functions, by the beginnings of their modules' names."""
_SEARCHING = frozenset({
    "untuned default", "model training", "predictions", "sampling", "features", "sketches",
    "evolution", "lowering",
})  # fmt: skip
"""The categories of work that another thread does beside a build."""


class SearchProfile:
    """Counts the seconds of the thread that enters it by category, until it is left.

    with SearchProfile() as profile:
        ac.tune(task, trials=200)
    print(profile.seconds, profile.beside)
    """

    def __init__(self, every_s: float = _EVERY_S) -> None:
        self._every_s = every_s
        self._owner = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ansorc-profile", daemon=True)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._beside: defaultdict[str, float] = defaultdict(float)
        self.total_s = 0.0
        """The wall time, which `seconds` sums to."""

    def __enter__(self) -> Self:
        self._owner = threading.get_ident()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of the wall time by category, the longest first."""
        return _sort_longest_first(self._seconds)

    @property
    def beside(self) -> dict[str, float]:
        """Seconds that other threads searched, while the first one waited for builds."""
        return _sort_longest_first(self._beside)

    def _watch(self) -> None:
        before = time.perf_counter()
        pause_s = self._every_s
        while not self._done.wait(pause_s):
            now = time.perf_counter()
            pause_s = self._look(now - before)
            before = now
        self._look(time.perf_counter() - before)

    def _look(self, passed_s: float) -> float:
        """Count `passed_s` for what is done now; return how long to pause."""
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        mine = threading.get_ident()
        category = category_of(frames.get(self._owner))
        self._seconds[category] += passed_s
        self.total_s += passed_s
        for thread, frame in frames.items():
            if thread not in (mine, self._owner):
                current_category = category_of(frame)
                if current_category in _SEARCHING:
                    self._beside[current_category] += passed_s
        is_timing = category in (MEASURING, "contest")
        return max(self._every_s, _EVERY_WHILE_TIMED_S) if is_timing else self._every_s


def category_of(frame: FrameType | None) -> str:
    """Return what the innermost function that has a category is doing."""
    category = ""
    for module, function in _functions(frame):
        whole = _WHOLE.get((module, function))
        if whole is not None:
            return whole
        category = category or _FUNCTIONS.get((module, function)) or _by_module(module)
    return category or OTHER


def _functions(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    """Yield module and function of the calls, the innermost first."""
    while frame is not None:
        yield str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
        frame = frame.f_back


def _by_module(module: str) -> str:
    return next(
        (name for begin, name in _MODULES if module == begin or module.startswith(f"{begin}.")), ""
    )


def _sort_longest_first(seconds: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))
