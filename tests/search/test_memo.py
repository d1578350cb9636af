"""Results are computed once for each owner and each of the other arguments."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from weakref import ref

from ansorc.search.memo import memoize, share


class Owner:
    """Something to keep results in."""


calls: list[tuple[Owner, int]] = []


@memoize
def scaled(owner: Owner, factor: int = 1) -> int:
    calls.append((owner, factor))
    return 10 * factor


class Factor:
    """A result that others may share."""


@share
def shared(owner: Owner, factor: int) -> Factor:
    return Factor()


def test_named_arguments_tell_calls_apart() -> None:
    owner, other = Owner(), Owner()
    calls.clear()
    assert [scaled(owner), scaled(owner, factor=2), scaled(owner, 3)] == [10, 20, 30]
    assert [scaled(owner), scaled(owner, factor=2), scaled(owner, 3)] == [10, 20, 30]
    assert calls == [(owner, 1), (owner, 2), (owner, 3)]
    scaled(other)
    assert calls[-1] == (other, 1)


def test_what_is_shared_is_gone_with_the_last_that_uses_it() -> None:
    owner = Owner()
    first = shared(owner, 2)
    assert shared(owner, 2) is first
    assert shared(owner, 3) is not first
    assert shared(Owner(), 2) is not first
    seen = ref(first)
    del first
    assert seen() is None


def test_threads_share_nothing() -> None:
    owner = Owner()
    first = shared(owner, 2)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(shared, owner, 2).result() is not first


def test_an_owner_is_pickled_without_what_is_shared() -> None:
    owner = Owner()
    first = shared(owner, 2)
    assert shared(pickle.loads(pickle.dumps(owner)), 2) is not first
    assert isinstance(shared(copy.deepcopy(owner), 2), Factor)
