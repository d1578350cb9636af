"""What is memoized is computed once for each owner and each of the other arguments."""

from __future__ import annotations

from ansorc.search.memo import memoize


class Owner:
    """Something to keep results in."""


calls: list[tuple[Owner, int]] = []


@memoize
def scaled(owner: Owner, factor: int = 1) -> int:
    calls.append((owner, factor))
    return 10 * factor


def test_named_arguments_tell_calls_apart() -> None:
    owner, other = Owner(), Owner()
    calls.clear()
    assert [scaled(owner), scaled(owner, factor=2), scaled(owner, 3)] == [10, 20, 30]
    assert [scaled(owner), scaled(owner, factor=2), scaled(owner, 3)] == [10, 20, 30]
    assert calls == [(owner, 1), (owner, 2), (owner, 3)]
    scaled(other)
    assert calls[-1] == (other, 1)
