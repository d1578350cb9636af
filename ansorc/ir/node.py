"""Declare IR nodes, and walk or rebuild them without per-class boilerplate."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from operator import is_
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform, get_args, get_type_hints

N = TypeVar("N", bound="Node")


_LONGEST_REPR = 100


@dataclass(frozen=True, repr=False)
class Node:
    """The root of every IR class; nodes are immutable and compared by structure.

    `str` is the text of the language, which can be parsed; `repr` is one line that begins like it;
    `structure_text` has all fields.
    """

    __slots__ = ("_hash", "_nodes")
    """Caches of the hash and of `walk`; neither compared nor pickled."""
    is_walked_often: ClassVar[bool] = False
    """Whether the result of `walk` is worth the memory of a cache."""

    def __str__(self) -> str:
        # the printer imports the classes of nodes
        node_text = cast("Callable[[Node], str]", import_module("ansorc.ir.printer").node_text)
        return node_text(self)

    def __repr__(self) -> str:
        first, _, rest = str(self).partition("\n")
        is_all = not rest and len(first) <= _LONGEST_REPR
        return f"<{type(self).__name__} {first if is_all else first[:_LONGEST_REPR] + ' …'}>"

    def _repr_pretty_(self, printer: Any, is_cycle: bool) -> None:  # noqa: FBT001
        """Print the text in IPython, which calls this for the result of a cell."""
        del is_cycle
        printer.text(str(self))


@dataclass_transform(frozen_default=True)
def node(cls: type[N]) -> type[N]:
    """Make `cls` an IR node: a frozen dataclass with slots."""
    made = dataclass(frozen=True, slots=True, repr=False)(cls)
    of_fields = made.__hash__

    def known_hash(self: N) -> int:
        try:
            return self._hash  # pyright: ignore[reportPrivateUsage]
        except AttributeError:
            object.__setattr__(self, "_hash", of_fields(self))
            return self._hash  # pyright: ignore[reportPrivateUsage]

    made.__hash__ = known_hash
    return made


def structure_text(value: object) -> str:
    """Return all fields of a node, or of a dataclass or tuple with nodes in it, as text.

    Different values have different texts; 0.0 and -0.0 differ, too.
    """
    if isinstance(value, tuple):
        items = [structure_text(item) for item in cast("tuple[object, ...]", value)]
        return f"({', '.join(items)}{',' * (len(items) == 1)})"
    names = _list_shown_fields(type(value))
    if names is None:
        return repr(value)
    parts = [f"{name}={structure_text(getattr(value, name))}" for name in names]
    return f"{type(value).__qualname__}({', '.join(parts)})"


@cache
def _list_shown_fields(kind: type) -> tuple[str, ...] | None:
    """Return the fields that a dataclass shows; None for another class."""
    return tuple(field.name for field in fields(kind) if field.repr) if is_dataclass(kind) else None


def children(parent: Node) -> list[Node]:
    """Return the nodes directly below `parent`, in field order."""
    nodes: list[Node] = []
    for name in _node_fields(type(parent)):
        value = getattr(parent, name)
        if isinstance(value, tuple):
            nodes.extend(cast(tuple[Node, ...], value))
        elif value is not None:
            nodes.append(value)
    return nodes


def walk(root: Node) -> Iterator[Node]:
    """Yield `root` and every node below it, parents first."""
    return iter(_nodes(root)) if root.is_walked_often else _walk(root)


def walk_distinct(root: Node) -> Iterator[Node]:
    """Yield `root` and every node below it, parents first, a node that is shared once.

    A value that is used twice by each of 40 others is walked 41 times here, by `walk` 2^40 times.
    """
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += reversed(children(node))


def walk_children_first(root: Node, known: Container[int] = ()) -> Iterator[Node]:
    """Yield each node below `root` and `root` itself once, children before parents.

    Nodes whose `id` is in `known` are left out, with what is below them.
    """
    waiting, done = [(root, False)], set[int]()
    while waiting:
        node, is_ready = waiting.pop()
        if id(node) in done or id(node) in known:
            continue
        if is_ready:
            done.add(id(node))
            yield node
        else:
            waiting.append((node, True))
            waiting += [(child, False) for child in children(node)]


def _walk(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        top = stack.pop()
        if top.is_walked_often:
            yield from _nodes(top)
        else:
            yield top
            _push(top, stack)


def _nodes(root: Node) -> tuple[Node, ...]:
    try:
        return root._nodes  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    except AttributeError:
        below, stack = list[Node](), [root]
        while stack:
            top = stack.pop()
            below.append(top)
            _push(top, stack)
        nodes = tuple(below)
        object.__setattr__(root, "_nodes", nodes)
        return nodes


def _push(top: Node, stack: list[Node]) -> None:
    """Push the children of `top` on the stack, the first child last."""
    for name in _list_fields_reversed(type(top)):
        value = getattr(top, name)
        if isinstance(value, tuple):
            stack.extend(reversed(cast(tuple[Node, ...], value)))
        elif value is not None:
            stack.append(value)


def map_children(parent: N, function: Callable[[Node], Node]) -> N:
    """Return `parent` with its children mapped; `parent` itself if none changed."""
    changed: dict[str, object] = {}
    for name in _node_fields(type(parent)):
        old = getattr(parent, name)
        if isinstance(old, tuple):
            new = tuple(map(function, cast(tuple[Node, ...], old)))
            if not all(map(is_, new, cast(tuple[Node, ...], old))):
                changed[name] = new
        elif old is not None and (new := function(old)) is not old:
            changed[name] = new
    if not changed:
        return parent
    names = _field_names(type(parent))
    return type(parent)(*(changed[n] if n in changed else getattr(parent, n) for n in names))


def rewrite(root: N, rule: Callable[[Node], Node | None]) -> N:
    """Return `root` with `rule` applied to every node, children first; `None` keeps a node.

    A rule must turn expressions into expressions and statements into statements.
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
    """Return the fields whose type is a node, a node or None, or a tuple of nodes."""
    hints = get_type_hints(kind)
    return tuple(name for name in _field_names(kind) if _holds_nodes(hints[name]))


@cache
def _list_fields_reversed(kind: type[Node]) -> tuple[str, ...]:
    return _node_fields(kind)[::-1]


def _holds_nodes(hint: object) -> bool:
    if isinstance(hint, type) and issubclass(hint, Node):
        return True
    return any(_holds_nodes(part) for part in get_args(hint))
