"""`import ansorc` brings every name, and imports the search only when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ansorc as ac


def test_every_public_name_is_listed_before_its_module_is_imported() -> None:
    assert set(ac.__all__) <= set(dir(ac))


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'ansorc' has no attribute 'nothing'"):
        ac.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_the_search_is_imported_when_it_is_asked_for() -> None:
    words = "import sys, ansorc; before = 'ansorc.search' in sys.modules; ansorc.tune; "
    words += "print(before, 'ansorc.search.tune' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False", "True"]


def test_networks_bring_onnx_when_they_are_asked_for() -> None:
    words = "import sys, ansorc; ansorc.Graph; before = 'onnx' in sys.modules; ansorc.from_onnx; "
    words += "print(before, 'onnx' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False", "True"]
