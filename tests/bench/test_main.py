"""Every benchmark can be imported, as far as what it compares with is installed."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import bench
from bench.__main__ import main

FOUND = [module.name for module in pkgutil.walk_packages(bench.__path__, "bench.")]
TVM = [name for name in FOUND if name.endswith(("meta_schedule", "tvm_definitions"))]
"""They keep PyTorch out of their process."""
OTHERS = [name for name in FOUND if name not in TVM and not name.endswith("__main__")]
IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if (error.name or "ansorc").partition(".")[0] in ("ansorc", "bench"):
            raise
"""


@pytest.mark.parametrize("names", [TVM, OTHERS], ids=["tvm", "others"])
def test_they_can_be_imported(names: list[str]) -> None:
    assert names
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", IMPORT, *names]
    done = subprocess.run(command, check=False, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_command_without_its_packages_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.__main__._MODULES", {"fleet": "nobodys.package", "gaps": "bench.no"})
    ran = CliRunner().invoke(main, ["fleet", "--records", "t.db"])
    assert ran.exit_code == 1
    assert "it needs nobodys; pip install -e '.[bench]'" in ran.output
    assert isinstance(CliRunner().invoke(main, ["gaps"]).exception, ModuleNotFoundError)  # a fault


def test_help_lists_what_is_imported_later() -> None:
    listed = CliRunner().invoke(main, ["--help"])
    assert listed.exit_code == 0
    assert "gpu_samples" in listed.output
