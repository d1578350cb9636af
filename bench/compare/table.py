"""The results as tables in the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from ansorc.cli.tables import new_table
from ansorc.compare.figures import geometric_mean
from ansorc.target.units import seconds_text
from bench.compare.result import CaseResult, Way
from bench.paper_cases import SHAPES
from bench.peers import OWN, PEERS

_LABELS = {info.name: info.label for info in (OWN, *PEERS)}
_AS_CALLED: tuple[Way, ...] = ("called", "spaced")
_DISPATCH_SHARE = 0.1
"""From this share of the best peer's time on, what its call costs is marked."""


def print_cases(console: Console, cases: Sequence[CaseResult], peers: Sequence[str]) -> None:
    """Print a line for each case: times, ratio to each peer, share of the limit.

    The last two columns are calls from Python, the time and × the peer that is the fastest so.
    """
    headings = ["case", "ansorc", "±", "of limit", *(_LABELS[name] for name in peers), "× best"]
    headings += ["from Python", "other work between"]
    table = new_table(console, "time of a call, medians of turns", *headings)
    for case in cases:
        own = case.sides["ansorc"]
        best = case.best_peer()
        table.add_row(
            case.case,
            _time(case, "ansorc"),
            f"{own.spread:.0%}" if own.seconds else "",
            _share(case),
            *(_marked(case, name, best) for name in peers),
            _ratio(case.ratio(best) if best else None),
            *(_called(case, way) for way in _AS_CALLED),
        )
    console.print(table)


def print_means(console: Console, cases: Sequence[CaseResult], peers: Sequence[str]) -> None:
    """Print for each operator how many times as fast as each peer ansorc is, geometric means."""
    headings = [
        "operator",
        "× best",
        "least",
        "× best, less calls",
        "from Python",
        "other work between",
        *(f"× {_LABELS[n]}" for n in peers),
    ]
    table = new_table(console, "times as fast, geometric means", *headings)
    for operator in SHAPES:
        held = [case for case in cases if case.operator == operator]
        if held:
            _add_means(table, operator, held, peers)
    if len({case.operator for case in cases}) > 1:
        _add_means(table, "all", cases, peers)
    console.print(table)
    for name, is_fma in (("arithmetic", True), ("memory", False)):
        held = [case for case in cases if _is_fma(case) == is_fma]
        shares = [share for case in held if (share := case.share("ansorc"))]
        if shares:
            mean = geometric_mean(shares)
            console.print(f"bound by {name}, {len(shares)} cases: {mean:.0%} of the limit "
                          "(geometric mean)")  # fmt: skip


def print_gaps(console: Console, cases: Sequence[CaseResult]) -> None:
    """Print why sides have no time, a line for each reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        for name, side in case.sides.items():
            if side.gap:
                reasons.setdefault((_LABELS.get(name, name), side.gap), []).append(case.case)
    for (label, gap), names in reasons.items():
        where = (
            ", ".join(names)
            if len(names) <= 4
            else f"{', '.join(names[:3])} and {len(names) - 3} more"
        )
        console.print(f"gap: {label} on {where}: {gap}", markup=False, soft_wrap=True)


def print_tuning(console: Console, cases: Sequence[CaseResult]) -> None:
    """Print how long each side that tunes has spent on it."""
    for name, label in _LABELS.items():
        spent = [case.sides[name].tuned_s for case in cases if name in case.sides]
        if total := sum(spent):
            console.print(f"{label}: tuned for {total / 60:.1f} min in all")


def _add_means(table: Table, title: str, cases: Sequence[CaseResult], peers: Sequence[str]) -> None:
    def ratios(peer: Callable[[CaseResult], str | None], *, less: bool = False) -> list[float]:
        found = [case.ratio(peer(case) or "", less_dispatch=less) for case in cases]
        return [ratio for ratio in found if ratio is not None]

    best = ratios(CaseResult.best_peer)
    less = ratios(CaseResult.best_peer, less=True)
    table.add_row(
        title,
        _ratio(geometric_mean(best)),
        _ratio(min(best, default=math.nan)),
        _ratio(geometric_mean(less)),
        *(_ratio(geometric_mean(_called_ratios(cases, way))) for way in _AS_CALLED),
        *(_ratio(geometric_mean(ratios(lambda _, name=name: name))) for name in peers),
    )


def _called(case: CaseResult, way: Way) -> str:
    """Time of ansorc called in this way, and how many times as fast as the best peer."""
    found = case.as_called(way)
    return f"{seconds_text(found[0])}, {_ratio(found[1])}" if found else "–"


def _called_ratios(cases: Sequence[CaseResult], way: Way) -> list[float]:
    found = [case.as_called(way) for case in cases]
    return [one[1] for one in found if one is not None and one[1] is not None]


def _is_fma(case: CaseResult) -> bool:
    return case.limit.startswith("FMA")


def _marked(case: CaseResult, name: str, best: str | None) -> str:
    """The time of a peer: the best one's bold, with a d if much of it is the cost of the call."""
    side = case.sides.get(name)
    if side is None or not side.seconds:
        return "–" if side is None or side.gap_kind == "cannot" else side.gap_kind
    words = _time(case, name)
    if side.dispatch_s > _DISPATCH_SHARE * side.median_s:
        words += " d"
    return f"[bold]{words}[/]" if name == best else words


def _time(case: CaseResult, name: str) -> str:
    seconds = case.seconds(name)
    return seconds_text(seconds) if seconds is not None else case.sides[name].gap_kind


def _share(case: CaseResult) -> str:
    share = case.share("ansorc")
    return f"{share:.0%} {case.limit.split()[0]}" if share is not None else ""


def _ratio(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.2f}"
