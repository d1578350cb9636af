"""Memo: what follows from an object alone is computed once, kept in the object, and gone with it.

So a run owns whatever is known of its space, its sketches and its computation: nothing outlives it
in a cache of the process, and two runs share nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from threading import get_ident
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from weakref import WeakValueDictionary

Owner = TypeVar("Owner")
Result = TypeVar("Result")
P = ParamSpec("P")

_MEMO, _SHARED = "_memo", "_shared"


class _InUse(WeakValueDictionary[Hashable, Any]):
    """Results by what was asked, as long as they are in use; what is pickled has none."""

    def __reduce__(self) -> tuple[type[_InUse], tuple[()]]:
        return _InUse, ()


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

    The owner does not keep it: it is gone with the last of those that got it. Each thread has its
    own, as searches for one computation in several threads would change it at the same time.
    """

    @wraps(compute)
    def look_up(owner: Owner, *rest: P.args, **named: P.kwargs) -> Result:
        memo: _InUse = vars(owner).setdefault(_SHARED, _InUse())
        key = cast(Hashable, (get_ident(), compute, *rest, *named.items()))
        known: Result | None = memo.get(key)
        if known is None:
            known = memo[key] = compute(owner, *rest, **named)
        return known

    return look_up
