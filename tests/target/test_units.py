"""Figures for people: times in the unit that fits."""

from __future__ import annotations

import pytest

from ansorc.target.units import seconds_text, time_unit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.0769e-7, "107.7 ns"), (0.0, "0 s"), (1.5, "1.5 s"), (0.0123, "12.3 ms"),
        (9.99999e-4, "1 ms"), (2.5e-5, "25 µs"), (4e-10, "0.4 ns"), (None, "no result"),
        (float("inf"), "no result"), (123.456, "123.5 s"),
    ],
)  # fmt: skip
def test_times_have_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


def test_two_times_share_the_unit_of_the_first() -> None:
    unit = time_unit(2.34e-3)
    assert (unit.name, unit.number(2.34e-3), unit.number(1e-5, 2)) == ("ms", "2.34", "0.01")
    assert time_unit(0.0).name == "ns"
