"""Declare IR nodes, and walk or rebuild them without per-class boilerplate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import TypeGuard, TypeVar, cast, dataclass_transform, get_args, get_type_hints

N = TypeVar("N", bound="Node")


@dataclass(frozen=True)
class Node:
    """The root of every IR class; nodes are immutable and compared by structure."""

    __slots__ = ("_hash",)
    """The hash once it is known; neither compared nor pickled."""


@dataclass_transform(frozen_default=True)
def node(cls: type[N]) -> type[N]:
    """Make `cls` an IR node: a frozen dataclass with slots."""
    made = dataclass(frozen=True, slots=True)(cls)
    of_fields = made.__hash__

    def known_hash(self: N) -> int:
        try:
            return self._hash  # pyright: ignore[reportPrivateUsage]
        except AttributeError:
            object.__setattr__(self, "_hash", of_fields(self))
            return self._hash  # pyright: ignore[reportPrivateUsage]

    made.__hash__ = known_hash
    return made


def children(parent: Node) -> list[Node]:
    """Return the nodes directly below `parent`, in field order."""
    found: list[Node] = []
    for name in _node_fields(type(parent)):
        value = getattr(parent, name)
        if isinstance(value, tuple):
            found.extend(cast(tuple[Node, ...], value))
        elif value is not None:
            found.append(value)
    return found


def walk(root: Node) -> Iterator[Node]:
    """Yield `root` and every node below it, parents first."""
    stack = [root]
    while stack:
        top = stack.pop()
        yield top
        # what `children` does, without its list: the passes spend a tenth of their time here
        for name in _reversed_fields(type(top)):
            value = getattr(top, name)
            if isinstance(value, tuple):
                stack.extend(reversed(cast(tuple[Node, ...], value)))
            elif value is not None:
                stack.append(value)


def map_children(parent: N, function: Callable[[Node], Node]) -> N:
    """Rebuild `parent` over its mapped children; share it when none changed."""
    values: list[object] = []
    changed = False
    for name in _field_names(type(parent)):
        old = getattr(parent, name)
        new = _map_value(old, function)
        changed = changed or new is not old
        values.append(new)
    return type(parent)(*values) if changed else parent


def rewrite(root: N, rule: Callable[[Node], Node | None]) -> N:
    """Apply `rule` to every node, children first; `None` keeps a node.

    A rule turns expressions into expressions and statements into statements.
    """
    done: dict[int, Node] = {}

    def visit(old: Node) -> Node:
        if (new := done.get(id(old))) is None:
            rebuilt = map_children(old, visit)
            replacement = rule(rebuilt)
            new = done[id(old)] = rebuilt if replacement is None else replacement
        return new

    return cast(N, visit(root))


@cache
def _field_names(kind: type[Node]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _node_fields(kind: type[Node]) -> tuple[str, ...]:
    """The fields whose type is a node, perhaps None, or a tuple of nodes."""
    hints = get_type_hints(kind)
    return tuple(name for name in _field_names(kind) if _holds_nodes(hints[name]))


@cache
def _reversed_fields(kind: type[Node]) -> tuple[str, ...]:
    return _node_fields(kind)[::-1]


def _holds_nodes(hint: object) -> bool:
    if isinstance(hint, type) and issubclass(hint, Node):
        return True
    return any(_holds_nodes(part) for part in get_args(hint))


def _map_value(old: object, function: Callable[[Node], Node]) -> object:
    if isinstance(old, Node):
        return function(old)
    if not _is_tuple(old) or not old or not isinstance(old[0], Node):
        return old
    mapped = tuple(function(item) if isinstance(item, Node) else item for item in old)
    changed = any(new is not item for new, item in zip(mapped, old, strict=True))
    return mapped if changed else old


def _is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)
