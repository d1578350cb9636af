"""Check the arguments of public functions by their annotations.

A value of another type is refused with a message before anything is computed with it. Numbers of
NumPy become numbers of Python, and sequences become tuples. So the annotation of a parameter is the
only description of its type.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from ansorc.errors import AnsorcError, ArgumentError, LanguageError
from ansorc.lang.literal import as_list, as_number, short_text

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
Convert = Callable[[object], object]


def check_arguments(
    function: Callable[P, R], error: Callable[[str], AnsorcError] = ArgumentError
) -> Callable[P, R]:
    """Return `function` wrapped: `error` is raised for arguments unlike its annotations."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        converted = _convert(function, error, args, kwargs)
        try:
            return function(*converted, **kwargs)
        except TypeError as refusal:
            _refuse_call(function, error, refusal)
            raise
        except RecursionError as deep:
            raise too_deep(function.__name__) from deep

    return call


def too_deep(what: str) -> LanguageError:
    """Return the error for expressions that are nested deeper than Python's recursion limit."""
    return LanguageError(
        f"{what}: an expression is nested deeper than Python calls go "
        f"({sys.getrecursionlimit()}, from sys.getrecursionlimit): join terms in halves and not "
        "one after another, make parts of it stages (ac.compute), or raise the limit by "
        "sys.setrecursionlimit"
    )


def explain_call_errors(
    function: Callable[P, R], error: Callable[[str], AnsorcError]
) -> Callable[P, R]:
    """Return `function` wrapped: it raises `error` for missing, extra and unknown arguments."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as refusal:
            _refuse_call(function, error, refusal)
            raise

    return call


def check_methods(kind: C) -> C:
    """Make the public methods of the class `kind` check their arguments; return the class."""
    for name, value in list(vars(kind).items()):
        if inspect.isfunction(value) and not name.startswith("_"):
            setattr(kind, name, check_arguments(value))
    return kind


def _refuse_call(
    function: Callable[..., object], error: Callable[[str], AnsorcError], refusal: TypeError
) -> None:
    """Raise `error` if Python refused the call itself; errors from inside have more frames."""
    if refusal.__traceback__ is None or refusal.__traceback__.tb_next is not None:
        return
    parameters = inspect.signature(function).parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    wanted = f"{function.__name__}{inspect.Signature(bare)}"
    raise error(f"{refusal}; it is called as {wanted}") from None


@dataclass(frozen=True)
class _Accepted:
    """The values that a parameter accepts, in words, and their conversion."""

    words: str
    convert: Convert


class _UnfitError(Exception):
    """A value that a parameter does not accept."""


@dataclass(frozen=True)
class _Plan:
    """The types of the parameters of a function; None stands for any value."""

    positional: tuple[tuple[str, _Accepted | None], ...]
    rest: tuple[str, _Accepted | None] | None
    named: Mapping[str, _Accepted | None]


def _convert(
    function: Callable[..., object],
    error: Callable[[str], AnsorcError],
    args: tuple[object, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, ...]:
    """Return `args` converted to the parameters' types, and convert `kwargs` in place.

    Raise `error` for a value that does not fit.
    """
    plan = _plan(function)
    converted: list[object] = []
    for position, value in enumerate(args):
        known = plan.positional[position] if position < len(plan.positional) else plan.rest
        converted.append(value if known is None else _fit(function, error, *known, value))
    for name, value in kwargs.items():
        kwargs[name] = _fit(function, error, name, plan.named.get(name), value)
    return tuple(converted)


def _fit(
    function: Callable[..., object],
    error: Callable[[str], AnsorcError],
    name: str,
    taken: _Accepted | None,
    value: object,
) -> object:
    if taken is None:
        return value
    try:
        return taken.convert(value)
    except _UnfitError:
        given = f"{short_text(value)} ({type(value).__name__})"
        raise error(f"{function.__name__}: {name} is {given}, not {taken.words}") from None


@cache
def _plan(function: Callable[..., object]) -> _Plan:
    hints = typing.get_type_hints(function)
    positional: list[tuple[str, _Accepted | None]] = []
    rest, named = None, dict[str, _Accepted | None]()
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name)
        if parameter.kind is parameter.VAR_KEYWORD:
            named |= _of_options(hint)
            continue
        taken = None if hint is None else _read_annotation(hint)
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = name, taken
            continue
        named[name] = taken
        if parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append((name, taken))
    return _Plan(tuple(positional), rest, named)


def _of_options(hint: object) -> dict[str, _Accepted | None]:
    """Return the types of the keys of Unpack[TypedDict]."""
    (options,) = typing.get_args(hint) or (None,)
    if not typing.is_typeddict(options):
        return {}
    return {name: _read_annotation(each) for name, each in typing.get_type_hints(options).items()}


def _read_annotation(hint: Any) -> _Accepted | None:
    """Return the values that an annotation accepts; None if no value can be checked."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of([_read_annotation(part) for part in parts])
    if origin in (Sequence, Iterable, list, tuple):
        return _list_of(None if not parts else _read_annotation(parts[0]))
    kind = origin if isinstance(origin, type) else hint
    if kind is Callable or origin is Callable:
        return _Accepted("a function", _callable)
    if origin is typing.Literal and all(isinstance(part, str) for part in parts):
        return _PLAIN[str]  # which words there are says the function
    if not isinstance(kind, type) or typing.is_typeddict(kind):
        return None
    if getattr(kind, "_is_protocol", False):
        return _Accepted(f"an object like {kind.__name__}", lambda value: _alike(value, kind))
    words = _WORDS.get(kind.__name__, f"a {kind.__name__}")
    return _Accepted(words, lambda value: _instance(value, kind))


