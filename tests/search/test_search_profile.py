"""`ansorc tune --profile`: where the time of a search goes, summing to the wall time."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import cast

import pytest

from ansorc.search.search_profile import (
    _FUNCTIONS,  # pyright: ignore[reportPrivateUsage]
    _MODULES,  # pyright: ignore[reportPrivateUsage]
    _WHOLE,  # pyright: ignore[reportPrivateUsage]
    SearchProfile,
    category_of,
)
from tests.support.command_line import CommandLine


def calling(*names: tuple[str, str]) -> Callable[[Callable[[], object]], object]:
    """Return what calls a function from functions of these modules, the innermost first."""

    def call(inner: Callable[[], object]) -> object:
        for module, function in names:
            space: dict[str, object] = {"__name__": module, "inner": inner}
            exec(f"def {function}(): return inner()", space)
            inner = cast("Callable[[], object]", space[function])
        return inner()

    return call


def category(*names: tuple[str, str]) -> str:
    def look() -> str:
        return category_of(inspect.currentframe())

    return cast("str", calling(*names)(look))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([("ansorc.search.evolution.sampling", "sample")], "sampling"),
        ([("ansorc.search.features.machine", "f"), ("ansorc.search.evolution.x", "g")], "features"),
        ([("numpy.linalg", "f"), ("ansorc.search.model.trees", "update")], "model training"),
        ([("ansorc.search.model.trees", "predict_statements")], "predictions"),
        ([("ansorc.search.features.x", "f"), ("ansorc.search.programs", "default_program")],
         "untuned default"),
        ([("threading", "wait"), ("ansorc.search.measure.measurer", "_run")], "measuring"),
        ([("threading", "wait"), ("ansorc.search.measure.measurer", "_build")], "build"),
        ([("threading", "wait"), ("ansorc.search.measure.measurer", "concurrently"),
          ("ansorc.search.measure.measurer", "_build")], "waiting"),
        ([("ansorc.search.record.database", "add")], "records"),
        ([("ansorc.search.tuning_run", "result")], "other"),
        ([("ansorc.cli.tune_command", "tune")], "other"),
    ],
)  # fmt: skip
def test_the_innermost_known_function_counts(names: list[tuple[str, str]], expected: str) -> None:
    assert category(*names) == expected


def test_what_the_categories_name_is_there() -> None:
    """A function that is renamed would be counted as another's."""
    for module, function in (*_FUNCTIONS, *_WHOLE):
        found = import_module(module)
        owners = [found, *(one for one in vars(found).values() if isinstance(one, type))]
        assert any(hasattr(owner, function) for owner in owners), f"{module}.{function}"
    for module, _ in _MODULES:
        import_module(module)


def test_the_seconds_sum_to_the_wall_time() -> None:
    begin = time.perf_counter()
    with SearchProfile(0.001) as profile:
        calling(("ansorc.search.evolution.sampling", "sample"))(lambda: time.sleep(0.2))
        beside = threading.Thread(
            target=lambda: calling(("ansorc.search.features.x", "f"))(lambda: time.sleep(0.2))
        )
        beside.start()
        beside.join()
    wall = time.perf_counter() - begin
    assert sum(profile.seconds.values()) == pytest.approx(profile.total_s)
    assert profile.total_s == pytest.approx(wall, rel=0.1)
    assert profile.seconds["sampling"] > 0.1
    assert profile.beside["features"] > 0.1
    assert list(profile.seconds.values()) == sorted(profile.seconds.values(), reverse=True)


def test_the_command_prints_a_table(cli: CommandLine) -> None:
    ended = cli.run(
        "tune", "ops.py:product", "--set", "n=32", "--trials", "4", "--threads", "1", "--profile"
    )
    assert ended.code == 0, ended
    lines = ended.out.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("where the time went"))
    table = lines[first + 2 : next(n for n, line in enumerate(lines) if line.startswith(" all "))]
    shares = [float(line.split()[-1].rstrip("%")) for line in table]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
    parts = {line.split("  ")[0].strip() for line in table}
    assert parts & {"build", "measuring", "contest"}
    assert "\n compiler " in ended.out
