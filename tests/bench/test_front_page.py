"""The picture of the front page says what the tables of bench/README.md say."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="it draws the picture")

from bench.front_page import NETWORKS, OPERATORS, TABLES, Beside, networks, operators

_TEXT = TABLES.read_text()


def test_every_operator_and_network_of_the_tables_is_shown() -> None:
    assert set(operators(_TEXT).ratios) == set(OPERATORS.values())
    shown = {name.partition(", ")[0] for name in networks(_TEXT).ratios}
    assert shown == set(NETWORKS.values())


@pytest.mark.parametrize("part", [operators(_TEXT), networks(_TEXT)], ids=["operators", "networks"])
def test_every_row_has_several_peers(part: Beside) -> None:
    assert part.machine.startswith("Zen")
    for row in part.ratios.values():
        assert len(row) >= 4
        assert all(ratio > 0 for ratio in row.values())


def test_a_peer_without_a_figure_has_no_dot() -> None:
    table = (
        "Results on two threads.** Zen 4, commit abc, rest\n\n| operator | × best peer | × NumPy |"
    )
    table += " × TVM |\n|---|---|---|---|\n| DEP | 1.72 | – | 2.16 |\n"
    assert operators(table) == Beside("Zen 4", "abc", {"depthwise convolution": {"TVM": 2.16}})
