"""The table of the pipelines: ratios to the best peer, their geometric mean and the least."""

from __future__ import annotations

from bench.pipelines.command import PipelineResult, table


def test_the_table_shows_the_best_peer_the_mean_and_the_least() -> None:
    fast = PipelineResult(
        "blur", {"ansorc": [1e-3, 1e-3, 2e-3], "one": [4e-3, 4e-3, 8e-3], "two": [9e-3] * 3},
        {"ansorc": 0.5},
    )  # fmt: skip
    slow = PipelineResult("hist", {"ansorc": [2e-3] * 3, "two": [2e-3] * 3}, {"ansorc": 1.0})
    gap = PipelineResult("camera_pipe", gaps={"ansorc": "its largest error is 3"})
    assert table([fast, slow, gap], "a machine, 2 threads") == [
        "| a machine, 2 threads | ansorc | made in | best peer | ratio |",
        "|---|---|---|---|---|",
        "| blur | 1 ms | 0.5 s | one 4 ms | 4.00 |",
        "| hist | 2 ms | 1.0 s | two 2 ms | 1.00 |",
        "| camera_pipe | | | ansorc: its largest error is 3 | |",
        "",
        "geometric mean 2.00, least 1.00 (hist)",
    ]


def test_without_ratios_there_is_no_mean() -> None:
    assert len(table([PipelineResult("blur")], "a machine")) == 3
