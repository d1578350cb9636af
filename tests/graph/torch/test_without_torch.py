"""Without PyTorch, what needs it says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ansorc as ac
from ansorc.errors import GraphError


def test_without_pytorch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(GraphError, match=r"PyTorch cannot be imported.*pip install torch"):
        ac.from_torch(object(), ())


def test_ansorc_does_not_import_pytorch() -> None:
    words = "import sys, ansorc; ansorc.Graph; ansorc.from_torch; print('torch' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False"]
