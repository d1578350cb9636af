"""A graph as text: one line for each input, constant and node, and one for the outputs.

    graph "my network"
    input x: float32[1, 3, 8, 8]
    constant w: float32[4, 3, 3, 3] sha256 2c26b46b68ffc68f
    y = conv2d(x, w) {"padding": [1, 1, 1, 1]} as float16  # Conv 'first' (opset 17)
    return y

A name that is no identifier is a JSON string. The values of constants are not in the text, but what
they hash to. A line that starts with # is a comment; what follows a node is where it comes from.
`as float16`: between kernels the results, float32, are kept in this type.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ansorc.errors import AnsorcError, ParseError
from ansorc.graph.graph_operator import Attributes, attributes_of, attributes_text
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import dtype

STORAGE = ("float16", "bfloat16")
"""The narrow floats that float32 results may be kept in between kernels."""
_WORDS = ("constant", "graph", "input", "return")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"(\w+)\[([0-9, ]*)\]")
_DIGEST = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class NodeText:
    """The parsed line of a node."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes
    source: str
    storage: str = ""


@dataclass(frozen=True)
class GraphText:
    """The parsed text of a graph."""

    name: str
    inputs: Mapping[str, TensorType]
    constants: Mapping[str, tuple[TensorType, str]]
    """Their types, and their digests."""
    nodes: tuple[NodeText, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"graph {_quote(self.name)}"]
        lines += [f"input {_quote(name)}: {kind}" for name, kind in self.inputs.items()]
        lines += [
            f"constant {_quote(name)}: {kind} sha256 {digest}"
            for name, (kind, digest) in self.constants.items()
        ]
        lines += map(_node_line, self.nodes)
        return "\n".join([*lines, f"return {_list(self.outputs)}"]) + "\n"


