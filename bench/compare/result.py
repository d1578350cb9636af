"""The results of a run as values, and as the JSON file that is also what a run goes on from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

from ansorc.compare.figures import median_ratio, quartiles

FILE = "results.json"
_SCHEMA = 1
Way = Literal["seconds", "called", "spaced"]
"""How calls are made: in machine code where the side can, from Python, with other work between."""
WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(frozen=True)
class SideResult:
    """What was measured of one side, or why nothing was."""

    program: str = ""
    """How the side computed it."""
    seconds: tuple[float, ...] = ()
    """Of a call, the median of each turn; repeated by machine code where the side can."""
    called: tuple[float, ...] = ()
    """The same, called from Python back to back."""
    spaced: tuple[float, ...] = ()
    """The same, called from Python with other work between two calls."""
    error: float = 0.0
    """Largest deviation from the float64 reference, in units of the tolerance."""
    dispatch_s: float = 0.0
    """What a call of this side costs that computes next to nothing."""
    tuned_s: float = 0.0
    """Spent on tuning, in earlier runs too."""
    trials: int = 0
    gap: str = ""
    gap_kind: str = ""

    @property
    def median_s(self) -> float:
        """The median of the turns."""
        return quartiles(self.seconds)[1]

    @property
    def spread(self) -> float:
        """The distance between the quartiles, as a share of the median."""
        low, middle, high = quartiles(self.seconds)
        return (high - low) / middle


@dataclass(frozen=True)
class CaseResult:
    """One case with one number of threads."""

    case: str
    operator: str
    threads: int
    trials: int
    """That each tuning side could measure."""
    flops: float
    array_bytes: int
    limit: str
    """What bounds the case: the FMA peak, or a bandwidth."""
    limit_s: tuple[float, ...]
    """What the machine needed for the case in each turn, by its limit."""
    sides: dict[str, SideResult]

    def seconds(self, side: str) -> float | None:
        """Return the median time of a side; None where there is none."""
        found = self.sides.get(side)
        return found.median_s if found is not None and found.seconds else None

    def best_peer(self, way: Way = "seconds") -> str | None:
        """Return the fastest side other than ansorc when it is called in this way."""
        held = {name: median(getattr(side, way)) for name, side in self.sides.items()
                if name != "ansorc" and getattr(side, way)}  # fmt: skip
        return min(held, key=held.__getitem__) if held else None

    def as_called(self, way: Way) -> tuple[float, float | None] | None:
        """Return ansorc's median time called in this way, and × the best peer's; None: not timed.

        Results of earlier runs have none.
        """
        own, best = self.sides.get("ansorc"), self.best_peer(way)
        if own is None or not (times := getattr(own, way)):
            return None
        ratio = median_ratio(times, getattr(self.sides[best], way)) if best else None
        return median(times), ratio

    def ratio(self, peer: str, *, less_dispatch: bool = False) -> float | None:
        """Return how many times as fast as `peer` ansorc is; None if one of them has no time.

        `less_dispatch`: do not count what a call of the peer costs that computes nothing.
        """
        own, other = self.sides.get("ansorc"), self.sides.get(peer)
        if own is None or other is None or not own.seconds or not other.seconds:
            return None
        off = other.dispatch_s if less_dispatch else 0.0
        least = 0.05 * other.median_s  # the dispatch of a small call may be more than a call's
        return median_ratio(own.seconds, [max(s - off, least) for s in other.seconds])

    def share(self, side: str) -> float | None:
        """Return which share of the machine's limit a side reached."""
        found = self.sides.get(side)
        if found is None or not found.seconds or not self.limit_s:
            return None
        return median_ratio(found.seconds, self.limit_s)


@dataclass
class Results:
    """All that a directory holds."""

    machine: dict[str, Any]
    cases: dict[str, CaseResult] = field(default_factory=dict[str, CaseResult])
    """By `key`."""

    @staticmethod
    def key(case: str, threads: int) -> str:
        """Return the name of a case's result: one case may run with several numbers of threads."""
        return f"{case}, {threads} threads"

    def of_threads(self, threads: int) -> list[CaseResult]:
        """Return the results with so many threads, in the order in which they were added."""
        return [case for case in self.cases.values() if case.threads == threads]

    def write(self, directory: Path) -> None:
        """Write the file anew; it is whole at any time."""
        text = json.dumps(
            {"schema": _SCHEMA, "machine": self.machine,
             "cases": {key: asdict(case) for key, case in self.cases.items()}},
            indent=1,
        )  # fmt: skip
        draft = directory / f"{FILE}.new"
        draft.write_text(text)
        draft.replace(directory / FILE)

    @staticmethod
    def read(directory: Path) -> Results | None:
        """Return what `write` wrote there, None if nothing; raise ValueError if it is damaged."""
        path = directory / FILE
        if not path.exists():
            return None
        try:
            held = json.loads(path.read_text())
            if held["schema"] != _SCHEMA:
                raise ValueError(f"its schema is {held['schema']}, not {_SCHEMA}")
            cases = {key: _case(fields) for key, fields in held["cases"].items()}
            return Results(held["machine"], cases)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} cannot be read: {error}; use another directory with --results"
            ) from error


def _case(fields: dict[str, Any]) -> CaseResult:
    sides = {
        name: SideResult(**{**side, **{way: tuple(side.get(way, ())) for way in WAYS}})
        for name, side in fields["sides"].items()
    }
    return CaseResult(**{**fields, "limit_s": tuple(fields["limit_s"]), "sides": sides})
