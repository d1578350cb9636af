"""Names in C: which ones a kernel may have, and what its arrays and functions are called there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansorc.errors import BuildError

_NAMES_TAKEN = ("workspace", "threads")


def c_names(names: Sequence[str], reserved: Sequence[str] = _NAMES_TAKEN) -> list[str]:
    """Return an identifier of C for each name: unique, also in upper case, no word of C.

    None is one of `reserved`.
    """
    taken = {name.upper() for name in reserved}
    found: list[str] = []
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "array"
        base = f"p_{base}" if base[0].isdigit() else f"{base}_" if is_reserved(base) else base
        unique, number = base, 2
        while unique.upper() in taken:
            unique, number = f"{base}_{number}", number + 1
        taken.add(unique.upper())
        found.append(unique)
    return found


def packer_name(kernel: str, c_name: str) -> str:
    """Return the name of the C function that packs the array `c_name` for `kernel`."""
    return f"{kernel}_pack_{c_name}"


def require_c_name(name: str) -> None:
    """Raise BuildError unless a function of C and C++ may be called `name`."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise BuildError(
            f"a kernel cannot be called '{name}': its name becomes a C function, so it must be "
            "letters, digits and underscores, a letter first; give another name"
        )
    if is_reserved(name) or name.lower().startswith("ansorc_"):
        raise BuildError(
            f"a kernel cannot be called '{name}': C or the runtime uses that; give another name"
        )


def is_reserved(name: str) -> bool:
    """Whether `name` is a word of C or C++, or of the C library that kernels are linked with."""
    return name in _RESERVED


_RESERVED_TEXT = """
alignas alignof asm auto bool break case catch char class const constexpr const_cast continue
decltype default delete do double dynamic_cast else enum explicit export extern false float for
friend goto if inline int int8_t int16_t int32_t int64_t long main mutable namespace new noexcept
nullptr operator private protected public register reinterpret_cast requires restrict return short
signed sizeof size_t static static_assert static_cast struct switch template this thread_local
throw true try typedef typeid typename typeof uint8_t uint16_t uint32_t uint64_t union unsigned
using virtual void volatile wchar_t while concept co_await co_return co_yield char8_t char16_t
char32_t and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq
abs acos asin atan calloc ceil cos cosh erf erff exp exp2 expf expm1 fabs floor fma fmaf fmax fmin
fmod free log log1p log2 logf malloc memcpy memset memmove pow powf realloc round sin sinf sinh
sqrt sqrtf tan tanh tanhf trunc aligned_alloc exit abort read write
"""
_RESERVED = frozenset(_RESERVED_TEXT.split())
