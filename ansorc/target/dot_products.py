"""The dot-product instructions of processors: what each multiplies, and the feature it needs.

An instruction adds to each 32-bit lane of a vector the products of the two or four neighbouring
narrow elements that lie in that lane of two others. All are exact in integers, but for those that
add pairs in int16, which saturate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ansorc.target.machine import Target


@dataclass(frozen=True)
class DotProduct:
    """One instruction at one width; `left` and `right` are names of dtypes."""

    architecture: Literal["x86", "arm"]
    terms: int
    """Products added to each lane."""
    left: str
    right: str
    lanes: int
    """Lanes of the sums, 32 bits each."""
    llvm: str
    """The intrinsic of LLVM, without its `llvm.`."""
    features: tuple[str, ...]
    """Instruction sets, each of which alone has it."""
    adds: bool = True
    """Whether it adds to the sums; the others only multiply."""
    in_pairs: bool = False
    """Whether it adds two products in int16, at whose ends they stay; others add up its results."""

    def is_on(self, target: Target) -> bool:
        """Return whether `target` has the instruction."""
        architecture = "x86" if target.is_x86 else "arm"
        is_there = any(name in target.features for name in self.features)
        return not target.is_gpu and architecture == self.architecture and is_there


_PAIRS_512, _PAIRS = "x86.avx512.pmaddubs.w.512", "x86.avx2.pmadd.ub.sw"
_BUSD, _BF16 = "x86.avx512.vpdpbusd", "x86.avx512bf16.dpbf16ps"
_VNNI, _SHORT_VNNI = ("avx512vnni",), ("avx512vnni", "avxvnni")

DOT_PRODUCTS = (
    DotProduct("x86", 4, "uint8", "int8", 16, f"{_BUSD}.512", _VNNI),
    DotProduct("x86", 4, "uint8", "int8", 8, f"{_BUSD}.256", _SHORT_VNNI),
    DotProduct("x86", 4, "uint8", "int8", 4, f"{_BUSD}.128", _SHORT_VNNI),
    DotProduct(
        "x86", 2, "int16", "int16", 16, "x86.avx512.pmaddw.d.512", ("avx512bw",), adds=False
    ),
    DotProduct("x86", 4, "uint8", "int8", 16, _PAIRS_512, ("avx512bw",), adds=False, in_pairs=True),
    DotProduct("x86", 4, "uint8", "int8", 8, _PAIRS, ("avx2",), adds=False, in_pairs=True),
    DotProduct("x86", 2, "int16", "int16", 8, "x86.avx2.pmadd.wd", ("avx2",), adds=False),
    DotProduct("x86", 2, "int16", "int16", 4, "x86.sse2.pmadd.wd", ("sse3",), adds=False),
    DotProduct("x86", 2, "bfloat16", "bfloat16", 16, f"{_BF16}.512", ("avx512bf16",)),
    DotProduct("x86", 2, "bfloat16", "bfloat16", 8, f"{_BF16}.256", ("avx512bf16",)),
    DotProduct("x86", 2, "bfloat16", "bfloat16", 4, f"{_BF16}.128", ("avx512bf16",)),
    DotProduct("arm", 4, "int8", "int8", 4, "aarch64.neon.sdot.v4i32.v16i8", ("dotprod",)),
    DotProduct("arm", 4, "uint8", "uint8", 4, "aarch64.neon.udot.v4i32.v16i8", ("dotprod",)),
    DotProduct("arm", 4, "uint8", "int8", 4, "aarch64.neon.usdot.v4i32.v16i8", ("i8mm",)),
)
"""All of them; an instruction of two different operands takes them in either order."""


def dot_products(
    target: Target, terms: int, left: str, right: str, *, in_pairs: bool = False
) -> tuple[DotProduct, ...]:
    """Return the instructions of `target` for such operands, the widest first; often none."""
    found = _find(terms, left, right, in_pairs=in_pairs)
    return tuple(product for product in found if product.is_on(target))


def missing_features(
    target: Target, terms: int, left: str, right: str, *, in_pairs: bool = False
) -> tuple[str, ...]:
    """Return the features one of which `target` would need; none where its kind has no such one."""
    architecture = "x86" if target.is_x86 else "arm"
    found = _find(terms, left, right, in_pairs=in_pairs)
    listed = [f for f in found if f.architecture == architecture]
    return tuple(sorted({name for product in listed for name in product.features}))


def _find(terms: int, left: str, right: str, *, in_pairs: bool) -> tuple[DotProduct, ...]:
    """Return the instructions that multiply these types, in either order."""
    return tuple(
        product
        for product in DOT_PRODUCTS
        if product.terms == terms
        and product.in_pairs == in_pairs
        and {product.left, product.right} == {left, right}
    )
