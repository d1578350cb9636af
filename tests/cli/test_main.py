"""Every command's help has an example, and each of them works as it is printed."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ansorc.cli.main import cli as group
from tests.support.command_line import WORKLOADS, CommandLine

GEMM = WORKLOADS.split("@ac.workload\ndef single")[0].replace("def product", "def matmul")
TRIALS = "4"
"""Instead of the hundreds that an example has."""


def commands(found: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(found)
    for name in found.list_commands(context):
        command = found.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


COMMANDS = dict(commands(group))
ORDER = (
    ("doctor",), ("tune",), ("build",), ("run",), ("bench",), ("show",), ("train",),
    ("report",), ("records",),
    ("records", "list"), ("records", "best"), ("records", "export"), ("records", "import"),
    ("records", "merge"), ("records", "prune"), ("records", "verify"), ("fleet", "key"),
)  # fmt: skip
"""So that each finds what the ones before it made."""


def example_of(name: tuple[str, ...]) -> list[str]:
    """The arguments of the one example in a command's help, as it is printed 80 columns wide."""
    context = click.Context(COMMANDS[name], terminal_width=80)
    found = re.findall(r"^  Example:  ansorc (.*)$", COMMANDS[name].get_help(context), re.MULTILINE)
    assert len(found) == 1, name
    return shlex.split(found[0])


def test_every_command_is_tried() -> None:
    served = {("worker",), ("fleet", "status")}  # they need a fleet: tests/fleet tries them
    assert set(ORDER) == set(COMMANDS) - served - {("fleet",)}


def test_the_examples_work_one_after_another(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSORC_FLEET_KEY", "fleet.key")
    pytest.importorskip("vl_convert", reason="vl-convert draws the charts of a report")
    Path("gemm.py").write_text(GEMM)
    for name in ORDER:
        arguments = example_of(name)
        assert tuple(arguments[: len(name)]) == name or name == ("records",)
        if "--trials" in arguments:
            arguments[arguments.index("--trials") + 1] = TRIALS
        if name[-1] == "merge":
            for part in ("desk.db", "server.db"):
                Path(part).write_bytes(Path("tune.db").read_bytes())
        ended = cli.run(*arguments)
        assert ended.code == 0, (arguments, ended)
    for made in (
        "tune.db",
        "matmul.so",
        "model.json",
        "matmul.html",
        "tune.jsonl",
        "all.db",
        "fleet.key",
        "times.json",
    ):
        assert Path(made).stat().st_size > 0
    assert Path("saved.db").exists()


def test_the_first_steps_are_told_and_work(cli: CommandLine) -> None:
    told = cli.run().err
    assert "\nFirst steps:\n" in told
    assert max(map(len, told.splitlines())) <= 80
    blocks = re.split(r"((?:^ {6}.*\n|^\n)+)", told.partition("First steps:")[2], flags=re.M)
    _, _, _, file, between, commands_told, after = blocks
    assert between.strip().startswith("Find a fast program")
    assert "net.onnx" in after
    Path("gemm.py").write_text(textwrap.dedent(file))
    steps = [shlex.split(line)[1:] for line in commands_told.strip().splitlines()]
    assert [step[0] for step in steps] == ["tune", "build", "run"]
    for arguments in steps:
        ended = cli.run(*(TRIALS if word == "200" else word for word in arguments))
        assert ended.code == 0, (arguments, ended)
    assert Path("matmul.so").stat().st_size > 0
