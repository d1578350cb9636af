"""Numbers that a module keeps in attributes and changes when it runs: a network does not."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from ansorc.errors import GraphError

_Attributes = Mapping[tuple[int, str], object]
"""The visible values of attributes, by the number of a part of a module and a name."""


def trace_without_state(torch: Any, module: Any, trace: Callable[[], Any]) -> Any:
    """Return what `trace` exports of `module`; raise GraphError if another run is another program.

    A counter, a generator of random numbers in an attribute: Python computes with them when the
    module is traced, once. If some of it changes, the module is traced again as it is then.
    """
    if not isinstance(module, torch.nn.Module) or isinstance(module, torch.fx.GraphModule):
        return trace()
    seen: dict[tuple[int, str], object] = {}
    before = _attributes(torch, module)

    def look(*_: Any) -> None:
        seen.update(_attributes(torch, module))

    hook = module.register_forward_hook(look)
    try:
        exported = trace()
    finally:
        hook.remove()
    changed = [key for key, value in seen.items() if before.get(key) != value]
    if not changed:
        return exported
    try:
        other = _trace_again(module, {key: seen[key] for key in changed}, trace)
    except Exception:  # noqa: BLE001 - what the first trace left behind need not be traceable
        return exported
    if _text(exported) != _text(other) or not _are_equal(exported.constants, other.constants):
        raise GraphError(
            f"the module changes its attribute '{changed[0][1]}' when it runs, and then computes "
            "something else; a network computes the same in every run: pass it as an input"
        )
    return exported


def _trace_again(module: Any, values: _Attributes, trace: Callable[[], Any]) -> Any:
    """Return what is exported with such numbers in attributes, and restore the attributes."""
    parts = list(module.modules())
    numbers = {k: v for k, v in values.items() if isinstance(v, (bool, int, float, str))}
    before = {key: getattr(parts[key[0]], key[1], None) for key in numbers}
    try:
        for (part, name), value in numbers.items():
            setattr(parts[part], name, value)
        return trace()
    finally:
        for (part, name), value in before.items():
            setattr(parts[part], name, value)


def _attributes(torch: Any, module: Any) -> _Attributes:
    """Return the attributes of a module and its parts that every module does not have."""
    common = cast("dict[str, object]", vars(torch.nn.Module()))
    return {
        (number, name): _visible_value(value)
        for number, part in enumerate(module.modules())
        for name, value in cast("dict[str, object]", vars(part)).items()
        if name not in common
    }


def _visible_value(value: object) -> object:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return ("state", repr(value.bit_generator.state))
    return None


def _text(exported: Any) -> list[str]:
    return [f"{node.target} {node.args} {node.kwargs}" for node in exported.graph.nodes]


def _are_equal(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether the tensors of two programs are the same, whatever else they hold."""
    return all(
        np.array_equal(np.asarray(value), np.asarray(second[name]))
        for name, value in first.items()
        if name in second and hasattr(value, "numel")
    )
