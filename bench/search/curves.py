"""Draw a comparison: `python -m bench.search.curves FILE [--output PICTURE] [--table]`.

One line for each variant: the speed of the best program found so far, relative to the best program
of all runs, against the programs measured. The line is the median of the runs, the band goes from
the worst run to the best.
"""

from __future__ import annotations

from pathlib import Path

import click
import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from bench.search.comparison import FULL, Comparison

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
"""Told apart by people with any colour vision (after Okabe and Ito)."""
LINES = ("-", "--", "-.", ":")
TITLES = {
    FULL: "full search",
    "beam": "beam search",
    "no-fine-tuning": "no fine-tuning",
    "limited-space": "limited space",
    "paper": "numbers of the paper",
}
_SIZE_INCHES, _DPI = (8.6, 4.2), 150


@click.command()
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path, exists=True))
@click.option("--output", type=click.Path(path_type=Path),
              help="A .png or .svg file; without it and --table, FILE with .png.")  # fmt: skip
@click.option("--lowest", default=0.0, show_default=True, type=click.FloatRange(0, 0.99),
              help="The share at the foot of the picture.")  # fmt: skip
@click.option("--table", is_flag=True, help="Print the medians as a table in Markdown.")
def main(source: Path, output: Path | None, lowest: float, *, table: bool) -> None:
    """Draw the curves in FILE, which `python -m bench.search.ablation` wrote."""
    comparison = Comparison.load(source)
    if table:
        click.echo("\n".join(rows(comparison)))
    if output is None and not table:
        output = source.with_suffix(".png")
    if output is not None:
        draw(comparison, output, lowest)
        click.echo(f"written: {output}", err=True)


def title(variant: str) -> str:
    """Return what people call a variant."""
    return TITLES.get(variant, variant.replace("-", " "))


def draw(comparison: Comparison, output: Path, lowest: float = 0.0) -> None:
    """Write the picture to `output`, in the format that its name ends with."""
    figure, axes = pyplot.subplots(figsize=_SIZE_INCHES, layout="constrained")
    for place, variant in enumerate(comparison.variants):
        _line(axes, comparison, variant, place)
    seeds = len({run.seed for run in comparison.runs})
    axes.set_title(
        f"{comparison.words} (float32)\n{comparison.machine}, {comparison.threads} threads",
        fontsize=10, loc="left",
    )  # fmt: skip
    axes.set_xlabel("measured programs")
    axes.set_ylabel("throughput, share of the best program's")
    axes.set_xlim(1, comparison.trials)
    axes.set_ylim(lowest, 1 + 0.03 * (1 - lowest))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    best = comparison.flops / comparison.best_s
    legend = axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, alignment="left",
        title=f"median of {seeds} runs,\nband from worst to best;\n"
              f"100% = {best / 1e9:.0f} GFLOP/s, {best / comparison.peak:.0%}\nof the FMA peak",
    )  # fmt: skip
    legend.get_title().set_fontsize(9)
    figure.savefig(output, dpi=_DPI)
    pyplot.close(figure)


def _line(axes: Axes, comparison: Comparison, variant: str, place: int) -> None:
    shares = comparison.shares(variant)
    trials = np.arange(1, comparison.trials + 1)
    median = np.median(shares, axis=0)
    color = COLORS[place % len(COLORS)]
    axes.fill_between(
        trials, shares.min(axis=0), shares.max(axis=0), step="post", color=color, alpha=0.15, lw=0
    )
    axes.step(
        trials, median, where="post", color=color, ls=_line_style(place),
        lw=2.2 if variant == FULL else 1.6, label=f"{title(variant)}: {median[-1]:.1%}",
    )  # fmt: skip


def _line_style(place: int) -> str:
    """Another style for each line, and for each time that the colours are used again."""
    return LINES[(place + place // len(COLORS)) % len(LINES)]


def rows(comparison: Comparison) -> list[str]:
    """Return a table of the medians after a quarter, a half and all of the trials."""
    marks = [comparison.trials // 4, comparison.trials // 2, comparison.trials]
    heads = [f"after {mark} trials" for mark in marks]
    found = [
        f"| {comparison.words} | {' | '.join(heads)} | worst and best run | GFLOP/s | "
        "full search is | failed |",
        "|---|" + "---|" * (len(marks) + 4),
    ]
    for variant in comparison.variants:
        shares = comparison.shares(variant)
        cells = [f"{np.median(shares[:, mark - 1]):.1%}" for mark in marks]
        last = shares[:, -1]
        rate = float(np.median(last)) * comparison.flops / comparison.best_s
        ratio = comparison.ratio(variant, comparison.trials)
        own = [run for run in comparison.runs if run.variant == variant]
        failed = sum(run.failed for run in own) / sum(run.measured for run in own)
        found.append(
            f"| {title(variant)} | {' | '.join(cells)} | {last.min():.1%}, {last.max():.1%} | "
            f"{rate / 1e9:.1f} | {'' if variant == FULL else f'{ratio:.2f} × as fast'} | "
            f"{failed:.1%} |"
        )
    return found


if __name__ == "__main__":
    main()
