"""Operators of ONNX files that a user of ansorc defines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansorc.errors import GraphError
from ansorc.graph.graph_operator import GraphOperator
from ansorc.lang.literal import short_text
from ansorc.lang.tensor import Tensor

_REGISTERED: dict[str, GraphOperator] = {}


def register_onnx_op(name: str, definition: Callable[..., Tensor | Sequence[Tensor]]) -> None:
    """Have `ac.from_onnx` import nodes of the operator `name` of this process by `definition`.

    `name` is "domain::Op", or "Op" for one of ONNX's own. `definition` is called with the node's
    inputs as tensors of the DSL, then with its attributes as keywords (numbers, text, and lists of
    them), and returns one tensor for each output. A definition of that name is replaced, and so is
    the one that ansorc has. Raise GraphError for what is no name, and for what cannot be called.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GraphError(f"{short_text(name)} is no name of an operator; a name is text")
    domain, _, operator = name.rpartition("::")
    if not operator or operator.strip() != operator or "::" in domain or name.startswith("::"):
        raise GraphError(f"'{name}' is no name of an operator; it is like 'com.example::Operator'")
    if not callable(definition):
        raise GraphError(
            f"{short_text(definition)} cannot be called: it defines no operator '{name}'"
        )
    _REGISTERED[_plain(name)] = GraphOperator(_plain(name), definition)


def unregister_onnx_op(name: str) -> None:
    """Forget the registered operator `name`; raise GraphError if there is none."""
    is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_text or _plain(name) not in _REGISTERED:
        known = ", ".join(_REGISTERED) or "none at all"
        raise GraphError(f"there is no registered operator '{name}'; registered are {known}")
    del _REGISTERED[_plain(name)]


def find_registered(name: str) -> GraphOperator | None:
    """Return the operator that is registered as `name`."""
    return _REGISTERED.get(name)


def _plain(name: str) -> str:
    return name.removeprefix("ai.onnx::")