def _one_of(options: Sequence[_Accepted | None]) -> _Accepted | None:
    known = [option for option in options if option is not None]
    if len(known) < len(options):
        return None

    def convert(value: object) -> object:
        for option in known:
            try:
                return option.convert(value)
            except _UnfitError:
                continue
        raise _UnfitError

    words = dict.fromkeys(option.words for option in known)
    return _Accepted(" or ".join(words), convert)


def _list_of(element: _Accepted | None) -> _Accepted:
    def convert(value: object) -> object:
        parts = as_list(value)
        if parts is None and isinstance(value, str) and element is _PLAIN[str]:
            parts = list(value)  # text is a list of letters
        if parts is None:
            raise _UnfitError
        return tuple(parts if element is None else map(element.convert, parts))

    return _Accepted("a list" if element is None else f"a list, each {element.words}", convert)


def _instance(value: object, kind: type) -> object:
    if isinstance(value, kind):
        return value
    raise _UnfitError


def _alike(value: object, kind: type) -> object:
    """Return `value` if it has all public members of the protocol `kind`; a class has none."""
    names = {name for each in kind.__mro__[:-1] for name in (*vars(each), *each.__annotations__)}
    members = [name for name in names if not name.startswith("_")]
    if isinstance(value, type) or not all(hasattr(value, name) for name in members):
        raise _UnfitError
    return value


def _callable(value: object) -> object:
    if callable(value):
        return value
    raise _UnfitError


def _number(value: object) -> object:
    number = as_number(value)
    if number is None or isinstance(number, bool):
        raise _UnfitError
    return number


def _integer(value: object) -> object:
    number = _number(value)
    if not isinstance(number, int):
        raise _UnfitError
    return number


def _truth(value: object) -> object:
    number = as_number(value)
    if isinstance(number, int) and number in (0, 1):
        return bool(number)
    raise _UnfitError


def _nothing(value: object) -> object:
    if value is None:
        return None
    raise _UnfitError


_PLAIN: Mapping[Any, _Accepted | None] = {
    int: _Accepted("an integer", _integer),
    float: _Accepted("a number", _number),
    bool: _Accepted("True or False", _truth),
    str: _Accepted("text", lambda value: _instance(value, str)),
    type(None): _Accepted("None", _nothing),
    Any: None,
    object: None,
}
_WORDS = {"Tensor": "a tensor", "dtype": "a dtype", "type": "a type", "DType": "a dtype"}
