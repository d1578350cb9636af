"""`ansorc tune --no-device` says that nothing was measured, and keeps nothing."""

from __future__ import annotations

from tests.support.command_line import CommandLine


def test_programs_are_ranked_and_nothing_is_kept(cli: CommandLine) -> None:
    target = "cuda -arch=sm_80"
    ended = cli.run("tune", "ops.py:product", "--target", target, "--no-device", "--trials", "2")
    assert ended.code == 0, ended
    assert "nothing was measured: these are estimates of a model" in ended.out
    assert "ansorc build ops.py:product --target 'cuda -arch=sm_80'" in ended.out
    assert "(a100, 19.5 TFLOP/s of float32)" in ended.out
    assert not list(cli.directory.glob("*.db"))
