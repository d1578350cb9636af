"""Hints of a compute for the search: which exist, and how they are written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansorc.errors import LanguageError

Hints = Mapping[str, "str | float | Sequence[str]"]

AXIS_HINTS = (
    "always_unroll_inner", "no_split_at_inner", "no_split_at_outer", "last_split_is_one",
    "simplify_const_tensor_indices",
)  # fmt: skip
"""Hints whose value names axes of the compute."""

KNOWN_HINTS = {
    "always_unroll_inner": "axes whose innermost loops are always unrolled",
    "no_split_at_inner": "axes that are never tiled: all of them is in the innermost tile",
    "no_split_at_outer": "axes that are never tiled: one loop outside of all tiles",
    "last_split_is_one": "axes whose innermost tile has length 1",
    "simplify_const_tensor_indices": "axes that index a small constant: unrolled, nothing is tiled",
    "always_compute_inline": "never store this tensor, unless it is a reduction or an output",
    "no_cache_write": "do not compute this tensor in a local copy",
    "no_cache_read": "do not copy operands into panels for this tensor",
    "task_scheduler_tag": "tasks of one tag are alike",
    "flop": "floating point operations to count, instead of those of the body",
}
"""The hints that the search knows, and what they say."""


def as_hints(given: Hints) -> tuple[tuple[str, str], ...]:
    """Return `given` sorted by name, lists joined by commas; raise LanguageError on unknown ones.

    A name with a dot in it is a hint of somebody's own rules and always allowed.
    """
    for name in given:
        if name not in KNOWN_HINTS and "." not in name:
            raise LanguageError(f"there is no hint '{name}'; known are {', '.join(KNOWN_HINTS)}")
    return tuple(sorted((name, _text(value)) for name, value in given.items()))


def hint_axes(hints: tuple[tuple[str, str], ...], name: str) -> tuple[str, ...]:
    """Return the axes, or tensors, that the hint `name` lists; none without that hint."""
    value = dict(hints).get(name, "")
    return tuple(word.strip() for word in value.split(",") if word.strip())


def _text(value: str | float | Sequence[str]) -> str:
    if isinstance(value, (str, int, float)):
        return str(value)
    return ",".join(value)
