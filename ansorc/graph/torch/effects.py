"""Effects of an exported node besides its results, from PyTorch's schemas and tags."""

from __future__ import annotations

from typing import Any

from ansorc.errors import GraphError

_ASSERTIONS = (
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
)
_SETTLED = ("aten._assert_tensor_metadata.default",)
"""Checks that give the same in every run: they were done when the module was exported."""
_RANGES = ("aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default")
_MODES, _SHARES = ("train", "training"), ("dropout", "dropout_p")
"""Arguments of operators that may be random: in training only, or if a share is dropped."""


def is_assertion(node: Any) -> bool:
    """Return whether the node raises unless its first argument is true."""
    return str(node.target) in _ASSERTIONS


def require_no_effect(torch: Any, node: Any) -> None:
    """Raise GraphError if a node does more than to compute results from what it reads.

    That is what its schema says that it writes, what draws random numbers by PyTorch's tag, and
    what returns nothing, so that it can only be meant for an effect. Assertions are let through.
    """
    target = node.target
    name = str(target)
    schema = getattr(target, "_schema", None)
    if is_assertion(node) or name in _SETTLED or (name in _RANGES and not node.all_input_nodes):
        return
    require_no_draw(torch, node)
    if schema is None:
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise GraphError(
                f"{name} '{node.name}': ansorc does not know this higher-order operator; write it "
                "with plain operators, or cut the module before it"
            )
        return
    if schema.is_mutable:
        raise GraphError(f"{name} '{node.name}': it writes what it is given, which ansorc does not")
    if not schema.returns:
        raise GraphError(f"{name} '{node.name}': it returns nothing; ansorc has no such effects")


def require_no_draw(torch: Any, node: Any) -> None:
    """Raise GraphError if a node draws random numbers."""
    target, tags = node.target, getattr(node.target, "tags", ())
    schema = getattr(target, "_schema", None)
    if torch.Tag.nondeterministic_seeded in tags and not _is_quiet(node, schema):
        raise GraphError(
            f"{target} '{node.name}': it is random; ansorc computes the same in every run: call "
            "module.eval() before, or draw the numbers outside and pass them as an input"
        )


def _is_quiet(node: Any, schema: Any) -> bool:
    """Return whether an operator that may be random draws nothing with these arguments."""
    if schema is None:
        return False
    given = dict(zip((argument.name for argument in schema.arguments), node.args, strict=False))
    given = {**given, **node.kwargs}
    values = {
        argument.name: given.get(
            argument.name, argument.default_value if argument.has_default_value() else None
        )
        for argument in schema.arguments
    }
    is_training = any(values.get(name) for name in _MODES)
    if any(name in values for name in _MODES) and not is_training:
        return True
    shares = [values[name] for name in (*_SHARES, "p") if name in values]
    is_named = any(name in values for name in _SHARES) or is_training
    return is_named and shares != [] and not any(shares)
