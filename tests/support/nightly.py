"""Tests that the default suite runs on a sample, and `make nightly` on all that they are about.

Such a test is one function. `make nightly` selects it by the marker `nightly`, which it has in that
run alone, and gives it the larger number of examples, programs or pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings

PROFILE = "nightly"
"""The profile of settings that `tests/conftest.py` loads where only nightly tests run."""
T = TypeVar("T", bound=Callable[..., Any])


def is_nightly() -> bool:
    """Return whether this is the run of `make nightly`."""
    return settings.get_current_profile_name() == PROFILE


def amount(by_default: int, at_night: int) -> int:
    """Return how much a test that is `also_nightly` does in this run."""
    return at_night if is_nightly() else by_default


def also_nightly(test: T) -> T:
    """Let the default suite and `make nightly` both run `test`."""
    return pytest.mark.nightly(test) if is_nightly() else test


def examples(by_default: int, *, nightly: int, options: settings | None = None) -> Callable[[T], T]:
    """Let a property be tested on `by_default` random examples, and on `nightly` ones at night."""
    chosen = settings(options, max_examples=amount(by_default, nightly))
    return lambda test: also_nightly(chosen(test))


def sampled(values: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """Return the parameters of a test: those not `kept` are nightly."""
    return [
        value if value in kept else pytest.param(value, marks=pytest.mark.nightly)
        for value in values
    ]


def sampled_pairs(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Return all pairs as parameters: each value is in one that is not nightly, at least."""
    return [
        pytest.param(
            one, other,
            marks=() if m == n % len(right) or n == m % len(left) else pytest.mark.nightly,
        )
        for n, one in enumerate(left)
        for m, other in enumerate(right)
    ]  # fmt: skip
