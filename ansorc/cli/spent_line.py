"""Two lines about a tuning run: the shares of its time, and the lead of its winner."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.search.tune_result import TimeSpent, TuneResult


def spent_line(spent: TimeSpent) -> str:
    """Return the phases of a run as shares of its wall time.

    Brackets show the parts of builds and runs, as shares of the work in their processes.
    """
    builds, runs = spent.builds, spent.runs
    inside_builds = _shares(builds.total_s, {
        "lower": builds.lower_s, "passes": builds.passes_s, "emit": builds.emit_s,
        "LLVM": builds.llvm_s,
    })  # fmt: skip
    inside_runs = _shares(runs.total_s, {
        "prepare": runs.prepare_s, "warm up": runs.warm_up_s, "check": runs.check_s,
        "repeat": runs.repeats_s,
    })  # fmt: skip
    phases = {
        "start": spent.start_s, "search": spent.search_s, f"build ({inside_builds})": spent.build_s,
        f"run ({inside_runs})": spent.run_s, "contest": spent.contest_s, "rest": spent.rest_s,
    }  # fmt: skip
    return f"time: {_shares(spent.total_s, phases)}"


def contest_line(result: TuneResult) -> str:
    """Return the lead of the winner over the second, or "" if it is unknown."""
    if result.ranking is None or len(result.ranking.ranked) < 2:
        return ""
    margin, error = result.ranking.margin, result.ranking.margin_error
    return f"the winner was {margin:.1%} ± {error:.1%} faster than the second, timed in turns"


def _shares(total_s: float, parts: Mapping[str, float]) -> str:
    return ", ".join(
        f"{name} {seconds / max(total_s, 1e-9):.0%}" for name, seconds in parts.items()
    )
