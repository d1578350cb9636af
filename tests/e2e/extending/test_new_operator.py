"""The operator of docs/extending.md, as it stands there: defined, checked, built without tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import ansorc as ac

PAGE = Path(__file__).parents[3] / "docs" / "extending.md"


def test_the_operator_of_the_page_computes_what_it_says() -> None:
    code = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    defined: dict[str, Any] = {}
    exec(code, defined)
    data = ac.placeholder((4, 8), name="data")
    module = ac.build(ac.ComputeDAG([data, defined["scale_rows"](data)]), target="native", name="f")
    given = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    result = np.empty_like(given)
    module(given, result)
    np.testing.assert_allclose(result, given / abs(given).max(1, keepdims=True), rtol=1e-6)
