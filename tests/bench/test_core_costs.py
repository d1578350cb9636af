"""The probe of what instructions and bytes cost runs, and its figures are possible."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ansorc.target import detect
from bench.core_costs import ROWS, measure, table

ELSEWHERE = {"dot_latency", "dots", "fork", "fork_asleep"}
"""What not every machine with AVX2 has: dot products, other cores."""
DIFFERENCES = {"fork", "fork_asleep"}
"""Of two times, each of which others disturb."""


def test_the_probe_gives_positive_figures_and_a_table() -> None:
    if "avx2" not in detect().features:
        pytest.skip("the probe is written for x86 with AVX2")
    found = measure(detect(), repetitions=2)
    assert set(ROWS) - ELSEWHERE <= set(found) <= set(ROWS)
    assert {len(figures) for figures in found.values()} == {2}
    assert all(min(found[name]) > 0 for name in set(found) - DIFFERENCES)
    printed = io.StringIO()
    Console(file=printed, width=120).print(table(found))
    assert all(row.words.split()[0] in printed.getvalue() for row in ROWS.values())
