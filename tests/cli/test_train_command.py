"""`ansorc train`, and tuning with the model that it makes or with another one."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_line import CommandLine


def test_train_then_tune_with_the_model(cli: CommandLine) -> None:
    tune = ("tune", "ops.py:product", "--threads", "1", "--trials")
    assert cli.run(*tune, "3", "--cost-model", "random").code == 0
    trained = cli.run("train", "-o", "own.json", "--seed", "3")
    assert trained.code == 0, trained
    assert trained.out.splitlines() == [
        "3 programs of 1 tasks, 0 failed",
        "fewer than 50: too few to test how well it predicts",
        "own.json: learned from all of them; use it with: ansorc tune … --model own.json",
    ]
    tuned = cli.run(*tune, "4", "--model", "own.json")
    assert tuned.code == 0, tuned
    assert "measured 1 programs" in tuned.err


def test_a_model_file_that_does_not_fit(cli: CommandLine) -> None:
    tune = ("tune", "ops.py:product", "--model", "model.json")
    assert cli.run(*tune).refused() == (
        "error: model.json is not a saved cost model ([Errno 2] No such file or directory: "
        "'model.json')"
    )
    Path("model.json").write_text(json.dumps({"version": 0, "features": [], "layers": []}))
    assert "features of version 0" in cli.run(*tune).refused()
    assert "--model FILE holds trees" in cli.run(*tune, "--cost-model", "roofline").refused(2)


def test_what_cannot_be_learned_from(cli: CommandLine) -> None:
    assert "there is no record file tune.db" in cli.run("train").refused()
    assert "'best' is not one of" in cli.run("tune", "ops.py", "--cost-model", "best").refused(2)
