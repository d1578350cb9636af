"""The paper's Figures 6 and 8: bars of throughput, normalised to the best side of each operator.

For each case throughputs are divided by the best side's; of those the geometric mean over the
shapes of an operator is taken, and divided by the best side's again, so that the best bar is 1. The
error bar is the standard deviation over the shapes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from ansorc.compare.figures import geometric_mean
from bench.compare.result import CaseResult
from bench.peers import OWN, PEERS

_SUBGRAPHS = ("ConvLayer", "TBS")
_COLORS = ("#a6cee3", "#1f78b4", "#b2df8a", "#33a02c", "#bdbdbd", "#fdbf6f", "#cab2d6")
_OWN_COLOR = "#d62728"
_GROUP_WIDTH = 0.86


@dataclass(frozen=True)
class Bar:
    """One side's bar for one operator and batch."""

    height: float
    """1 for the best side; NaN if the side ran none of the shapes."""
    deviation: float
    is_partial: bool
    """Whether the side could not run all shapes: the mean is over those that it ran."""


def bars(cases: Sequence[CaseResult], sides: Sequence[str]) -> dict[str, Bar]:
    """Return the bar of each side for the cases of one operator and batch."""
    shares: dict[str, list[float]] = {side: [] for side in sides}
    for case in cases:
        times = {side: case.seconds(side) for side in sides}
        held = {side: seconds for side, seconds in times.items() if seconds is not None}
        for side, seconds in held.items():
            shares[side].append(min(held.values()) / seconds)
    means = {side: geometric_mean(found) for side, found in shares.items()}
    best = max((means[side] for side in sides if shares[side]), default=1.0)
    return {
        side: Bar(
            means[side] / best,
            statistics.stdev(found) if len(found) > 1 else 0.0,
            0 < len(found) < len(cases),
        )
        for side, found in shares.items()
    }


def draw(
    cases: Sequence[CaseResult], machine: dict[str, Any], threads: int, directory: Path
) -> list[Path]:
    """Write a figure of the single operators and one of the subgraphs; return their paths."""
    written: list[Path] = []
    for name, title, are_subgraphs in (
        ("operators", "Single operators", False),
        ("subgraphs", "Subgraphs", True),
    ):
        held = [case for case in cases if (case.operator in _SUBGRAPHS) == are_subgraphs]
        if held:
            heading = f"{title}, float32 · {machine['cpu']} · {_counted(threads)}"
            written += _figure(held, heading, directory / f"{name}-{threads}-threads")
    return written


def _counted(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


def _figure(cases: Sequence[CaseResult], heading: str, stem: Path) -> list[Path]:
    batches = sorted({_batch(case) for case in cases})
    groups = list(dict.fromkeys(case.operator for case in cases))
    present = {name for case in cases for name in case.sides}
    infos = [info for info in (*PEERS, OWN) if info.name in present]
    width = max(5.2, 0.6 + 0.115 * (len(infos) + 1.4) * len(groups))
    figure, axes = plt.subplots(
        len(batches),
        1,
        figsize=(width, 1.75 * len(batches) + 0.9),
        squeeze=False,
        layout="constrained",
    )
    colors = {info.name: color for info, color in zip(PEERS, _COLORS, strict=True)}
    colors[OWN.name] = _OWN_COLOR
    for row, batch in enumerate(batches):
        axis: Axes = axes[row][0]
        for place, operator in enumerate(groups):
            of_group = [c for c in cases if c.operator == operator and _batch(c) == batch]
            if of_group:
                _group(axis, place, bars(of_group, [info.name for info in infos]), colors)
        axis.set_title(f"batch {batch}", fontsize=8.5, loc="left", pad=3)
        _style(axis, groups)
    handles = [Patch(color=colors[info.name], label=info.label) for info in infos]
    figure.legend(
        handles=handles, title=heading, title_fontsize=9, loc="outside upper center", fontsize=8,
        frameon=False, ncols=max(4, int(width / 1.2)), columnspacing=1.2, handlelength=1.2,
    )  # fmt: skip
    figure.supylabel("throughput, normalised to the best", fontsize=8.5)
    if note := _note(cases, [info.name for info in infos]):
        figure.supxlabel(note, fontsize=7.5, color="#555555")
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("svg", "png")]
    for path in paths:
        figure.savefig(path, dpi=200)
    plt.close(figure)
    return paths


def _note(cases: Sequence[CaseResult], sides: Sequence[str]) -> str:
    """Explain the marks of what is missing, if something is."""
    if all(case.seconds(side) for case in cases for side in sides):
        return ""
    return "×: ran none of the shapes; hatched: the mean of those that it ran"


def _group(axis: Axes, place: int, found: dict[str, Bar], colors: dict[str, str]) -> None:
    """Draw the bars of one operator around x = place; a cross where a side has none."""
    width = _GROUP_WIDTH / len(found)
    for index, (side, bar) in enumerate(found.items()):
        x = place - _GROUP_WIDTH / 2 + (index + 0.5) * width
        if bar.height != bar.height:
            axis.text(x, 0.01, "×", ha="center", va="bottom", fontsize=7, color="#777777")
            continue
        hatch = "////" if bar.is_partial else None
        axis.bar(x, bar.height, width * 0.92, color=colors[side], zorder=2, hatch=hatch,
                 edgecolor="white", linewidth=0)  # fmt: skip
        axis.errorbar(x, bar.height, bar.deviation, color="#444444", linewidth=0.7, capsize=1.2,
                      capthick=0.7, zorder=3)  # fmt: skip


def _style(axis: Axes, groups: Sequence[str]) -> None:
    axis.set_xticks(range(len(groups)), groups, fontsize=8.5)
    axis.tick_params(axis="x", length=0)
    axis.tick_params(axis="y", length=0, labelsize=8)
    axis.set_xlim(-0.55, len(groups) - 0.45)
    axis.set_ylim(0, 1.12)
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1.0])
    axis.grid(axis="y", color="#dddddd", linewidth=0.6, zorder=0)
    for edge in ("top", "right", "left"):
        axis.spines[edge].set_visible(False)


def _batch(case: CaseResult) -> int:
    return int(case.case.rpartition("-b")[2])
