"""A run over many cases: goes on where an earlier one stopped, and writes after each case."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansorc.compare.side import Gap, Side
from bench.compare.case_run import Plan, run_case
from bench.compare.machine import describe, is_same
from bench.compare.result import CaseResult, Results
from bench.paper_cases import CASES, SHAPES, Case
from bench.peers import LIMIT, OWN, PEERS, ROOT, PeerInfo

_GREETING_S = 300.0
Say = Callable[[str], None]
Done = Callable[[CaseResult], None]


def chosen_cases(text: str) -> list[Case]:
    """Return the cases that `text` names: operators or cases, comma-separated, in any case; or all.

    Raise ValueError for a name that is none.
    """
    if text == "all":
        return list(CASES)
    found: list[Case] = []
    for word in text.split(","):
        name = word.strip().lower()
        held = [case for case in CASES if name in (case.operator.lower(), case.name.lower())]
        if not held:
            raise ValueError(
                f"there is no case '{word}'; name operators ({', '.join(SHAPES)}), cases like "
                "C2D-3-b16, or all"
            )
        found += [case for case in held if case not in found]
    return found


def chosen_peers(text: str) -> list[PeerInfo]:
    """Return the peers that `text` names, comma-separated; or all. Raise ValueError for others."""
    if text == "all":
        return list(PEERS)
    words = [word.strip().lower() for word in text.split(",")]
    known = {info.name: info for info in PEERS}
    for word in words:
        if word not in known:
            raise ValueError(f"there is no peer '{word}'; there are: {', '.join(known)}, or all")
    return [info for info in PEERS if info.name in words]


class Suite:
    """The sides of a run, with its plan and the results so far."""

    def __init__(
        self,
        peers: Sequence[PeerInfo],
        plan: Plan,
        say: Say,
        own: PeerInfo = OWN,
        limit: PeerInfo = LIMIT,
    ) -> None:
        """Read what earlier runs left in the plan's directory; raise ValueError if damaged."""
        plan.directory.mkdir(parents=True, exist_ok=True)
        self._plan, self._say = plan, say
        self._log = plan.directory / "sides.log"
        self._sides = [self._side(info) for info in (own, *peers)]
        self._limit = self._side(limit)
        self._missing: dict[str, str] = {}
        self.results = Results.read(plan.directory) or Results({})

    def run(self, cases: Sequence[Case], done: Done, *, again: bool = False) -> None:
        """Run what is not held yet of `cases`; with `again` time all of them anew, untuned no more.

        A case that is run again is run with all sides that it had: only times of the same turns
        compare. Raise ValueError if another run uses the directory, or it holds results of another
        machine; Gap if ansorc itself cannot run. However it ends, no process is left.
        """
        self._take_in_earlier(cases)
        with _alone(self._plan.directory), self._greeted():
            for case in cases:
                held = self.results.cases.get(Results.key(case.name, self._plan.threads))
                if held is not None and not again and self._is_complete(held):
                    done(held)
                    continue
                found = run_case(case, self._sides, self._limit, self._plan, self._say)
                found = _joined(found, held)
                self.results.cases[Results.key(case.name, self._plan.threads)] = found
                self.results.write(self._plan.directory)
                done(found)

    def _take_in_earlier(self, cases: Sequence[Case]) -> None:
        """Add the peers that took part in one of `cases` before."""
        keys = [Results.key(case.name, self._plan.threads) for case in cases]
        held = {
            name for key in keys if (found := self.results.cases.get(key)) for name in found.sides
        }
        held -= {side.info.name for side in self._sides}
        earlier = [info for info in PEERS if info.name in held]
        self._sides += [self._side(info) for info in earlier]

    def _side(self, info: PeerInfo) -> Side:
        return Side(info, self._plan.threads, self._log, "bench.peers.serve", ROOT)

    def _is_complete(self, held: CaseResult) -> bool:
        """Whether `held` has every side, tuned as far as now asked for, or a lasting gap of it."""
        own = held.sides.get(self._sides[0].info.name)
        if held.trials < self._plan.trials or not held.limit_s or own is None or own.gap:
            return False
        for side in self._sides:
            name = side.info.name
            known = held.sides.get(name)
            if known is None or (known.gap_kind == "missing" and name not in self._missing):
                return False
        return True

    @contextmanager
    def _greeted(self) -> Iterator[None]:
        """Start all sides; those that are not installed stay, to say so for each case."""
        try:
            versions: dict[str, dict[str, str]] = {}
            for side in (*self._sides, self._limit):
                self._say(f"starting {side.info.label}")
                try:
                    fields = {"trials": self._plan.trials, "directory": str(self._plan.directory)}
                    side.greet(fields, _GREETING_S)
                    versions[side.info.name] = side.versions
                except Gap as gap:
                    if side in (self._sides[0], self._limit):
                        raise
                    self._missing[side.info.name] = str(gap)
                    side.close(gap.kind, _advice(side.info, gap))
            self._describe(versions)
            yield
        finally:
            for side in (*self._sides, self._limit):
                side.end()

    def _describe(self, versions: dict[str, dict[str, str]]) -> None:
        self._say("measuring the machine's limits")
        machine: dict[str, Any] = describe(versions)
        held = self.results.machine
        if self.results.cases and not is_same(held, machine):
            raise ValueError(
                f"{self._plan.directory} holds results of {held['cpu']}, {held['cores']} cores; "
                "name another directory with --results"
            )
        known: dict[str, Any] = held.get("versions", {}) if self.results.cases else {}
        self.results.machine = {**machine, "versions": {**known, **versions}}


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the lock of `directory`; the system frees it when the process ends."""
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"another run uses {directory}; wait for it, or name another one with --results"
            ) from None
        yield


def _advice(info: PeerInfo, gap: Gap) -> str:
    return f"{gap}; {info.install}" if gap.kind == "missing" and info.install else str(gap)


def _joined(found: CaseResult, held: CaseResult | None) -> CaseResult:
    """Add the time that earlier runs spent on tuning."""
    if held is None:
        return found
    sides = {
        name: replace(side, tuned_s=side.tuned_s + held.sides[name].tuned_s)
        if name in held.sides else side
        for name, side in found.sides.items()
    }  # fmt: skip
    return replace(found, sides=sides)
