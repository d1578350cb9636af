"""The command line under test, in a directory of its own."""

from pathlib import Path

import pytest
from cli.command_line import CommandLine


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys)
