"""Dimensions whose size the caller of a program gives, and sizes that follow from them.

A size is a polynomial of dimensions with integer coefficients, and of quotients of such: `2*n + 1`,
`b*s`, `h // 4`. What is equal is written in one way, so that sizes are compared by structure.

A dimension of a multiple of 32 is 32 times a whole number. That number is what the polynomials and
the programs count with, so that `h // 8` is exact, and its parts need no tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NoReturn, TypeAlias, TypeGuard

from ansorc.errors import LanguageError, ParseError

Interval: TypeAlias = tuple[int, int]
MARK = "dim."
"""The prefix of the variables of dimensions in programs. No axis has such a name."""


@dataclass(frozen=True, order=True)
class Dim:
    """A dimension: `low` to `high` elements, both included, and a multiple of `multiple`.

    `low` and `high` are multiples of it, too.
    """

    name: str
    low: int
    high: int
    multiple: int = 1

    @property
    def variable(self) -> str:
        """The variable of programs that holds how many multiples there are."""
        return MARK + self.name

    @property
    def bounds(self) -> Interval:
        """The least and the largest value of the variable."""
        return self.low // self.multiple, self.high // self.multiple

    def count(self, size: int) -> int:
        """Return the value of the variable for a size that `includes` accepts."""
        return size // self.multiple

    def includes(self, size: int) -> bool:
        """Return whether the dimension may have `size` elements."""
        return self.low <= size <= self.high and size % self.multiple == 0

    def __str__(self) -> str:
        """Return `n: 1..4096`, and ` by 32` for multiples."""
        by = f" by {self.multiple}" if self.multiple > 1 else ""
        return f"{self.name}: {self.low}..{self.high}{by}"


@dataclass(frozen=True)
class Quotient:
    """`dividend // divisor`, rounded down."""

    dividend: Size
    divisor: int


Atom: TypeAlias = Dim | Quotient
Product: TypeAlias = tuple[Atom, ...]
SizeLike: TypeAlias = "int | Size"
"""A number of elements that is known, or follows from dimensions."""
Shape: TypeAlias = "SizeLike | Sequence[SizeLike]"
"""The extents of a tensor; that of one dimension may stand alone."""


@dataclass(frozen=True)
class Size:
    """A sum of products of dimensions, each with a factor, and of a constant.

    Python's arithmetic makes sizes of sizes and ints; what depends on no dimension is an int.
    """

    terms: tuple[tuple[Product, int], ...]
    """In the order of their texts, with factors other than 0; there is at least one."""
    constant: int = 0

    @cached_property
    def bounds(self) -> Interval:
        """Bounds of all values, which may be too wide where a dimension occurs twice."""
        low = high = self.constant
        for product, factor in self.terms:
            ends = [factor * end for end in _product_bounds(product)]
            low, high = low + min(ends), high + max(ends)
        for product, factor in self.terms:
            (first, *others) = product
            if others or not isinstance(first, Quotient) or factor % first.divisor:
                continue
            # d * (a // d) is a less what is left of it: n - 2 * (n // 2) is 0 or 1.
            scale = factor // first.divisor
            ends = [-scale * (first.divisor - 1), 0]
            plain = self - Size(((product, factor),)) + scale * first.dividend
            low = max(low, least_of(plain) + min(ends))
            high = min(high, most_of(plain) + max(ends))
        return low, high

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions that it depends on, by name."""
        return tuple(sorted({dim for product, _ in self.terms for dim in _dims_of(product)}))

    @cached_property
    def factor(self) -> int:
        """The largest number that divides every value, as far as the terms show it."""
        divisor = abs(self.constant)
        for _, factor in self.terms:
            divisor = _gcd(divisor, factor)
        return divisor

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the value for the `sizes` of dimensions; raise KeyError if one is missing."""
        return self.constant + sum(
            factor * prod(_atom_at(atom, sizes) for atom in product)
            for product, factor in self.terms
        )

    def replace(self, sizes: Mapping[str, SizeLike]) -> SizeLike:
        """Return the size with dimensions of these names replaced."""
        total: SizeLike = self.constant
        for product, factor in self.terms:
            value: SizeLike = factor
            for atom in product:
                value = value * _replaced(atom, sizes)
            total = total + value
        return total

    def __add__(self, other: object) -> Any:
        return _combine(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        return _combine(self, other, -1)

    def __rsub__(self, other: object) -> Any:
        return _combine(-self, other, 1)

    def __neg__(self) -> Size:
        return Size(tuple((product, -factor) for product, factor in self.terms), -self.constant)

    def __mul__(self, other: object) -> Any:
        if isinstance(other, Size):
            return _multiply(self, other)
        if _is_int(other):
            return _make({product: factor * other for product, factor in self.terms},
                         self.constant * other)  # fmt: skip
        return NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Any:
        if not _is_int(other):
            return NotImplemented
        if other < 1:
            raise LanguageError(f"the size {self} is divided by {other}; give a divisor above 0")
        return _divide(self, other)

    def __mod__(self, other: object) -> Any:
        if not _is_int(other):
            return NotImplemented
        return self - self // other * other

    def __bool__(self) -> NoReturn:
        raise LanguageError(
            f"the size {self} is not known while the program is being built, so Python cannot "
            "choose by it: use if_then_else(condition, a, b) in a compute"
        )

    def __int__(self) -> NoReturn:
        raise LanguageError(
            f"the size {self} is not known while the program is being built, so it cannot be used "
            "as an int; fix the dimension, or use the size in a shape or in a compute"
        )

    __index__ = __int__

    def __str__(self) -> str:
        parts = [_term_text(product, factor) for product, factor in self.terms]
        parts += [str(self.constant)] if self.constant else []
        return " + ".join(parts).replace("+ -", "- ")

    __repr__ = __str__


def size_of(dim: Dim) -> Size:
    """Return the size that is the dimension itself."""
    return Size((((dim,), dim.multiple),))


def most_of(size: SizeLike) -> int:
    """Return the largest value of `size`."""
    return size if isinstance(size, int) else size.bounds[1]


def least_of(size: SizeLike) -> int:
    """Return the least value of `size`."""
    return size if isinstance(size, int) else size.bounds[0]


def value_of(size: SizeLike, sizes: Mapping[str, int]) -> int:
    """Return `size` for these sizes of dimensions."""
    return size if isinstance(size, int) else size.at(sizes)


def dims_of(sizes: Sequence[SizeLike]) -> tuple[Dim, ...]:
    """Return the dimensions of `sizes`, each once, by name."""
    return tuple(sorted({dim for size in sizes if isinstance(size, Size) for dim in size.dims}))


def divide_up(size: SizeLike, length: int) -> SizeLike:
    """Return `size / length`, rounded up."""
    return (size + (length - 1)) // length


def parse_size(text: str, dims: Mapping[str, Dim]) -> SizeLike:
    """Return the size that `str` wrote, over the dimensions of these names; raise ParseError."""
    try:
        return _read(ast.parse(text.strip(), mode="eval").body, dims)
    except (SyntaxError, KeyError, LanguageError, ParseError) as error:
        raise ParseError(
            f"'{text}' is not a size over {', '.join(dims) or 'no dimensions'}"
        ) from error


def parse_dim(text: str) -> Dim:
    """Return the dimension that `str` wrote; raise ParseError on other text."""
    name, _, rest = text.partition(":")
    ends, _, by = rest.partition(" by ")
    low, _, high = ends.partition("..")
    try:
        return Dim(name.strip(), int(low), int(high), int(by or 1))
    except ValueError as error:
        raise ParseError(
            f"'{text}' is not a dimension; write one as 'n: 1..4096' or 'h: 32..256 by 32'"
        ) from error


def _read(node: ast.expr, dims: Mapping[str, Dim]) -> SizeLike:
    match node:
        case ast.Constant(int() as value):
            return value
        case ast.Name(name):
            return size_of(dims[name])
        case ast.UnaryOp(ast.USub(), operand):
            return -_read(operand, dims)
        case ast.BinOp(left, ast.Add(), right):
            return _read(left, dims) + _read(right, dims)
        case ast.BinOp(left, ast.Sub(), right):
            return _read(left, dims) - _read(right, dims)
        case ast.BinOp(left, ast.Mult(), right):
            return _read(left, dims) * _read(right, dims)
        case ast.BinOp(left, ast.FloorDiv(), ast.Constant(int() as divisor)):
            return _read(left, dims) // divisor
        case _:
            raise ParseError("not a size")


def _make(terms: Mapping[Product, int], constant: int) -> SizeLike:
    kept = [(product, factor) for product, factor in terms.items() if factor]
    if not kept:
        return constant
    return Size(tuple(sorted(kept, key=lambda term: _product_key(term[0]))), constant)


def _combine(left: Size, right: object, sign: int) -> Any:
    if _is_int(right):
        return Size(left.terms, left.constant + sign * right)
    if not isinstance(right, Size):
        return NotImplemented
    terms = dict(left.terms)
    for product, factor in right.terms:
        terms[product] = terms.get(product, 0) + sign * factor
    return _make(terms, left.constant + sign * right.constant)


def _multiply(left: Size, right: Size) -> SizeLike:
    terms: dict[Product, int] = {}
    for first, a in (*left.terms, ((), left.constant)):
        for second, b in (*right.terms, ((), right.constant)):
            product = tuple(sorted((*first, *second), key=_atom_key))
            terms[product] = terms.get(product, 0) + a * b
    constant = terms.pop((), 0)
    return _make(terms, constant)


def _divide(size: Size, divisor: int) -> SizeLike:
    """Return the quotient; what the divisor divides is outside of it."""
    whole = {product: factor // divisor for product, factor in size.terms}
    quotient = _make(whole, size.constant // divisor)
    rest = size - quotient * divisor
    if isinstance(rest, int):
        return quotient
    low, high = rest.bounds
    if low // divisor == high // divisor:
        return quotient + low // divisor
    common = _gcd(rest.factor, divisor)
    inner = _make({p: f // common for p, f in rest.terms}, rest.constant // common)
    if isinstance(inner, int) or divisor == common:
        return quotient + inner
    return quotient + Size((((Quotient(inner, divisor // common),), 1),))


def _atom_at(atom: Atom, sizes: Mapping[str, int]) -> int:
    if isinstance(atom, Dim):
        return atom.count(sizes[atom.name])
    return atom.dividend.at(sizes) // atom.divisor


def _replaced(atom: Atom, sizes: Mapping[str, SizeLike]) -> SizeLike:
    if isinstance(atom, Dim):
        if atom.name not in sizes:
            return Size((((atom,), 1),))
        return sizes[atom.name] // atom.multiple
    return atom.dividend.replace(sizes) // atom.divisor


def _product_bounds(product: Product) -> Interval:
    low = high = 1
    for atom in product:
        ends = [x * y for x in (low, high) for y in _atom_bounds(atom)]
        low, high = min(ends), max(ends)
    return low, high


def _atom_bounds(atom: Atom) -> Interval:
    if isinstance(atom, Dim):
        return atom.bounds
    low, high = atom.dividend.bounds
    return low // atom.divisor, high // atom.divisor


def _dims_of(product: Product) -> Iterator[Dim]:
    for atom in product:
        if isinstance(atom, Dim):
            yield atom
        else:
            yield from atom.dividend.dims


def _gcd(left: int, right: int) -> int:
    while right:
        left, right = right, left % right
    return abs(left)


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _atom_key(atom: Atom) -> str:
    return atom.name if isinstance(atom, Dim) else f"~{atom.dividend} // {atom.divisor}"


def _product_key(product: Product) -> tuple[int, list[str]]:
    return -len(product), [_atom_key(atom) for atom in product]


def _term_text(product: Product, factor: int) -> str:
    """Return a term; a dimension of multiples is written as what it is a multiple of."""
    words: list[str] = []
    for atom in product:
        if not isinstance(atom, Dim):
            words.append(f"(({atom.dividend}) // {atom.divisor})")
        elif factor % atom.multiple == 0:
            factor //= atom.multiple
            words.append(atom.name)
        else:
            words.append(f"({atom.name} // {atom.multiple})")
    if factor == -1:
        return f"-{'*'.join(words)}"
    return "*".join([*([str(factor)] if factor != 1 else []), *words])
