"""Finding: what one tuning run reached, and what it took; goals, and a table of the medians."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.table import Table

ENOUGH = 0.95
"""The share of the final speed that counts as being there."""


@dataclass(frozen=True)
class Finding:
    """One run of one case."""

    case: str
    seed: int
    trials: int
    """Programs that were to be measured."""
    measured: int
    failed: int
    peak_share: float
    """Of the FMA peak, kernel and probe timed in turns, after the run."""
    seconds: float
    """Of the best program, in the run."""
    default_s: float
    """Of the untuned default."""
    wall_s: float
    """The whole run, with the contest at its end."""
    working_s: float
    """What of it the tuner waited for builds and runs; the rest is the search."""
    curve: tuple[tuple[int, float, float], ...]
    """(trial, seconds since the run began, seconds of the best program) at each improvement."""
    long_trials: int = 0
    """Programs of the same run when it was continued; 0 if it was not."""
    long_ratio: float = 0.0
    """Speed of the best program before by that of the best one then, timed in turns."""

    @property
    def rate(self) -> float:
        """Trials a second, the contest's time included."""
        return self.measured / self.wall_s

    @property
    def search_share(self) -> float:
        """The share of the wall time that is neither building nor running."""
        return 1 - self.working_s / self.wall_s

    @property
    def default_ratio(self) -> float:
        """The speed of the untuned default as a share of the tuned program's."""
        return self.seconds / self.default_s

    @property
    def enough_s(self) -> float:
        """Seconds until a program was found that has 95 % of the final speed."""
        last = self.curve[-1][2]
        return next(elapsed for _, elapsed, best in self.curve if best * ENOUGH <= last)


def save(findings: Sequence[Finding], path: Path) -> None:
    """Write `findings` as JSON, the old file whole until the new one is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps([asdict(finding) for finding in findings], indent=1))
    new.replace(path)


def load(path: Path) -> list[Finding]:
    """Read what `save` wrote; an empty list if there is no file."""
    if not path.exists():
        return []
    found: list[Finding] = []
    for fields in json.loads(path.read_text()):
        curve = tuple((int(t), float(e), float(s)) for t, e, s in fields["curve"])
        found.append(Finding(**fields | {"curve": curve}))
    return found


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    words: str
    value: Callable[[Finding], float]
    form: str
    """How it is written, e.g. `.1%`."""
    goals: dict[str, float] = field(default_factory=dict[str, float])
    """By case, "" for all others."""
    is_ceiling: bool = False
    """Whether the goal is not to be exceeded, instead of to be reached."""

    def cell(self, findings: Sequence[Finding]) -> str:
        """Return the median, and the smallest and the largest in brackets."""
        values = sorted(self.value(finding) for finding in findings)
        text = f"{statistics.median(values):{self.form}}"
        if len(values) > 1:
            text += f" ({values[0]:{self.form}} to {values[-1]:{self.form}})"
        return text

    def missed(self, findings: Sequence[Finding]) -> str:
        """Return how the median misses the goal of the findings' case; "" if it does not."""
        case = findings[0].case
        goal = self.goals.get(case, self.goals.get(""))
        median = statistics.median(self.value(finding) for finding in findings)
        if goal is None or (median <= goal if self.is_ceiling else median >= goal):
            return ""
        return f"{case}: {self.words} {median:{self.form}}, goal {goal:{self.form}}"


FIGURES = (
    Figure("of the FMA peak", lambda f: f.peak_share, ".1%",
           {"matmul512": 0.95, "matmul1024": 0.90, "conv14": 0.93, "conv7": 0.93}),
    Figure("wall time, s", lambda f: f.wall_s, ".1f"),
    Figure("trials a second", lambda f: f.rate, ".1f", {"matmul512": 8.0, "conv7": 5.0}),
    Figure("search, of the wall time", lambda f: f.search_share, ".1%", {"": 0.15},
           is_ceiling=True),
    Figure("s to 95% of the final speed", lambda f: f.enough_s, ".1f", {"": 60.0},
           is_ceiling=True),
    Figure("untuned default, of tuned", lambda f: f.default_ratio, ".1%", {"": 0.5}),
    Figure("failed trials", lambda f: f.failed / f.measured, ".1%"),
)  # fmt: skip
LONG = Figure("of the long run's speed", lambda f: f.long_ratio, ".1%", {"": 0.97})


def table(findings: Sequence[Finding]) -> Table:
    """Return the figures by case: medians, and the smallest and largest of the seeds."""
    groups = by_case(findings)
    made = Table("", *groups, title_justify="left", title="median (smallest to largest)")
    runs = (f"{len(own)} × {own[0].trials} trials" for own in groups.values())
    made.add_row("runs", *runs)
    for figure in _figures(findings):
        made.add_row(figure.words, *(figure.cell(own) for own in groups.values()))
    return made


def missed_goals(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each goal that a median misses."""
    lines = [figure.missed(own) for own in by_case(findings).values() for figure in _figures(own)]
    return [line for line in lines if line]


def by_case(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Return the findings of each case, in the order in which the cases come."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.case, []).append(finding)
    return groups


def _figures(findings: Sequence[Finding]) -> tuple[Figure, ...]:
    return (*FIGURES, LONG) if all(f.long_trials for f in findings) else FIGURES
