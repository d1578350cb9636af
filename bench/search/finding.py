"""Finding: what one tuning run reached, and what it took; goals, and a table of the medians."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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
class Column:
    """One figure of the table."""

    heading: str
    value: Callable[[Finding], float]
    form: str
    """How it is written, e.g. `.1%`."""
    goals: dict[str, float]
    """By case, "" for all others."""
    is_ceiling: bool = False
    """Whether the goal is not to be exceeded, instead of to be reached."""

    def cell(self, findings: Sequence[Finding]) -> str:
        """Return median (worst to best) and whether the median misses its goal."""
        values = sorted(self.value(finding) for finding in findings)
        median = statistics.median(values)
        text = f"{median:{self.form}}"
        if len(values) > 1:
            text += f" ({values[0]:{self.form}} to {values[-1]:{self.form}})"
        goal = self.goals.get(findings[0].case, self.goals.get(""))
        if goal is None:
            return text
        is_missed = median > goal if self.is_ceiling else median < goal
        return f"{text}, goal {goal:{self.form}} missed" if is_missed else text


COLUMNS = (
    Column("of the FMA peak", lambda f: f.peak_share, ".1%",
           {"matmul512": 0.95, "matmul1024": 0.90, "conv14": 0.93, "conv7": 0.93}),
    Column("wall s", lambda f: f.wall_s, ".0f", {}),
    Column("trials/s", lambda f: f.rate, ".1f", {"matmul512": 8.0, "conv7": 5.0}),
    Column("search", lambda f: f.search_share, ".1%", {"": 0.15}, is_ceiling=True),
    Column("s to 95 %", lambda f: f.enough_s, ".0f", {"": 60.0}, is_ceiling=True),
    Column("default", lambda f: f.default_ratio, ".0%", {"": 0.5}),
    Column("failed", lambda f: f.failed / f.measured, ".1%", {}),
)  # fmt: skip
LONG = Column("of the long run", lambda f: f.long_ratio, ".1%", {"": 0.97})


def table(findings: Sequence[Finding]) -> Table:
    """Return the medians by case, the worst and the best of the seeds, and missed goals."""
    columns = [*COLUMNS, LONG] if all(f.long_trials for f in findings) else [*COLUMNS]
    seeds = max(len([f for f in findings if f.case == each.case]) for each in findings)
    made = Table(
        "case", "trials", *(column.heading for column in columns), title_justify="left",
        title=f"medians of {seeds} runs (smallest to largest)",
    )  # fmt: skip
    for case in dict.fromkeys(finding.case for finding in findings):
        own = [finding for finding in findings if finding.case == case]
        made.add_row(case, str(own[0].trials), *(column.cell(own) for column in columns))
    return made