def digest_of(array: Array) -> str:
    """Return the digest that stands for the values of a constant in the text."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.sha256(flat.data).hexdigest()[:16]


def parse_graph_text(text: str) -> GraphText:
    """Return the GraphText that `str` wrote; raise ParseError, with line and column, for others."""
    lines = [_GraphLine(number, line_text) for number, line_text in enumerate(text.split("\n"))]
    lines = [line for line in lines if not line.is_empty]
    name, outputs = "", None
    inputs: dict[str, TensorType] = {}
    constants: dict[str, tuple[TensorType, str]] = {}
    nodes: list[NodeText] = []
    if not lines or not lines[0].accept("graph"):
        raise (lines or [_GraphLine(0, "")])[0].error("a graph begins with 'graph' and its name")
    name = lines[0].name()
    lines[0].end()
    for line in lines[1:]:
        if outputs is not None:
            raise line.error("nothing may follow the line 'return …'")
        if line.accept("input"):
            key, inputs[key] = line.declaration({*inputs, *constants})
        elif line.accept("constant"):
            key, kind = line.declaration({*inputs, *constants})
            line.require("sha256")
            constants[key] = (kind, line.digest())
        elif line.accept("return"):
            outputs = line.names()
        else:
            nodes.append(line.node())
        line.end()
    if outputs is None:
        raise lines[-1].error("the graph has no line 'return …' that names its outputs")
    return GraphText(name, inputs, constants, tuple(nodes), outputs)


class _GraphLine:
    """One line, read from left to right."""

    def __init__(self, number: int, text: str) -> None:
        self._number, self._text = number, text
        self._at = len(text) - len(text.lstrip(" "))

    @property
    def is_empty(self) -> bool:
        """Whether the rest of the line is blank or a comment."""
        return self._text[self._at :].strip(" ") == "" or self._text[self._at] == "#"

    def error(self, reason: str) -> ParseError:
        """Return the error that shows the line, with a caret below the place that is read."""
        caret = f"{' ' * self._at}^"
        return ParseError(f"line {self._number + 1}: {reason}\n    {self._text}\n    {caret}")

    def accept(self, word: str) -> bool:
        """Read `word` if it is next; return whether it was."""
        end = self._at + len(word)
        is_next = self._text.startswith(word, self._at)
        if is_next and word[-1].isalnum():
            is_next = _NAME.match(self._text[end : end + 1]) is None
        if is_next:
            self._advance(end)
        return is_next

    def require(self, word: str) -> None:
        """Read `word`, which must be next."""
        if not self.accept(word):
            raise self.error(f"expected '{word}'")

    def end(self) -> None:
        """Refuse what is left of the line."""
        if self._at < len(self._text):
            raise self.error("expected the end of the line")

    def name(self) -> str:
        """Read a name and return it."""
        match = _NAME.match(self._text, self._at)
        if match and match[0] not in _WORDS:
            self._advance(match.end())
            return match[0]
        value = self._json('"', "a name, or a JSON string")
        return cast("str", value)

    def names(self) -> tuple[str, ...]:
        """Read one or more names between commas and return them."""
        names = [self.name()]
        while self.accept(","):
            names.append(self.name())
        return tuple(names)

    def declaration(self, taken: set[str]) -> tuple[str, TensorType]:
        """Read a name that is not `taken`, and its type; return both."""
        start = self._at
        name = self.name()
        if name in taken:
            self._at = start
            raise self.error(f"there are two tensors '{name}'")
        self.require(":")
        match = _TYPE.match(self._text, self._at)
        try:
            if match is None:
                raise self.error("expected a type, like float32[2, 3]")
            extents = [int(extent) for extent in match[2].split(",")] if match[2].strip() else []
            kind = TensorType(dtype(match[1]), tuple(extents))
        except (AnsorcError, ValueError) as error:
            raise error if isinstance(error, ParseError) else self.error(str(error)) from None
        self._advance(match.end())
        return name, kind

    def digest(self) -> str:
        """Read a digest and return it."""
        match = _DIGEST.match(self._text, self._at)
        if match is None:
            raise self.error("expected 16 hexadecimal digits")
        self._advance(match.end())
        return match[0]

    def node(self) -> NodeText:
        """Read a node, and the comment that says where it comes from; return them."""
        outputs = self.names()
        self.require("=")
        operator = self.name()
        self.require("(")
        inputs: tuple[str, ...] = ()
        if not self.accept(")"):
            inputs = self.names()
            self.require(")")
        attributes: Attributes = ()
        if self._text.startswith("{", self._at):
            attributes = attributes_of(self._json("{", "attributes"))
        storage = self._storage()
        return NodeText(operator, inputs, outputs, attributes, self._source(), storage)

    def _storage(self) -> str:
        if not self.accept("as"):
            return ""
        for storage in STORAGE:
            if self.accept(storage):
                return storage
        raise self.error(f"expected {' or '.join(STORAGE)}")

    def _source(self) -> str:
        if not self.accept("#"):
            return ""
        if self._text.startswith('"', self._at):
            return cast("str", self._json('"', "text"))
        comment = self._text[self._at :]
        self._at = len(self._text)
        return comment

    def _json(self, begin: str, what: str) -> Any:
        if not self._text.startswith(begin, self._at):
            raise self.error(f"expected {what}")
        try:
            value, end = json.JSONDecoder().raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            self._at = error.pos
            raise self.error(f"expected {what}: {error.msg}") from None
        self._advance(end)
        return value

    def _advance(self, end: int) -> None:
        """Go on behind `end`, and behind the blanks that follow it."""
        self._at = len(self._text) - len(self._text[end:].lstrip(" "))


def _node_line(node: NodeText) -> str:
    line = f"{_list(node.outputs)} = {_quote(node.operator)}({_list(node.inputs)})"
    if node.attributes:
        line += f" {attributes_text(node.attributes)}"
    if node.storage:
        line += f" as {node.storage}"
    if not node.source:
        return line
    is_plain = node.source.isprintable() and node.source.strip(" ") == node.source
    plain = is_plain and not node.source.startswith('"')
    return f"{line}  # {node.source if plain else json.dumps(node.source)}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_quote, names))


def _quote(name: str) -> str:
    is_plain = _NAME.fullmatch(name) is not None and name not in _WORDS
    return name if is_plain else json.dumps(name)
