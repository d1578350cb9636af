from __future__ import annotations

from pathlib import Path

import pytest

from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.verify import verify
from tests.ir.passes.test_pass_meaning import PASSES, assert_alike, keeps_order, outcome

GOLDEN = Path(__file__).parent / "golden"
SEPARATOR = "\n# becomes\n\n"
"""What stands between the program before and after a pass; --update-golden rewrites the latter."""
FILES = sorted(path for name in PASSES for path in (GOLDEN / name).glob("*.ir"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_pass_gives_the_golden_text(path: Path, request: pytest.FixtureRequest) -> None:
    before, _, after = path.read_text().partition(SEPARATOR)
    function = parse(before)
    result = PASSES[path.parent.name](function)
    verify(result)
    name = path.parent.name
    is_exact = keeps_order(name, function)
    assert_alike(outcome(result, 0), outcome(function, 0), name, is_exact=is_exact)
    if request.config.getoption("--update-golden", default=False):
        path.write_text(before + SEPARATOR + to_text(result))
        return
    assert to_text(result) == after


def test_every_pass_has_golden_texts() -> None:
    others = ("promote_little", "vectorize_narrow", "prepare_masked", "prepare_loading")
    wanted = {name for name in PASSES if name not in others}
    assert {path.parent.name for path in FILES} == wanted
