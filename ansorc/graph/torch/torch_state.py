"""The state of PyTorch and of random numbers, which importing a module must leave as it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ansorc.errors import GraphError
from ansorc.graph.torch.model import torch_library


@contextmanager
def keep_state() -> Generator[None]:
    """Leave the state of PyTorch and of random numbers as it is, whatever is done inside.

    A module that is traced runs once, in Python: what it does to the state of the process it would
    do once, and not in every run. Raise GraphError if it changes some of it and nothing else fails.
    """
    torch = torch_library()
    before = [part.read(torch) for part in _PARTS]
    try:
        yield
        changed = [part.words for part, _ in _changes(torch, before)]
        if changed:
            raise GraphError(
                f"it changes {' and '.join(changed)} when it runs, which a network does not: "
                "draw random numbers before and pass them as inputs, and set states outside"
            )
    finally:
        for part, value in _changes(torch, before):
            part.write(torch, value)


@dataclass(frozen=True)
class _Part:
    """A part of the state."""

    words: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], object]


def _changes(torch: Any, before: list[Any]) -> list[tuple[_Part, Any]]:
    """Return the parts that have changed, with their old values."""
    pairs = zip(_PARTS, before, strict=True)
    return [(part, value) for part, value in pairs if not _are_equal(part.read(torch), value)]


def _are_equal(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        items = cast("dict[object, Any]", first).items()
        return all(_are_equal(value, second[key]) for key, value in items)
    return bool((first == second).all()) if hasattr(first, "shape") else bool(first == second)


_DEVICES = ("cpu", "cuda")


def _read_autocast(torch: Any) -> Any:
    kinds = [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _DEVICES]
    return (*kinds, torch.is_autocast_cache_enabled())


def _write_autocast(torch: Any, value: Any) -> None:
    for device, (is_enabled, kind) in zip(_DEVICES, value[:-1], strict=True):
        torch.set_autocast_enabled(device, is_enabled)
        torch.set_autocast_dtype(device, kind)
    torch.set_autocast_cache_enabled(value[-1])


def _read_gradients(torch: Any) -> Any:
    return torch.is_grad_enabled()


def _write_gradients(torch: Any, value: Any) -> None:
    torch.set_grad_enabled(value)


def _read_dtype(torch: Any) -> Any:
    return torch.get_default_dtype()


def _write_dtype(torch: Any, value: Any) -> None:
    torch.set_default_dtype(value)


def _read_determinism(torch: Any) -> Any:
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), warns


def _write_determinism(torch: Any, value: Any) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _read_random(torch: Any) -> Any:
    return torch.get_rng_state()


def _write_random(torch: Any, value: Any) -> None:
    torch.set_rng_state(value)


def _read_python_random(_: Any) -> Any:
    return random.getstate()


def _write_python_random(_: Any, value: Any) -> None:
    random.setstate(value)


def _read_numpy_random(_: Any) -> Any:
    return np.random.get_state(legacy=False)


def _write_numpy_random(_: Any, value: Any) -> None:
    np.random.set_state(value)


def _read_levels(torch: Any) -> Any:
    return torch._C._functorch.get_dynamic_layer_stack_depth()


def _write_levels(torch: Any, value: Any) -> None:
    torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(value)


def _read_dual_level(torch: Any) -> Any:
    """The level as Python counts it, and whether the library has one: there may be one alone."""
    try:
        level = torch._C._enter_dual_level()
        torch._C._exit_dual_level(level=level)
        is_open = False
    except RuntimeError:
        is_open = True
    return torch.autograd.forward_ad._current_level, is_open


def _write_dual_level(torch: Any, value: Any) -> None:
    """Leave the level that was entered; else no other can be entered in this process."""
    level, is_open = value
    torch.autograd.forward_ad._current_level = level
    if not is_open:
        torch._C._exit_dual_level(level=0)


_PARTS = (
    _Part("the levels of torch.func", _read_levels, _write_levels),
    _Part("the level of forward differentiation", _read_dual_level, _write_dual_level),
    _Part("whether gradients are enabled", _read_gradients, _write_gradients),
    _Part("autocast", _read_autocast, _write_autocast),
    _Part("the default dtype", _read_dtype, _write_dtype),
    _Part("deterministic mode", _read_determinism, _write_determinism),
    _Part("torch's random numbers", _read_random, _write_random),
    _Part("Python's random numbers", _read_python_random, _write_python_random),
    _Part("NumPy's random numbers", _read_numpy_random, _write_numpy_random),
)
