"""Each construct on the page for those who come from other systems is run as it is printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "coming_from.md"
NAMES = ("TVM", "Halide", "Triton", "Numba", "JAX")
_CODE = re.compile(r"`([^`]+)`")


def rows(system: str) -> Iterator[str]:
    """Yield the right cell of each row of the table of a system."""
    _, _, section = PAGE.read_text().partition(f"\n## From {system}")
    for line in section.partition("\n## ")[0].splitlines():
        cells = re.split(r"(?<!\\) \| ", line.strip("|").strip())
        if line.startswith("| `") or (line.startswith("| ") and len(cells) == 2):
            yield cells[-1]


@pytest.fixture(scope="module")
def prepared() -> dict[str, Any]:
    """The names that the first block of the page makes."""
    names: dict[str, Any] = {}
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    exec(code[1], names)
    return names


@pytest.mark.parametrize("system", NAMES)
def test_what_a_construct_is_here_runs(
    system: str, prepared: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = dict(prepared)
    ran = 0
    for cell in rows(system):
        for code in _CODE.findall(cell):
            if "P[i]" in code or code in ("reference",):
                continue  # part of a longer example, which its own page runs
            exec(compile(code, f"{system}: {code}", "exec"), names)
            ran += 1
    assert ran >= 10
