"""Writes to memory that a tensor has several times, which a traced graph does not do right."""

from __future__ import annotations

from typing import Any, cast

from ansorc.errors import GraphError
from ansorc.graph.torch.subclasses import has_parts


def require_plain_writes(torch: Any, exported: Any) -> None:
    """Raise GraphError if an exported program writes memory that a tensor has several times.

    An expanded tensor is such a one. PyTorch makes of a write to a view a new value of what it is a
    view of, and puts the elements of an expanded one together by adding them. What is written is
    found by a run on tensors without memory; nothing is run if the program writes nothing.
    """
    if not any(
        _is_write(node) for part in exported.graph_module.modules() for node in _nodes(part)
    ):
        return
    mode = torch._subclasses.fake_tensor.FakeTensorMode(
        allow_non_fake_inputs=True,
        shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv(),
        static_shapes=True,
    )
    with torch.no_grad(), mode, _refuse_writes(torch):
        inputs = [node for node in exported.graph.nodes if node.op == "placeholder"]
        values = [_without_memory(torch, node.meta.get("val")) for node in inputs]
        try:
            torch.fx.Interpreter(exported.graph_module).run(*values)
        except GraphError:
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise GraphError(f"PyTorch cannot tell what the module writes ({words})") from error


def _nodes(module: Any) -> list[Any]:
    graph = getattr(module, "graph", None)
    return [] if graph is None else list(graph.nodes)


def _is_write(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and bool(schema.is_mutable)


def _without_memory(torch: Any, value: Any) -> Any:
    """Return a tensor like `value`, of parts if it has such, or the number that it stands for."""
    if has_parts(value):
        names, context = value.__tensor_flatten__()
        parts = {name: _without_memory(torch, getattr(value, name)) for name in names}
        kind: Any = cast("type[object]", type(value))
        return kind.__tensor_unflatten__(parts, context, value.shape, value.stride())
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype)
    return getattr(getattr(value, "node", None), "hint", value)


def _refuse_writes(torch: Any) -> Any:
    """Return a mode that refuses writes to memory that a tensor has several times."""
    repeated: dict[int, Any] = {}

    class RefusedWrites(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            arguments = function._schema.arguments
            given = dict(zip((argument.name for argument in arguments), args, strict=False))
            given |= kwargs or {}
            for argument in arguments:
                is_written = argument.alias_info is not None and argument.alias_info.is_write
                for tensor in _tensors(torch, given.get(argument.name)) if is_written else ():
                    if _storage_of(tensor) in repeated or _has_repeated(tensor):
                        raise GraphError(
                            f"{function} writes memory that a tensor has several times, as an "
                            "expanded one does: write a copy (.clone()) of it"
                        )
            results = function(*args, **(kwargs or {}))
            for tensor in _tensors(torch, (args, results)):
                if _has_repeated(tensor):
                    repeated[_storage_of(tensor)] = tensor  # held, so that no other has its number
            return results

    return RefusedWrites()


def _tensors(torch: Any, value: Any) -> list[Any]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _storage_of(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _has_repeated(tensor: Any) -> bool:
    """Return whether several elements may lie in one place."""
    reach = 0
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    for stride, extent in sorted((s, n) for s, n in pairs if n > 1):
        if stride <= reach:
            return True
        reach += (extent - 1) * stride
    return False
