"""Hand-made schedules against the machine's limits: `python -m bench.codegen [CASE …]`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ansorc.target import Target
from ansorc.target.units import seconds_text
from bench.codegen.cases import CASES
from bench.codegen.measuring import Finding, measure

_WIDTH = 110


@click.command()
@click.argument("names", nargs=-1, metavar="[CASE …]")
@click.option("--target", "text", default="native", show_default=True)
@click.option("--threads", multiple=True, type=int, default=(1, 2), show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Also write the findings.")
def main(names: tuple[str, ...], text: str, threads: tuple[int, ...], path: Path | None) -> None:
    """Time the cases whose names contain one of NAMES (default: all)."""
    target = Target.parse(text)
    chosen = [case for case in CASES if not names or any(name in case.name for name in names)]
    if not chosen:
        raise click.UsageError(
            f"no case is called so; there are: {', '.join(c.name for c in CASES)}"
        )
    found: list[Finding] = []
    for case in chosen:
        for count in threads:
            found.append(measure(case, target, count))
            click.echo(_line(found[-1]))
    Console(width=_WIDTH).print(_table(found))
    if path is not None:
        path.write_text(json.dumps([asdict(finding) for finding in found], indent=1))


def _line(found: Finding) -> str:
    return f"{found.case}, {found.threads} threads: {found.share:.0%} of its limit"


def _table(findings: list[Finding]) -> Table:
    names = ("case", "threads", "time", "of its limit", "quartiles", "goal", "of FMA peak")
    table = Table(*names, "spills")
    for found in findings:
        low, high = found.quartiles
        mark = "" if found.share >= found.goal else "  ← below"
        table.add_row(
            found.case, str(found.threads), seconds_text(found.seconds), f"{found.share:.1%}",
            f"{low:.0%}–{high:.0%}", f"{found.goal:.0%}{mark}", f"{found.of_peak:.0%}",
            str(found.spills),
        )  # fmt: skip
    return table


if __name__ == "__main__":
    main()
