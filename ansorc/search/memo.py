"""Memo: what follows from an object alone is computed once, kept in the object, and gone with it.

So a run owns whatever is known of its space, its sketches and its computation: nothing outlives it
in a cache of the process, and two runs share nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast
from weakref import WeakValueDictionary

Owner = TypeVar("Owner")
Result = TypeVar("Result")
P = ParamSpec("P")

_MEMO, _SHARED = "_memo", "_shared"


def memoize(
    compute: Callable[Concatenate[Owner, P], Result],
) -> Callable[Concatenate[Owner, P], Result]:
    """Return `compute`, asked once for each owner, its first argument, and each of the others.

    The owner is an immutable object with a `__dict__`, told from others by its identity. The other
    arguments are hashable.
    """

    @wraps(compute)
    def look_up(owner: Owner, *rest: P.args, **named: P.kwargs) -> Result:
        memo: dict[Hashable, Result] = vars(owner).setdefault(_MEMO, {})
        key = cast(Hashable, (compute, *rest, *named.items()))
        if key not in memo:
            memo[key] = compute(owner, *rest, **named)
        return memo[key]

    return look_up


def share(
    compute: Callable[Concatenate[Owner, P], Result],
) -> Callable[Concatenate[Owner, P], Result]:
    """Return `compute`, asked once as with `memoize`, but for as long as its result is in use.

    The owner does not keep it: it is gone with the last of those that got it.
    """

    @wraps(compute)
    def look_up(owner: Owner, *rest: P.args, **named: P.kwargs) -> Result:
        memo: WeakValueDictionary[Hashable, Result] = vars(owner).setdefault(
            _SHARED, WeakValueDictionary()
        )
        key = cast(Hashable, (compute, *rest, *named.items()))
        known = memo.get(key)
        if known is None:
            known = memo[key] = compute(owner, *rest, **named)
        return known

    return look_up
