"""What a kernel is called with: `Signature`, read off a function of the IR."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansorc.codegen.llvm_storage import is_parallel, workspace_bytes
from ansorc.errors import BuildError
from ansorc.ir.dtype import DType
from ansorc.ir.node import walk
from ansorc.ir.stmt import Function, Store


@dataclass(frozen=True)
class Param:
    """One array: row-major, densely packed, aligned to its element."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    is_output: bool
    constant: bool = False
    """Holds the same values at every call (a weight)."""

    @property
    def elements(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclass(frozen=True)
class Signature:
    """The C interface of a kernel: its name, its arrays in call order, and what else it needs."""

    name: str
    params: tuple[Param, ...]
    workspace_bytes: int
    parallel: bool
    """Has a parallel loop, so it calls the runtime's thread pool."""
    flops: float | None = None
    """Floating-point operations of one call, if known."""


def signature_of(function: Function, flops: float | None = None) -> Signature:
    """Return the signature of `function`; raise BuildError if C cannot call it by its name."""
    require_c_name(function.name)
    parts = list(walk(function.body))
    stored = {part.buffer.name for part in parts if isinstance(part, Store)}
    params = tuple(
        Param(buffer.name, buffer.shape, buffer.dtype, buffer.name in stored, buffer.constant)
        for buffer in function.params
    )
    parallel = any(is_parallel(part) for part in parts)
    return Signature(function.name, params, workspace_bytes(function), parallel, flops)


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
abs acos asin atan calloc ceil cos cosh erf erff exp expf fabs floor fma fmaf fmax fmin fmod free
log logf malloc memcpy memset memmove pow powf realloc round sin sinf sinh sqrt sqrtf tan tanh
tanhf trunc aligned_alloc exit abort read write
"""
_RESERVED = frozenset(_RESERVED_TEXT.split())
