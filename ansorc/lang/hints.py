"""Hints of a compute for the search: the known ones, and their normal form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansorc.errors import LanguageError
from ansorc.ir.dim import Size
from ansorc.lang.literal import as_list, as_number, short_text

Hints = Mapping[str, "str | float | Size | Sequence[str]"]

AXIS_HINTS = (
    "always_unroll_inner", "no_split_at_inner", "no_split_at_outer", "last_split_is_one",
    "simplify_const_tensor_indices",
)  # fmt: skip
"""Hints whose value names axes of the compute."""

FITS = "pairs_fit_int16"
"""The hint of sums of products of uint8 and int8, of which each two stay within int16."""
KNOWN_HINTS = {
    "always_unroll_inner": "axes whose innermost loops are always unrolled",
    "no_split_at_inner": "axes that are never tiled: all of them is in the innermost tile",
    "no_split_at_outer": "axes that are never tiled: one loop outside of all tiles",
    "last_split_is_one": "axes whose innermost tile has length 1",
    "simplify_const_tensor_indices": "axes that index a small constant: unrolled, nothing is tiled",
    "always_compute_inline": "never store this tensor, unless it is a reduction or an output",
    "never_compute_inline": "never compute this tensor anew at each of its uses",
    "no_cache_write": "do not compute this tensor in a local copy",
    "no_cache_read": "do not copy operands into panels for this tensor",
    FITS: "sums of two neighbouring products of bytes never leave int16",
    "task_scheduler_tag": "tasks of one tag are alike",
    "flop": "floating point operations to count, instead of those of the body",
}
"""The hints that the search knows, with their meaning."""


def as_hints(given: Hints) -> tuple[tuple[str, str], ...]:
    """Return `given` sorted by name, lists joined by commas; raise LanguageError on unknown ones.

    A name with a dot is a hint for user-defined rules and always allowed.
    """
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LanguageError(f"hints are a dict of names and values, not {short_text(given)}")
    for name in given:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LanguageError(f"the name of a hint is text, not {short_text(name)}")
        if name not in KNOWN_HINTS and "." not in name:
            raise LanguageError(f"unknown hint '{name}'; known are {', '.join(KNOWN_HINTS)}")
    return tuple(sorted((name, _text(name, value)) for name, value in given.items()))


def hint_axes(hints: tuple[tuple[str, str], ...], name: str) -> tuple[str, ...]:
    """Return the axes or tensors that the hint `name` lists; none if it is not given."""
    value = dict(hints).get(name, "")
    return tuple(word.strip() for word in value.split(",") if word.strip())


def _text(name: str, value: str | float | Size | Sequence[str]) -> str:
    number = as_number(value)
    if number is not None:
        return str(number)
    if isinstance(value, (str, Size)):
        return str(value)
    names = as_list(value)
    if names is None or not all(isinstance(name_, str) for name_ in names):
        raise LanguageError(
            f"the hint {name} is {short_text(value)}; give text, a number or a list of names"
        )
    return ",".join(names)
